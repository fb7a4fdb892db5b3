//! Numbers about clusters, named as upstream names them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::core::ResourceList;
use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::capacity::PODS;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    member_cluster: String,
}

type Gauges = Family<Of, Gauge<f64, AtomicU64>>;

#[derive(Clone)]
pub(super) struct ClusterMetrics {
    gauges: [Gauges; GAUGES.len()],
    durations: Family<Of, Histogram, fn() -> Histogram>,
}

/// What a gauge shows of a cluster.
type Reading = fn(&Cluster) -> f64;

const GAUGES: [(&str, &str, Reading); 9] = [
    ("cluster_ready_state", "State of the cluster(1 if ready, 0 otherwise)", |cluster| {
        f64::from(u8::from(cluster.is_ready()))
    }),
    ("cluster_node_number", "Number of nodes in the cluster", |cluster| {
        cluster.status.node_summary.as_ref().map_or(0.0, |nodes| f64::from(nodes.total_num))
    }),
    ("cluster_ready_node_number", "Number of ready nodes in the cluster", |cluster| {
        cluster.status.node_summary.as_ref().map_or(0.0, |nodes| f64::from(nodes.ready_num))
    }),
    ("cluster_memory_allocatable_bytes", "Allocatable memory in the cluster in bytes", |cluster| {
        amount(allocatable(cluster), "memory")
    }),
    ("cluster_cpu_allocatable_number", "Number of allocatable CPU in the cluster", |cluster| {
        amount(allocatable(cluster), "cpu")
    }),
    ("cluster_pod_allocatable_number", "Number of allocatable pods in the cluster", |cluster| {
        amount(allocatable(cluster), PODS)
    }),
    ("cluster_memory_allocated_bytes", "Allocated memory in the cluster in bytes", |cluster| {
        amount(allocated(cluster), "memory")
    }),
    ("cluster_cpu_allocated_number", "Number of allocated CPU in the cluster", |cluster| {
        amount(allocated(cluster), "cpu")
    }),
    ("cluster_pod_allocated_number", "Number of allocated pods in the cluster", |cluster| {
        amount(allocated(cluster), PODS)
    }),
];

fn allocatable(cluster: &Cluster) -> Option<&ResourceList> {
    cluster.status.resource_summary.as_ref().map(|summary| &summary.allocatable)
}

fn allocated(cluster: &Cluster) -> Option<&ResourceList> {
    cluster.status.resource_summary.as_ref().map(|summary| &summary.allocated)
}

fn amount(list: Option<&ResourceList>, name: &str) -> f64 {
    let Some(quantity) = list.and_then(|list| list.get(name)) else { return 0.0 };
    // Processors come in thousandths, everything else is whole.
    if name == "cpu" { quantity.milli_value() as f64 / 1000.0 } else { quantity.value() as f64 }
}

impl ClusterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let own = Self {
            gauges: std::array::from_fn(|_| Family::default()),
            durations: Family::new_with_constructor(buckets),
        };
        metrics.register(|registry| {
            for ((name, help, _), gauge) in GAUGES.iter().zip(&own.gauges) {
                registry.register(*name, *help, gauge.clone());
            }
            registry.register(
                "cluster_sync_status_duration_seconds",
                "Duration in seconds for syncing the status of the cluster once",
                own.durations.clone(),
            );
        });
        own
    }

    /// Shows what is known of a cluster.
    pub(super) fn show(&self, cluster: &Cluster) {
        let of = Of { member_cluster: cluster.metadata.name.clone() };
        for ((_, _, reading), gauge) in GAUGES.iter().zip(&self.gauges) {
            gauge.get_or_create(&of).set(reading(cluster));
        }
    }

    pub(super) fn looked(&self, cluster: &str, took: Duration) {
        let of = Of { member_cluster: cluster.to_owned() };
        self.durations.get_or_create(&of).observe(took.as_secs_f64());
    }

    /// Forgets a cluster that is gone.
    pub(super) fn forget(&self, cluster: &str) {
        let of = Of { member_cluster: cluster.to_owned() };
        for gauge in &self.gauges {
            gauge.remove(&of);
        }
        self.durations.remove(&of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn clusters_are_shown_until_they_are_gone() {
        let metrics = Metrics::default();
        let own = ClusterMetrics::new(&metrics);
        let cluster: Cluster = karmada_apimachinery::from_value(json!({
            "metadata": {"name": "m1"},
            "spec": {"syncMode": "Push"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeSummary": {"totalNum": 3, "readyNum": 2},
                "resourceSummary": {
                    "allocatable": {"cpu": "24", "memory": "1Gi", "pods": "330"},
                    "allocated": {"cpu": "1500m", "memory": "1Mi", "pods": "2"},
                },
            },
        }))
        .unwrap();
        own.show(&cluster);
        own.looked("m1", Duration::from_millis(3));
        let text = metrics.encode();
        for line in [
            "cluster_ready_state{member_cluster=\"m1\"} 1.0",
            "cluster_node_number{member_cluster=\"m1\"} 3.0",
            "cluster_ready_node_number{member_cluster=\"m1\"} 2.0",
            "cluster_memory_allocatable_bytes{member_cluster=\"m1\"} 1073741824.0",
            "cluster_cpu_allocatable_number{member_cluster=\"m1\"} 24.0",
            "cluster_cpu_allocated_number{member_cluster=\"m1\"} 1.5",
            "cluster_pod_allocated_number{member_cluster=\"m1\"} 2.0",
            "cluster_sync_status_duration_seconds_count{member_cluster=\"m1\"} 1",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
        own.forget("m1");
        assert!(!metrics.encode().contains("m1"));
    }
}
