//! The control plane and its members, prepared as they were when the scenarios were recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;
use karmada_runtime::Shutdown;
use tokio::time::{Instant, sleep};

use super::site::{Answered, Site, reference};
use crate::server::{PATIENCE, Server, eventually};

/// How often the agents of the Pull clusters would renew their Leases.
const BEAT: Duration = Duration::from_secs(8);

/// The account under which the plane enters a member that a scenario joins.
const ADMIN: &str = "golden-admin";

const KARMADA_CLUSTER: &str = "karmada-cluster";

pub(super) struct Lab {
    pub(super) plane: Site,
    pub(super) members: BTreeMap<String, Site>,
    setup: Value,
    last_beat: Mutex<Option<Instant>>,
    shutdown: Shutdown,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

impl Lab {
    pub(super) async fn open(server: &Server, setup: Value) -> Self {
        let config = |name: &str| {
            let config = server.data().join("members").join(format!("{name}.config"));
            eventually("the kubeconfig of a member", || config.is_file().then_some(()));
            config
        };
        Self::at(&server.kubeconfig(), config, setup).await
    }

    /// A control plane and members wherever they are, by their kubeconfigs.
    pub(super) async fn at(plane: &Path, member: impl Fn(&str) -> PathBuf, setup: Value) -> Self {
        let shutdown = Shutdown::new();
        let mut members = BTreeMap::new();
        for name in setup.map_at(&["members"]).into_iter().flat_map(|members| members.keys()) {
            members.insert(name.to_string(), Site::open(&member(name), &shutdown).await);
        }
        let plane = Site::open(plane, &shutdown).await;
        Self { plane, members, setup, last_beat: Mutex::default(), shutdown }
    }

    /// Registers all members at a control plane that knows none.
    pub(super) async fn join_all(&self) {
        for name in self.members.keys() {
            let (code, refusal) = self.join(name).await;
            assert!(refusal.is_none(), "join {name}: {code} {refusal:?}");
        }
    }

    /// Lets all members go, and waits until they are gone.
    pub(super) async fn unjoin_all(&self) {
        self.set_pull_clusters(false).await;
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        for name in self.members.keys() {
            drop(clusters.delete(name, &DeleteOptions::default()).await);
        }
        for name in self.members.keys() {
            let end = Instant::now() + PATIENCE;
            while !self.cluster(name).await.is_null() {
                assert!(Instant::now() < end, "{name} is not let go");
                sleep(Duration::from_millis(300)).await;
            }
        }
    }

    pub(super) async fn prepare(&self) {
        for name in self.members.keys() {
            self.wait_until_ready(name).await;
        }
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
        for member in self.members.values() {
            // The recorded members had nobody who makes volumes.
            let classes = member.of("storage.k8s.io", "v1", "storageclasses");
            for class in member.list(&classes).await {
                drop(classes.delete(class.name(), &DeleteOptions::default()).await);
            }
        }
        self.restore().await;
        for name in self.members.keys() {
            self.wait_until_known(name).await;
        }
    }

    async fn cluster(&self, name: &str) -> Value {
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        clusters.find(name).await.ok().flatten().unwrap_or_default()
    }

