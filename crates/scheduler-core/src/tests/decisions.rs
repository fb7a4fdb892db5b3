//! When a binding is scheduled (E20), what conditions say (E21), and how reasons read.

use karmada_api::explain::Explanation;

use super::*;
use crate::trigger::{Decision, Trigger, decide};

#[test]
fn e20_a_decision_is_due_only_when_something_it_rests_on_changed() {
    let groups = |order: &[&str]| {
        let mut placement = divided("dynamic");
        let terms: Vec<Value> = order
            .iter()
            .map(|name| json!({"affinityName": name, "clusterNames": ["m1", "m2"]}))
            .collect();
        placement["clusterAffinities"] = terms.into();
        placement
    };
    let edited = |edited: &str| {
        let mut placement = groups(&["g1", "g2"]);
        let index = usize::from(edited == "g2");
        placement["clusterAffinities"][index]["clusterNames"] = json!(["m1"]);
        placement
    };
    let dynamic = divided("dynamic");
    let duplicated = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let same = |placement: &Value| Some(placement.to_string());
    let nothing = Decision::Nothing { observe_generation: false };
    let last = json!({"lastScheduledTime": "2026-01-01T10:00:00Z"});
    type Row = (Value, Option<String>, Value, [i32; 2], i32, Option<&'static str>, Decision);
    let rows: Vec<Row> = vec![
        (
            dynamic.clone(),
            None,
            json!({}),
            [2, 3],
            5,
            None,
            Decision::Schedule(Trigger::PlacementChanged),
        ),
        (dynamic.clone(), same(&dynamic), json!({}), [2, 3], 5, None, nothing),
        (
            dynamic.clone(),
            same(&dynamic),
            json!({}),
            [2, 3],
            6,
            None,
            Decision::Schedule(Trigger::ReplicasChanged),
        ),
        (
            duplicated.clone(),
            same(&duplicated),
            json!({}),
            [5, 5],
            5,
            None,
            Decision::Schedule(Trigger::AlwaysFollows),
        ),
        (
            dynamic.clone(),
            same(&dynamic),
            last,
            [2, 3],
            5,
            Some("2026-01-01T10:00:01Z"),
            Decision::Schedule(Trigger::Requested),
        ),
        (
            dynamic.clone(),
            same(&dynamic),
            json!({}),
            [2, 3],
            5,
            Some("2026-01-01T10:00:01Z"),
            nothing,
        ),
        (
            groups(&["g1", "g2"]),
            same(&edited("g2")),
            json!({"schedulerObservingAffinityName": "g1"}),
            [2, 3],
            5,
            None,
            nothing,
        ),
        (
            groups(&["g1", "g2"]),
            same(&edited("g1")),
            json!({"schedulerObservingAffinityName": "g1"}),
            [2, 3],
            5,
            None,
            Decision::Schedule(Trigger::PlacementChanged),
        ),
        (
            groups(&["g1", "g2"]),
            same(&groups(&["g2", "g1"])),
            json!({}),
            [2, 3],
            5,
            None,
            Decision::Schedule(Trigger::PlacementChanged),
        ),
        (dynamic.clone(), Some("{".into()), json!({}), [2, 3], 5, None, nothing),
    ];
    let both = snapshot(&[cluster("m1", 9), cluster("m2", 9)]);
    for (placement, applied, mut status, targets, replicas, requested, expected) in rows {
        status["schedulerObservedGeneration"] = 1.into();
        let mut binding = binding(replicas, placement, &[("m1", targets[0]), ("m2", targets[1])]);
        if let Some(requested) = requested {
            binding["rescheduleTriggeredAt"] = requested.into();
        }
        assert_eq!(decision(&binding, &status, applied.as_deref(), &both), expected, "{binding}");
    }

    let mut leaving = cluster("m2", 9);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z".into();
    let binding = binding(5, dynamic.clone(), &[("m1", 2), ("m2", 3)]);
    let applied = same(&dynamic);
    assert_eq!(
        decision(&binding, &json!({}), applied.as_deref(), &snapshot(&[cluster("m1", 9), leaving])),
        Decision::Schedule(Trigger::TargetDeleting)
    );
}

fn decision(
    binding: &Value,
    status: &Value,
    applied: Option<&str>,
    snapshot: &Snapshot,
) -> Decision {
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(binding.clone()).unwrap();
    let status: ResourceBindingStatus = karmada_apimachinery::from_value(status.clone()).unwrap();
    let peers = Peers::default();
    let subject = Subject { applied_placement: applied, ..subject(&spec, &status, &peers) };
    decide(&subject, snapshot, &Config::default())
}

fn fleet() -> Snapshot {
    let mut tainted = cluster("m2", 10);
    tainted["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let mut old = cluster("m3", 10);
    old["status"]["apiEnablements"] = json!([]);
    let mut leaving = cluster("m4", 10);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z".into();
    snapshot(&[cluster("m1", 10), tainted, old, leaving])
}

#[test]
fn e21_no_cluster_fits_counts_every_cluster_but_names_no_leaving_one() {
    let mut placement = divided("dynamic");
    placement["clusterAffinity"] = json!({"clusterNames": ["m2", "m3"]});
    let failure = place(&binding(2, placement, &[]), &fleet()).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "0/4 clusters are available: 1 cluster(s) did not have the API resource, \
         1 cluster(s) did not match the placement cluster affinity constraint, \
         1 cluster(s) had untolerated taint {k=v:NoSchedule}."
    );
    assert!(failure.clears_placement());
}

#[test]
fn running_workloads_stay_where_taints_and_missing_apis_keep_new_ones_out() {
    let placement = json!({});
    let result = place(&binding(1, placement, &[("m2", 1), ("m3", 1)]), &fleet());
    assert_eq!(show(&result), "m2 1, m3 1, m1 1");
}

#[test]
fn a_taint_that_evicts_is_tolerated_until_the_time_given_for_it_is_over() {
    let cases = [
        ("NoExecute", Some(120), "2026-01-01T10:00:00Z", "2026-01-01T10:01:59Z", "m1"),
        ("NoExecute", Some(120), "2026-01-01T10:00:00Z", "2026-01-01T10:02:00Z", "none"),
        ("NoExecute", Some(0), "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z", "none"),
        ("NoExecute", None, "2026-01-01T10:00:00Z", "2027-01-01T10:00:00Z", "m1"),
        // Nobody is evicted by this one, whenever it came.
        ("NoSchedule", Some(120), "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "m1"),
    ];
    for (effect, seconds, added, now, expected) in cases {
        let mut tainted = cluster("m1", 10);
        tainted["spec"]["taints"] = json!([{"key": "k", "effect": effect, "timeAdded": added}]);
        let tolerations = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": seconds}]);
        let binding = binding(1, json!({"clusterTolerations": tolerations}), &[]);
        let spec: ResourceBindingSpec = karmada_apimachinery::from_value(binding).unwrap();
        let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
        let now = Time(now.parse().unwrap());
        let subject = Subject { now, ..subject(&spec, &status, &peers) };
        let (fleet, estimates) = (snapshot(&[tainted]), Estimates::default());
        let outcome = schedule(&subject, &fleet, &estimates, &Config::default()).unwrap();
        let placed = outcome.result.map_or("none", |_| "m1");
        assert_eq!(placed, expected, "{effect}, {seconds:?} s, at {now}");
    }
}

#[test]
fn an_evicting_cluster_is_no_candidate_even_for_its_own_workload() {
    let mut binding = binding(2, divided("dynamic"), &[("m1", 2)]);
    binding["gracefulEvictionTasks"] =
        json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "test"}]);
    let failure = place(&binding, &snapshot(&[cluster("m1", 9)])).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "0/1 clusters are available: 1 cluster(s) is in the process of eviction."
    );
}

