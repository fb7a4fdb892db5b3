//! What people do with Karmada, from the first apply to the last delete.

use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_registration::Unjoin;
use karmada_testkit::{Options, World, gvr};

use crate::pieces::*;

const ALL: &str = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";
const FIRST: &str = "placement: {clusterAffinity: {clusterNames: [m1]}}";

#[tokio::test(start_paused = true)]
async fn the_states_of_all_clusters_are_rolled_up_into_the_template() {
    let world = World::of(61, 2).await;
    world.apply(&deployment("web", 3)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    // Duplicated: three replicas in each of two clusters, so six of three are ready.
    let rolled_up = async |world: &World| {
        let template = world.get("deployments.apps", "default", "web").await.unwrap();
        template["status"]["readyReplicas"] == 6 && template["status"]["replicas"] == 6
    };
    world.eventually("6 of 3 are ready", rolled_up).await;
    let binding = world.get(BINDINGS, "default", "web-deployment").await.unwrap();
    assert_eq!(binding.list_at(&["status", "aggregatedStatus"]).len(), 2);
    assert_eq!(condition(&binding, "FullyApplied").unwrap().0, "True");
    assert_eq!(condition(&binding, "Scheduled").unwrap().0, "True");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_workload_needs_follows_it() {
    let world = World::of(62, 2).await;
    world.apply(&config_map("settings", "1")).await;
    world
        .apply("{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: default}, stringData: {k: v}}")
        .await;
    world
        .apply(
            "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: default}}",
        )
        .await;
    world
        .apply(
            "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk, namespace: default},
              spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
        )
        .await;
    let needy = deployment("web", 1).replace(
        "    spec:\n      containers:",
        "    spec:\n      serviceAccountName: robot\n      volumes:\n      \
         - {name: c, configMap: {name: settings}}\n      - {name: s, secret: {secretName: key}}\n      \
         - {name: d, persistentVolumeClaim: {claimName: disk}}\n      containers:",
    );
    world.apply(&needy).await;
    world.apply(&deployment_policy("web", &format!("propagateDeps: true\n{FIRST}"))).await;
    eventually_value(&world, "m1", "settings", "1").await;
    let needs =
        [("secrets", "key"), ("serviceaccounts", "robot"), ("persistentvolumeclaims", "disk")];
    for (resource, name) in needs {
        let there = async |world: &World| has(world, "m1", resource, name).await;
        world.eventually(name, there).await;
    }
    assert!(!has(&world, "m2", "configmaps", "settings").await);
    world.apply(&deployment_policy("web", &format!("propagateDeps: true\n{ALL}"))).await;
    eventually_value(&world, "m2", "settings", "1").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_imported_service_needs_follows_it() {
    const IMPORTS: &str = "serviceimports.multicluster.x-k8s.io";
    let world = World::of(73, 2).await;
    copy_definition(&world, IMPORTS, &["m1", "m2"]).await;
    let slice = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: far-web
  namespace: default
  labels: {kubernetes.io/service-name: derived-web}
addressType: IPv4
endpoints: [{addresses: [10.1.2.3]}]
ports: [{port: 80}]
";
    world
        .apply(
            "{apiVersion: v1, kind: Service, metadata: {name: derived-web, namespace: default},
              spec: {ports: [{port: 80}]}}",
        )
        .await;
    world.apply(slice).await;
    world
        .apply(
            "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport,
              metadata: {name: web, namespace: default},
              spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}}",
        )
        .await;
    let import = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport", "web");
    world.apply(&policy("web", import, &format!("propagateDeps: true\n{FIRST}"))).await;
    let needs = [
        ("serviceimports.v1alpha1.multicluster.x-k8s.io", "web"),
        ("services", "derived-web"),
        ("endpointslices.discovery.k8s.io", "far-web"),
    ];
    for (resource, name) in needs {
        let there = async |world: &World| has(world, "m1", resource, name).await;
        world.eventually(name, there).await;
        assert!(!has(&world, "m2", resource, name).await, "{name}");
    }
    // A slice that goes is taken away where the import is.
    delete(&world, "endpointslices.discovery.k8s.io", "default", "far-web").await;
    eventually_gone(&world, "m1", "endpointslices.discovery.k8s.io", "far-web").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_travel_by_the_same_road() {
    let world = World::of(63, 2).await;
    world
        .apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, \
                rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}")
        .await;
    world
        .apply("{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: reader}, \
                spec: {resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: reader}], \
                overrideRules: [{targetCluster: {clusterNames: [m2]}, overriders: {labelsOverrider: \
                [{operator: add, value: {city: oslo}}]}}]}}")
        .await;
    world
        .apply("{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: reader}, \
                spec: {resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: reader}], \
                placement: {clusterAffinity: {clusterNames: [m1, m2]}}}}")
        .await;
    const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
    let there = async |world: &World| {
        let one = world.member("m1").get(ROLES, "", "reader").await;
        let other = world.member("m2").get(ROLES, "", "reader").await;
        one.is_some_and(|role| role.label("city").is_none())
            && other.is_some_and(|role| role.label("city") == Some("oslo"))
    };
    world.eventually("both have it, each its own", there).await;
    let applied = async |world: &World| {
        let binding = world.get(CLUSTER_BINDINGS, "", "reader-clusterrole").await.unwrap();
        condition(&binding, "FullyApplied").is_some_and(|(status, _)| status == "True")
    };
    world.eventually("the binding of the whole cluster tells so", applied).await;
    delete(&world, ROLES, "", "reader").await;
    let gone = async |world: &World| world.member("m1").get(ROLES, "", "reader").await.is_none();
    world.eventually("it goes as it came", gone).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_are_divided_by_their_completions_and_done_when_all_are() {
    let world = World::of(64, 2).await;
    world
        .apply("{apiVersion: batch/v1, kind: Job, metadata: {name: sum, namespace: default}, \
                spec: {completions: 4, parallelism: 4, template: {metadata: {annotations: {}}, spec: {restartPolicy: Never, \
                containers: [{name: sum, image: sum, command: [sleep, '1']}]}}}}")
        .await;
    let divided = "placement: {clusterAffinity: {clusterNames: [m1, m2]}, replicaScheduling: \
                   {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}";
    world.apply(&policy("sum", ("batch/v1", "Job", "sum"), divided)).await;
    let split = async |world: &World| placed(world, "sum-job").await == "m1:2 m2:2";
    world.eventually("the work is divided", split).await;
    let there = async |world: &World| {
        let job = world.member("m1").get("jobs.batch", "default", "sum").await;
        job.is_some_and(|job| job["spec"]["completions"] == 2 && job["spec"]["parallelism"] == 2)
    };
    world.eventually("each has its half", there).await;
    let is_done = async |world: &World| {
        let job = world.get("jobs.batch", "default", "sum").await.unwrap();
        condition(&job, "Complete").is_some_and(|(status, _)| status == "True")
    };
    world.eventually("it is done", is_done).await;
    for member in ["m1", "m2"] {
        let job = world.member(member).get("jobs.batch", "default", "sum").await.unwrap();
        assert_eq!(job["status"]["succeeded"], 2, "{member}");
    }
    let job = world.get("jobs.batch", "default", "sum").await.unwrap();
    assert_eq!(job["status"]["succeeded"], 4);
    world.stop().await;
}

/// Our own API server takes a Job's status only as a whole that agrees with itself.
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_in_a_member_fails_where_it_came_from() {
    let world = World::of(66, 2).await;
    let job = |pod: &str| {
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: sum, namespace: default}}, \
             spec: {{backoffLimit: 0, template: {{metadata: {{annotations: {{{pod}}}}}, \
             spec: {{restartPolicy: Never, containers: [{{name: sum, image: sum}}]}}}}}}}}"
        )
    };
    // In m2 it runs until the end of the story.
    let longer = "
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: longer, namespace: default}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job, name: sum}]
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders:
      plaintext:
      - {path: /spec/template/metadata/annotations/sim.karmada.io~1run-for, operator: replace, value: 24h}
