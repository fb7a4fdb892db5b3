//! When bindings are scheduled, and what is written.

use std::time::Duration;

use karmada_api::Kind as _;
use karmada_api::features::{Gate, Gates};
use karmada_api::placing::{Placer as _, Subject};
use karmada_api::work::ResourceBinding;
use karmada_apimachinery::{Value, json};
use karmada_client::{Patch, PatchOptions};
use karmada_runtime::ObjectKey;
use karmada_scheduler::Options;

use crate::plane::{Plane, divided, outcome, plain, room};

fn done(clusters: &str) -> (String, String) {
    (clusters.to_owned(), "Success".to_owned())
}

#[tokio::test(start_paused = true)]
async fn schedules_what_is_created_with_two_writes_and_says_so() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let created = plane.create("resourcebindings", "x", plain("conf", json!({}))).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2"));
    let binding = plane.binding("conf").await;
    assert_eq!(binding["metadata"]["generation"], 2);
    assert_eq!(binding["status"]["schedulerObservedGeneration"], 2);
    assert_eq!(
        binding["status"]["lastScheduledTime"],
        binding["status"]["conditions"][0]["lastTransitionTime"]
    );
    assert_eq!(binding["metadata"]["annotations"]["policy.karmada.io/applied-placement"], "{}");
    let condition = &binding["status"]["conditions"][0];
    assert_eq!(condition["message"], "Binding has been scheduled successfully.");
    assert_eq!(condition["status"], "True");
    let version = |object: &karmada_apimachinery::Value| -> i64 {
        object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    // The binding was written twice; two events are the rest.
    assert!(version(&binding) - version(&created) <= 4, "{binding}");
    let told = plane.events("conf").await;
    let expected =
        "ScheduleBindingSucceed Binding has been scheduled successfully. Result: {m1:0, m2:0}";
    assert_eq!(told, [expected, expected]);
    let why = plane.scheduler().explain(&ObjectKey::new("x", "conf")).unwrap();
    assert!(why.succeeded && why.trigger == "the placement changed", "{why:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_starts_again_explains_what_stands_and_writes_nothing() {
    let mut plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane.create("resourcebindings", "x", divided("web", 4)).await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    let (key, before) = (ObjectKey::new("x", "web"), plane.binding("web").await);
    let known = plane.scheduler().explain(&key).unwrap();
    assert!(!known.anew && known.trigger == "the placement changed", "{known:?}");

    plane.halt().await;
    plane.schedule().await;
    assert_eq!(plane.binding("web").await, before);
    let anew = plane.scheduler().explain(&key).unwrap();
    assert!(anew.anew && anew.trigger.is_empty(), "{anew:?}");
    assert_eq!(anew.outcome, known.outcome);
    let shares = &anew.attempts[0].divisions[0].shares;
    let told: Vec<_> = shares.iter().map(|share| (share.cluster.as_str(), share.total)).collect();
    assert_eq!(told, [("m1", 2), ("m2", 2)]);
    assert!(shares.iter().all(|share| share.weight > 0), "{shares:?}");

    // What has come since is not made a part of what was decided.
    plane.cluster("m3", json!({})).await;
    plane.settle().await;
    let anew = plane.scheduler().explain(&key).unwrap();
    assert!(anew.outcome.starts_with("What stands is {m1:2, m2:2}; "), "{anew:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_bindings_are_scheduled_by_the_same_rules() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let mut binding = plain("role", json!({}));
    binding["kind"] = "ClusterResourceBinding".into();
    binding["metadata"]["namespace"] = karmada_apimachinery::Value::Null;
    plane.create("clusterresourcebindings", "", binding).await;
    plane.settle().await;
    let binding = plane.api("clusterresourcebindings").get("role").await.unwrap();
    assert_eq!(outcome(&binding), done("m1"));
    let told = plane.events("role").await;
    let expected = "ScheduleBindingSucceed Binding has been scheduled successfully. Result {m1:0}";
    assert!(told.contains(&expected.to_owned()), "{told:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn follows_changes_of_placement_replicas_and_cluster_labels() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let by_label = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "one"}}}});
    plane.create("resourcebindings", "x", plain("conf", by_label.clone())).await;
    plane.create("resourcebindings", "x", divided("web", 4)).await;
    assert_eq!(plane.outcome("conf").await, (String::new(), "NoClusterFit".to_owned()));
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    let told = plane.events("conf").await;
    let message = "ScheduleBindingFailed 0/2 clusters are available: 2 cluster(s) did not match the placement cluster affinity constraint.";
    assert_eq!(told, [message, message]);

    plane.patch("clusters", "m2", json!({"metadata": {"labels": {"tier": "one"}}})).await;
    assert_eq!(plane.outcome("conf").await, done("m2"));
    plane.patch("clusters", "m1", json!({"metadata": {"labels": {"tier": "one"}}})).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2"));
    plane.patch("clusters", "m2", json!({"metadata": {"labels": {"tier": null}}})).await;
    assert_eq!(plane.outcome("conf").await, done("m1"));
    // Divided workloads stay where they are.
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));

    plane.patch("resourcebindings", "web", json!({"spec": {"replicas": 6}})).await;
    assert_eq!(plane.outcome("web").await, done("m1:3 m2:3"));
    let named = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}});
    plane.patch("resourcebindings", "web", named).await;
    assert_eq!(plane.outcome("web").await, done("m2:6"));
    let binding = plane.binding("web").await;
    assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
    plane.stop().await;
}

