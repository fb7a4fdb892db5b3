//! Workloads that were placed a moment ago and do not show in the numbers of their clusters yet
//! (gate `SchedulingOvercommitProtection`).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use karmada_api::work::{ResourceBindingSpec, ResourceBindingStatus, ResourceHealth};
use karmada_runtime::ObjectKey;
use karmada_scheduler_core::resources::{Part, Request};
use karmada_scheduler_core::snapshot::request_of;
use parking_lot::Mutex;
use tokio::time::Instant;

/// After this time the numbers are taken to be complete.
const KEPT: Duration = Duration::from_secs(300);

#[derive(Default)]
pub(crate) struct Assumptions {
    bindings: Mutex<HashMap<ObjectKey, Assumed>>,
}

struct Assumed {
    until: Instant,
    clusters: BTreeMap<String, Vec<Part>>,
}

impl Assumptions {
    /// Remembers where the workload was placed; what it had elsewhere is forgotten.
    pub(crate) fn place(&self, key: &ObjectKey, spec: &ResourceBindingSpec) {
        let mut bindings = self.bindings.lock();
        if !spec.is_workload() || spec.clusters.is_empty() {
            bindings.remove(key);
            return;
        }
        let parts = |replicas: i32| -> Vec<Part> {
            if spec.components.is_empty() {
                let needs = spec.replica_requirements.as_ref();
                let request = needs.map(|needs| request_of(&needs.resource_request));
                return vec![part(request, replicas)];
            }
            let component = |component: &karmada_api::work::Component| {
                let needs = component.replica_requirements.as_ref();
                part(needs.map(|needs| request_of(&needs.resource_request)), component.replicas)
            };
            spec.components.iter().map(component).collect()
        };
        let targets = spec.clusters.iter();
        let clusters =
            targets.map(|target| (target.name.clone(), parts(target.replicas))).collect();
        bindings.insert(key.clone(), Assumed { until: Instant::now() + KEPT, clusters });
    }

    /// Whether anything is assumed of a binding.
    pub(crate) fn knows(&self, key: &ObjectKey) -> bool {
        self.bindings.lock().contains_key(key)
    }

    /// Forgets clusters in which the workload has become healthy: its pods are counted there.
    pub(crate) fn observe(
        &self,
        key: &ObjectKey,
        old: &ResourceBindingStatus,
        new: &ResourceBindingStatus,
    ) {
        let mut bindings = self.bindings.lock();
        let Some(assumed) = bindings.get_mut(key) else { return };
        let is_healthy = |status: &ResourceBindingStatus, cluster: &str| {
            status
                .aggregated_status
                .iter()
                .any(|item| item.cluster_name == cluster && item.health == ResourceHealth::Healthy)
        };
        assumed.clusters.retain(|cluster, _| is_healthy(old, cluster) || !is_healthy(new, cluster));
        if assumed.clusters.is_empty() {
            bindings.remove(key);
        }
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.bindings.lock().remove(key);
    }

    /// What is assumed by cluster, one set for each workload; what is too old is dropped.
    pub(crate) fn by_cluster(&self) -> BTreeMap<String, Vec<Vec<Part>>> {
        let now = Instant::now();
        let mut bindings = self.bindings.lock();
        bindings.retain(|_, assumed| assumed.until > now);
        let mut keys: Vec<&ObjectKey> = bindings.keys().collect();
        keys.sort();
        let mut by_cluster: BTreeMap<String, Vec<Vec<Part>>> = BTreeMap::new();
        for assumed in keys.into_iter().filter_map(|key| bindings.get(key)) {
            for (cluster, parts) in &assumed.clusters {
                by_cluster.entry(cluster.clone()).or_default().push(parts.clone());
            }
        }
        by_cluster
    }
}

fn part(request: Option<Request>, replicas: i32) -> Part {
    Part { request: request.unwrap_or_default(), replicas: i64::from(replicas) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[tokio::test(start_paused = true)]
    async fn assumptions_end_with_health_removal_and_age() {
        let spec = |clusters: karmada_apimachinery::Value| -> ResourceBindingSpec {
            karmada_apimachinery::from_value(json!({
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "replicas": 5, "clusters": clusters,
                "replicaRequirements": {"resourceRequest": {"cpu": "500m"}},
            }))
            .unwrap()
        };
        let status = |health: &str| -> ResourceBindingStatus {
            karmada_apimachinery::from_value(
                json!({"aggregatedStatus": [{"clusterName": "m1", "health": health}]}),
            )
            .unwrap()
        };
        let assumed = Assumptions::default();
        let counts = |assumed: &Assumptions| -> Vec<(String, i64)> {
            let all = assumed.by_cluster().into_iter();
            all.map(|(name, sets)| (name, sets.iter().flatten().map(|p| p.replicas).sum()))
                .collect()
        };
        let key = ObjectKey::new("x", "web");
        assumed.place(
            &key,
            &spec(json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}])),
        );
        assert_eq!(counts(&assumed), [("m1".to_owned(), 2), ("m2".to_owned(), 3)]);
        assumed.observe(&key, &status("Healthy"), &status("Healthy"));
        assert_eq!(counts(&assumed).len(), 2);
        assumed.observe(&key, &status("Unknown"), &status("Healthy"));
        assert_eq!(counts(&assumed), [("m2".to_owned(), 3)]);
        tokio::time::advance(KEPT).await;
        assert_eq!(counts(&assumed), []);
    }
}
