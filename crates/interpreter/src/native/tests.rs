//! Worked examples of the built-in kinds, asked through the facade.

use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::{Value, json};

use crate::testing::{interpreter, members};

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
           "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

fn aggregated(object: Value, items: &[AggregatedStatusItem]) -> Value {
    interpreter().aggregate_status(object, items).unwrap()["status"].take()
}

// Example: I1
#[test]
fn requirements_sum_containers_respect_init_containers_and_add_overhead() {
    let object = deployment(json!({"replicas": 3, "template": {"spec": {
        "containers": [
            {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
            {"resources": {"limits": {"cpu": "200m", "memory": "256Mi"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}],
        "overhead": {"cpu": "50m", "memory": "32Mi"},
    }}}));
    let answer = interpreter().interpret_replica(&object).unwrap();
    assert_eq!(answer.replicas, 3);
    assert_eq!(
        karmada_apimachinery::to_value(answer.requirements).unwrap(),
        json!({"resourceRequest": {"cpu": "550m", "memory": "416Mi"}})
    );
}

#[test]
fn replicas_and_requirements_follow_the_kind() {
    let job = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    let zone = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]});
    let cases = [
        // Example: I2
        (
            deployment(json!({"template": {"spec": {"containers": [{"name": "c"}]}}})),
            0,
            json!(null),
        ),
        // Example: I3
        (job(json!({"parallelism": 5, "completions": 3})), 3, json!(null)),
        (job(json!({"parallelism": 2, "completions": 10})), 2, json!(null)),
        (job(json!({"parallelism": 4})), 4, json!(null)),
        (pod(json!({})), 1, json!(null)),
        (
            pod(json!({"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": zone,
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}})),
            1,
            json!({"nodeClaim": {"nodeSelector": {"disk": "ssd"}, "hardNodeAffinity": zone}}),
        ),
        (
            pod(
                json!({"tolerations": [{"key": "a", "operator": "Exists"}], "priorityClassName": "high"}),
            ),
            1,
            json!({"nodeClaim": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        ),
        (
            pod(json!({"containers": [{"resources": {"requests": {
                "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "storage": "1Gi", "cpu": "0", "example.com/x": 3}}}]})),
            1,
            json!({"resourceRequest": {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "example.com/x": "3"}}),
        ),
    ];
    for (object, replicas, requirements) in cases {
        let answer = interpreter().interpret_replica(&object).unwrap();
        assert_eq!(answer.replicas, replicas, "{object}");
        assert_eq!(
            karmada_apimachinery::to_value(answer.requirements).unwrap(),
            requirements,
            "{object}"
        );
    }
}

#[test]
fn the_quota_gate_copies_the_priority_class() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {
        "nodeSelector": {"a": "b"}, "priorityClassName": "high"}});
    let gates = crate::Gates { quota_estimate: true };
    let answer = crate::testing::interpreter_with(gates).interpret_replica(&pod).unwrap();
    assert_eq!(answer.requirements.unwrap().priority_class_name, "high");
}

#[test]
fn revising_overwrites_only_what_is_there() {
    let revise = |object: Value| interpreter().revise_replica(object, 5);
    // Example: I4
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {}});
    assert_eq!(revise(set.clone()).unwrap(), set);
    assert_eq!(revise(deployment(json!({"replicas": 1}))).unwrap()["spec"], json!({"replicas": 5}));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 2, "completions": 9}});
    assert_eq!(revise(job).unwrap()["spec"], json!({"parallelism": 5, "completions": 9}));
    assert_eq!(
        revise(deployment(json!({"replicas": "1"}))).unwrap_err().to_string(),
        "spec.replicas: expected an integer, found a string"
    );
}

