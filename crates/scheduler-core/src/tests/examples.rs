//! The worked examples E3 to E15.

use super::*;

#[test]
fn e3_static_weights_ignore_capacity_and_history() {
    type Case = (i32, usize, &'static [(&'static str, i64)], &'static str);
    let cases: &[Case] = &[
        (12, 3, &[("m1", 3), ("m2", 2), ("m3", 1)], "m1 6, m2 4, m3 2"),
        (13, 3, &[("m1", 3), ("m2", 2), ("m3", 1)], "m1 7, m2 4, m3 2"),
        (14, 3, &[("m1", 3), ("m2", 2), ("m3", 1)], "m1 7, m2 5, m3 2"),
        (3, 2, &[("m1", 1), ("m2", 1)], "m1 2, m2 1"),
        (5, 3, &[("m1", 1), ("m2", 1), ("m3", 1)], "m1 2, m2 2, m3 1"),
        (7, 4, &[("m1", 2), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 3, m2 2, m3 1, m4 1"),
        (8, 4, &[("m1", 2), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 3, m2 2, m3 2, m4 1"),
        (9, 4, &[("m1", 2), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 3, m2 2, m3 2, m4 2"),
        (6, 4, &[("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 2, m2 2, m3 1, m4 1"),
        (6, 4, &[("m1", 2), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 3, m2 1, m3 1, m4 1"),
        (5, 4, &[("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)], "m1 2, m2 1, m3 1, m4 1"),
        (9, 2, &[("m1", 1), ("m2", 3)], "m1 2, m2 7"),
        (2, 2, &[("m1", 1)], "m1 2"),
        (3, 2, &[("m1", 1), ("m1", 2), ("m2", 1)], "m1 2, m2 1"),
        (4, 2, &[("elsewhere", 1)], "m1 2, m2 2"),
        (0, 2, &[("m1", 1), ("m2", 1)], ""),
    ];
    for (replicas, count, weights, expected) in cases {
        let clusters: Vec<Value> = (1..=*count).map(|i| cluster(&format!("m{i}"), 0)).collect();
        let previous = [("m1", 99)];
        let mut binding = binding(*replicas, static_weights(weights), &previous);
        // Also with nothing to give out this is a workload.
        binding["replicaRequirements"] = json!({});
        assert_eq!(
            show(&place(&binding, &snapshot(&clusters))),
            *expected,
            "{replicas} {weights:?}"
        );
    }
}

#[test]
fn e3_without_weights_all_count_alike() {
    let placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
    }});
    let clusters = [cluster("m1", 1), cluster("m2", 1), cluster("m3", 1)];
    let result = place(&binding(12, placement, &[]), &snapshot(&clusters));
    assert_eq!(show(&result), "m1 4, m2 4, m3 4");
}

#[test]
fn e4_e5_first_schedule_by_capacity() {
    let short = "Unschedulable: failed to assign replicas: failed to scale up: Clusters available replicas 9 are not enough to schedule.";
    let cases: &[(&str, [i64; 3], &str)] = &[
        ("dynamic", [18, 12, 6], "m1 6, m2 4, m3 2"),
        ("dynamic", [20, 12, 6], "m1 6, m2 4, m3 2"),
        ("dynamic", [6, 12, 6], "m1 3, m2 6, m3 3"),
        ("dynamic", [6, 8, 10], "m1 3, m2 4, m3 5"),
        ("dynamic", [8, 8, 10], "m1 4, m2 4, m3 4"),
        ("dynamic", [3, 3, 3], short),
        ("aggregated", [6, 12, 6], "m2 12"),
        ("aggregated", [6, 6, 6], "m1 6, m2 6"),
        ("aggregated", [6, 8, 10], "m2 5, m3 7"),
        ("aggregated", [12, 8, 10], "m1 12"),
        ("aggregated", [3, 3, 3], short),
    ];
    for (strategy, room, expected) in cases {
        let clusters: Vec<Value> =
            (1..).zip(room).map(|(i, &room)| cluster(&format!("m{i}"), room)).collect();
        let result = place(&binding(12, divided(strategy), &[]), &snapshot(&clusters));
        assert_eq!(show(&result), *expected, "{strategy} {room:?}");
    }
}

#[test]
fn e6_steady_scaling_moves_only_the_difference() {
    type Case = (
        &'static str,
        i32,
        &'static [(&'static str, i32)],
        &'static [(&'static str, i64)],
        &'static str,
    );
    let short = "Unschedulable: failed to assign replicas: failed to scale up: Clusters available replicas 3 are not enough to schedule.";
    let three = &[("m1", 1), ("m2", 1), ("m3", 1)];
    let cases: &[Case] = &[
        ("dynamic", 6, &[("m1", 2), ("m2", 4), ("m3", 6)], three, "m1 1, m2 2, m3 3"),
        (
            "dynamic",
            24,
            &[("m1", 2), ("m2", 4), ("m3", 6)],
            &[("m1", 10), ("m2", 10), ("m3", 10)],
            "m1 6, m2 8, m3 10",
        ),
        ("dynamic", 24, &[("m1", 2), ("m2", 4), ("m3", 6)], three, short),
        ("dynamic", 12, &[("m1", 6), ("m3", 6)], &[("m1", 3), ("m2", 3)], "m1 9, m2 3"),
        ("aggregated", 6, &[("m1", 4), ("m2", 8)], three, "m2 6"),
        ("aggregated", 8, &[("m1", 4), ("m2", 8)], &[("m1", 100), ("m2", 100)], "m2 8"),
        (
            "aggregated",
            10,
            &[("m1", 4), ("m2", 8), ("m3", 3)],
            &[("m1", 0), ("m2", 0), ("m3", 0)],
            "m1 3, m2 7",
        ),
        (
            "aggregated",
            24,
            &[("m1", 4), ("m2", 8)],
            &[("m1", 4), ("m2", 6), ("m3", 8)],
            "m1 7, m2 12, m3 5",
        ),
        (
            "aggregated",
            24,
            &[("m1", 4), ("m2", 8)],
            &[("m1", 6), ("m2", 6), ("m3", 20)],
            "m1 10, m2 14",
        ),
        (
            "aggregated",
            24,
            &[("m1", 4), ("m2", 8)],
            &[("m1", 4), ("m3", 8), ("m4", 12)],
            "m1 7, m3 7, m4 10",
        ),
    ];
    for (strategy, replicas, previous, room, expected) in cases {
        let clusters: Vec<Value> = room.iter().map(|(name, room)| cluster(name, *room)).collect();
        let result = place(&binding(*replicas, divided(strategy), previous), &snapshot(&clusters));
        assert_eq!(show(&result), *expected, "{strategy} {replicas} {previous:?}");
    }
}

#[test]
fn e7_a_requested_rebalance_forgets_history() {
    let clusters = [cluster("m1", 10), cluster("m2", 2), cluster("m3", 10)];
    let requested = json!({"lastScheduledTime": "2026-01-01T10:00:00Z"});
    let cases = [
        ("dynamic", 10, "m1 2, m2 8", "m1 4, m2 3, m3 3"),
        ("dynamic", 14, "m1 4, m2 8, m3 2", "m1 5, m2 5, m3 4"),
        ("aggregated", 14, "m1 6, m2 8", "m1 8, m2 6"),
    ];
    for (strategy, replicas, steady, fresh) in cases {
        let mut binding = binding(replicas, divided(strategy), &[("m1", 2), ("m2", 8)]);
        assert_eq!(show(&place(&binding, &snapshot(&clusters))), steady);
        binding["rescheduleTriggeredAt"] = "2026-01-01T10:00:01Z".into();
        let outcome = run(&binding, requested.clone(), &snapshot(&clusters), &Config::default());
        assert_eq!(show(&outcome.result.map(|placed| pairs(&placed.clusters))), fresh);
    }
}

#[test]
fn e8_overflow_tiers_fill_in_order_and_drain_backwards() {
    let mut placement = divided("dynamic");
    placement["clusterAffinities"] = json!([{
        "affinityName": "g",
        "clusterNames": ["m1"],
        "overflowAffinities": [{"affinityName": "o", "clusterNames": ["m2"]}],
    }]);
    let short = "Unschedulable: failed to assign replicas: Clusters available replicas are not enough to schedule.";
    type Case = (i32, i64, i64, &'static [(&'static str, i32)], &'static str);
    let cases: &[Case] = &[
        (5, 10, 10, &[], "m1 5"),
        (5, 2, 10, &[], "m1 2, m2 3"),
        (10, 2, 2, &[], short),
        (8, 2, 10, &[("m1", 3)], "m1 5, m2 3"),
        (3, 2, 7, &[("m1", 3), ("m2", 3)], "m1 3"),
    ];
    for (replicas, first, second, previous, expected) in cases {
        let clusters = [cluster("m1", *first), cluster("m2", *second)];
        let result = place(&binding(*replicas, placement.clone(), previous), &snapshot(&clusters));
        assert_eq!(show(&result), *expected, "{replicas} {previous:?}");
    }
}

/// A cluster whose score is 100 if it is a target; order among equals is by room.
#[test]
fn e9_selection_by_cluster_swaps_for_room() {
    let spread = |min: i64, max: i64, replicas: i32| {
        let mut placement = divided("dynamic");
        placement["spreadConstraints"] =
            json!([{"spreadByField": "cluster", "minGroups": min, "maxGroups": max}]);
        binding(replicas, placement, &[])
    };
    let clusters = [cluster("m1", 40), cluster("m2", 60), cluster("m3", 80), cluster("m4", 50)];
    let snapshot = snapshot(&clusters);
    let names = |binding: &Value| -> String {
        match place(binding, &snapshot) {
            Ok(targets) => targets.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "),
            Err(failure) => format!("{}: {failure}", failure.condition_reason()),
        }
    };
    assert_eq!(names(&spread(1, 2, 100)), "m2 m3");
    assert_eq!(names(&spread(1, 1, 80)), "m3");
    assert_eq!(
        names(&spread(1, 2, 200)),
        "SchedulerError: failed to select clusters: no enough resource when selecting 2 clusters"
    );
    assert_eq!(
        names(&spread(7, 7, 30)),
        "SchedulerError: failed to select clusters: the number of feasible clusters is less than spreadConstraint.MinGroups"
    );
    let weights = [("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)];
    let mut fixed = static_weights(&weights);
    fixed["spreadConstraints"] =
        json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}]);
    assert_eq!(names(&binding(120, fixed, &[])), "m1 m2 m3 m4");
    // Targets score above all others, yet give way where room is short.
    let mut sticky = spread(1, 2, 120);
    sticky["clusters"] = json!([{"name": "m1", "replicas": 1}, {"name": "m4", "replicas": 1}]);
    assert_eq!(names(&sticky), "m3 m4");
}

#[test]
fn e12_selection_by_region() {
    let regions = [("r1", &["m1", "m2"][..]), ("r2", &["m3", "m4", "m5"][..])];
    let mut clusters = Vec::new();
    for (region, names) in regions {
        for name in names {
            let mut cluster = cluster(name, 10);
            cluster["spec"]["region"] = region.into();
            clusters.push(cluster);
        }
    }
    let snapshot = snapshot(&clusters);
    let spread = |region: (i64, i64), by_cluster: (i64, i64)| {
        let placement = json!({
            "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
            "spreadConstraints": [
                {"spreadByField": "region", "minGroups": region.0, "maxGroups": region.1},
                {"spreadByField": "cluster", "minGroups": by_cluster.0, "maxGroups": by_cluster.1},
            ],
        });
        show(&place(&binding(1, placement, &[("m1", 1), ("m2", 1)]), &snapshot))
    };
    assert_eq!(spread((1, 1), (2, 2)), "m3 1, m4 1");
    assert_eq!(spread((1, 1), (3, 3)), "m3 1, m4 1, m5 1");
    assert_eq!(spread((2, 2), (4, 4)), "m3 1, m1 1, m2 1, m4 1");
    assert_eq!(
        spread((1, 1), (4, 4)),
        "SchedulerError: failed to select clusters: the number of clusters is less than the cluster spreadConstraint.MinGroups"
    );
    assert_eq!(
        spread((3, 3), (3, 3)),
        "SchedulerError: failed to select clusters: the number of feasible region is less than spreadConstraint.MinGroups"
    );
}

#[test]
fn zones_and_providers_spread_only_where_that_is_switched_on() {
    let mut clusters = vec![cluster("m1", 10), cluster("m2", 10), cluster("m3", 10)];
    for (cluster, zone) in clusters.iter_mut().zip(["a", "a", "b"]) {
        cluster["spec"]["zones"] = json!([zone]);
    }
    let placement = json!({
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
        "spreadConstraints": [
            {"spreadByField": "zone", "minGroups": 2, "maxGroups": 2},
            {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2},
        ],
    });
    let binding = binding(1, placement, &[]);
    let names = |config: &Config| {
        let outcome = run(&binding, json!({}), &snapshot(&clusters), config);
        show(&outcome.result.map(|placed| pairs(&placed.clusters)))
    };
    assert_eq!(names(&Config::default()), "m1 1, m2 1");
    let config = Config { spread_by_zone_and_provider: true, ..Config::default() };
    assert_eq!(names(&config), "m1 1, m3 1");
}

#[test]
fn e13_room_is_what_the_scarcest_resource_leaves() {
    let cluster = |allocatable: Value, allocated: Value| {
        let mut cluster = cluster("m1", 0);
        cluster["status"]["resourceSummary"] =
            json!({"allocatable": allocatable, "allocated": allocated});
        cluster
    };
    let roomy = || {
        cluster(
            json!({"cpu": "4", "memory": "8Gi", "pods": "100"}),
            json!({"cpu": "1", "memory": "2Gi", "pods": "20"}),
        )
    };
    let half = json!({"cpu": "500m", "memory": "1Gi"});
    let mut unreported = roomy();
    unreported["status"]["resourceSummary"] = Value::Null;
    let cases = [
        (roomy(), Some(half.clone()), 6),
        (roomy(), None, 80),
        (cluster(json!({"pods": "10"}), json!({"pods": "10"})), Some(half.clone()), 0),
        (
            cluster(
                json!({"cpu": "4", "memory": "2Gi", "pods": "10"}),
                json!({"cpu": "1", "memory": "1536Mi"}),
            ),
            Some(half.clone()),
            0,
        ),
        (cluster(json!({}), json!({})), Some(half.clone()), 0),
        (unreported, Some(half.clone()), 0),
        (roomy(), Some(json!({"example.com/gpu": "1"})), 0),
    ];
    for (cluster, request, expected) in cases {
        assert_eq!(room(&cluster, request.clone()), expected, "{request:?}");
    }
}

#[test]
fn e14_resource_models_count_nodes_by_grade() {
    let modelled = |grades: &[(&str, &str)]| {
        let mut cluster = cluster("m1", 0);
        let models: Vec<Value> = (0..)
            .zip(grades)
            .map(|(grade, (cpu, memory))| {
                json!({"grade": grade, "ranges": [
                    {"name": "cpu", "min": cpu, "max": "1000"},
                    {"name": "memory", "min": memory, "max": "1000Gi"},
                ]})
            })
            .collect();
        let counts: Vec<Value> =
            (0..grades.len()).map(|grade| json!({"grade": grade, "count": 1})).collect();
        cluster["spec"]["resourceModels"] = models.into();
        cluster["status"]["resourceSummary"] = json!({
            "allocatable": {"pods": "1000", "cpu": "1000", "memory": "1000Gi"},
            "allocatableModelings": counts,
        });
        cluster
    };
    let plain = [("0", "0"), ("1", "1Gi"), ("2", "2Gi")];
    type Grades<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Grades<'_>, Value, i64)] = &[
        (&plain, json!({"cpu": "1.5"}), 1),
        (&plain, json!({"cpu": "3"}), 0),
        (&plain, json!({"cpu": "1", "memory": "1536Mi"}), 1),
        (&plain, json!({"cpu": "1", "memory": "2560Mi"}), 0),
        (
            &[("1", "4Gi"), ("2", "16Gi"), ("4", "32Gi")],
            json!({"cpu": "500m", "memory": "1Gi"}),
            14,
        ),
    ];
    for (grades, request, expected) in cases {
        assert_eq!(room(&modelled(grades), Some(request.clone())), *expected, "{request}");
    }
    // Counts without models cannot be read: the summary answers.
    let mut unmodelled = modelled(&plain);
    unmodelled["spec"]["resourceModels"] = json!([]);
    assert_eq!(room(&unmodelled, Some(json!({"cpu": "3"}))), 333);
}

/// Asks how many replicas of the request a cluster could take, through the reasons.
fn room(cluster: &Value, request: Option<Value>) -> i64 {
    let mut binding = binding(1, divided("dynamic"), &[]);
    if let Some(request) = request {
        binding["replicaRequirements"] = json!({"resourceRequest": request});
    }
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(binding).unwrap();
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let subject = subject(&spec, &status, &peers);
    let snapshot = snapshot(std::slice::from_ref(cluster));
    let (_, scheduling) =
        crate::explain(&subject, &snapshot, &Estimates::default(), &Config::default(), None)
            .unwrap();
    scheduling.attempts[0].clusters[0].allocatable.unwrap()
}

#[test]
fn e15_component_workloads_go_whole_to_one_cluster() {
    let sets = |pods: &str, cpu: &str, components: Value, config: &Config| {
        let mut cluster = cluster("m1", 0);
        cluster["status"]["resourceSummary"]["allocatable"] =
            json!({"pods": pods, "cpu": cpu, "memory": "64Gi", "example.com/gpu": "8"});
        let mut placement = divided("dynamic");
        placement["spreadConstraints"] =
            json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
        let mut binding = binding(0, placement, &[]);
        binding["components"] = components;
        run(&binding, json!({}), &snapshot(&[cluster]), config).result
    };
    let config = Config { multiple_pod_templates: true, ..Config::default() };
    let part = |name: &str, replicas: i32, cpu: &str| {
        json!({"name": name, "replicas": replicas,
               "replicaRequirements": {"resourceRequest": {"cpu": cpu}}})
    };
    let flink = json!([part("jm", 1, "1"), part("tm", 2, "1500m")]);
    let placed = sets("80", "10", flink.clone(), &config).unwrap();
    let components: Vec<(&str, i32)> = placed.clusters[0]
        .components
        .iter()
        .map(|component| (component.name.as_str(), component.replicas))
        .collect();
    assert_eq!(components, [("jm", 1), ("tm", 2)]);
    assert_eq!(placed.clusters[0].replicas, 0);
    let short = sets("80", "3", flink, &config).unwrap_err();
    assert_eq!(
        short.to_string(),
        "failed to select clusters: no enough resource when selecting 1 clusters"
    );
}
