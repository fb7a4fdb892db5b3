//! `karmada controller-manager`: Karmada's controllers as a component of their own, in front of any API server.

use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Https, Limits};
use karmada_controllers::propagation::detector::{SkippedApis, SkippedNamespaces};
use karmada_controllers::registry::{self, CONTROLLERS, Entry};
use tracing::warn;

use crate::autoscaler::AutoscalerArgs;
use crate::cluster_api::ClusterApiArgs;
use crate::component::{
    CommonUnused, Component, ComponentArgs, RateLimitArgs, duration, tell_unused,
};
use crate::eviction::EvictionArgs;

/// Controllers of the original; those that are not in our table are still to come.
const KNOWN: &[&str] = &[
    "agentcsrapproving",
    "applicationFailover",
    "binding",
    "bindingStatus",
    "cluster",
    "clusterStatus",
    "clustertaintpolicy",
    "cronFederatedHorizontalPodAutoscaler",
    "deploymentReplicasSyncer",
    "endpointSlice",
    "endpointsliceCollect",
    "endpointsliceDispatch",
    "execution",
    "federatedHorizontalPodAutoscaler",
    "federatedResourceQuotaEnforcement",
    "federatedResourceQuotaStatus",
    "federatedResourceQuotaSync",
    "gracefulEviction",
    "hpaScaleTargetMarker",
    "multiclusterservice",
    "namespace",
    "remedy",
    "serviceExport",
    "serviceImport",
    "unifiedAuth",
    "workStatus",
    "workloadRebalancer",
];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// The controllers that run: `*` for the defaults, a name to add one, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Where health is served over HTTP; 0 for nowhere
    #[arg(long, default_value = ":10357")]
    health_probe_bind_address: String,
    /// How often the state of each cluster is reported
    #[arg(long, default_value = "10s", value_parser = duration)]
    cluster_status_update_frequency: Duration,
    /// How often it is counted anew what is used of the quotas that are enforced
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    federated_resource_quota_sync_period: Duration,
    /// How often clusters are looked at
    #[arg(long, default_value = "5s", value_parser = duration)]
    cluster_monitor_period: Duration,
    /// How long a running cluster may be silent before it counts as unhealthy
    #[arg(long, default_value = "40s", value_parser = duration)]
    cluster_monitor_grace_period: Duration,
    /// How long a new cluster may be silent before it counts as unhealthy
    #[arg(long, default_value = "1m0s", value_parser = duration)]
    cluster_startup_grace_period: Duration,
    /// How long a cluster must fail before it counts as not ready
    #[arg(long, default_value = "30s", value_parser = duration)]
    cluster_failure_threshold: Duration,
    /// How long a cluster must answer before it counts as ready again
    #[arg(long, default_value = "30s", value_parser = duration)]
    cluster_success_threshold: Duration,
    /// How long the caches of a cluster may take to fill
    #[arg(long, default_value = "2m0s", value_parser = duration)]
    cluster_cache_sync_timeout: Duration,
    /// Requests per second to each cluster
    #[arg(long, default_value_t = 40.0)]
    cluster_api_qps: f64,
    #[arg(long, default_value_t = 60.0)]
    cluster_api_burst: f64,
    /// Counts free nodes by classes of size
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_cluster_resource_modeling: bool,
    /// Kinds that are never propagated, as in `g1;g2/v1;g3/v1/Kind`
    #[arg(long, default_value = "", value_parser = SkippedApis::parse)]
    skipped_propagating_apis: SkippedApis,
    /// Namespaces that are never propagated from, as regular expressions
    #[arg(long, value_delimiter = ',', default_value = "kube-.*", value_parser = SkippedNamespaces::parse)]
    skipped_propagating_namespaces: Vec<SkippedNamespaces>,
    /// How many bindings each controller works on at a time
    #[arg(long, default_value_t = 5)]
    concurrent_resourcebinding_syncs: usize,
    #[command(flatten)]
    eviction: EvictionArgs,
    #[command(flatten)]
    autoscaler: AutoscalerArgs,
    #[command(flatten)]
    cluster_api: ClusterApiArgs,
    #[command(flatten)]
    rate_limit: RateLimitArgs,
    #[command(flatten)]
    unused: Unused,
    #[command(flatten)]
    common: CommonUnused,
}

