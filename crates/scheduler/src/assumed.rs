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
    /// What was assumed before decisions that are not written yet.
    before: Mutex<HashMap<ObjectKey, Option<Assumed>>>,
}

struct Assumed {
    until: Instant,
    clusters: BTreeMap<String, Vec<Part>>,
}

impl Assumptions {
    /// Remembers where the workload is placed, in place of what it had; the server has yet to accept it.
    pub(crate) fn place(&self, key: &ObjectKey, spec: &ResourceBindingSpec) {
        let mut bindings = self.bindings.lock();
        let before = match assumed(spec) {
            Some(assumed) => bindings.insert(key.clone(), assumed),
            None => bindings.remove(key),
        };
        // The first one that was not accepted knows what was.
        self.before.lock().entry(key.clone()).or_insert(before);
    }

    pub(crate) fn accepted(&self, key: &ObjectKey) {
        self.before.lock().remove(key);
    }

    /// The last placement was not accepted: what was assumed before still holds.
    pub(crate) fn refused(&self, key: &ObjectKey) {
        let mut bindings = self.bindings.lock();
        match self.before.lock().remove(key) {
            Some(Some(before)) => drop(bindings.insert(key.clone(), before)),
            Some(None) => drop(bindings.remove(key)),
            None => {}
        }
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
        self.before.lock().remove(key);
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

/// What the targets are about to use; nothing if there are none.
fn assumed(spec: &ResourceBindingSpec) -> Option<Assumed> {
    if !spec.is_workload() || spec.clusters.is_empty() {
        return None;
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
    let clusters = targets.map(|target| (target.name.clone(), parts(target.replicas))).collect();
    Some(Assumed { until: Instant::now() + KEPT, clusters })
}

fn part(request: Option<Request>, replicas: i32) -> Part {
    Part { request: request.unwrap_or_default(), replicas: i64::from(replicas) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};

    fn spec(clusters: Value) -> ResourceBindingSpec {
        karmada_apimachinery::from_value(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "replicas": 5, "clusters": clusters,
            "replicaRequirements": {"resourceRequest": {"cpu": "500m"}},
        }))
        .unwrap()
    }

    fn counts(assumed: &Assumptions) -> Vec<(String, i64)> {
        let all = assumed.by_cluster().into_iter();
        all.map(|(name, sets)| (name, sets.iter().flatten().map(|p| p.replicas).sum())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn assumptions_end_with_health_removal_and_age() {
        let status = |health: &str| -> ResourceBindingStatus {
            karmada_apimachinery::from_value(
                json!({"aggregatedStatus": [{"clusterName": "m1", "health": health}]}),
            )
            .unwrap()
        };
        let assumed = Assumptions::default();
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

    #[tokio::test(start_paused = true)]
    async fn a_placement_that_is_refused_leaves_what_was_assumed_before() {
        let assumed = Assumptions::default();
        let key = ObjectKey::new("x", "web");
        let on = |name: &str| spec(json!([{"name": name, "replicas": 5}]));
        assumed.place(&key, &on("m1"));
        assumed.accepted(&key);
        for next in [on("m2"), spec(json!([]))] {
            assumed.place(&key, &next);
            assumed.refused(&key);
            assert_eq!(counts(&assumed), [("m1".to_owned(), 5)]);
            // Nothing is placed any more that could be refused.
            assumed.refused(&key);
            assert_eq!(counts(&assumed), [("m1".to_owned(), 5)]);
        }
        assumed.place(&key, &spec(json!([])));
        assumed.accepted(&key);
        assert_eq!(counts(&assumed), []);
        assumed.place(&key, &on("m2"));
        assumed.refused(&key);
        assert_eq!(counts(&assumed), []);
    }
}
