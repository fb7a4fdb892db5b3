//! Pull clusters and their agents: nobody reaches such a cluster from outside, and what is wanted of it
//! happens all the same.

use karmada_api::conditions::cluster::READY;
use karmada_api::{finalizers, taints};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_controllers::agent::Agent;
use karmada_member_sim::Nodes;
use karmada_registration::{Access, Error, Join, Reported, register};
use karmada_runtime::{Manager, Metrics, Shutdown};
use karmada_testkit::{World, gvr};

use crate::pieces::*;

const LEASES: &str = "leases.coordination.k8s.io";

/// A world with a cluster that no network leads to.
pub(crate) async fn remote(seed: u64, cluster: &str) -> World {
    let mut world = World::of(seed, 1).await;
    world.found(cluster, Nodes::default()).await;
    world.member(cluster).partition();
    world
}

async fn register_as(world: &World, cluster: &str, name: &str) -> Result<Value, Error> {
    register_by(&world.client, world, cluster, name).await
}

async fn register_by(
    client: &Client,
    world: &World,
    cluster: &str,
    name: &str,
) -> Result<Value, Error> {
    let access = Access { endpoint: format!("https://{cluster}.invalid"), ..Access::default() };
    let inside = world.member(cluster).client();
    register(client, &inside, &access, &Join::named(name), Reported::ALL).await
}

/// Starts an agent; it ends with what is returned.
fn start_agent(world: &World, cluster: &str) -> Shutdown {
    start_agent_by(world.client.clone(), world, cluster)
}

fn start_agent_by(client: Client, world: &World, cluster: &str) -> Shutdown {
    let (shutdown, clock) = (Shutdown::new(), world.clock.clone());
    let client = client.with_user_agent("karmada-agent");
    let manager = Manager::new(client, clock, Metrics::default(), shutdown.clone());
    let agent = Agent {
        cluster: cluster.to_owned(),
        member: world.member(cluster).client(),
        gates: Default::default(),
        options: Default::default(),
        controllers: Vec::new(),
    };
    agent.start(manager);
    shutdown
}