/// Compat: flags of the original that existing command lines carry.
#[derive(Debug, Clone, clap::Args)]
struct Unused {
    /// No effect: nothing needs to be read again without a reason
    #[arg(long)]
    resync_period: Option<String>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_cluster_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_work_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_clusterresourcebinding_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_resource_template_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_propagation_policy_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_cluster_propagation_policy_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_namespace_syncs: Option<usize>,
    /// No effect: --concurrent-resourcebinding-syncs counts for all controllers
    #[arg(long)]
    concurrent_dependent_resource_syncs: Option<usize>,
    /// No effect, as in the original: stabilization is what delays
    #[arg(long)]
    horizontal_pod_autoscaler_upscale_delay: Option<String>,
    /// No effect, as in the original: stabilization is what delays
    #[arg(long)]
    horizontal_pod_autoscaler_downscale_delay: Option<String>,
}

impl Unused {
    fn tell(&self) {
        let workers = "--concurrent-resourcebinding-syncs counts for all controllers";
        tell_unused(&[
            (
                "--resync-period",
                self.resync_period.as_deref().is_some_and(|period| period != "0"),
                "nothing has to be read again without a reason",
            ),
            ("--concurrent-*-syncs", self.counts_workers(), workers),
            (
                "--horizontal-pod-autoscaler-{up,down}scale-delay",
                self.delays_scaling(),
                "--horizontal-pod-autoscaler-downscale-stabilization is what delays",
            ),
        ]);
    }

    fn counts_workers(&self) -> bool {
        self.concurrent_cluster_syncs.is_some()
            || self.concurrent_work_syncs.is_some()
            || self.concurrent_clusterresourcebinding_syncs.is_some()
            || self.concurrent_resource_template_syncs.is_some()
            || self.concurrent_propagation_policy_syncs.is_some()
            || self.concurrent_cluster_propagation_policy_syncs.is_some()
            || self.concurrent_namespace_syncs.is_some()
            || self.concurrent_dependent_resource_syncs.is_some()
    }

    fn delays_scaling(&self) -> bool {
        self.horizontal_pod_autoscaler_upscale_delay.is_some()
            || self.horizontal_pod_autoscaler_downscale_delay.is_some()
    }
}

/// Refuses names that no controller has, and says which ones are still to come.
pub(crate) fn check_names(list: &[String]) -> anyhow::Result<()> {
    check_against(list, KNOWN, |_| true)
}

/// The same for a component that runs some of them: `known` are the original's, `fits` says which of ours.
pub(crate) fn check_against(
    list: &[String],
    known: &[&str],
    fits: impl Fn(&Entry) -> bool,
) -> anyhow::Result<()> {
    for word in list.iter().filter(|word| *word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        let ours = CONTROLLERS.iter().any(|entry| entry.name == name && fits(entry));
        let is_known = ours || known.contains(&name);
        anyhow::ensure!(is_known, "no controller {name:?}; there are: {}", known.join(", "));
        if !ours && !word.starts_with('-') {
            warn!(controller = name, "this controller is not available yet");
        }
    }
    Ok(())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    check_names(&args.controllers)?;
    args.common.tell();
    args.unused.tell();
    let component = Component {
        name: "karmada-controller-manager",
        lease: "karmada-controller-manager".to_owned(),
        health_bind_address: args.health_probe_bind_address.clone(),
    };
    let cluster_api = args.cluster_api.connect().await?;
    let gates = args.component.process.feature_gates.clone();
    let (options, controllers) = (options(&args), args.controllers.clone());
    let start = move |manager| {
        let context = Context::start(manager, Arc::new(Https), gates, options);
        let context = context.with_cluster_api(cluster_api);
        registry::start(&context, &controllers);
    };
    args.component.run(component, start).await
}

