//! The control plane and its members, prepared as they were when the scenarios were recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{
    Api, ApiResource, Client, DeleteOptions, Discovery, ListOptions, Patch, PatchOptions,
    Propagation,
};
use tokio::time::{Instant, sleep};

use crate::server::Server;

/// One API server.
pub(super) struct Site {
    pub(super) client: Client,
    discovery: Discovery,
}

/// What a request came to: its code, and the message of a refusal.
pub(super) type Answered = (u16, Option<String>);

fn answered(result: karmada_client::Result<Value>, code: u16) -> Answered {
    match result {
        Ok(_) => (code, None),
        Err(error) => match error.api() {
            Some(refusal) => (refusal.code, Some(refusal.message.clone())),
            None => (0, Some(error.to_string())),
        },
    }
}

impl Site {
    pub(super) async fn open(kubeconfig: &std::path::Path) -> Self {
        let client = Client::from_kubeconfig(kubeconfig, None).await.expect("make a client");
        Self { discovery: Discovery::new(client.clone()), client }
    }

    pub(super) async fn resource(&self, api_version: &str, kind: &str) -> Option<ApiResource> {
        let gvk = GroupVersion::parse(api_version)?.with_kind(kind);
        self.discovery.resource_of(&gvk).await.ok().flatten()
    }

    pub(super) async fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Option<Api> {
        // A definition written a moment ago is served a moment later.
        for _ in 0..50 {
            if let Some(resource) = self.resource(api_version, kind).await {
                let namespace = if resource.namespaced { namespace } else { "" };
                return Some(self.client.api(&resource.gvr).namespaced(namespace));
            }
            sleep(Duration::from_millis(100)).await;
        }
        None
    }

    pub(super) fn of(&self, group: &str, version: &str, resource: &str) -> Api {
        self.client.api(&Gvr::new(group, version, resource))
    }

    /// Creates the object, or merges it into the one that is there.
    pub(super) async fn apply(&self, object: &Value) -> Answered {
        let api = self.api(object.api_version(), object.kind(), object.namespace()).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        match api.create(object).await {
            Err(error) if error.is_already_exists() => {
                answered(api.merge_patch(object.name(), object.clone()).await, 200)
            }
            created => answered(created, 201),
        }
    }

    pub(super) async fn patch(
        &self,
        reference: &Value,
        body: &Value,
        (how, subresource): (&str, &str),
    ) -> Answered {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let api = self.api(text("apiVersion"), text("kind"), text("namespace")).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        let patch = match how {
            "json" => Patch::Json(body.clone()),
            "strategic" => Patch::Strategic(body.clone()),
            _ => Patch::Merge(body.clone()),
        };
        let options = PatchOptions::default();
        answered(api.patch_subresource(text("name"), subresource, &patch, &options).await, 200)
    }

    pub(super) async fn delete(&self, reference: &Value, how: &str) -> Answered {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let api = self.api(text("apiVersion"), text("kind"), text("namespace")).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        let propagation = match how {
            "Orphan" => Propagation::Orphan,
            "Foreground" => Propagation::Foreground,
            _ => Propagation::Background,
        };
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        answered(api.delete(text("name"), &options).await, 200)
    }

    pub(super) async fn list(&self, api: &Api) -> Vec<Value> {
        let list = api.list_all(&ListOptions::default()).await;
        list.map(|list| list.items.iter().map(|item| item.value()).collect()).unwrap_or_default()
    }

    pub(super) async fn has_namespace(&self, name: &str) -> bool {
        matches!(self.of("", "v1", "namespaces").find(name).await, Ok(Some(_)))
    }
}

pub(super) struct Lab {
    pub(super) plane: Site,
    pub(super) members: BTreeMap<String, Site>,
    setup: Value,
}

impl Lab {
    pub(super) async fn open(server: &Server, setup: Value) -> Self {
        let mut members = BTreeMap::new();
        for name in ["member1", "member2", "member3"] {
            let config = server.data().join("members").join(format!("{name}.config"));
            members.insert(name.to_owned(), Site::open(&config).await);
        }
        Self { plane: Site::open(&server.kubeconfig()).await, members, setup }
    }