#[test]
fn health_is_judged_by_kind() {
    let object = |api_version: &str, kind: &str, body: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind});
        object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        object
    };
    let set = |kind, replicas: Value, status: Value| {
        object(
            "apps/v1",
            kind,
            json!({"metadata": {"generation": 4}, "spec": {"replicas": replicas}, "status": status}),
        )
    };
    let core = |kind, body| object("v1", kind, body);
    let balancer =
        |status| core("Service", json!({"spec": {"type": "LoadBalancer"}, "status": status}));
    let pod = |phase: &str, ready: &str| {
        core(
            "Pod",
            json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}),
        )
    };
    let ready = json!({"observedGeneration": 4, "updatedReplicas": 3, "availableReplicas": 3});
    let short = json!({"observedGeneration": 4, "updatedReplicas": 3, "availableReplicas": 2});
    let stale = json!({"observedGeneration": 3, "updatedReplicas": 3, "availableReplicas": 3});
    let daemons = |updated: i64, available: i64| {
        set(
            "DaemonSet",
            json!(null),
            json!({"observedGeneration": 4, "desiredNumberScheduled": 2,
            "updatedNumberScheduled": updated, "numberAvailable": available}),
        )
    };
    let cases = [
        (set("Deployment", json!(3), ready.clone()), true),
        // Example: I6
        (set("Deployment", json!(3), short.clone()), false),
        (set("Deployment", json!(3), stale), false),
        (set("Deployment", json!(4), ready.clone()), false),
        (set("Deployment", json!(null), ready.clone()), true),
        (set("StatefulSet", json!(3), ready.clone()), true),
        (set("ReplicaSet", json!(3), ready), true),
        (set("ReplicaSet", json!(3), short), false),
        (daemons(2, 2), true),
        (daemons(1, 2), false),
        (daemons(2, 1), false),
        (core("Service", json!({"spec": {"type": "ClusterIP"}})), true),
        (balancer(json!({})), false),
        (balancer(json!({"loadBalancer": {"ingress": [{}, {"ip": "1.1.1.1"}]}})), true),
        (object("networking.k8s.io/v1", "Ingress", json!({})), false),
        (core("PersistentVolumeClaim", json!({"status": {"phase": "Bound"}})), true),
        (core("PersistentVolumeClaim", json!({"status": {"phase": "Pending"}})), false),
        (pod("Running", "True"), true),
        (pod("Running", "False"), false),
        (pod("Succeeded", "False"), true),
        (pod("Pending", "True"), false),
        (
            object(
                "policy/v1",
                "PodDisruptionBudget",
                json!({"status": {"currentHealthy": 1, "desiredHealthy": 2}}),
            ),
            false,
        ),
    ];
    for (object, healthy) in cases {
        assert_eq!(interpreter().interpret_health(&object).unwrap(), healthy, "{object}");
    }
}

#[test]
fn reflected_status_keeps_what_the_kind_reports() {
    let workload = |kind: &str, status: Value| {
        json!({"apiVersion": "apps/v1", "kind": kind, "status": status,
               "metadata": {"generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "7"}}})
    };
    let cases = [
        (
            workload(
                "Deployment",
                json!({"replicas": 2, "updatedReplicas": 1, "observedGeneration": 2,
                "unavailableReplicas": 0, "conditions": [{"type": "Available"}]}),
            ),
            json!({"generation": 2, "resourceTemplateGeneration": 7, "replicas": 2, "updatedReplicas": 1, "observedGeneration": 2}),
        ),
        (
            workload("ReplicaSet", json!({})),
            json!({"generation": 2, "resourceTemplateGeneration": 7, "replicas": 0}),
        ),
        (
            workload("StatefulSet", json!({"replicas": 1, "observedGeneration": 2})),
            json!({"generation": 2, "resourceTemplateGeneration": 7, "replicas": 1, "availableReplicas": 0}),
        ),
        (
            workload("DaemonSet", json!({"numberReady": 1})),
            json!({"generation": 2, "resourceTemplateGeneration": 7, "numberReady": 1,
                   "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0}),
        ),
        (workload("Deployment", json!(null)), json!(null)),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort"}, "status": {"loadBalancer": {}}}),
            json!(null),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}, "status": {"conditions": [1]}}),
            json!({"loadBalancer": {}}),
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1, "ready": 1, "terminating": 0, "conditions": [], "startTime": "2026-01-01T00:00:00Z"}}),
            json!({"active": 1, "startTime": "2026-01-01T00:00:00Z"}),
        ),
        (
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": {"desiredReplicas": 0, "currentMetrics": [{"type": "Resource"}]}}),
            json!({"currentMetrics": null, "desiredReplicas": 0}),
        ),
        (
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": {"observedGeneration": 1, "expectedPods": 2}}),
            json!({"disruptionsAllowed": 0, "expectedPods": 2, "desiredHealthy": 0, "currentHealthy": 0}),
        ),
        (
            json!({"apiVersion": "x.io/v1", "kind": "Widget", "status": {"phase": "Ready"}}),
            json!({"phase": "Ready"}),
        ),
        (json!({"apiVersion": "x.io/v1", "kind": "Widget"}), json!(null)),
    ];
    for (object, expected) in cases {
        let status = interpreter().interpret_status(&object).unwrap();
        assert_eq!(status.unwrap_or(Value::Null), expected, "{object}");
    }
    let unmarked = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {}});
    assert_eq!(
        interpreter().interpret_status(&unmarked).unwrap_err().to_string(),
        "metadata.annotations.resourcetemplate.karmada.io/generation: \"\" is not a number"
    );
}

