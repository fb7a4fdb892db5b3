//! `karmada up`: the whole control plane in one process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use karmada_api::crd;
use karmada_api::features::Gates;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::Role;
use karmada_apiserver::auth::Identity;
use karmada_client::{Api, Client};
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, Limits};
use karmada_controllers::registry;
use karmada_runtime::{Clock, Manager, Metrics};

use crate::apiserver::{Serving, ServingArgs, Setup};
use crate::cluster_proxy;
use crate::explain;
use crate::members::{MemberArgs, Members};
use crate::names;
use crate::native;
use crate::plane_admission::{Bindings, Hooks};
use crate::version;

/// The name of cluster, user and context that people know from Karmada's installers.
const CONTEXT: &str = "karmada-apiserver";

/// How long definitions may take until they are served.
const ESTABLISHING: Duration = Duration::from_secs(30);

/// Role and binding that let the administrator through to members.
const PROXY_ADMIN: &str = "cluster-proxy-admin";

/// Namespaces the control plane keeps its own objects in.
const NAMESPACES: [&str; 2] = ["karmada-system", "karmada-cluster"];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where data, certificates and the admin kubeconfig are kept
    /// [default: karmada in the user's data directory]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Gates to switch, as in `Failover=true,AllAlpha=false`; `karmada version -o yaml` lists them
    #[arg(long, value_parser = parse_gates, default_value = "")]
    feature_gates: Gates,
    /// Lets ClusterTaintPolicies use the effect NoExecute
    #[arg(long)]
    allow_no_execute_taint_policy: bool,
    #[command(flatten)]
    members: MemberArgs,
    #[command(flatten)]
    serving: ServingArgs,
}

fn parse_gates(text: &str) -> Result<Gates, String> {
    Gates::parse(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let began = Instant::now();
    let data_dir = match args.data_dir {
        Some(data_dir) => data_dir,
        None => default_data_dir().context("find the user's data directory; give --data-dir")?,
    };
    let kubeconfig = data_dir.join("karmada-apiserver.config");
    let objects = Arc::new(OnceLock::new());
    let hooks =
        Hooks::new(args.feature_gates.clone(), args.allow_no_execute_taint_policy, objects.clone());
    let metrics = Metrics::default();
    version::register(&metrics, &args.feature_gates);
    let shown = metrics.clone();
    let setup =
        Setup { data_dir: &data_dir, role: Role::Plane, kubeconfig: &kubeconfig, context: CONTEXT };
    let serving = Serving::start(&args.serving, setup, |builder| {
        native::resources(&args.feature_gates)
            .into_iter()
            .fold(builder, |builder, resource| builder.native(resource))
            .admission(Arc::new(hooks))
            .extra_metrics(Arc::new(move || metrics.encode()))
            .converter(Arc::new(Bindings))
    })
    .await?;
    // Set once, here: nobody else has the cell.
    let _ = objects.set(serving.server.handle().objects());
    let identity = Identity::new("system:karmada", ["system:masters"]);
    let client = Client::in_process(serving.server.handle().acting_as(identity));
    install(&client).await?;
    let members = Members::start(&args.members, &data_dir).await?;
    cluster_proxy::serve(&serving.server.handle(), members.shortcut());
    start_controllers(&serving, &args.feature_gates, shown, members.dial());
    members.join(&client).await?;
    let programs = data_dir.join("bin");
    if let Err(error) = names::link(&programs) {
        tracing::warn!(%error, "karmadactl is not linked; `karmada ctl` is the same");
    }
    greet(began, &serving.address, (&kubeconfig, &programs), &members);
    serving.until_stopped().await?;
    members.stop().await;
    Ok(())
}

/// Starts Karmada's controllers and the scheduler as callers in the same process.
fn start_controllers(serving: &Serving, gates: &Gates, metrics: Metrics, dial: Arc<dyn Dial>) {
    let identity = Identity::new("system:karmada-controller-manager", ["system:masters"]);
    // Compat: this is the manager of fields that upstream's controllers write.
    let client = Client::in_process(serving.server.handle().acting_as(identity))
        .with_user_agent("karmada-controller-manager");
    let manager = Manager::new(client, Clock::real(), metrics, serving.shutdown.clone());
    // The scheduler reads the same caches and writes under its own name.
    let mut scheduling = manager.clone();
    let identity = Identity::new("system:karmada-scheduler", ["system:masters"]);
    scheduling.client = Client::in_process(serving.server.handle().acting_as(identity))
        .with_user_agent("karmada-scheduler");
    let scheduler =
        karmada_scheduler::start(&scheduling, karmada_scheduler::Options::default(), gates);
    // Upstream's numbers would have a member wait for what its server takes easily.
    let member_limits = Limits { qps: 1000.0, burst: 2000.0, ..Limits::default() };
    let options = Options { member_limits, ..Options::default() };
    let context = Context::start(manager, dial, gates.clone(), options);
    registry::start(&context, &[]);
    explain::serve(&serving.server.handle(), &context.explainers, scheduler);
}

/// Creates what a control plane has beyond a Kubernetes API, and brings definitions of an older
/// version up to date.
async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions =
        client.api(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
    for crd in crd::crds() {
        match definitions.find(&crd.name).await? {
            None => {
                definitions
                    .create(&crd.object)
                    .await
                    .with_context(|| format!("install the definition {}", crd.name))?;
            }
            Some(stored) => {
                if let Some(update) = upgrade(&stored, &crd.object) {
                    definitions
                        .update(&update)
                        .await
                        .with_context(|| format!("upgrade the definition {}", crd.name))?;
                    tracing::info!(name = crd.name, "definition upgraded");
                }
            }
        }
    }
    for crd in crd::crds() {
        wait_until_served(&definitions, &crd.name).await?;
    }
    let namespaces = client.api(&Gvr::new("", "v1", "namespaces"));
    for name in NAMESPACES {
        if namespaces.find(name).await?.is_none() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            namespaces
                .create(&namespace)
                .await
                .with_context(|| format!("create the namespace {name}"))?;
        }
    }
    let rbac = |resource| client.api(&Gvr::new("rbac.authorization.k8s.io", "v1", resource));
    for (resource, object) in
        [("clusterroles", proxy_role()), ("clusterrolebindings", proxy_role_binding())]
    {
        let api = rbac(resource);
        if api.find(PROXY_ADMIN).await?.is_none() {
            let created = api.create(&object).await;
            created.with_context(|| format!("create {resource} {PROXY_ADMIN}"))?;
        }
    }
    Ok(())
}

