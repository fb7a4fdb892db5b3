//! Federated quotas: their parts go to the clusters, what is used comes back, what bindings claim is
//! counted.

use karmada_api::{event_reason, names};
use karmada_apimachinery::{Value, json};
use karmada_client::{Patch, PatchOptions};

use crate::bare::{Plane, Setup, eventually};

const QUOTAS: &str = "federatedresourcequotas.policy.karmada.io";
const WORKS: &str = "works.work.karmada.io";
const BINDINGS: &str = "resourcebindings.work.karmada.io";

async fn plane(controllers: &[&str], gates: &'static str) -> Plane {
    let controllers = controllers.iter().map(|&name| name.to_owned()).collect();
    let plane = Plane::with(Setup { controllers, gates, ..Setup::default() }).await;
    plane.namespace("team").await;
    plane
}

async fn join(plane: &Plane, cluster: &str) {
    let object = json!({"metadata": {"name": cluster}, "spec": {"syncMode": "Push"}});
    plane.create("clusters.cluster.karmada.io", "", object).await;
    plane.namespace(&names::execution_space(cluster)).await;
}

/// The limits a cluster was given.
async fn part(plane: &Plane, cluster: &str) -> Value {
    let name = names::work("ResourceQuota", "quota", "team");
    let works = plane.api(WORKS).namespaced(&names::execution_space(cluster));
    let work = works.find(&name).await.unwrap().unwrap_or_default();
    work["spec"]["workload"]["manifests"][0]["spec"]["hard"].clone()
}

async fn quota(plane: &Plane, assignments: Value) {
    let spec = json!({"overall": {"cpu": "10"}, "staticAssignments": assignments});
    plane.create(QUOTAS, "team", json!({"metadata": {"name": "quota"}, "spec": spec})).await;
}

/// Lets the member say what is used.
async fn report(plane: &Plane, cluster: &str, used: &str) {
    let name = names::work("ResourceQuota", "quota", "team");
    let status = json!({"status": {
        "conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "manifestStatuses": [{
            "identifier": {"ordinal": 0, "version": "v1", "kind": "ResourceQuota", "resource": "",
                "namespace": "team", "name": "quota"},
            "status": {"hard": {"cpu": "4"}, "used": {"cpu": used}},
        }],
    }});
    let works = plane.api(WORKS).namespaced(&names::execution_space(cluster));
    let (patch, options) = (Patch::Merge(status), PatchOptions::default());
    works.patch_subresource(&name, "status", &patch, &options).await.unwrap();
}

async fn status(plane: &Plane) -> Value {
    plane.api(QUOTAS).namespaced("team").get("quota").await.unwrap()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn clusters_get_their_parts_and_lose_them_with_their_assignments() {
    let mut plane =
        plane(&["federatedResourceQuotaSync", "federatedResourceQuotaStatus"], "").await;
    join(&plane, "m1").await;
    let part_of = |cluster: &str, cpu: &str| json!({"clusterName": cluster, "hard": {"cpu": cpu}});
    quota(&plane, json!([part_of("m1", "4"), part_of("m2", "2")])).await;
    eventually("m1 has its part", async || part(&plane, "m1").await == json!({"cpu": "4"})).await;
    // One that joins later gets its part then.
    join(&plane, "m2").await;
    eventually("m2 has its part", async || part(&plane, "m2").await == json!({"cpu": "2"})).await;

    report(&plane, "m1", "1500m").await;
    report(&plane, "m2", "500m").await;
    eventually("the sum is known", async || {
        status(&plane).await["overallUsed"] == json!({"cpu": "2"})
    })
    .await;
    let shown = status(&plane).await;
    assert_eq!(shown["overall"], json!({"cpu": "10"}));
    assert_eq!(shown["aggregatedStatus"][0]["clusterName"], "m1");
    assert_eq!(shown["aggregatedStatus"][1]["used"], json!({"cpu": "500m"}));

    plane.settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(plane.revision().await, before, "a restart writes nothing");

    let less = json!({"spec": {"staticAssignments": [part_of("m1", "3")]}});
    plane.api(QUOTAS).namespaced("team").merge_patch("quota", less).await.unwrap();
    eventually("m1 has less", async || part(&plane, "m1").await == json!({"cpu": "3"})).await;
    eventually("the work of m2 is to go", async || {
        let name = names::work("ResourceQuota", "quota", "team");
        let works = plane.api(WORKS).namespaced("karmada-es-m2");
        let work = works.find(&name).await.unwrap();
        work.is_none_or(|work| work["metadata"].get("deletionTimestamp").is_some())
    })
    .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_bindings_claim_is_counted_where_quotas_are_enforced() {
    let gate = "FederatedQuotaEnforcement=true";
    let plane = plane(&["federatedResourceQuotaEnforcement"], gate).await;
    let binding = json!({
        "metadata": {"name": "web-deployment"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "namespace": "team"},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}],
            "replicas": 3,
            "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
        },
    });
    plane.create(BINDINGS, "team", binding).await;
    quota(&plane, json!([])).await;
    eventually("it is counted", async || {
        status(&plane).await["overallUsed"] == json!({"cpu": "1500m"})
    })
    .await;
    let events = plane.api("events").namespaced("team");
    eventually("it is told", async || {
        let events = events.list_all(&karmada_client::ListOptions::default()).await.unwrap();
        let mut events = events.items.iter().map(|event| event.value());
        events.any(|event| event["reason"] == event_reason::COLLECT_OVERALL_STATUS_SUCCEED)
    })
    .await;
    let bindings = plane.api(BINDINGS).namespaced("team");
    bindings.delete("web-deployment", &karmada_client::DeleteOptions::default()).await.unwrap();
    eventually("nothing is left", async || status(&plane).await.get("overallUsed").is_none()).await;
    plane.stop().await;
}