#[test]
fn observed_generation_follows_when_all_members_are_aligned() {
    let template = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"generation": 2},
               "status": {"observedGeneration": 1, "conditions": ["kept"]}})
    };
    let member = |generation: i64, observed: i64, template: i64, replicas: i64| {
        json!({"generation": generation, "observedGeneration": observed,
               "resourceTemplateGeneration": template, "replicas": replicas})
    };
    let behind = members(&[("m1", member(5, 5, 2, 2)), ("m2", member(1, 1, 1, 1))]);
    let aligned = members(&[("m1", member(5, 5, 2, 2)), ("m2", member(1, 1, 2, 1))]);
    let silent = members(&[("m1", member(5, 5, 2, 2)), ("m2", Value::Null)]);
    let reflected = members(&[(
        "m1",
        json!({"generation": 1, "resourceTemplateGeneration": 2, "replicas": 3}),
    )]);
    let conditions = json!(["kept"]);
    let cases = [
        // Example: I7
        (
            "Deployment",
            &behind,
            json!({"observedGeneration": 1, "replicas": 3, "conditions": conditions}),
        ),
        (
            "Deployment",
            &aligned,
            json!({"observedGeneration": 2, "replicas": 3, "conditions": conditions}),
        ),
        (
            "Deployment",
            &silent,
            json!({"observedGeneration": 1, "replicas": 2, "conditions": conditions}),
        ),
        ("Deployment", &Vec::new(), json!({"observedGeneration": 2, "conditions": conditions})),
        (
            "ReplicaSet",
            &aligned,
            json!({"observedGeneration": 2, "replicas": 3, "conditions": conditions}),
        ),
        // Quirk 13 of the register: matched after all, recordings of the original show it.
        (
            "StatefulSet",
            &reflected,
            json!({"observedGeneration": 1, "replicas": 3, "availableReplicas": 0, "conditions": conditions}),
        ),
        (
            "DaemonSet",
            &members(&[(
                "m1",
                json!({"generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 2, "numberReady": 4}),
            )]),
            json!({"observedGeneration": 2, "numberReady": 4, "currentNumberScheduled": 0,
                   "desiredNumberScheduled": 0, "numberMisscheduled": 0, "conditions": conditions}),
        ),
    ];
    for (kind, items, expected) in cases {
        assert_eq!(aggregated(template(kind), items), expected, "{kind}");
    }
}

// Quirk 24 of the register: matched, of several claims that are not bound the last one is told.
#[test]
fn the_most_worrying_phase_wins() {
    let core = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "status": {"phase": "Old"}});
    let phase = |phase: &str| if phase.is_empty() { Value::Null } else { json!({"phase": phase}) };
    let cases: [(&str, &[&str], Value); 9] = [
        // Example: I10
        ("Pod", &["Running", "", "Succeeded"], json!({"phase": "Pending"})),
        ("Pod", &["Running", "Failed", ""], json!({"phase": "Failed"})),
        ("Pod", &[], json!({"phase": "Old"})),
        // Example: I11
        ("PersistentVolume", &["Bound", "Available"], json!({"phase": "Available"})),
        ("PersistentVolume", &["Bound", ""], json!({"phase": "Pending"})),
        ("PersistentVolume", &["Released", "Bound"], json!({"phase": "Bound"})),
        // Example: I12
        ("PersistentVolumeClaim", &["Bound", "Pending", "Bound"], json!({"phase": "Pending"})),
        ("PersistentVolumeClaim", &["Bound", "Lost", "Pending"], json!({"phase": "Lost"})),
        ("PersistentVolumeClaim", &["", ""], json!({"phase": "Bound"})),
    ];
    for (kind, phases, expected) in cases {
        let items: Vec<_> = phases.iter().map(|p| ("m", phase(p))).collect();
        assert_eq!(aggregated(core(kind), &members(&items)), expected, "{kind} {phases:?}");
    }
}