async fn eventually_ready(world: &World, cluster: &str) {
    let what = format!("{cluster} is ready");
    world.eventually(&what, async |world| world.is_ready(cluster).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_reaches_a_pull_cluster_and_its_state_comes_back() {
    let world = remote(301, "edge").await;
    let cluster = register_as(&world, "edge", "edge").await.unwrap();
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    let agent = start_agent(&world, "edge");
    eventually_ready(&world, "edge").await;
    let found = world.cluster("edge").await.unwrap();
    assert_eq!(found.status.node_summary.unwrap().ready_num, 3);
    assert!(!found.status.kubernetes_version.is_empty());

    world.apply(&deployment("web", 2)).await;
    let both = "placement: {clusterAffinity: {clusterNames: [edge, m1]}}";
    world.apply(&deployment_policy("web", both)).await;
    let runs = async |world: &World| {
        let web = world.get("deployments.apps", "default", "web").await.unwrap();
        web.i64_at(&["status", "readyReplicas"]) == Some(4)
    };
    world.eventually("both clusters run it and say so", runs).await;
    let inside = world.member("edge").get("deployments.apps", "default", "web").await.unwrap();
    let managers = inside.list_at(&["metadata", "managedFields"]).iter();
    let mut managers = managers.filter_map(|entry| entry.str_at(&["manager"]));
    assert!(managers.any(|manager| manager == "karmada-agent"), "{inside}");

    delete(&world, "deployments.apps", "default", "web").await;
    eventually_gone(&world, "edge", "deployments.apps", "web").await;
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    agent.kill();
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_renews_the_lease_of_its_cluster_and_takes_up_what_came_while_it_was_away() {
    let world = remote(302, "edge").await;
    let cluster = register_as(&world, "edge", "edge").await.unwrap();
    let agent = start_agent(&world, "edge");
    eventually_ready(&world, "edge").await;
    let lease = async || world.get(LEASES, "karmada-cluster", "edge").await;
    let renewed = |lease: &Option<Value>| {
        let lease = lease.as_ref().expect("there is a lease");
        lease.str_at(&["spec", "renewTime"]).unwrap().to_owned()
    };
    world.advance(seconds(15)).await;
    let first = lease().await;
    let spec = &first.as_ref().unwrap()["spec"];
    assert_eq!(spec["holderIdentity"], "edge");
    assert_eq!(spec["leaseDurationSeconds"], 40);
    assert_eq!(first.as_ref().unwrap()["metadata"]["ownerReferences"][0]["uid"], cluster.uid());
    world.advance(seconds(10)).await;
    assert_ne!(renewed(&lease().await), renewed(&first), "it is renewed every 10 s");

    agent.kill();
    world.advance(seconds(70)).await;
    let lost = world.cluster("edge").await.unwrap();
    assert_eq!(lost.condition(READY).unwrap().status, "Unknown");
    assert!(lost.spec.taints.iter().any(|taint| taint.key == taints::UNREACHABLE));
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [edge]}, clusterTolerations: [{operator: Exists}]}";
    world.apply(&config_policy("conf", there)).await;
    let bound = async |world: &World| work(world, "edge", "ConfigMap", "conf").await.is_some();
    world.eventually("there is a Work for the agent", bound).await;
    world.advance(seconds(60)).await;
    assert!(!has(&world, "edge", "configmaps", "conf").await, "nobody else delivers it");
    let agent = start_agent(&world, "edge");
    eventually_value(&world, "edge", "conf", "1").await;
    eventually_ready(&world, "edge").await;

    // The cluster goes in order: its agent lets the Works go.
    delete(&world, CLUSTERS, "", "edge").await;
    let gone = async |world: &World| world.cluster("edge").await.is_none();
    world.eventually("the cluster is gone", gone).await;
    assert!(!has(&world, "edge", "configmaps", "conf").await);
    agent.kill();
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_touches_no_work_of_another_cluster() {
    let mut world = remote(303, "edge").await;
    world.found("other", Nodes::default()).await;
    for cluster in ["edge", "other"] {
        register_as(&world, cluster, cluster).await.unwrap();
    }
    let agent = start_agent(&world, "edge");
    eventually_ready(&world, "edge").await;
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [edge, other, m1]}, clusterTolerations: [{operator: Exists}]}";
    world.apply(&config_policy("conf", there)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    eventually_value(&world, "edge", "conf", "1").await;
    world.advance(seconds(60)).await;
    assert!(!has(&world, "other", "configmaps", "conf").await);
    assert!(!world.is_ready("other").await);
    if let Some(work) = work(&world, "other", "ConfigMap", "conf").await {
        assert_eq!(work.at(&["status"]), None, "nobody has looked at it");
    }
    agent.kill();
    world.stop().await;
}

/// What the original's `register` lets an agent do.
const ROLES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: karmada-es-edge}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:karmada:edge:agent"}
rules:
- {apiGroups: [cluster.karmada.io], resources: [clusters], resourceNames: [edge], verbs: [get, delete]}
- {apiGroups: [cluster.karmada.io], resources: [clusters], verbs: [create, list, watch]}
- {apiGroups: [cluster.karmada.io], resources: [clusters/status], resourceNames: [edge], verbs: [update]}
- {apiGroups: [config.karmada.io], resources: [resourceinterpretercustomizations, resourceinterpreterwebhookconfigurations], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [""], resources: [events], verbs: [create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:karmada:edge:agent"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:karmada:edge:agent"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:karmada:agent:edge"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "system:karmada:edge:agent-secret", namespace: karmada-cluster}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [edge, edge-impersonator], verbs: [get, patch]}
- {apiGroups: [""], resources: [secrets], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "system:karmada:edge:agent-secret", namespace: karmada-cluster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "system:karmada:edge:agent-secret"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:karmada:agent:edge"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "system:karmada:edge:agent-work", namespace: karmada-es-edge}
rules:
- {apiGroups: [work.karmada.io], resources: [works], verbs: [get, create, list, watch, update, delete]}
- {apiGroups: [work.karmada.io], resources: [works/status], verbs: [patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "system:karmada:edge:agent-work", namespace: karmada-es-edge}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "system:karmada:edge:agent-work"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:karmada:agent:edge"}]
"#;

/// Registers the cluster `edge` and starts its agent as one who has the rights of [`ROLES`] and no others.
pub(crate) async fn with_least_rights(world: &World) -> (Shutdown, Client) {
    world.apply(ROLES).await;
    let client = world.client_of("system:karmada:agent:edge", "system:karmada:agents");
    // A role counts as soon as everybody knows it.
    let registered =
        async |world: &World| register_by(&client, world, "edge", "edge").await.is_ok();
    world.eventually("it registers", registered).await;
    let agent = start_agent_by(client.clone(), world, "edge");
    eventually_ready(world, "edge").await;
    (agent, client)
}

#[tokio::test(start_paused = true)]
async fn an_agent_gets_by_with_the_rights_that_the_original_gives_it() {
    let world = remote(306, "edge").await;
    let (agent, client) = with_least_rights(&world).await;
    register_by(&client, &world, "edge", "edge").await.unwrap();
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [edge]}}";
    world.apply(&config_policy("conf", there)).await;
    eventually_value(&world, "edge", "conf", "1").await;
    let applied = async |world: &World| {
        let work = work(world, "edge", "ConfigMap", "conf").await.unwrap();
        condition(&work, "Applied").is_some_and(|(status, _)| status == "True")
    };
    world.eventually("it says so", applied).await;
    world.advance(seconds(60)).await;
    assert!(world.is_ready("edge").await, "its lease is renewed");
    delete(&world, "configmaps", "default", "conf").await;
    eventually_gone(&world, "edge", "configmaps", "conf").await;
    let gone = async |world: &World| work(world, "edge", "ConfigMap", "conf").await.is_none();
    world.eventually("the Work is let go", gone).await;
    agent.kill();
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_cluster_under_the_same_name_or_id_is_refused() {
    let mut world = remote(304, "edge").await;
    world.found("other", Nodes::default()).await;
    let registered = register_as(&world, "edge", "edge").await.unwrap();
    let id = registered.str_at(&["spec", "id"]).unwrap();
    let (plane, inside) = (world.writes(), world.member("other").writes());
    let refused = register_as(&world, "other", "edge").await.unwrap_err().to_string();
    let expected = format!(
        "the name edge is taken by another cluster, whose id is {id}; give this one another --cluster-name"
    );
    assert_eq!(refused, expected);
    let refused = register_as(&world, "edge", "border").await.unwrap_err().to_string();
    let expected = format!(
        "this cluster, whose id is {id}, is registered as edge already; start the agent with --cluster-name=edge, or unjoin edge first"
    );
    assert_eq!(refused, expected);
    assert_eq!((world.writes(), world.member("other").writes()), (plane, inside));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn registering_again_writes_nothing_unless_a_token_is_out_of_date() {
    let world = remote(305, "edge").await;
    let first = register_as(&world, "edge", "edge").await.unwrap();
    let settled = async |world: &World| {
        let cluster = world.cluster("edge").await.unwrap();
        cluster.metadata.finalizers == [finalizers::CLUSTER] && !cluster.spec.taints.is_empty()
    };
    world.eventually("the control plane has taken it in", settled).await;
    world.advance(seconds(120)).await;
    let (plane, inside) = (world.writes(), world.member("edge").writes());
    let again = register_as(&world, "edge", "edge").await.unwrap();
    assert_eq!(again.uid(), first.uid());
    assert_eq!((world.writes(), world.member("edge").writes()), (plane, inside));

    let secrets = world.client.api(&gvr("secrets")).namespaced("karmada-cluster");
    let before = secrets.get("edge").await.unwrap();
    for name in ["edge", "edge-impersonator"] {
        let stale = json!({"data": {"token": "c3RhbGU="}});
        secrets.merge_patch(name, stale).await.unwrap();
    }
    register_as(&world, "edge", "edge").await.unwrap();
    let after = secrets.get("edge").await.unwrap();
    assert_eq!(after["data"], before["data"]);
    assert_eq!(after.uid(), before.uid());
    let impersonator = secrets.get("edge-impersonator").await.unwrap();
    assert_ne!(impersonator["data"]["token"], "c3RhbGU=");
    world.stop().await;
}