fn options(args: &Args) -> Options {
    let options = Options {
        cluster_status_update_frequency: args.cluster_status_update_frequency,
        cluster_success_threshold: args.cluster_success_threshold,
        cluster_failure_threshold: args.cluster_failure_threshold,
        cluster_monitor_period: args.cluster_monitor_period,
        cluster_monitor_grace_period: args.cluster_monitor_grace_period,
        cluster_startup_grace_period: args.cluster_startup_grace_period,
        skipped_propagating_apis: args.skipped_propagating_apis.clone(),
        skipped_propagating_namespaces: SkippedNamespaces::joined(
            args.skipped_propagating_namespaces.iter().cloned(),
        ),
        enable_cluster_resource_modeling: args.enable_cluster_resource_modeling,
        cluster_cache_sync_timeout: args.cluster_cache_sync_timeout,
        member_limits: Limits {
            qps: args.cluster_api_qps,
            burst: args.cluster_api_burst,
            ..Limits::default()
        },
        federated_resource_quota_sync_period: args.federated_resource_quota_sync_period,
        autoscaler: args.autoscaler.options(),
        rate_limit: args.rate_limit.limit(),
        workers: args.concurrent_resourcebinding_syncs,
        ..Options::default()
    };
    args.eviction.set(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::parse_line as parse;

    #[test]
    fn the_command_lines_of_the_original_are_understood() {
        let line = "--kubeconfig=/etc/karmada/config/karmada.config --metrics-bind-address=:8080 \
            --health-probe-bind-address=0.0.0.0:10357 --cluster-status-update-frequency=20s \
            --leader-elect-resource-namespace=karmada-system --cluster-monitor-grace-period=1m30s";
        let args: Args = parse(line).unwrap();
        assert_eq!(options(&args).cluster_monitor_grace_period, Duration::from_secs(90));
        let line = "--controllers=*,-remedy,namespace --skipped-propagating-namespaces=a,b \
            --enable-cluster-resource-modeling=false --enable-no-execute-taint-eviction=true \
            --cluster-api-qps=100 --horizontal-pod-autoscaler-sync-period=1m \
            --horizontal-pod-autoscaler-upscale-delay=3m0s --rate-limiter-max-delay=30s --feature-gates=PropagateDeps=false --v=4 --concurrent-work-syncs=9 \
            --cluster-api-kubeconfig=/etc/karmada/capi.config --cluster-api-context=";
        let args: Args = parse(line).unwrap();
        assert_eq!(args.controllers, ["*", "-remedy", "namespace"]);
        let skips = |namespace| options(&args).skipped_propagating_namespaces.skips(namespace);
        assert_eq!(["a", "b", "kube-system", ""].map(skips), [true, true, false, false]);
        assert!(!options(&args).enable_cluster_resource_modeling);
        assert!(options(&args).enable_no_execute_taint_eviction);
        assert!((options(&args).member_limits.qps - 100.0).abs() < f64::EPSILON);
        assert_eq!(options(&args).rate_limit.max, Duration::from_secs(30));
        assert_eq!(options(&args).autoscaler.sync_period, Duration::from_secs(60));
    }

    #[test]
    fn what_is_to_be_skipped_must_be_understood() {
        for line in
            ["--skipped-propagating-namespaces=kube-.*,(a", "--skipped-propagating-apis=a/b/c/d"]
        {
            let flag = line.split('=').next().unwrap();
            let problem = parse::<Args>(line).err().map(|error| error.to_string());
            assert!(problem.as_ref().is_some_and(|problem| problem.contains(flag)), "{problem:?}");
        }
        let args: Args = parse("--skipped-propagating-namespaces=").unwrap();
        assert!(!options(&args).skipped_propagating_namespaces.skips(""));
    }

    #[test]
    fn names_that_no_controller_has_are_refused() {
        let words = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
        assert!(check_names(&words("*,-remedy,binding")).is_ok());
        let problem = check_names(&words("*,bindings")).unwrap_err().to_string();
        assert!(problem.contains("bindingStatus"), "{problem}");
    }
}