    async fn wait_until_ready(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let cluster = self.cluster(name).await;
            let mut conditions = cluster.list_at(&["status", "conditions"]).iter();
            if conditions.any(|c| c["type"] == "Ready" && c["status"] == "True") {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
        panic!("{name} does not become ready");
    }

    /// Waits until the plane has noticed the nodes and the kinds that were just put into a member.
    async fn wait_until_known(&self, name: &str) {
        let own = self.setup.list_at(&["members", name, "objects"]);
        let everywhere = self.setup.list_at(&["everywhere"]);
        let is = |kind: &'static str| move |object: &&Value| object.kind() == kind;
        let nodes = own.iter().filter(is("Node")).count();
        let definitions: Vec<&str> = everywhere
            .iter()
            .chain(own)
            .filter(is("CustomResourceDefinition"))
            .filter_map(|definition| definition.str_at(&["spec", "names", "kind"]))
            .collect();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let status = &self.cluster(name).await["status"];
            let groups = status.list_at(&["apiEnablements"]).iter();
            let kinds: Vec<&Value> = groups
                .flat_map(|group| group.list_at(&["resources"]))
                .map(|resource| &resource["kind"])
                .collect();
            if status["nodeSummary"]["readyNum"] == nodes
                && definitions.iter().all(|kind| kinds.iter().any(|known| *known == kind))
            {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
        panic!("the plane does not notice what changed in {name}");
    }

    /// Puts labels, taints, region and so on of the Clusters back.
    pub(super) async fn restore(&self) {
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        for cluster in self.plane.list(&clusters).await {
            let want = &self.setup["members"][cluster.name()];
            if want.is_null() {
                continue;
            }
            let mut labels: karmada_apimachinery::Map = cluster
                .map_at(&["metadata", "labels"])
                .map(|labels| labels.keys().map(|key| (key.clone(), Value::Null)).collect())
                .unwrap_or_default();
            for (key, value) in want.map_at(&["labels"]).into_iter().flatten() {
                labels.insert(key.clone(), value.clone());
            }
            let spec = json!({"provider": want["provider"], "region": want["region"],
                "zones": want["zones"], "taints": null});
            let is_so = |key: &str| cluster["spec"][key] == spec[key];
            if cluster["metadata"]["labels"] == want["labels"]
                && ["provider", "region", "zones", "taints"].into_iter().all(is_so)
            {
                continue;
            }
            let patch = json!({"metadata": {"labels": labels}, "spec": spec});
            drop(clusters.merge_patch(cluster.name(), patch).await);
        }
    }

    /// Makes the agentless Pull clusters of the setup exist, healthy and without taints, or none.
    pub(super) async fn set_pull_clusters(&self, wanted: bool) {
        let clusters = self.plane.of("cluster.karmada.io", "v1alpha1", "clusters");
        let pull = if wanted { self.setup.list_at(&["pull"]) } else { &[] };
        let end = Instant::now() + PATIENCE;
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
        *self.last_beat.lock().expect("not poisoned") = None;
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
        let is_fresh = |beat: &Instant| beat.elapsed() < BEAT;
        if !wanted || self.last_beat.lock().expect("not poisoned").as_ref().is_some_and(is_fresh) {
            return;
        }
        *self.last_beat.lock().expect("not poisoned") = Some(Instant::now());
        for cluster in self.setup.list_at(&["pull"]) {
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

    /// Registers a member in Push mode with a service account token, as the command line tool would.
    pub(super) async fn join(&self, name: &str) -> Answered {
        let member = &self.members[name];
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end
            && self.cluster(name).await["metadata"].get("deletionTimestamp").is_some()
        {
            sleep(Duration::from_millis(300)).await;
        }
        let token = admin_token(member).await;
        let space = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": KARMADA_CLUSTER}});
        self.plane.apply(&space).await;
        let impersonator = format!("{name}-impersonator");
        let admitted = json!({"token": token, "caBundle": member.authority});
        for (secret, data) in [(name, admitted), (&impersonator, json!({"token": token}))] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": secret, "namespace": KARMADA_CLUSTER}, "stringData": data});
            self.plane.apply(&secret).await;
        }
        let system = member.of("", "v1", "namespaces").get("kube-system").await;
        let system = system.expect("read the identity of the member");
        let want = &self.setup["members"][name];
        let secret = |name: &str| json!({"namespace": KARMADA_CLUSTER, "name": name});
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "labels": want["labels"]},
            "spec": {"id": system.uid(), "syncMode": "Push", "apiEndpoint": member.address,
                "insecureSkipTLSVerification": false, "secretRef": secret(name),
                "impersonatorSecretRef": secret(&impersonator), "provider": want["provider"],
                "region": want["region"], "zones": want["zones"]},
        });
        let answered = self.plane.apply(&cluster).await;
        self.wait_until_ready(name).await;
        answered
    }

    /// Joins the members again that a scenario has taken out.
    pub(super) async fn join_missing(&self) {
        for name in self.members.keys() {
            let cluster = self.cluster(name).await;
            if cluster.is_null() || cluster["metadata"].get("deletionTimestamp").is_some() {
                self.join(name).await;
                self.wait_until_known(name).await;
            }
        }
    }

    /// Waits until every member has a namespace.
    pub(super) async fn wait_for_namespace(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        for member in self.members.values() {
            while Instant::now() < end && !member.has_namespace(name).await {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Waits until neither the plane nor a member has a namespace of that name.
    pub(super) async fn clear_namespace(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        for site in std::iter::once(&self.plane).chain(self.members.values()) {
            let namespaces = site.of("", "v1", "namespaces");
            while Instant::now() < end && site.has_namespace(name).await {
                drop(namespaces.delete(name, &DeleteOptions::default()).await);
                sleep(Duration::from_millis(300)).await;
            }
        }
    }

    /// Waits until the usage each Cluster reports equals what runs there.
    pub(super) async fn idle(&self) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let mut is_idle = true;
            for (name, member) in &self.members {
                let pods = member.list(&member.of("", "v1", "pods")).await;
                let done = |pod: &&Value| {
                    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
                };
                let running = pods.len() - pods.iter().filter(done).count();
                let summary = &self.cluster(name).await["status"]["resourceSummary"];
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

/// A token of an account that may do everything in the member.
async fn admin_token(member: &Site) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ADMIN, "namespace": "kube-system"}});
    member.apply(&account).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMIN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ADMIN, "namespace": "kube-system"}]});
    member.apply(&role).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {"name": ADMIN, "namespace": "kube-system"},
        "spec": {"expirationSeconds": 86400}});
    let accounts = member.of("", "v1", "serviceaccounts").namespaced("kube-system");
    let answer = accounts.create_subresource(ADMIN, "token", &request).await;
    let answer = answer.expect("ask for a token");
    answer.str_at(&["status", "token"]).expect("a token").to_owned()
}
