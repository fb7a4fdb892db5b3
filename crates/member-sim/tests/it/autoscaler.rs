//! Autoscaling, storage and quotas on a running member.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;

use crate::member::{api, eventually, eventually_is, start};

// Shows: SIM-5, SIM-8
#[tokio::test(start_paused = true)]
async fn a_busy_deployment_grows_and_an_idle_one_shrinks_later() {
    let member = start(3).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"},
                "annotations": {"kwok.x-k8s.io/usage-cpu": "100m"}},
                "spec": {"containers": [{"name": "c", "image": "i",
                    "resources": {"requests": {"cpu": "100m"}}}]}}}});
    api(&member, "deployments.apps").create(&deployment).await.unwrap();
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {"minReplicas": 1, "maxReplicas": 8,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    let scalers = member.client().api(&Gvr::new("autoscaling", "v2", "horizontalpodautoscalers"));
    let scalers = scalers.namespaced("default");
    scalers.create(&scaler).await.unwrap();
    let eight = |deployment: &Value| deployment["status"]["readyReplicas"] == 8;
    eventually_is(&member, "deployments.apps", "web", eight).await;
    eventually("the autoscaler says that it is at its limit", async || {
        let scaler = scalers.get("web").await.unwrap();
        let conditions = scaler["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|c| c["reason"] == "TooManyReplicas" && c["status"] == "True")
    })
    .await;
    let idle = json!({"spec": {"template": {"metadata": {"annotations":
        {"kwok.x-k8s.io/usage-cpu": "1m"}}}}});
    api(&member, "deployments.apps").merge_patch("web", idle).await.unwrap();
    let one = |deployment: &Value| deployment["status"]["readyReplicas"] == 1;
    eventually_is(&member, "deployments.apps", "web", one).await;
    member.stop().await;
}

// Shows: SIM-10
#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_volume_that_goes_with_it() {
    let member = start(1).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = api(&member, "persistentvolumeclaims");
    claims.create(&claim).await.unwrap();
    let bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    let claim = eventually_is(&member, "persistentvolumeclaims", "c", bound).await;
    let name = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
    let volumes = member.client().api(&Gvr::new("", "v1", "persistentvolumes"));
    eventually("the volume is bound", async || {
        volumes.get(&name).await.ok().filter(|volume| volume["status"]["phase"] == "Bound")
    })
    .await;
    claims.delete("c", &DeleteOptions::default()).await.unwrap();
    eventually("claim and volume are gone", async || {
        let claim = claims.find("c").await.unwrap();
        let volume = volumes.find(&name).await.unwrap();
        (claim.is_none() && volume.is_none()).then_some(())
    })
    .await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_volume_it_mounts() {
    let member = start(1).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
    // The account every pod runs as is made a moment after the namespace.
    eventually("the pod is taken", async || api(&member, "pods").create(&pod).await.ok()).await;
    let waits = |words: &'static str| {
        move |pod: &Value| {
            let told = pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
            told.contains(words) && pod["spec"].get("nodeName").is_none()
        }
    };
    eventually_is(&member, "pods", "p", waits("persistentvolumeclaim \"c\" not found")).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
    api(&member, "persistentvolumeclaims").create(&claim).await.unwrap();
    let unbound = waits("pod has unbound immediate PersistentVolumeClaims");
    eventually_is(&member, "pods", "p", unbound).await;
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/v"}}});
    let volumes = member.client().api(&Gvr::new("", "v1", "persistentvolumes"));
    volumes.create(&volume).await.unwrap();
    eventually_is(&member, "pods", "p", |pod| pod["status"]["phase"] == "Running").await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_shows_what_its_namespace_uses() {
    let member = start(1).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": "10", "count/deployments.apps": "2", "pods": "5"}}});
    api(&member, "resourcequotas").create(&quota).await.unwrap();
    // The certificate of the API server is a config map of every namespace.
    let counted = |quota: &Value| quota["status"]["used"]["configmaps"] == "1";
    eventually_is(&member, "resourcequotas", "q", counted).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    api(&member, "configmaps").create(&map).await.unwrap();
    let quota = eventually_is(&member, "resourcequotas", "q", |quota| {
        quota["status"]["used"]["configmaps"] == "2"
    })
    .await;
    assert_eq!(quota["status"]["used"]["count/deployments.apps"], "0");
    member.stop().await;
}
