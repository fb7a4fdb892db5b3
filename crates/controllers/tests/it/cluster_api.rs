//! Clusters that a Cluster API makes and takes away. Its management cluster, and the clusters it has
//! made, are simulated.

use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_client::{Api, DeleteOptions, ListOptions};
use karmada_controllers::cluster_api::ClusterApi;
use karmada_member_sim::{Config, Nodes, Sim};

use crate::bare::{Plane, Setup, eventually};

const CLUSTERS: &str = "clusters.cluster.karmada.io";
const ORIGIN: &str = "clusterapi.karmada.io/origin";
/// Where the objects of the Cluster API lie.
const FLEET: &str = "fleet";

async fn sim(plane: &Plane, name: &str) -> Arc<Sim> {
    let nodes = Nodes { count: 0, ..Nodes::default() };
    let heartbeat = Duration::ZERO;
    let config = Config { nodes, heartbeat, clock: plane.clock.clone(), ..Config::named(name) };
    Arc::new(Sim::start(config).await.unwrap())
}

async fn id(sim: &Sim) -> String {
    let namespaces = sim.client().api(&Gvr::new("", "v1", "namespaces"));
    namespaces.get("kube-system").await.unwrap().uid().to_owned()
}

/// A management cluster, seen from inside it.
struct Management(Arc<Sim>, &'static str);

impl Management {
    async fn start(plane: &Plane, name: &str) -> Self {
        Self::serving(plane, name, "v1beta1").await
    }

    async fn serving(plane: &Plane, name: &str, version: &'static str) -> Self {
        let own = Self(sim(plane, name).await, version);
        own.define().await;
        let namespaces = own.0.client().api(&Gvr::new("", "v1", "namespaces"));
        namespaces.create(&json!({"metadata": {"name": FLEET}})).await.unwrap();
        own
    }

    fn definitions(&self) -> Api {
        let gvr = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        self.0.client().api(&gvr)
    }

    async fn define(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": "clusters.cluster.x-k8s.io"},
            "spec": {
                "group": "cluster.x-k8s.io",
                "scope": "Namespaced",
                "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster",
                          "listKind": "ClusterList"},
                "versions": [{
                    "name": self.1, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }],
            },
        });
        self.definitions().create(&definition).await.unwrap();
        let served = async || self.objects().list(&ListOptions::default()).await.is_ok();
        eventually("the kind is served", served).await;
    }

    fn objects(&self) -> Api {
        let gvr = Gvr::new("cluster.x-k8s.io", self.1, "clusters");
        self.0.client().api(&gvr).namespaced(FLEET)
    }

    /// Begins to make a cluster.
    async fn make(&self, name: &str) {
        let object = json!({"apiVersion": format!("cluster.x-k8s.io/{}", self.1),
            "kind": "Cluster", "metadata": {"name": name}});
        self.objects().create(&object).await.unwrap();
        self.reach(name, "Provisioning").await;
    }

    /// Says how to get into a cluster.
    async fn open(&self, name: &str, sim: &Sim) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-kubeconfig")},
            "stringData": {"value": sim.kubeconfig()}});
        let secrets = self.0.client().api(&Gvr::new("", "v1", "secrets")).namespaced(FLEET);
        secrets.apply(&secret, "test").await.unwrap();
    }

    async fn reach(&self, name: &str, phase: &str) {
        let status = json!({"status": {"phase": phase}});
        self.objects().merge_patch_status(name, status).await.unwrap();
    }

    /// Makes a cluster, all at once.
    async fn provide(&self, name: &str, sim: &Sim) {
        self.make(name).await;
        self.open(name, sim).await;
        self.reach(name, "Provisioned").await;
    }

    async fn delete(&self, name: &str) {
        self.objects().delete(name, &DeleteOptions::default()).await.unwrap();
    }

    /// The way of the controllers to it and to the clusters it has made.
    fn followed(&self, clusters: &[&Arc<Sim>]) -> Option<ClusterApi> {
        let admin = || Identity::new("admin", ["system:masters", "system:authenticated"]);
        let clusters: Vec<_> = clusters.iter().map(|sim| Arc::clone(sim)).collect();
        let api = ClusterApi::new(self.0.remote_client(admin()));
        Some(api.entering(move |config| {
            let endpoint = config.cluster_url.to_string();
            let sim = clusters.iter().find(|sim| endpoint.starts_with(sim.endpoint()));
            Ok(sim.unwrap_or_else(|| panic!("nobody is at {endpoint}")).remote_client(admin()))
        }))
    }
}

async fn plane() -> Plane {
    let controllers = vec!["cluster".to_owned()];
    Plane::without_controllers(Setup { controllers, ..Setup::default() }).await
}