#[test]
fn container_statuses_of_pods_keep_readiness_and_state() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "c", "image": "nginx", "ready": true, "restartCount": 3, "state": {"running": {}}}]});
    assert_eq!(
        aggregated(pod, &members(&[("m1", status)])),
        json!({"phase": "Running", "containerStatuses": [
            {"name": "", "image": "", "imageID": "", "ready": true, "restartCount": 0, "lastState": {}, "state": {"running": {}}}]})
    );
}

#[test]
fn addresses_are_listed_once_and_in_order() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}});
    let entries = |entries: Value| json!({"loadBalancer": {"ingress": entries}});
    let items = members(&[
        ("m1", entries(json!([{"ip": "1.1.1.1", "ports": [{"port": 443, "protocol": "TCP"}]}]))),
        (
            "m2",
            entries(
                json!([{"ip": "1.1.1.1", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "a.b"}]),
            ),
        ),
    ]);
    assert_eq!(
        aggregated(service.clone(), &items),
        entries(json!([{"hostname": "a.b"}, {"ip": "1.1.1.1", "ports": [
            {"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]}]))
    );
    let modes =
        members(&[("m1", entries(json!([{"ip": "1.1.1.1"}, {"ip": "1.1.1.1", "ipMode": "VIP"}])))]);
    assert_eq!(
        aggregated(service, &modes),
        entries(json!([{"ip": "1.1.1.1", "ipMode": "VIP"}, {"ip": "1.1.1.1"}]))
    );
    let plain = json!({"apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}}});
    assert_eq!(aggregated(plain, &items), json!({"loadBalancer": {}}));
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"});
    assert_eq!(aggregated(ingress, &[]), json!({"loadBalancer": {}}));
}

// Example: I13
#[test]
fn disrupted_pods_are_told_apart_by_cluster() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"});
    let status = json!({"expectedPods": 2, "disruptedPods": {"p1": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        aggregated(budget, &members(&[("m1", status.clone()), ("m2", status)])),
        json!({"disruptionsAllowed": 0, "expectedPods": 4, "desiredHealthy": 0, "currentHealthy": 0,
               "disruptedPods": {"m1/p1": "2026-01-01T00:00:00Z", "m2/p1": "2026-01-01T00:00:00Z"}})
    );
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"});
    let status = json!({"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": null});
    assert_eq!(
        aggregated(scaler, &members(&[("m1", status.clone()), ("m2", status)])),
        json!({"currentReplicas": 2, "desiredReplicas": 4, "currentMetrics": null})
    );
}

#[test]
fn jobs_complete_together_and_fail_at_once() {
    let job = |status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "status": status});
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
    let ended = |kind: &str, start: &str, end: &str| {
        json!({"succeeded": 1, "startTime": start, "completionTime": end, "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"}, {"type": kind, "status": "True"}]})
    };
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
               "lastProbeTime": crate::testing::NOW, "lastTransitionTime": crate::testing::NOW})
    };
    // Example: I14
    let running = members(&[
        ("m1", ended("Complete", late, late)),
        ("m2", json!({"active": 1, "startTime": early})),
    ]);
    assert_eq!(
        aggregated(job(json!({})), &running),
        json!({"active": 1, "succeeded": 1, "startTime": early})
    );
    let waiting = members(&[("m1", json!({"active": 1, "startTime": early})), ("m2", Value::Null)]);
    assert_eq!(aggregated(job(json!({})), &waiting), json!({"active": 1}));

    // Example: I15
    let failed = members(&[
        ("m1", ended("Complete", early, late)),
        ("m2", json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]})),
    ]);
    let frozen = aggregated(job(json!({})), &failed);
    let message = "Job executed failed in member clusters m2";
    assert_eq!(
        frozen,
        json!({"succeeded": 1, "failed": 1, "startTime": early, "conditions": [
            condition("Failed", "JobFailed", message), condition("FailureTarget", "JobFailed", message)]})
    );
    assert_eq!(aggregated(job(frozen.clone()), &running), frozen);

    let complete =
        members(&[("m1", ended("Complete", late, late)), ("m2", ended("Complete", early, early))]);
    assert_eq!(
        aggregated(job(json!({"startTime": "2025-01-01T00:00:00Z"})), &complete),
        json!({"succeeded": 2, "startTime": "2025-01-01T00:00:00Z", "completionTime": late, "conditions": [
            condition("Complete", "Completed", "Job completed"),
            condition("SuccessCriteriaMet", "CompletionsReached", "All member clusters have met success criteria")]})
    );
}

