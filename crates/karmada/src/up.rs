//! `karmada up`: the whole control plane in one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use karmada_api::features::{Gate, Gates};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::{Handle, Role};
use karmada_client::Client;
use karmada_controllers::cluster_api::ClusterApi;
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, Limits};
use karmada_controllers::registry;
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};

use crate::apiserver::{Serving, ServingArgs, Setup};
use crate::cluster_api::ClusterApiArgs;
use crate::cluster_proxy;
use crate::controller_manager::check_names;
use crate::eviction::EvictionArgs;
use crate::explain;
use crate::members::{MemberArgs, Members};
use crate::names;
use crate::search;
use crate::stop::Stop;
use crate::version;

/// The name of cluster, user and context that people know from Karmada's installers.
const CONTEXT: &str = "karmada-apiserver";

/// How often, and how far apart, the installation of Karmada's kinds is tried.
const INSTALL_ATTEMPTS: usize = 30;
const INSTALL_PAUSE: Duration = Duration::from_secs(1);

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
    /// Lets workloads leave lost clusters: the gate Failover, --enable-no-execute-taint-eviction and
    /// --allow-no-execute-taint-policy in one word
    #[arg(long)]
    failover: bool,
    /// The controllers that run: `*` for the defaults, a name to add one, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    #[command(flatten)]
    eviction: EvictionArgs,
    #[command(flatten)]
    cluster_api: ClusterApiArgs,
    #[command(flatten)]
    members: MemberArgs,
    #[command(flatten)]
    serving: ServingArgs,
}

impl Args {
    fn with_failover(self) -> Self {
        Self {
            feature_gates: self.feature_gates.with(Gate::Failover, true),
            allow_no_execute_taint_policy: true,
            eviction: self.eviction.by_taints(),
            ..self
        }
    }
}