";
    world.apply(longer).await;
    world.apply(&job("sim.karmada.io/exit-code: '1', sim.karmada.io/run-for: 5s")).await;
    world.apply(&policy("sum", ("batch/v1", "Job", "sum"), ALL)).await;
    let failed = async |world: &World| {
        let job = world.get("jobs.batch", "default", "sum").await.unwrap();
        let conditions = job.list_at(&["status", "conditions"]).iter();
        let mut types = conditions.map(|condition| condition["type"].as_str().unwrap_or_default());
        types.any(|kind| kind == "Failed") && job["status"].get("active").is_none()
    };
    world.eventually("it has failed", failed).await;
    let copy = world.member("m2").get("jobs.batch", "default", "sum").await.unwrap();
    assert_eq!(copy["status"]["active"], 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_policy_delivers_only_when_and_where_it_is_told_to() {
    let world = World::of(65, 2).await;
    for name in ["dispatching", "onecluster"] {
        world.apply(&config_map(name, "1")).await;
    }
    let waits = "suspension: {dispatching: true}";
    world.apply(&config_policy("dispatching", &format!("{waits}\n{ALL}"))).await;
    let waits = "suspension: {dispatchingOnClusters: {clusterNames: [m2]}}";
    world.apply(&config_policy("onecluster", &format!("{waits}\n{ALL}"))).await;
    eventually_value(&world, "m1", "onecluster", "1").await;
    world.advance(seconds(30)).await;
    assert!(!has(&world, "m2", "configmaps", "onecluster").await);
    assert!(!has(&world, "m1", "configmaps", "dispatching").await);
    assert_eq!(placed(&world, "dispatching-configmap").await, "m1:0 m2:0");
    world
        .apply(&config_policy("dispatching", &format!("suspension: {{dispatching: false}}\n{ALL}")))
        .await;
    eventually_value(&world, "m2", "dispatching", "1").await;
    world.stop().await;
}

/// What a queue for jobs does to the bindings it holds back.
async fn suspend_scheduling(world: &World, binding: &str, suspended: bool) {
    let bindings = world.client.api(&gvr(BINDINGS)).namespaced("default");
    let patch = json!({"spec": {"suspension": {"scheduling": suspended}}});
    bindings.merge_patch(binding, patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_scheduling_is_suspended_stays_where_it_is_until_it_may_move() {
    let world = World::of(72, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", FIRST)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    suspend_scheduling(&world, "conf-configmap", true).await;
    world.apply(&config_policy("conf", &FIRST.replace("m1", "m2"))).await;
    world.apply(&config_map("conf", "2")).await;
    // The content goes where the workload is; the workload goes nowhere.
    eventually_value(&world, "m1", "conf", "2").await;
    world.advance(seconds(60)).await;
    assert_eq!(placed(&world, "conf-configmap").await, "m1:0");
    assert!(!has(&world, "m2", "configmaps", "conf").await);
    suspend_scheduling(&world, "conf-configmap", false).await;
    eventually_value(&world, "m2", "conf", "2").await;
    eventually_gone(&world, "m1", "configmaps", "conf").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_respected_or_taken_over_as_the_policy_says() {
    let world = World::of(66, 2).await;
    let inside = world.member("m1").client().api(&gvr("configmaps")).namespaced("default");
    for name in ["abort", "overwrite"] {
        let own = json!({"metadata": {"name": name}, "data": {"v": "mine"}});
        inside.create(&own).await.unwrap();
        world.apply(&config_map(name, "yours")).await;
    }
    world.apply(&config_policy("abort", FIRST)).await;
    world
        .apply(&config_policy("overwrite", &format!("conflictResolution: Overwrite\n{FIRST}")))
        .await;
    eventually_value(&world, "m1", "overwrite", "yours").await;
    world.advance(seconds(30)).await;
    assert_eq!(value(&world, "m1", "abort").await.as_deref(), Some("mine"));
    let work = work(&world, "m1", "ConfigMap", "abort").await.unwrap();
    assert_eq!(condition(&work, "Applied").unwrap().0, "False");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_workload_is_adopted_without_a_restart() {
    let world = World::of(67, 2).await;
    let text = deployment("web", 2);
    let object = karmada_apimachinery::decode::yaml_untyped(text.as_bytes()).unwrap().value;
    let inside = world.member("m1").client();
    let deployments = inside.api(&gvr("deployments.apps")).namespaced("default");
    deployments.create(&object).await.unwrap();
    world.advance(seconds(60)).await;
    let pods = async || {
        let pods = inside.api(&gvr("pods")).namespaced("default");
        let listed = pods.list_all(&Default::default()).await.unwrap();
        let ids = listed.items.iter().map(|pod| pod.uid().to_owned());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    let before = pods().await;
    assert_eq!(before.len(), 2);
    world.apply(&text).await;
    world
        .apply(&deployment_policy("web", &format!("conflictResolution: Overwrite\n{FIRST}")))
        .await;
    let adopted = async |world: &World| {
        let object = world.member("m1").get("deployments.apps", "default", "web").await.unwrap();
        object.label(karmada_api::labels::MANAGED) == Some("true")
    };
    world.eventually("it is ours", adopted).await;
    world.advance(seconds(60)).await;
    assert_eq!(pods().await, before, "the same pods run on");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_template_a_policy_a_namespace_and_a_cluster() {
    let world = World::of(68, 2).await;
    let names = ["kept", "template", "policy"];
    for name in names {
        world.apply(&config_map(name, "1")).await;
    }
    world.apply(&config_policy("kept", &format!("preserveResourcesOnDeletion: true\n{ALL}"))).await;
    world.apply(&config_policy("template", ALL)).await;
    world.apply(&config_policy("policy", ALL)).await;
    for name in names {
        eventually_value(&world, "m2", name, "1").await;
    }
    world.advance(seconds(10)).await;
    // A template goes everywhere, unless it is to be preserved.
    delete(&world, "configmaps", "default", "template").await;
    eventually_gone(&world, "m1", "configmaps", "template").await;
    eventually_gone(&world, "m2", "configmaps", "template").await;
    delete(&world, "configmaps", "default", "kept").await;
    world.advance(seconds(30)).await;
    let kept = world.member("m1").get("configmaps", "default", "kept").await.unwrap();
    assert_eq!(kept.label(karmada_api::labels::MANAGED), None, "it is the member's own now");
    // A policy that goes leaves everything where it is.
    delete(&world, POLICIES, "default", "policy").await;
    world.advance(seconds(30)).await;
    assert_eq!(value(&world, "m1", "policy").await.as_deref(), Some("1"));
    // A namespace takes what is in it along.
    world.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}").await;
    world.apply(&config_map("goods", "1").replace("namespace: default", "namespace: shop")).await;
    world
        .apply(&config_policy("goods", ALL).replace("namespace: default", "namespace: shop"))
        .await;
    let there =
        async |world: &World| world.member("m1").get("configmaps", "shop", "goods").await.is_some();
    world.eventually("the namespace came along", there).await;
    delete(&world, "namespaces", "", "shop").await;
    let gone = async |world: &World| {
        world.member("m1").get("namespaces", "", "shop").await.is_none()
            && world.get("namespaces", "", "shop").await.is_none()
    };
    world.eventually("the namespace is gone everywhere", gone).await;
    world.apply(&config_map("last", "1")).await;
    world.apply(&config_policy("last", ALL)).await;
    eventually_value(&world, "m2", "last", "1").await;
    // A cluster that leaves takes nothing from the others.
    world.unjoin(&Unjoin::named("m2")).await.unwrap();
    assert!(world.cluster("m2").await.is_none());
    world.advance(seconds(30)).await;
    assert_eq!(value(&world, "m1", "last").await.as_deref(), Some("1"), "others keep theirs");
    assert_eq!(value(&world, "m1", "policy").await.as_deref(), Some("1"), "without a policy too");
    assert_eq!(placed(&world, "policy-configmap").await, "m1:0");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_leaves_although_no_scheduler_moves_what_is_suspended_on_it() {
    let world = World::of(71, 2).await;
    world.apply(&config_map("one", "1")).await;
    world.apply(&config_map("both", "1")).await;
    world.apply(&config_policy("one", &ALL.replace("m1, m2", "m2"))).await;
    world.apply(&config_policy("both", ALL)).await;
    for name in ["one", "both"] {
        eventually_value(&world, "m2", name, "1").await;
        suspend_scheduling(&world, &format!("{name}-configmap"), true).await;
    }
    world.unjoin(&Unjoin::named("m2")).await.unwrap();
    assert!(world.cluster("m2").await.is_none());
    assert_eq!(placed(&world, "one-configmap").await, "");
    assert_eq!(placed(&world, "both-configmap").await, "m1:0");
    assert_eq!(value(&world, "m1", "both").await.as_deref(), Some("1"), "others keep theirs");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_propagated_autoscaler_is_marked_until_nothing_scales_it() {
    const MARK: &str = karmada_api::labels::RETAIN_REPLICAS;
    let controller_list = vec!["*".to_owned(), "hpaScaleTargetMarker".to_owned()];
    let world = World::start(Options { controller_list, ..Options::seeded(74) }, 1).await;
    let scaler = |target: &str| {
        format!(
            "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: s, \
             namespace: default}}, spec: {{maxReplicas: 5, scaleTargetRef: {{apiVersion: apps/v1, \
             kind: Deployment, name: {target}}}}}}}"
        )
    };
    world.apply(&deployment("web", 2)).await;
    world.apply(&deployment("api", 2)).await;
    world.apply(&scaler("web")).await;
    let is_marked = async |world: &World, name: &str| {
        let workload = world.get("deployments.apps", "default", name).await.unwrap();
        workload.label(MARK) == Some("true")
    };
    world.advance(seconds(30)).await;
    assert!(!is_marked(&world, "web").await, "no policy propagates the autoscaler");
    let all = ("autoscaling/v2", "HorizontalPodAutoscaler", "s");
    world.apply(&policy("s", all, FIRST)).await;
    world.eventually("web is marked", async |world| is_marked(world, "web").await).await;
    world.apply(&scaler("api")).await;
    world.eventually("api is marked", async |world| is_marked(world, "api").await).await;
    world.eventually("web is not", async |world| !is_marked(world, "web").await).await;
    delete(&world, "horizontalpodautoscalers.v2.autoscaling", "default", "s").await;
    world.eventually("nor is api", async |world| !is_marked(world, "api").await).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lazy_policy_waits_for_the_next_change_of_the_template() {
    let world = World::of(69, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", FIRST)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    world.apply(&config_policy("conf", &format!("activationPreference: Lazy\n{ALL}"))).await;
    world.advance(seconds(60)).await;
    assert!(!has(&world, "m2", "configmaps", "conf").await, "nobody touched the template");
    world.apply(&config_map("conf", "2")).await;
    eventually_value(&world, "m2", "conf", "2").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_with_the_higher_priority_takes_over_when_it_may() {
    use karmada_api::features::{Gate, Gates};
    let mut options = karmada_testkit::Options::seeded(70);
    options.gates = Gates::default().with(Gate::PropagationPolicyPreemption, true);
    let world = World::start(options, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", FIRST)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    let second =
        "priority: 5\npreemption: Always\nplacement: {clusterAffinity: {clusterNames: [m2]}}";
    world.apply(&policy("better", ("v1", "ConfigMap", "conf"), second)).await;
    eventually_value(&world, "m2", "conf", "1").await;
    eventually_gone(&world, "m1", "configmaps", "conf").await;
    world.stop().await;
}