#[test]
fn a_finished_job_is_one_that_kubernetes_takes() {
    let job = |status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "status": status});
    let types = |status: &Value| -> Vec<String> {
        let conditions = status["conditions"].as_array().unwrap().iter();
        conditions.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    };
    let ended = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    // Members that tell neither when they began nor why they ended.
    let complete = aggregated(job(json!({})), &members(&[("m1", ended("Complete"))]));
    assert_eq!(types(&complete), ["Complete", "SuccessCriteriaMet"]);
    assert_eq!(complete["startTime"], crate::testing::NOW);
    assert_eq!(complete["completionTime"], crate::testing::NOW);
    // One that failed while others still run.
    let running = json!({"active": 2, "succeeded": 1});
    let failed = members(&[("m1", ended("Failed")), ("m2", running.clone())]);
    let failed = aggregated(job(json!({"active": 2, "failed": 3})), &failed);
    assert_eq!(types(&failed), ["Failed", "FailureTarget"]);
    assert_eq!(failed["startTime"], crate::testing::NOW);
    assert_eq!(failed.get("active"), None);
    assert_eq!(failed.get("completionTime"), None);
    // A member that was left took what it had done with it.
    assert_eq!((&failed["succeeded"], &failed["failed"]), (&json!(1), &json!(3)));
    let left = aggregated(job(json!({"succeeded": 4})), &members(&[("m2", running)]));
    assert_eq!(left, json!({"active": 2, "succeeded": 4}));
}

#[test]
fn a_job_does_not_end_before_it_began() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
    let done = json!({"succeeded": 1, "startTime": early, "completionTime": early,
        "conditions": [{"type": "Complete", "status": "True"}]});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"startTime": late}});
    let status = aggregated(job, &members(&[("m1", done)]));
    assert_eq!((&status["startTime"], &status["completionTime"]), (&json!(late), &json!(late)));
}

