//! The table of controllers: names as `karmada-controller-manager --controllers` spells them, how
//! to start each, and whether it runs unless told otherwise.

use crate::context::Context;
use crate::{
    agent_csr_approving, autoscaling, cluster, cluster_api, failover, interpretation, propagation,
    quota, rebalance, replicas_sync, scale_target, services, status,
};

/// One controller.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub on_by_default: bool,
    /// Whether an agent runs it for its own cluster.
    pub on_in_agent: bool,
    /// Whether `--controllers` can turn it off.
    pub switchable: bool,
    start: fn(&Context),
}

const fn entry(
    name: &'static str,
    on_by_default: bool,
    on_in_agent: bool,
    start: fn(&Context),
) -> Entry {
    Entry { name, on_by_default, on_in_agent, switchable: true, start }
}

/// A controller that is not subject to `--controllers`.
const fn always(name: &'static str, start: fn(&Context)) -> Entry {
    Entry { name, on_by_default: true, on_in_agent: false, switchable: false, start }
}

#[rustfmt::skip]
pub const CONTROLLERS: &[Entry] = &[
    entry("cluster", true, false, cluster::lifecycle::start),
    entry("clusterStatus", true, true, cluster::status::start),
    entry("remedy", true, false, cluster::remedy::start),
    entry("unifiedAuth", true, false, cluster::unified_auth::start),
    entry("binding", true, false, propagation::binding::start),
    entry("bindingStatus", true, false, status::binding::start),
    entry("execution", true, true, propagation::execution::start),
    entry("workStatus", true, true, status::work::start),
    entry("clustertaintpolicy", true, false, failover::cluster_taint_policy::start),
    entry("applicationFailover", true, false, failover::application::start),
    entry("gracefulEviction", true, false, failover::graceful_eviction::start),
    entry("namespace", true, false, propagation::namespace_sync::start),
    entry("federatedResourceQuotaSync", true, false, quota::sync::start),
    entry("federatedResourceQuotaStatus", true, false, quota::status::start),
    entry("federatedResourceQuotaEnforcement", true, false, quota::enforcement::start),
    entry("federatedHorizontalPodAutoscaler", true, false, autoscaling::hpa::start),
    entry("cronFederatedHorizontalPodAutoscaler", true, false, autoscaling::cron::start),
    entry("multiclusterservice", true, false, services::multi_cluster_service::start),
    entry("endpointsliceCollect", true, true, services::collection::start_for_services),
    entry("endpointsliceDispatch", true, false, services::endpoint_slice_dispatch::start),
    entry("serviceExport", true, true, services::collection::start_for_exports),
    entry("endpointSlice", true, false, services::endpoint_slice::start),
    entry("serviceImport", true, false, services::service_import::start),
    entry("workloadRebalancer", true, false, rebalance::start),
    entry("agentcsrapproving", true, false, agent_csr_approving::start),
    entry("deploymentReplicasSyncer", false, false, replicas_sync::start),
    entry("hpaScaleTargetMarker", false, false, scale_target::start),
    Entry { on_in_agent: true, ..always("interpreter", interpretation::start) },
    always("clusterApiDetector", cluster_api::start),
    always("detector", propagation::detector::start),
    always("dependenciesDistributor", propagation::dependencies::start),
];

/// Starts the controllers that `list` leaves on. The list is that of `--controllers`: `*` stands
/// for the defaults, `name` turns one on, `-name` turns one off, the first word wins. An agent starts those
/// that are marked for it.
pub fn start(context: &Context, list: &[String]) {
    let is_agent = context.options.agent_of.is_some();
    let fits = |entry: &&Entry| is_enabled(entry, list) && (entry.on_in_agent || !is_agent);
    for entry in CONTROLLERS.iter().filter(fits) {
        tracing::debug!(controller = entry.name, "starting");
        (entry.start)(context);
    }
}

fn is_enabled(entry: &Entry, list: &[String]) -> bool {
    if !entry.switchable {
        return true;
    }
    for word in list {
        match word.strip_prefix('-') {
            Some(word) if word == entry.name => return false,
            None if word == entry.name => return true,
            _ => {}
        }
    }
    entry.on_by_default && (list.is_empty() || list.iter().any(|word| word == "*"))
}