/// The administrator may reach through to every member; nobody else until told so.
fn proxy_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": PROXY_ADMIN},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]}],
    })
}

fn proxy_role_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": PROXY_ADMIN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PROXY_ADMIN},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:admin"}],
    })
}

/// A definition is served a moment after it was written; nobody should meet the gap.
async fn wait_until_served(definitions: &Api, name: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + ESTABLISHING;
    loop {
        let stored = definitions.get(name).await?;
        let is_established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        if stored.list_at(&["status", "conditions"]).iter().any(is_established) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "the definition {name} is not served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The stored definition with our schema, if that says anything else than before. Conversion is
/// left as it is: an operator may have pointed it at a webhook.
fn upgrade(stored: &Value, ours: &Value) -> Option<Value> {
    let mut upgraded = stored.clone();
    for field in ["versions", "names"] {
        let ours = ours.get("spec").and_then(|spec| spec.get(field))?;
        if !contains(stored.get("spec").and_then(|spec| spec.get(field))?, ours) {
            upgraded.set(&["spec", field], ours.clone());
        }
    }
    (upgraded != *stored).then_some(upgraded)
}

/// Whether everything in `part` stands in `whole`, which may say more by defaults.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|present| contains(present, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        _ => whole == part,
    }
}

#[allow(clippy::print_stdout, reason = "the greeting is for whoever typed the command")]
fn greet(began: Instant, address: &str, (kubeconfig, programs): (&Path, &Path), members: &Members) {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (kubeconfig, programs) = (absolute(kubeconfig), absolute(programs));
    let member =
        |name: &str| format!("  {name}  {}\n", absolute(&members.kubeconfig(name)).display());
    let members: String = members.names().map(member).collect();
    let members = match members.as_str() {
        "" => String::new(),
        list => format!("Simulated members, each with a kubeconfig of its own:\n\n{list}\n"),
    };
    println!(
        "Karmada is ready after {:.1} s at {address}\n\n  \
         export KUBECONFIG={}\n  \
         export PATH={}:$PATH    # karmadactl, kubectl karmada\n\nthen, for example:\n\n  \
         karmadactl get clusters\n  \
         kubectl api-resources --api-group=policy.karmada.io\n  \
         kubectl explain propagationpolicy.spec.placement\n\n\
         {members}Ctrl-C stops it; the data stays.",
        began.elapsed().as_secs_f64(),
        kubeconfig.display(),
        programs.display()
    );
}

pub(crate) fn default_data_dir() -> Option<PathBuf> {
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let base = from_env("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| from_env("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("karmada"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_upgraded_only_when_they_say_something_else() {
        let ours = json!({"spec": {"versions": [{"name": "v1", "served": true}], "names": {"plural": "x"}}});
        let stored = json!({"spec": {
            "versions": [{"name": "v1", "served": true, "defaulted": true}],
            "names": {"plural": "x", "singular": "x"},
            "conversion": {"strategy": "Webhook"},
        }});
        assert_eq!(upgrade(&stored, &ours), None);
        let newer = json!({"spec": {"versions": [{"name": "v1", "served": true, "more": 1}], "names": {"plural": "x"}}});
        let upgraded = upgrade(&stored, &newer).unwrap();
        assert_eq!(upgraded["spec"]["versions"], newer["spec"]["versions"]);
        assert_eq!(upgraded["spec"]["conversion"], stored["spec"]["conversion"]);
    }
}