#[test]
fn cron_jobs_collect_runs_and_take_the_latest_times() {
    let job = json!({"apiVersion": "batch/v1", "kind": "CronJob"});
    let items = members(&[
        ("m1", json!({"active": [{"name": "a"}], "lastScheduleTime": "2026-01-02T00:00:00Z"})),
        (
            "m2",
            json!({"active": [{"name": "b"}], "lastScheduleTime": "2026-01-01T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"}),
        ),
    ]);
    assert_eq!(
        aggregated(job.clone(), &items),
        json!({"active": [{"name": "a"}, {"name": "b"}], "lastScheduleTime": "2026-01-02T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"})
    );
    let broken = members(&[("m1", json!({"active": {}}))]);
    assert_eq!(
        interpreter().aggregate_status(job, &broken).unwrap_err().to_string(),
        "status reported by cluster m1: active: expected a list, found an object"
    );
}

#[test]
fn members_keep_what_is_theirs() {
    let core = |kind: &str, body: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind});
        object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        object
    };
    let token = "kubernetes.io/service-account-token";
    let labelled = |replicas: i64| {
        let mut object = deployment(json!({"replicas": replicas}));
        object["metadata"]["labels"] =
            json!({"resourcetemplate.karmada.io/retain-replicas": "true"});
        object
    };
    let cases = [
        (
            deployment(json!({"replicas": 1})),
            deployment(json!({"replicas": 5})),
            deployment(json!({"replicas": 1})),
        ),
        (labelled(1), labelled(5), labelled(5)),
        // Example: I17
        (
            core("Secret", json!({"type": "Opaque", "data": {"a": "desired"}})),
            core("Secret", json!({"type": "Opaque", "data": {"a": "x"}})),
            core("Secret", json!({"type": "Opaque", "data": {"a": "desired"}})),
        ),
        (
            core("Secret", json!({"type": token, "data": null})),
            core("Secret", json!({"type": token, "data": {"a": "x"}})),
            core("Secret", json!({"type": token, "data": {"a": "x"}})),
        ),
        // Example: I18
        (
            core("ServiceAccount", json!({"secrets": [{"name": "a"}]})),
            core("ServiceAccount", json!({"secrets": [{"name": "a"}, {"name": "tok"}]})),
            core(
                "ServiceAccount",
                json!({"secrets": [{"name": "a"}, {"name": "tok"}], "imagePullSecrets": null}),
            ),
        ),
        (
            core("Service", json!({"spec": {"clusterIP": ""}})),
            core("Service", json!({"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 0}})),
            core("Service", json!({"spec": {"clusterIP": "10.0.0.1"}})),
        ),
        (
            core("PersistentVolumeClaim", json!({"spec": {}})),
            core("PersistentVolumeClaim", json!({"spec": {"volumeName": "v"}})),
            core("PersistentVolumeClaim", json!({"spec": {"volumeName": "v"}})),
        ),
        (
            core("PersistentVolume", json!({})),
            core("PersistentVolume", json!({"spec": {"claimRef": {"name": "c"}}})),
            core("PersistentVolume", json!({"spec": {"claimRef": {"name": "c"}}})),
        ),
        (
            core(
                "Pod",
                json!({"spec": {"volumes": [1], "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [2]}]}}),
            ),
            core(
                "Pod",
                json!({"spec": {"nodeName": "n", "containers": [{"name": "b"}, {"name": "a", "volumeMounts": [3]}]}}),
            ),
            core(
                "Pod",
                json!({"spec": {"nodeName": "n", "containers": [{"name": "a", "volumeMounts": [3]}, {"name": "b"}]}}),
            ),
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1"}}}}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1"}}}}}),
        ),
    ];
    for (desired, observed, expected) in cases {
        assert_eq!(interpreter().retain(desired, &observed).unwrap(), expected);
    }
    assert_eq!(
        interpreter().retain(labelled(1), &deployment(json!({}))).unwrap_err().to_string(),
        "spec.replicas: required"
    );
}

/// Dependencies as `Kind/name`, or `Kind?selector`.
fn dependencies(object: &Value) -> Vec<String> {
    let references = interpreter().interpret_dependency(object).unwrap();
    references
        .iter()
        .map(|r| match &r.label_selector {
            Some(selector) => format!("{}?{}", r.kind, serde_json::to_string(selector).unwrap()),
            None => format!("{}/{}", r.kind, r.name),
        })
        .collect()
}