    pub(super) async fn prepare(&self) {
        for object in self.setup.list_at(&["plane"]) {
            self.plane.apply(object).await;
        }
        for (name, member) in &self.members {
            let own = self.setup.list_at(&["members", name, "objects"]);
            for object in self.setup.list_at(&["everywhere"]).iter().chain(own) {
                member.apply(object).await;
                if object.kind() == "Node" && object.get("status").is_some() {
                    let body = json!({"status": object["status"]});
                    member.patch(&reference(object), &body, ("merge", "status")).await;
                }
            }
            let nodes = member.of("", "v1", "nodes");
            for node in member.list(&nodes).await {
                if !own.iter().any(|object| object.kind() == "Node" && object.name() == node.name())
                {
                    drop(nodes.delete(node.name(), &DeleteOptions::default()).await);
                }
            }
        }
        self.restore().await;
        // What members serve is looked at every ten seconds.
        sleep(Duration::from_secs(self.setup["settle"].as_u64().unwrap_or(45).min(25))).await;
    }

    /// Puts labels, taints, region and so on of the Clusters back.
    pub(super) async fn restore(&self) {
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        for cluster in self.plane.list(&clusters).await {
            let want = &self.setup["members"][cluster.name()];
            if want.is_null() {
                continue;
            }
            let mut labels: serde_json::Map<String, Value> = cluster
                .map_at(&["metadata", "labels"])
                .map(|labels| labels.keys().map(|key| (key.clone(), Value::Null)).collect())
                .unwrap_or_default();
            for (key, value) in want.map_at(&["labels"]).into_iter().flatten() {
                labels.insert(key.clone(), value.clone());
            }
            let spec = json!({"provider": want["provider"], "region": want["region"],
                "zones": want["zones"], "taints": null});
            let patch = json!({"metadata": {"labels": labels}, "spec": spec});
            drop(clusters.merge_patch(cluster.name(), patch).await);
        }
    }

    /// Makes the agentless Pull clusters of the setup exist, healthy and without taints, or none.
    pub(super) async fn set_pull_clusters(&self, wanted: bool) {
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        let pull = if wanted { self.setup.list_at(&["pull"]) } else { &[] };
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let there = self.plane.list(&clusters).await;
            let extra = there.iter().filter(|cluster| {
                self.setup["members"].get(cluster.name()).is_none()
                    && (cluster["metadata"].get("deletionTimestamp").is_some()
                        || !pull.iter().any(|wanted| wanted.name() == cluster.name()))
            });
            let extra: Vec<_> = extra.collect();
            if extra.is_empty() {
                break;
            }
            for cluster in extra {
                drop(clusters.delete(cluster.name(), &DeleteOptions::default()).await);
            }
            sleep(Duration::from_millis(300)).await;
        }
        self.heartbeat(wanted).await;
        for cluster in pull {
            let mut object = cluster.clone();
            object.as_object_mut().map(|fields| fields.remove("status"));
            self.plane.apply(&object).await;
        }
        while Instant::now() < end {
            for cluster in pull {
                let mut status = cluster["status"].clone();
                status["remedyActions"] = Value::Null;
                let body = json!({"status": status});
                self.plane.patch(&reference(cluster), &body, ("merge", "status")).await;
            }
            let there = self.plane.list(&clusters).await;
            let is_tainted = |cluster: &Value| {
                pull.iter().any(|wanted| wanted.name() == cluster.name())
                    && !cluster.list_at(&["spec", "taints"]).is_empty()
            };
            if !there.iter().any(is_tainted) {
                return;
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// What the agents of the Pull clusters would do: renew their Leases.
    pub(super) async fn heartbeat(&self, wanted: bool) {
        for cluster in self.setup.list_at(&["pull"]).iter().filter(|_| wanted) {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
            self.plane
                .apply(&json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": cluster.name(), "namespace": "karmada-cluster"},
                    "spec": {"holderIdentity": cluster.name(), "leaseDurationSeconds": 40,
                        "renewTime": now},
                }))
                .await;
        }
    }

    pub(super) async fn wait_for_namespace(&self, name: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        for member in self.members.values() {
            while Instant::now() < end && !member.has_namespace(name).await {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Waits until the usage each Cluster reports equals what runs there.
    pub(super) async fn idle(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let mut is_idle = true;
            for (name, member) in &self.members {
                let pods = member.list(&member.of("", "v1", "pods")).await;
                let done = |pod: &&Value| {
                    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
                };
                let running = pods.len() - pods.iter().filter(done).count();
                let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
                let cluster = clusters.get(name).await.unwrap_or_default();
                let summary = &cluster["status"]["resourceSummary"];
                let count = |part: &str| -> usize {
                    summary[part]["pods"].as_str().and_then(|n| n.parse().ok()).unwrap_or(0)
                };
                is_idle &= count("allocated") + count("allocating") == running;
            }
            if is_idle {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

pub(super) fn reference(object: &Value) -> Value {
    json!({"apiVersion": object.api_version(), "kind": object.kind(),
        "namespace": object.namespace(), "name": object.name()})
}