async fn joined(plane: &Plane, name: &str, sim: &Sim) -> Value {
    let id = id(sim).await;
    plane.eventually(CLUSTERS, "", name, |cluster| cluster["spec"]["id"] == id.as_str()).await
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_cluster_api_has_provisioned_is_joined_until_it_is_gone() {
    let mut plane = plane().await;
    let management = Management::start(&plane, "management").await;
    let web = sim(&plane, "web").await;
    plane.setup.cluster_api = management.followed(&[&web]);
    plane.start_controllers();
    management.make("web").await;
    settle().await;
    assert!(plane.find(CLUSTERS, "", "web").await.is_none(), "it is not provisioned yet");
    // Its kubeconfig comes a little late.
    management.reach("web", "Provisioned").await;
    settle().await;
    management.open("web", &web).await;
    let cluster = joined(&plane, "web", &web).await;
    assert_eq!(cluster["spec"]["syncMode"], "Push");
    assert_eq!(cluster["spec"]["apiEndpoint"], "https://web.invalid");
    assert_eq!(cluster["spec"]["secretRef"]["namespace"], "karmada-cluster");
    let object = management.objects().get("web").await.unwrap();
    let origin = format!("{}/{FLEET}/{}", id(&management.0).await, object.uid());
    assert_eq!(cluster["metadata"]["annotations"][ORIGIN], origin.as_str());
    let secret = plane.find("secrets", "karmada-cluster", "web").await.unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], cluster.uid());

    settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    settle().await;
    assert_eq!(plane.revision().await, before, "a restart writes nothing");
    // An ailing cluster is still one.
    management.reach("web", "Failed").await;
    settle().await;
    assert_eq!(plane.revision().await, before);

    management.delete("web").await;
    plane.eventually_gone(CLUSTERS, "", "web").await;
    plane.eventually_gone("secrets", "karmada-cluster", "web").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_cluster_is_let_go_while_it_is_not_sure_that_it_is_gone() {
    let mut plane = plane().await;
    let management = Management::start(&plane, "management").await;
    let web = sim(&plane, "web").await;
    plane.setup.cluster_api = management.followed(&[&web]);
    management.provide("web", &web).await;
    plane.start_controllers();
    let cluster = joined(&plane, "web", &web).await;
    let stays = async |plane: &mut Plane, why: &str| {
        for _ in 0..2 {
            settle().await;
            let found = plane.find(CLUSTERS, "", "web").await;
            let found = found.unwrap_or_else(|| panic!("{why}: it was let go"));
            assert!(found.uid() == cluster.uid() && !found.is_being_deleted(), "{why}");
            // Whoever has just started knows nothing.
            plane.stop_controllers().await;
            plane.start_controllers();
        }
    };
    let faults = management.0.faults();
    faults.partition();
    stays(&mut plane, "nobody answers").await;
    faults.heal();
    faults.error_rate(1.0);
    stays(&mut plane, "every request fails").await;
    faults.heal();
    faults.empty_lists();
    stays(&mut plane, "lists are empty").await;
    faults.heal();

    let other = Management::start(&plane, "other").await;
    plane.setup.cluster_api = other.followed(&[&web]);
    plane.stop_controllers().await;
    plane.start_controllers();
    stays(&mut plane, "another management cluster answers").await;

    plane.setup.cluster_api = management.followed(&[&web]);
    plane.stop_controllers().await;
    let definitions = management.definitions();
    definitions.delete("clusters.cluster.x-k8s.io", &DeleteOptions::default()).await.unwrap();
    let unserved = async || management.objects().list(&ListOptions::default()).await.is_err();
    eventually("the kind is not served", unserved).await;
    plane.start_controllers();
    stays(&mut plane, "the kind is not served").await;
    // Now it is sure, although nobody was there to see the object go.
    management.define().await;
    plane.eventually_gone(CLUSTERS, "", "web").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_cluster_has_stays_with_it() {
    let mut plane = plane().await;
    let management = Management::serving(&plane, "management", "v1beta2").await;
    let (web, db) = (sim(&plane, "web").await, sim(&plane, "db").await);
    plane.setup.cluster_api = management.followed(&[&web, &db]);
    let by_hand = async |name: &str, id: String| {
        let spec = json!({"syncMode": "Push", "id": id, "apiEndpoint": "https://hand.invalid"});
        plane.create(CLUSTERS, "", json!({"metadata": {"name": name}, "spec": spec})).await
    };
    by_hand("web", "another".to_owned()).await;
    by_hand("db", id(&db).await).await;
    management.provide("web", &web).await;
    management.provide("db", &db).await;
    plane.start_controllers();
    let is_marked = |cluster: &Value| cluster["metadata"]["annotations"].get(ORIGIN).is_some();
    // The same cluster under the same name: it does not matter who has joined it.
    plane.eventually(CLUSTERS, "", "db", is_marked).await;
    settle().await;
    let web_cluster = plane.find(CLUSTERS, "", "web").await.unwrap();
    assert!(!is_marked(&web_cluster));
    management.delete("web").await;
    management.delete("db").await;
    plane.eventually_gone(CLUSTERS, "", "db").await;
    settle().await;
    let left = plane.find(CLUSTERS, "", "web").await.unwrap();
    assert_eq!(left.uid(), web_cluster.uid());
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_made_anew_under_the_same_name_takes_the_place_of_the_old_one() {
    let mut plane = plane().await;
    let management = Management::start(&plane, "management").await;
    let (old, new) = (sim(&plane, "old").await, sim(&plane, "new").await);
    plane.setup.cluster_api = management.followed(&[&old, &new]);
    management.provide("web", &old).await;
    plane.start_controllers();
    let first = joined(&plane, "web", &old).await;
    plane.stop_controllers().await;
    // A restored object is another one, but stands for the same cluster.
    management.delete("web").await;
    management.provide("web", &old).await;
    let restored = management.objects().get("web").await.unwrap();
    plane.start_controllers();
    let cluster = plane
        .eventually(CLUSTERS, "", "web", |cluster| {
            let origin = cluster["metadata"]["annotations"][ORIGIN].as_str();
            origin.is_some_and(|origin| origin.ends_with(restored.uid()))
        })
        .await;
    assert_eq!(cluster.uid(), first.uid());

    plane.stop_controllers().await;
    management.delete("web").await;
    management.provide("web", &new).await;
    plane.start_controllers();
    let second = joined(&plane, "web", &new).await;
    assert_eq!(second["spec"]["apiEndpoint"], "https://new.invalid");
    let secret = plane.find("secrets", "karmada-cluster", "web").await.unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], second.uid());
    settle().await;
    let secret_later = plane.find("secrets", "karmada-cluster", "web").await.unwrap();
    assert_eq!(secret_later.uid(), secret.uid(), "it does not go with the old cluster");
    plane.stop().await;
}