#[test]
fn dependencies_come_from_every_place_a_pod_can_name_them() {
    let spec = json!({
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
        "containers": [{"env": [
            {"valueFrom": {"configMapKeyRef": {"name": "env"}}},
            {"valueFrom": {"secretKeyRef": {"name": "env-secret", "optional": true}}},
            {"name": "plain", "value": "x"}]}],
        "volumes": [
            {"configMap": {"name": "files"}}, {"secret": {"secretName": "mounted"}},
            {"projected": {"sources": [{"configMap": {"name": "projected"}}, {"secret": {"name": "pull"}}]}},
            {"csi": {"nodePublishSecretRef": {"name": "csi"}}}, {"azureFile": {"secretName": "azure"}},
            {"persistentVolumeClaim": {"claimName": "data"}}, {"persistentVolumeClaim": {"claimName": "own"}},
            {"emptyDir": {}}],
    });
    let expected = [
        "ConfigMap/env",
        "ConfigMap/files",
        "ConfigMap/init",
        "ConfigMap/projected",
        "PersistentVolumeClaim/data",
        "PersistentVolumeClaim/own",
        "Secret/azure",
        "Secret/csi",
        "Secret/env-secret",
        "Secret/mounted",
        "Secret/pull",
        "ServiceAccount/robot",
    ];
    let object = deployment(json!({"template": {"spec": spec}}));
    assert_eq!(dependencies(&object), expected);
    assert_eq!(dependencies(&json!({"apiVersion": "v1", "kind": "Pod", "spec": spec})), expected);

    let mut set = object;
    set["kind"] = "StatefulSet".into();
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "own"}}]);
    let expected: Vec<_> =
        expected.into_iter().filter(|r| *r != "PersistentVolumeClaim/own").collect();
    assert_eq!(dependencies(&set), expected);
}

#[test]
fn dependencies_of_the_other_kinds() {
    // Example: I40
    let job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {
        "serviceAccountName": "default", "containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}}}}}});
    assert_eq!(dependencies(&job), ["Secret/s"]);
    let import = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"name": "web"}});
    assert_eq!(
        dependencies(&import),
        [
            "EndpointSlice?{\"matchLabels\":{\"kubernetes.io/service-name\":\"derived-web\"}}",
            "Service/derived-web"
        ]
    );
    let ingress = |tls: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"tls": tls}});
    assert_eq!(
        dependencies(&ingress(json!([{"secretName": "b"}, {"secretName": "a"}]))),
        ["Secret/a", "Secret/b"]
    );
    assert!(interpreter().interpret_dependency(&ingress(json!([{}]))).is_err());
}

#[test]
fn the_coverage_matrix_is_as_documented() {
    let rows: Vec<_> = super::TABLE
        .iter()
        .map(|rules| {
            let letters = crate::testing::COLUMNS
                .iter()
                .map(|(letter, operation)| if rules.answers(*operation) { *letter } else { '-' });
            format!("{} {} {}", letters.collect::<String>(), rules.api_version, rules.kind)
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    R-VTSAHD apps/v1 Deployment
    R-V-SAHD apps/v1 ReplicaSet
    R-V-SAHD apps/v1 StatefulSet
    ----SAHD apps/v1 DaemonSet
    R-VTSA-D batch/v1 Job
    -----A-D batch/v1 CronJob
    R--T-AHD v1 Pod
    ---TSAH- v1 Service
    -----AHD networking.k8s.io/v1 Ingress
    ---T-A-- v1 PersistentVolume
    ---T-AH- v1 PersistentVolumeClaim
    ----SAH- policy/v1 PodDisruptionBudget
    ----SA-- autoscaling/v2 HorizontalPodAutoscaler
    ---T---- v1 ServiceAccount
    ---T---- v1 Secret
    -------D multicluster.x-k8s.io/v1alpha1 ServiceImport
    ");
}