#[test]
fn affinity_groups_are_tried_in_order_and_never_backwards() {
    let mut placement = divided("dynamic");
    placement["clusterAffinities"] = json!([
        {"affinityName": "first", "clusterNames": ["m1"]},
        {"affinityName": "second", "clusterNames": ["m2"]},
    ]);
    let snapshot = snapshot(&[cluster("m1", 1), cluster("m2", 10)]);
    let outcome =
        run(&binding(5, placement.clone(), &[]), json!({}), &snapshot, &Config::default());
    assert_eq!(outcome.result.unwrap().affinity_name.as_deref(), Some("second"));
    assert_eq!(outcome.passed_over.len(), 1);
    let observed = json!({"schedulerObservingAffinityName": "second"});
    let outcome = run(&binding(1, placement, &[]), observed, &snapshot, &Config::default());
    assert_eq!(outcome.result.unwrap().affinity_name.as_deref(), Some("second"));
    assert!(outcome.passed_over.is_empty());
}

#[test]
fn peers_of_a_group_attract_or_repel() {
    let spec: ResourceBindingSpec =
        karmada_apimachinery::from_value(binding(1, json!({}), &[])).unwrap();
    let status = ResourceBindingStatus::default();
    let config = Config { workload_affinity: true, ..Config::default() };
    let snapshot = snapshot(&[cluster("m1", 9), cluster("m2", 9)]);
    let on_m1 = || vec![crate::Peer { clusters: vec!["m1".into()] }];
    let names = |peers: Peers| {
        let subject = subject(&spec, &status, &peers);
        let outcome = schedule(&subject, &snapshot, &Estimates::default(), &config).unwrap();
        show(&outcome.result.map(|placed| pairs(&placed.clusters)))
    };
    assert_eq!(names(Peers { affinity: on_m1(), ..Peers::default() }), "m1 1");
    assert_eq!(names(Peers { anti_affinity: on_m1(), ..Peers::default() }), "m2 1");
}

