//! Workloads that are under way (E13), and workloads of several pod templates counted in whole sets (E15).

use super::*;
use crate::resources::{Part, Request};

const GI: i64 = 1 << 30;

/// How many replicas or sets the only cluster could take, through the reasons.
fn room(binding: Value, cluster: &Value, estimates: &Estimates, config: &Config) -> i64 {
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(binding).unwrap();
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let subject = subject(&spec, &status, &peers);
    let snapshot = snapshot(std::slice::from_ref(cluster));
    let (_, scheduling) = crate::explain(&subject, &snapshot, estimates, config, None).unwrap();
    scheduling.attempts[0].clusters[0].allocatable.unwrap()
}

fn with_free(free: Value) -> Value {
    let mut cluster = cluster("m1", 0);
    cluster["status"]["resourceSummary"] = json!({"allocatable": free});
    cluster
}

#[test]
fn e13_workloads_under_way_take_their_room() {
    let cluster = with_free(json!({"cpu": "3", "memory": "6Gi", "pods": "80"}));
    let mut binding = binding(1, divided("dynamic"), &[]);
    binding["replicaRequirements"] = json!({"resourceRequest": {"cpu": "500m", "memory": "1Gi"}});
    let request = Request::new([("cpu".into(), 500), ("memory".into(), GI)]);
    let under_way = vec![vec![Part { request, replicas: 2 }]];
    let mut estimates = Estimates::default();
    assert_eq!(room(binding.clone(), &cluster, &estimates, &Config::default()), 6);
    estimates.assumed.insert("m1".into(), under_way);
    assert_eq!(room(binding, &cluster, &estimates, &Config::default()), 4);
}

/// Components as (replicas, requests).
fn sets(parts: &[(i32, Value)]) -> Value {
    let mut placement = divided("dynamic");
    placement["spreadConstraints"] =
        json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let mut binding = binding(0, placement, &[]);
    let component = |(index, (replicas, request)): (usize, &(i32, Value))| {
        json!({"name": format!("c{index}"), "replicas": replicas,
               "replicaRequirements": {"resourceRequest": request}})
    };
    binding["components"] = parts.iter().enumerate().map(component).collect();
    binding
}

#[test]
fn e15_sets_are_counted_by_the_scarcest_resource() {
    let free = json!({"cpu": "10", "memory": "6Gi", "pods": "80"});
    type Case = (Value, Vec<(i32, Value)>, i64);
    let cases: Vec<Case> = vec![
        (free.clone(), vec![(1, json!({"cpu": "1"})), (2, json!({"cpu": "1500m"}))], 2),
        (
            free,
            vec![
                (1, json!({"cpu": "1", "memory": "2Gi"})),
                (2, json!({"cpu": "2", "memory": "2Gi"})),
            ],
            1,
        ),
        (json!({"pods": "3", "cpu": "100"}), vec![(3, json!({"cpu": "10m"}))], 1),
        (
            json!({"cpu": "40", "memory": "64Gi", "example.com/gpu": "8", "pods": "20"}),
            vec![(2, json!({"cpu": "4", "memory": "8Gi", "example.com/gpu": "1"}))],
            4,
        ),
        (json!({"pods": "10"}), vec![(0, json!({"cpu": "1"}))], 10),
    ];
    let config = Config { multiple_pod_templates: true, ..Config::default() };
    for (free, parts, expected) in cases {
        let counted = room(sets(&parts), &with_free(free.clone()), &Estimates::default(), &config);
        assert_eq!(counted, expected, "{free} {parts:?}");
    }
}

#[test]
fn e15_sets_need_nodes_that_have_every_resource() {
    let mut cluster = with_free(
        json!({"pods": "1000", "cpu": "1000", "memory": "1000Gi", "example.com/gpu": "1000"}),
    );
    let grades = [("1", "2Gi", "0", 4), ("2", "4Gi", "1", 3), ("4", "8Gi", "2", 2)];
    let models = grades.iter().enumerate().map(|(grade, (cpu, memory, gpu, _))| {
        json!({"grade": grade, "ranges": [
            {"name": "cpu", "min": cpu, "max": "1000"},
            {"name": "memory", "min": memory, "max": "1000Gi"},
            {"name": "example.com/gpu", "min": gpu, "max": "1000"},
        ]})
    });
    cluster["spec"]["resourceModels"] = models.collect();
    let counts = grades
        .iter()
        .enumerate()
        .map(|(grade, (.., count))| json!({"grade": grade, "count": count}));
    cluster["status"]["resourceSummary"]["allocatableModelings"] = counts.collect();
    let parts = [(2, json!({"cpu": "2", "memory": "4Gi", "example.com/gpu": "1"}))];
    let config = Config { multiple_pod_templates: true, ..Config::default() };
    assert_eq!(room(sets(&parts), &cluster, &Estimates::default(), &config), 3);
}