fn succeeded(clusters: &str) -> String {
    let said = "Binding has been scheduled successfully. Result:";
    format!("ScheduleBindingSucceed {said} {{{clusters}}}")
}

#[tokio::test(start_paused = true)]
async fn duplicated_workloads_come_out_as_after_the_second_look_and_both_results_are_told() {
    let mut plane = Plane::empty().await;
    let clusters =
        [("v1", "ra", 10), ("v2", "ra", 20), ("v3", "rb", 30), ("v4", "rb", 5), ("v5", "rc", 25)];
    for (name, region, cpus) in clusters {
        plane.cluster(name, json!({})).await;
        plane.patch("clusters", name, json!({"spec": {"region": region}})).await;
        plane.patch_status("clusters", name, json!({"resourceSummary": room(cpus)})).await;
    }
    plane.schedule().await;
    // Only one region has room for all of it at first; those that have it are ranked by name then.
    let mut spread = divided("spread", 30);
    spread["spec"]["placement"] = json!({
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
        "spreadConstraints": [
            {"spreadByField": "region", "minGroups": 3, "maxGroups": 3},
            {"spreadByField": "cluster", "minGroups": 3, "maxGroups": 3},
        ],
    });
    let asked = ResourceBinding::from_value(&spread).unwrap();
    assert_eq!(plane.scheduler().place(Subject::of(&asked)), None, "it waits for its turn");
    plane.create("resourcebindings", "x", spread).await;
    assert_eq!(plane.outcome("spread").await, done("v2:30 v3:30 v5:30"));
    let both = [succeeded("v2:30, v3:30, v5:30"), succeeded("v3:30, v2:30, v5:30")];
    let mut told = plane.events("spread").await;
    told.dedup();
    assert_eq!(told, both);

    // Every target is kept, and those that had more came first.
    let mut switched = divided("switched", 4);
    let weight = |name: &str, weight: i64| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    switched["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["v1", "v4"]});
    switched["spec"]["placement"]["replicaScheduling"]["weightPreference"] =
        json!({"staticWeightList": [weight("v1", 1), weight("v4", 3)]});
    plane.patch_status("clusters", "v4", json!({"resourceSummary": room(9)})).await;
    plane.create("resourcebindings", "x", switched).await;
    assert_eq!(plane.outcome("switched").await, done("v1:1 v4:3"));
    let patch = json!({"spec": {"placement": {"replicaScheduling": {
        "replicaSchedulingType": "Duplicated", "replicaDivisionPreference": null,
        "weightPreference": null,
    }}}});
    plane.patch("resourcebindings", "switched", patch).await;
    assert_eq!(plane.outcome("switched").await, done("v1:4 v4:4"));
    let mut told = plane.events("switched").await;
    told.dedup();
    let all = [succeeded("v1:1, v4:3"), succeeded("v1:4, v4:4"), succeeded("v4:4, v1:4")];
    assert_eq!(told, all);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn moves_on_when_a_cluster_is_being_removed() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane
        .patch(
            "clusters",
            "m1",
            json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}}),
        )
        .await;
    plane.create("resourcebindings", "x", divided("web", 4)).await;
    plane.create("resourcebindings", "x", plain("conf", json!({}))).await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    plane.api("clusters").delete("m1", &Default::default()).await.unwrap();
    assert_eq!(plane.outcome("web").await, done("m2:4"));
    assert_eq!(plane.outcome("conf").await, done("m2"));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn groups_are_tried_in_order_and_each_failure_is_told() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let groups = json!({"clusterAffinities": [
        {"affinityName": "one", "clusterNames": ["nobody"]},
        {"affinityName": "two", "clusterNames": ["m2"]},
    ]});
    plane.create("resourcebindings", "x", plain("conf", groups)).await;
    assert_eq!(plane.outcome("conf").await, done("m2"));
    assert_eq!(plane.binding("conf").await["status"]["schedulerObservingAffinityName"], "two");
    let told = plane.events("conf").await;
    assert_eq!(told.len(), 4);
    assert_eq!(
        told[0],
        "ScheduleBindingFailed failed to schedule ResourceBinding(x/conf) with clusterAffiliates index(0): \
         0/2 clusters are available: 2 cluster(s) did not match the placement cluster affinity constraint."
    );
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_groups_that_all_fail_only_a_placement_given_up_is_told_once_more() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let groups = json!([
        {"affinityName": "one", "clusterNames": ["m1"]},
        {"affinityName": "two", "clusterNames": ["nobody"]},
    ]);
    let mut crowded = divided("crowded", 50);
    crowded["spec"]["placement"]["clusterAffinities"] = groups.clone();
    plane.create("resourcebindings", "x", crowded).await;
    let mut nowhere = plain("nowhere", json!({"clusterAffinities": groups}));
    nowhere["spec"]["placement"]["clusterAffinities"][0]["clusterNames"] = json!(["nobody"]);
    plane.create("resourcebindings", "x", nowhere).await;
    assert_eq!(plane.outcome("crowded").await, (String::new(), "Unschedulable".to_owned()));
    assert_eq!(plane.outcome("nowhere").await, (String::new(), "NoClusterFit".to_owned()));
    let of_groups = |told: &[String]| {
        told.iter().filter(|message| message.contains("clusterAffiliates index")).count()
    };
    let told = plane.events("crowded").await;
    assert_eq!((told.len(), of_groups(&told)), (4, 4), "{told:?}");
    let told = plane.events("nowhere").await;
    assert_eq!((told.len(), of_groups(&told)), (6, 4), "{told:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_refused_tells_all_that_was_tried() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane.demand("!has(object.spec.clusters)").await;
    let groups = json!({"clusterAffinities": [
        {"affinityName": "one", "clusterNames": ["nobody"]},
        {"affinityName": "two", "clusterNames": ["m2"]},
    ]});
    plane.create("resourcebindings", "x", plain("conf", groups)).await;
    assert_eq!(plane.outcome("conf").await, (String::new(), "SchedulerError".to_owned()));
    assert_eq!(plane.binding("conf").await["status"]["schedulerObservingAffinityName"], "two");
    let told = plane.events("conf").await;
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("with clusterAffiliates index(0): 0/2 clusters"), "{told:?}");
    assert!(told[2].contains("not here"), "{told:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leaves_alone_what_is_suspended_of_others_or_without_a_policy() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let mut suspended = plain("suspended", json!({}));
    suspended["spec"]["suspension"] = json!({"scheduling": true});
    let mut foreign = plain("foreign", json!({}));
    foreign["spec"]["schedulerName"] = "other".into();
    let mut follower = plain("follower", json!({}));
    follower["metadata"]["labels"] = json!({});
    follower["spec"]["placement"] = Value::Null;
    for binding in [suspended, foreign, follower] {
        plane.create("resourcebindings", "x", binding).await;
    }
    plane.settle().await;
    plane.patch("clusters", "m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    for name in ["suspended", "foreign", "follower"] {
        assert_eq!(plane.outcome(name).await, (String::new(), String::new()), "{name}");
        assert_eq!(plane.binding(name).await["metadata"]["generation"], 1);
    }
    plane.patch("resourcebindings", "suspended", json!({"spec": {"suspension": null}})).await;
    assert_eq!(plane.outcome("suspended").await, done("m1"));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_lost_its_policy_follows_clusters_and_nothing_else() {
    let plane = Plane::with_clusters(&["m1", "m2", "m3"]).await;
    let finalizers = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}});
    plane.patch("clusters", "m2", finalizers).await;
    let by_label = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "one"}}}});
    for name in ["m1", "m2"] {
        plane.patch("clusters", name, json!({"metadata": {"labels": {"tier": "one"}}})).await;
    }
    plane.create("resourcebindings", "x", plain("conf", by_label)).await;
    plane.create("resourcebindings", "x", divided("web", 6)).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2"));
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2 m3:2"));
    for name in ["conf", "web"] {
        let label = json!({"propagationpolicy.karmada.io/permanent-id": null});
        plane.patch("resourcebindings", name, json!({"metadata": {"labels": label}})).await;
    }
    plane.patch("resourcebindings", "web", json!({"spec": {"replicas": 9}})).await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2 m3:2"), "nobody asks for more");
    plane.patch("resourcebindings", "web", json!({"spec": {"replicas": 6}})).await;
    plane.patch("clusters", "m3", json!({"metadata": {"labels": {"tier": "one"}}})).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2 m3"));
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2 m3:2"));
    plane.api("clusters").delete("m2", &Default::default()).await.unwrap();
    assert_eq!(plane.outcome("conf").await, done("m1 m3"));
    assert_eq!(plane.outcome("web").await, done("m1:3 m3:3"));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_is_left_alone_which_is_told_once() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let mut held = plain("conf", json!({}));
    held["metadata"]["finalizers"] = json!(["karmada.io/binding-controller"]);
    plane.create("resourcebindings", "x", held).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2"));
    let api = plane.api("resourcebindings").namespaced("x");
    api.delete("conf", &Default::default()).await.unwrap();
    plane.settle().await;
    plane.patch("clusters", "m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(plane.outcome("conf").await, done("m1 m2"));
    let message = "ScheduleBindingFailed skip schedule deleting resourceBinding: x/conf";
    let told = plane.events("conf").await;
    let skipped: Vec<_> = told.iter().filter(|said| **said == message).collect();
    assert_eq!((skipped.len(), told.len()), (2, 4), "{told:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_scheduler_takes_its_own() {
    let mut plane = Plane::empty().await;
    plane.cluster("m1", json!({})).await;
    let options = Options { scheduler_name: "other".to_owned(), ..Options::default() };
    plane.schedule_with(options, &Gates::default()).await;
    let mut foreign = plain("foreign", json!({}));
    foreign["spec"]["schedulerName"] = "other".into();
    plane.create("resourcebindings", "x", foreign).await;
    plane.create("resourcebindings", "x", plain("conf", json!({}))).await;
    assert_eq!(plane.outcome("foreign").await, done("m1"));
    assert_eq!(plane.outcome("conf").await, (String::new(), String::new()));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rebalance_forgets_history_once() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let named = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
    let mut binding = divided("web", 4);
    for (key, value) in named.as_object().unwrap() {
        binding["spec"]["placement"][key] = value.clone();
    }
    plane.create("resourcebindings", "x", binding).await;
    assert_eq!(plane.outcome("web").await, done("m1:4"));
    // More clusters match by now, but a divided workload stays.
    let wider = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}});
    plane.patch("resourcebindings", "web", wider).await;
    assert_eq!(plane.outcome("web").await, done("m1:4"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = json!({"spec": {"rescheduleTriggeredAt": "2026-01-01T00:00:08Z"}});
    plane.patch("resourcebindings", "web", asked).await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    let binding = plane.binding("web").await;
    assert!(binding["status"]["lastScheduledTime"].as_str().unwrap() > "2026-01-01T00:00:08Z");
    // Somebody's clock is ahead: served at once, and once.
    let ahead = "2026-01-01T01:00:00Z";
    let asked = json!({"spec": {"rescheduleTriggeredAt": ahead}});
    plane.patch("resourcebindings", "web", asked).await;
    plane.settle().await;
    assert_eq!(plane.binding("web").await["status"]["lastScheduledTime"], ahead);
    // Nothing had to move; who asked is told so.
    let events = plane.api("events").list(&Default::default()).await.unwrap();
    let last = succeeded("m1:2, m2:2");
    let counts = events
        .items
        .iter()
        .map(|event| event.value())
        .filter(|event| last.ends_with(event["message"].as_str().unwrap_or("-")));
    let counts: Vec<_> = counts.map(|event| event["count"].as_i64()).collect();
    assert_eq!(counts, [Some(2), Some(2)]);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let mut plane = Plane::with_clusters(&["m1", "m2"]).await;
    for index in 0..5 {
        plane.create("resourcebindings", "x", plain(&format!("conf{index}"), json!({}))).await;
        plane.create("resourcebindings", "x", divided(&format!("web{index}"), 2)).await;
    }
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["nobody"]}});
    plane.create("resourcebindings", "x", plain("lost", nowhere)).await;
    plane.create("resourcebindings", "x", divided("big", 500)).await;
    assert_eq!(plane.outcome("big").await.1, "Unschedulable");
    plane.halt().await;
    let before = plane.api("namespaces").list(&Default::default()).await.unwrap().resource_version;
    plane.schedule().await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    let after = plane.api("namespaces").list(&Default::default()).await.unwrap().resource_version;
    assert_eq!(before, after);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_lost_when_others_write_at_the_same_time() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane.create("resourcebindings", "x", plain("conf", json!({}))).await;
    plane.settle().await;
    // A change of the spec, of the status by another controller and of a cluster, all at once.
    let api = plane.api("resourcebindings").namespaced("x");
    for round in 0..20 {
        let name = if round % 2 == 0 { "m1" } else { "m2" };
        let spec = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": [name]}}}});
        let applied =
            json!({"status": {"aggregatedStatus": [{"clusterName": name, "applied": true}]}});
        let (patch, options) = (Patch::Merge(applied), PatchOptions::default());
        let (spec, status) = tokio::join!(
            api.merge_patch("conf", spec),
            api.patch_subresource("conf", "status", &patch, &options)
        );
        spec.unwrap();
        status.unwrap();
        plane
            .patch("clusters", name, json!({"metadata": {"labels": {"round": round.to_string()}}}))
            .await;
    }
    assert_eq!(plane.outcome("conf").await, done("m2"));
    let binding = plane.binding("conf").await;
    assert_eq!(binding["status"]["aggregatedStatus"][0]["clusterName"], "m2");
    assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_written_without_its_status_is_reported_after_a_restart() {
    let mut plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane.create("resourcebindings", "x", divided("web", 4)).await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    plane.halt().await;
    plane
        .patch_status(
            "resourcebindings",
            "web",
            json!({"conditions": null, "schedulerObservedGeneration": null}),
        )
        .await;
    plane.schedule().await;
    assert_eq!(plane.outcome("web").await, done("m1:2 m2:2"));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_of_a_group_keep_apart_even_when_they_come_together() {
    let mut plane = Plane::empty().await;
    for name in ["m1", "m2", "m3"] {
        plane.cluster(name, json!({})).await;
    }
    let gates = Gates::default().with(Gate::WorkloadAffinity, true);
    for name in ["a", "b", "c"] {
        let mut binding = divided(name, 1);
        binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "app=db"});
        plane.create("resourcebindings", "x", binding).await;
    }
    plane.schedule_with(Options::default(), &gates).await;
    let mut clusters = Vec::new();
    for name in ["a", "b", "c"] {
        clusters.push(plane.outcome(name).await.0);
    }
    clusters.sort();
    assert_eq!(clusters, ["m1:1", "m2:1", "m3:1"]);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capacity_is_not_given_out_twice_where_that_is_asked_for() {
    let mut plane = Plane::empty().await;
    plane.cluster("m1", json!({})).await;
    let gates = Gates::default().with(Gate::SchedulingOvercommitProtection, true);
    plane.schedule_with(Options::default(), &gates).await;
    for name in ["a", "b"] {
        plane.create("resourcebindings", "x", divided(name, 6)).await;
    }
    let (first, second) = (plane.outcome("a").await, plane.outcome("b").await);
    assert_eq!((first, second.1.as_str()), (done("m1:6"), "Unschedulable"));
    plane.stop().await;
}
