//! `describe`: one object in words, with its events.

mod access;
mod autoscaling;
mod certificates;
mod config;
mod containers;
mod deployment;
mod events;
mod fields;
mod generic;
mod limits;
mod namespace;
mod networking;
mod node;
mod pod;
mod propagation;
mod roles;
mod service;
mod storage;
mod tabs;
mod volumes;
mod workloads;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, time};
use karmada_client::ListOptions;

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output;
use crate::scope::OneServer;
use crate::subjects::{Selection, Subject};
use tabs::Text;
use workloads::Pods;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) const EXAMPLES: &str = "  # Describe a cluster
  karmadactl describe cluster member1

  # Describe a deployment as a member has it
  karmadactl describe deployment nginx --operation-scope members --cluster member1
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE [NAME or the beginning of one…], or TYPE/NAME…
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    server: OneServer,
    /// Look in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Selector (label query) to filter on
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Show events
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", action = clap::ArgAction::Set)]
    show_events: bool,
    /// Objects per request
    #[arg(long, value_name = "COUNT", default_value_t = 500, hide = true)]
    chunk_size: u64,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = args.server.server(ctx).await?;
    let names_given = args.what.len() > 1 || args.what.iter().any(|word| word.contains('/'));
    let selection = Selection {
        files: args.files.clone(),
        what: &args.what,
        label_selector: &args.selector,
        all: !names_given && args.selector.is_empty(),
        all_namespaces: args.all_namespaces,
        ..Selection::default()
    };
    let subjects = selection.subjects(ctx, &server).await?;
    if subjects.is_empty() {
        let namespace = ctx.namespace().await?;
        output::note(&format!("No resources found in {namespace} namespace."));
        return Ok(());
    }
    let mut errors = Vec::new();
    let mut texts = Vec::new();
    for subject in &subjects {
        match describe(&server, subject, args.show_events).await {
            Ok(found) => texts.extend(found),
            Err(error) => errors.push(error),
        }
    }
    output::print(&texts.join("\n\n"))?;
    Error::combine(errors)
}

/// The object of that name, or all whose names begin with it.
async fn describe(server: &Server, subject: &Subject, show_events: bool) -> Result<Vec<String>> {
    let objects = match subject.api(server).get(&subject.name).await {
        Ok(object) => vec![object],
        Err(error) if error.is_not_found() => {
            let list = subject.api(server).list_all(&ListOptions::default()).await?;
            let alike = list.items.iter().filter(|item| item.name().starts_with(&subject.name));
            let objects: Vec<Value> =
                alike.map(|item| crate::get::with_kind(&subject.resource, item.value())).collect();
            if objects.is_empty() {
                return Err(error.into());
            }
            objects
        }
        Err(error) => return Err(error.into()),
    };
    let mut texts = Vec::new();
    for object in objects {
        let gvr = &subject.resource.gvr;
        let mut text = in_words(server, &gvr.group, &object).await;
        text.push(&propagation::describe(server, &object).await);
        // Compat: these come without events.
        let silent = match (gvr.group.as_str(), subject.resource.kind.as_str()) {
            ("", kind) => {
                matches!(kind, "Secret" | "Namespace" | "LimitRange" | "ResourceQuota")
            }
            ("networking.k8s.io", kind) => kind == "NetworkPolicy",
            (group, _) => group == RBAC,
        };
        let has_events = !silent;
        if show_events && has_events {
            events::describe(server, &object, &mut text).await?;
        }
        texts.push(text.align());
    }
    Ok(texts)
}

/// An object as kubectl describes its kind.
async fn in_words(server: &Server, group: &str, object: &Value) -> Text {
    match (group, object.kind()) {
        ("apps", "Deployment") => deployment::describe(server, object).await,
        ("", "Pod") => pod::describe(object),
        ("", "Service") => service::describe(server, object).await,
        ("", "ConfigMap") => config::config_map(object),
        ("", "Secret") => config::secret(object),
        ("", "Node") => node::describe(server, object).await,
        ("", "Namespace") => namespace::describe(server, object).await,
        ("apps", "StatefulSet") => workloads::stateful_set(object, Pods::of(server, object).await),
        ("apps", "DaemonSet") => workloads::daemon_set(object, Pods::of(server, object).await),
        ("batch", "Job") => workloads::job(object),
        ("batch", "CronJob") => workloads::cron_job(object),
        ("", "ServiceAccount") => access::service_account(object),
        ("", "PersistentVolumeClaim") => {
            access::volume_claim(object, &access::users_of(server, object).await)
        }
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => access::role_binding(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            workloads::replica_set(object, Pods::of(server, object).await)
        }
        ("networking.k8s.io", "Ingress") => networking::ingress(server, object).await,
        _ => plainly(group, object).unwrap_or_else(|| generic::describe(object)),
    }
}

/// Kinds whose description needs nothing but the object.
fn plainly(group: &str, object: &Value) -> Option<Text> {
    Some(match (group, object.kind()) {
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(object),
        ("networking.k8s.io", "ServiceCIDR") => networking::service_range(object),
        ("networking.k8s.io", "IPAddress") => networking::ip_address(object),
        ("", "Endpoints") => networking::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(object),
        (RBAC, "Role" | "ClusterRole") => roles::role(object),
        ("", "LimitRange") => limits::limit_range(object),
        ("", "ResourceQuota") => limits::quota(object),
        ("policy", "PodDisruptionBudget") => limits::disruption_budget(object),
        ("scheduling.k8s.io", "PriorityClass") => limits::priority_class(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object),
        ("storage.k8s.io", "CSINode") => storage::node_drivers(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificates::request(object)?,
        _ => return None,
    })
}

/// A moment of an object in words: `Sun, 15 Nov 2026 19:27:33 +0000`.
fn moment(object: &Value, path: &[&str]) -> Option<String> {
    let at = object.str_at(path).and_then(time::parse_time)?;
    Some(at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
}

/// How long an object has been on its way out.
fn terminating(object: &Value) -> String {
    let since = object.str_at(&["metadata", "deletionTimestamp"]).and_then(time::parse_time);
    let lasts = since.map_or_else(
        || "<unknown>".to_owned(),
        |since| time::human_duration(jiff::Timestamp::now().duration_since(since)),
    );
    format!("Terminating (lasts {lasts})")
}

/// `ReplicaSet/nginx`: who keeps an object.
fn controller_of(object: &Value) -> Option<String> {
    let owners = object.list_at(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true))?;
    Some(format!("{}/{}", owner.str_at(&["kind"])?, owner.str_at(&["name"])?))
}

/// Values that would not fit beside their key stand below it, cut where they are very long.
fn pair(key: &str, value: &str, separator: &str) -> Vec<String> {
    const LINE: usize = 140;
    if separator == "=" || (key.len() + value.len() + 2 <= LINE && !value.contains('\n')) {
        return vec![format!("{key}{separator}{value}")];
    }
    let mut lines = vec![format!("{key}:")];
    for line in value.trim_end().split('\n') {
        let cut: String = line.chars().take(LINE - 2).collect();
        let dots = if cut.len() < line.len() { "..." } else { "" };
        lines.push(format!("  {cut}{dots}"));
    }
    lines
}
