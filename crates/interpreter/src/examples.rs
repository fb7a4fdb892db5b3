//! Worked examples of the specification that no other test holds with exactly these values; the rest are
//! marked with `Example:` where they stand.

use karmada_api::config::ResourceInterpreterCustomization;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, json};

use crate::testing::{interpreter, members};

fn aggregated(object: Value, statuses: &[(&str, Value)]) -> Value {
    interpreter().aggregate_status(object, &members(statuses)).unwrap()["status"].take()
}

fn customization(name: &str, scripts: &[(&str, &str)]) -> ResourceInterpreterCustomization {
    let rules: karmada_apimachinery::Map = scripts
        .iter()
        .map(|(rule, script)| ((*rule).to_owned(), json!({ "luaScript": script })))
        .collect();
    karmada_apimachinery::from_value(json!({
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "x.io/v1", "kind": "Widget"}, "customizations": rules},
    }))
    .unwrap()
}

fn widget() -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}})
}

// Example: I8
#[test]
fn a_deployment_that_is_nowhere_counts_nothing_and_is_observed() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 3},
        "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2,
                   "availableReplicas": 1, "unavailableReplicas": 1}});
    // A counter of nothing is left out, as Kubernetes does.
    assert_eq!(aggregated(deployment, &[]), json!({"observedGeneration": 3}));
}

// Example: I9
#[test]
fn ready_stateful_sets_add_up_but_are_never_observed() {
    let of_member = |replicas: i64| {
        let object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "2"}},
            "status": {"observedGeneration": 2, "replicas": replicas, "readyReplicas": replicas,
                       "currentReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas}});
        interpreter().interpret_status(&object).unwrap().unwrap()
    };
    let template = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 2},
                          "status": {"observedGeneration": 1}});
    assert_eq!(
        aggregated(template, &[("m1", of_member(2)), ("m2", of_member(1))]),
        json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
               "updatedReplicas": 3, "availableReplicas": 3})
    );
}

// Example: I16
#[test]
fn an_address_of_two_members_is_listed_once_after_the_names() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}});
    let balancer = |ingress: Value| json!({"loadBalancer": {"ingress": ingress}});
    let m1 = balancer(json!([{"ip": "1.1.1.1"}]));
    let m2 = balancer(json!([{"ip": "1.1.1.1"}, {"hostname": "a.b"}]));
    assert_eq!(
        aggregated(service, &[("m1", m1), ("m2", m2)]),
        balancer(json!([{"hostname": "a.b"}, {"ip": "1.1.1.1"}]))
    );
}

// Example: I19
#[test]
fn empty_values_keep_their_form_and_new_ones_vanish() {
    let script = "function Retain(desired, observed)
        desired.spec.b = observed.spec.b
        desired.spec.c = {}
        return desired
    end";
    let interpreter = interpreter();
    interpreter.set_customizations([&customization("r", &[("retention", script)])]);
    let with = |spec: Value| {
        let mut object = widget();
        object["spec"] = spec;
        object
    };
    assert_eq!(
        interpreter.retain(with(json!({"a": {}})), &with(json!({"b": []}))).unwrap(),
        with(json!({"a": {}, "b": []}))
    );
}

// Example: I21. The second is counted in instructions, so that the same script always ends the same way.
#[test]
fn a_script_without_end_is_stopped_by_the_usual_limits() {
    let script = "function InterpretHealth() while true do end end";
    let interpreter = interpreter();
    interpreter.set_customizations([&customization("h", &[("healthInterpretation", script)])]);
    let error = interpreter.interpret_health(&widget()).unwrap_err().to_string();
    assert!(error.contains("too many instructions"), "{error}");
}

// Example: I23
#[test]
fn of_two_customizations_the_first_judges_and_the_second_adds_its_dependency() {
    let needs = "function GetDependencies() return {{ apiVersion = 'v1', kind = 'Secret', name = 's' }} end";
    let a = customization(
        "a",
        &[("healthInterpretation", "function InterpretHealth() return true end")],
    );
    let b = customization(
        "b",
        &[
            ("healthInterpretation", "function InterpretHealth() return false end"),
            ("dependencyInterpretation", needs),
        ],
    );
    let interpreter = interpreter();
    for order in [[&a, &b], [&b, &a]] {
        interpreter.set_customizations(order);
        assert!(interpreter.interpret_health(&widget()).unwrap());
        let dependencies = interpreter.interpret_dependency(&widget()).unwrap();
        assert_eq!(
            karmada_apimachinery::to_value(dependencies).unwrap(),
            json!([{"apiVersion": "v1", "kind": "Secret", "name": "s"}])
        );
    }
}

// Example: I35
#[test]
fn tasks_of_volcano_are_components_of_their_least_size() {
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
                     "spec": {"tasks": [{"minAvailable": 2}, {"name": "w"}]}});
    let components = interpreter().interpret_component(&job).unwrap();
    let sizes: Vec<_> = components.iter().map(|c| (c.name.as_str(), c.replicas)).collect();
    assert_eq!(sizes, [("task-0", 2), ("w", 1)]);
}

// Example: I37
#[test]
fn a_driver_of_spark_needs_at_least_384_mebibytes_beside_its_memory() {
    let spark = json!({"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
                       "spec": {"type": "Scala", "driver": {"memory": "1g"}}});
    let components = interpreter().interpret_component(&spark).unwrap();
    assert_eq!(components[0].name, "driver");
    let memory = &components[0].replica_requirements.as_ref().unwrap().resource_request["memory"];
    assert_eq!(*memory, Quantity::parse("1408.000000Mi").unwrap());
    // The amount as the script prints it; a binding holds it in canonical form.
    assert_eq!(karmada_apimachinery::to_value(memory).unwrap(), json!("1408Mi"));
}

// Example: I38, I39
#[test]
fn workers_of_ray_are_divided_as_they_are_or_else_evenly() {
    let cases: [(&[i64], i64, &[i64]); 2] = [(&[2, 1], 8, &[5, 2]), (&[0, 0, 0], 6, &[2, 2, 1])];
    for (current, replicas, expected) in cases {
        let groups: Vec<_> = current.iter().map(|size| json!({ "replicas": size })).collect();
        let service = json!({"apiVersion": "ray.io/v1", "kind": "RayService",
                             "spec": {"rayClusterConfig": {"workerGroupSpecs": groups}}});
        let revised = interpreter().revise_replica(service, replicas).unwrap();
        let groups = revised["spec"]["rayClusterConfig"]["workerGroupSpecs"].as_array().unwrap();
        let sizes: Vec<_> = groups.iter().map(|g| g["replicas"].as_i64().unwrap()).collect();
        assert_eq!(sizes, expected);
    }
}