#[test]
fn reasons_read_on_one_screen() {
    let spec: ResourceBindingSpec =
        karmada_apimachinery::from_value(binding(5, divided("aggregated"), &[("m1", 2)])).unwrap();
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let subject = subject(&spec, &status, &peers);
    let config = Config::default();
    let trigger = Some(Trigger::ReplicasChanged);
    let (_, scheduling) =
        crate::explain(&subject, &fleet(), &Estimates::default(), &config, trigger).unwrap();
    let explanation = Explanation {
        subject: "Deployment ns/web".into(),
        scheduling: Some(scheduling),
        ..Explanation::default()
    };
    let expected = "\
Deployment ns/web
  scheduled because the number of replicas changed
    - m2: cluster(s) had untolerated taint {k=v:NoSchedule} (TaintToleration)
    - m3: cluster(s) did not have the API resource (APIEnablement)
    + m1: score 100, room for 10 -> 5 replicas
    aggregated of 5: m1 5 (weight 10, kept 2)
  => Binding has been scheduled successfully. Result: {m1:5}";
    assert_eq!(explanation.to_string(), expected);
    let json = serde_json::to_string(&explanation).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), explanation);
}

/// The reasons of a settled workload of five whose decision is no longer known.
fn anew(strategy: &str, clusters: &[(&str, i32)]) -> karmada_api::explain::Scheduling {
    let spec: ResourceBindingSpec =
        karmada_apimachinery::from_value(binding(5, divided(strategy), clusters)).unwrap();
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let subject = subject(&spec, &status, &peers);
    let fleet = snapshot(&[cluster("m1", 10), cluster("m2", 10)]);
    crate::explain_anew(&subject, &fleet, &Estimates::default(), &Config::default()).unwrap()
}

#[test]
fn a_division_shows_its_arithmetic_after_its_decision_is_forgotten() {
    let told = anew("aggregated", &[("m1", 5)]);
    assert!(told.anew && told.succeeded && told.trigger.is_empty(), "{told:?}");
    let shares = &told.attempts[0].divisions[0].shares;
    assert_eq!((shares[0].cluster.as_str(), shares[0].total), ("m1", 5));
    assert!(shares[0].weight > 0, "{told:?}");
    assert_eq!(told.outcome, "Binding has been scheduled successfully. Result: {m1:5}");
}

#[test]
fn what_stands_is_told_where_something_else_comes_out_today() {
    let told = anew("aggregated", &[("m1", 2), ("m2", 3)]);
    assert!(told.anew && told.succeeded, "{told:?}");
    let (stands, today) = told.outcome.split_once("; a decision made today would give ").unwrap();
    assert_eq!(stands, "What stands is {m1:2, m2:3}");
    assert_ne!(today, "{m1:2, m2:3}");
    let undecided = anew("aggregated", &[]).outcome;
    assert!(undecided.starts_with("Nothing is decided yet; "), "{undecided}");
}

#[test]
fn a_large_fleet_is_explained_on_one_screen() {
    let clusters: Vec<Value> = (0..300).map(|i| cluster(&format!("m{i:03}"), 10)).collect();
    let spec: ResourceBindingSpec =
        karmada_apimachinery::from_value(binding(5, json!({}), &[])).unwrap();
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let subject = subject(&spec, &status, &peers);
    let (_, scheduling) = crate::explain(
        &subject,
        &snapshot(&clusters),
        &Estimates::default(),
        &Config::default(),
        None,
    )
    .unwrap();
    let scheduling = Some(scheduling);
    let shown = Explanation { scheduling, ..Explanation::default() }.to_string();
    assert!(shown.lines().count() < 25);
    assert!(shown.contains("more lines"));
    assert!(shown.lines().next_back().is_some_and(|line| line.contains("=> Binding")));
}