pub(crate) fn parse_gates(text: &str) -> Result<Gates, String> {
    Gates::parse(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let began = Instant::now();
    let args = if args.failover { args.with_failover() } else { args };
    check_names(&args.controllers)?;
    let cluster_api = args.cluster_api.connect().await?;
    let data_dir = match args.data_dir.clone() {
        Some(data_dir) => data_dir,
        None => default_data_dir().context("find the user's data directory; give --data-dir")?,
    };
    let kubeconfig = data_dir.join("karmada-apiserver.config");
    let settings = karmada_plane::Settings {
        gates: args.feature_gates.clone(),
        allow_no_execute_taints: args.allow_no_execute_taint_policy,
        new_id: Arc::new(|| uuid::Uuid::new_v4().to_string()),
    };
    let metrics = Arc::new(ArcSwap::from_pointee(fresh_metrics(&args.feature_gates)));
    let shown = metrics.clone();
    let setup =
        Setup { data_dir: &data_dir, role: Role::Plane, kubeconfig: &kubeconfig, context: CONTEXT };
    let mut hooks = None;
    let serving = Serving::start(&args.serving, setup, |builder| {
        let (builder, waiting) = karmada_plane::extend(builder, settings);
        hooks = Some(waiting);
        builder.extra_metrics(Arc::new(move || shown.load().encode()))
    })
    .await?;
    if let Some(hooks) = hooks {
        hooks.attach(&serving.server.handle());
    }
    let identity = Identity::new("system:karmada", ["system:masters"]);
    let client = Client::beside(serving.server.handle().acting_as(identity));
    install(&client).await?;
    let members = Members::start(&args.members, &data_dir).await?;
    let proxy = cluster_proxy::serve(&serving.server.handle(), members.shortcut());
    search::serve(&serving.server.handle(), proxy, members.dial(), &serving.shutdown());
    let plane = Controllers {
        server: serving.server.handle(),
        gates: args.feature_gates.clone(),
        metrics,
        controllers: args.controllers.clone(),
        eviction: args.eviction.clone(),
        dial: members.dial(),
        cluster_api,
    };
    explain::refuse(&plane.server);
    serving.lead("karmada-control-plane", move |leading| plane.start(leading));
    members.join(&client).await?;
    let programs = data_dir.join("bin");
    if let Err(error) = names::link(&programs) {
        tracing::warn!(%error, "karmadactl is not linked; `karmada ctl` is the same");
    }
    let stop = Stop::listen()?;
    greet(began, &serving.address, (&kubeconfig, &programs), &members);
    serving.until_stopped(stop).await?;
    members.stop().await;
    Ok(())
}

/// Installs what Karmada needs, again while the store is away for a moment.
async fn install(client: &Client) -> anyhow::Result<()> {
    for _ in 0..INSTALL_ATTEMPTS {
        match karmada_plane::install(client).await {
            Ok(()) => return Ok(()),
            Err(error) => tracing::warn!(%error, "install Karmada's kinds; trying again"),
        }
        tokio::time::sleep(INSTALL_PAUSE).await;
    }
    Ok(karmada_plane::install(client).await?)
}

fn fresh_metrics(gates: &Gates) -> Metrics {
    let metrics = Metrics::default();
    version::register(&metrics, gates);
    metrics
}

/// Karmada's controllers and the scheduler, as callers in the same process.
#[derive(Clone)]
struct Controllers {
    server: Handle,
    gates: Gates,
    /// Which of them run, as `--controllers` says.
    controllers: Vec<String>,
    eviction: EvictionArgs,
    /// What `/metrics` shows: the numbers of those who run at present.
    metrics: Arc<ArcSwap<Metrics>>,
    dial: Arc<dyn Dial>,
    cluster_api: Option<ClusterApi>,
}

impl Controllers {
    fn client(&self, component: &str) -> Client {
        let identity = Identity::new(format!("system:{component}"), ["system:masters"]);
        // Compat: these are the managers of fields that upstream's components write.
        Client::beside(self.server.acting_as(identity)).with_user_agent(component)
    }

    fn start(&self, shutdown: &Shutdown) {
        let metrics = fresh_metrics(&self.gates);
        self.metrics.store(Arc::new(metrics.clone()));
        let client = self.client("karmada-controller-manager");
        let manager = Manager::new(client, Clock::real(), metrics, shutdown.clone());
        // The scheduler reads the same caches and writes under its own name.
        let mut scheduling = manager.clone();
        scheduling.client = self.client("karmada-scheduler");
        let options = karmada_scheduler::Options::default();
        let scheduler = karmada_scheduler::start(&scheduling, options, &self.gates);
        // Upstream's numbers would have a member wait for what its server takes easily.
        let member_limits = Limits { qps: 1000.0, burst: 2000.0, ..Limits::default() };
        let options = self.eviction.set(Options { member_limits, ..Options::default() });
        let context = Context::start(manager, self.dial.clone(), self.gates.clone(), options);
        let context = context
            .with_placer(Arc::new(scheduler.clone()))
            .with_cluster_api(self.cluster_api.clone());
        registry::start(&context, &self.controllers);
        explain::serve(&self.server, &context.explainers, scheduler);
        self.withdraw_at_end(shutdown);
    }

    /// Caches that have stopped explain nothing, and counters that have stopped count nothing.
    fn withdraw_at_end(&self, shutdown: &Shutdown) {
        let Self { server, gates, metrics, .. } = self.clone();
        shutdown.at_end(move || {
            explain::refuse(&server);
            metrics.store(Arc::new(fresh_metrics(&gates)));
        });
    }
}

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
    crate::tell(format_args!(
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
    ));
}

pub(crate) fn default_data_dir() -> Option<PathBuf> {
    Some(user_data_dir()?.join("karmada"))
}

/// Where programs keep what belongs to the user.
pub(crate) fn user_data_dir() -> Option<PathBuf> {
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let base = from_env("XDG_DATA_HOME").filter(|path| path.is_absolute());
    base.or_else(|| from_env("HOME").map(|home| home.join(".local/share")))
}
