//! The bundled kinds on objects as their controllers write them.

use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, json};

use crate::testing::{COLUMNS, NOW, interpreter, members};

fn object(api_version: &str, kind: &str, body: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind});
    object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    object
}

fn aggregated(template: &Value, statuses: &[(&str, Value)]) -> Value {
    interpreter().aggregate_status(template.clone(), &members(statuses)).unwrap()["status"].take()
}

fn reflected(object: &Value) -> Value {
    interpreter().interpret_status(object).unwrap().unwrap()
}

fn is_healthy(object: &Value) -> bool {
    interpreter().interpret_health(object).unwrap()
}

/// Components as `name×replicas` with the needs of those that have any.
fn components(object: &Value) -> Vec<(String, Value)> {
    let components = interpreter().interpret_component(object).unwrap();
    let show = |c: karmada_api::work::Component| {
        let needs = karmada_apimachinery::to_value(c.replica_requirements).unwrap();
        (format!("{}×{}", c.name, c.replicas), needs)
    };
    components.into_iter().map(show).collect()
}

fn names(object: &Value) -> Vec<String> {
    components(object).into_iter().map(|(name, _)| name).collect()
}

fn dependencies(object: &Value) -> Vec<String> {
    let references = interpreter().interpret_dependency(object).unwrap();
    references.into_iter().map(|r| format!("{}/{}", r.kind, r.name)).collect()
}

fn pod(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}},
                                    "envFrom": [{"secretRef": {"name": format!("s-{cpu}")}}]}]}})
}

#[test]
fn the_coverage_matrix_is_as_documented() {
    let rows: Vec<_> = super::TABLE
        .iter()
        .map(|rules| {
            let letters = COLUMNS.iter().map(
                |(letter, operation)| {
                    if rules.answers(*operation) { *letter } else { '-' }
                },
            );
            format!("{} {} {}", letters.collect::<String>(), rules.api_version, rules.kind)
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    -----A-D apps.kruise.io/v1alpha1 AdvancedCronJob
    R-VTSAHD apps.kruise.io/v1alpha1 BroadcastJob
    R-V-SAHD apps.kruise.io/v1alpha1 CloneSet
    ----SAHD apps.kruise.io/v1alpha1 DaemonSet
    R--TSAHD apps.kruise.io/v1alpha1 SidecarSet
    R-V-SAHD apps.kruise.io/v1alpha1 UnitedDeployment
    R-V-SAHD apps.kruise.io/v1beta1 StatefulSet
    R-VT--HD argoproj.io/v1alpha1 Workflow
    -C--SAH- batch.volcano.sh/v1alpha1 Job
    RC--SAH- flink.apache.org/v1beta1 FlinkDeployment
    ---TSAHD helm.toolkit.fluxcd.io/v2beta1 HelmRelease
    R---SAH- kubeflow.org/v1 Notebook
    -C---AHD kubeflow.org/v1 PyTorchJob
    -C---AHD kubeflow.org/v1 TFJob
    -C--SAH- kubeflow.org/v2beta1 MPIJob
    ---TSAHD kustomize.toolkit.fluxcd.io/v1 Kustomization
    ----SAH- kyverno.io/v1 ClusterPolicy
    ----SAH- kyverno.io/v1 Policy
    -C---AH- ray.io/v1 RayCluster
    -C---AHD ray.io/v1 RayJob
    R-V--AHD ray.io/v1 RayService
    ---TSAHD source.toolkit.fluxcd.io/v1 GitRepository
    ---TSAHD source.toolkit.fluxcd.io/v1beta2 Bucket
    ---TSAHD source.toolkit.fluxcd.io/v1beta2 HelmChart
    ---TSAHD source.toolkit.fluxcd.io/v1beta2 HelmRepository
    ---TSAHD source.toolkit.fluxcd.io/v1beta2 OCIRepository
    -C--SAH- sparkoperator.k8s.io/v1beta2 SparkApplication
    ");
}

#[test]
fn clone_sets_behave_like_deployments() {
    let set = object(
        "apps.kruise.io/v1alpha1",
        "CloneSet",
        json!({
            "metadata": {"namespace": "shop", "generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "7"}},
            "spec": {"replicas": 3, "template": pod("1")},
            "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "updateRevision": "web-2", "collisionCount": 1},
        }),
    );
    let answer = interpreter().interpret_replica(&set).unwrap();
    assert_eq!((answer.replicas, answer.requirements.is_some()), (3, true));
    assert_eq!(interpreter().revise_replica(set.clone(), 9).unwrap()["spec"]["replicas"], json!(9));
    assert!(is_healthy(&set));
    assert_eq!(dependencies(&set), ["Secret/s-1"]);
    let status = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3,
                        "updateRevision": "web-2", "generation": 2, "resourceTemplateGeneration": 7});
    assert_eq!(reflected(&set), status);

    let mut template = set.clone();
    template["metadata"]["generation"] = json!(7);
    let combined = aggregated(&template, &[("m1", status.clone()), ("m2", status.clone())]);
    assert_eq!(combined["replicas"], json!(6));
    assert_eq!(combined["observedGeneration"], json!(7));
    assert_eq!(combined["updateRevision"], json!("web-2"));
    let combined = aggregated(&template, &[("m1", status), ("m2", Value::Null)]);
    assert_eq!((&combined["replicas"], &combined["observedGeneration"]), (&json!(3), &json!(2)));
}

#[test]
fn other_kruise_kinds() {
    let daemons =
        object("apps.kruise.io/v1alpha1", "DaemonSet", json!({"metadata": {"generation": 1}}));
    let combined = aggregated(
        &daemons,
        &[
            ("m1", json!({"numberReady": 1, "daemonSetHash": "x"})),
            ("m2", json!({"numberReady": 2})),
        ],
    );
    assert_eq!((&combined["numberReady"], &combined["daemonSetHash"]), (&json!(3), &json!("x")));

    let united = object("apps.kruise.io/v1alpha1", "UnitedDeployment", json!({}));
    let condition = |time: &str| json!({"type": "SetReady", "time": time});
    let combined = aggregated(
        &united,
        &[
            ("m1", json!({"conditions": [condition("1")]})),
            ("m2", json!({"conditions": [condition("2")]})),
        ],
    );
    assert_eq!(combined["conditions"], json!([condition("2")]));

    let sidecars = object(
        "apps.kruise.io/v1alpha1",
        "SidecarSet",
        json!({"status": {"matchedPods": 2, "updatedPods": 1},
        "spec": {"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "c"}}}]}], "volumes": [{"secret": {"secretName": "s"}}]}}),
    );
    assert!(!is_healthy(&sidecars));
    assert_eq!(reflected(&sidecars), json!({"matchedPods": 2, "updatedPods": 1, "readyPods": 0}));
    assert_eq!(dependencies(&sidecars), ["ConfigMap/c", "Secret/s"]);
    assert_eq!(interpreter().interpret_replica(&sidecars).unwrap(), crate::Replicas::default());

    let cron = object(
        "apps.kruise.io/v1alpha1",
        "AdvancedCronJob",
        json!({"spec": {"template": {"broadcastJobTemplate": {"spec": {"template": pod("2")}}}}}),
    );
    assert_eq!(dependencies(&cron), ["Secret/s-2"]);
    assert_eq!(
        aggregated(
            &cron,
            &[
                ("m1", json!({"active": [{"name": "a"}], "type": "BroadcastJob"})),
                ("m2", json!({"active": [{"name": "b"}]}))
            ]
        ),
        json!({"active": [{"name": "a"}, {"name": "b"}], "type": "BroadcastJob"})
    );

    let job = object(
        "apps.kruise.io/v1alpha1",
        "BroadcastJob",
        json!({"status": {"desired": 2, "active": 2}}),
    );
    assert!(is_healthy(&job));
    let complete = json!({"succeeded": 1, "phase": "completed", "conditions": [{"type": "Complete", "status": "True"}]});
    let failed = json!({"failed": 1, "phase": "failed", "conditions": [{"type": "Failed", "status": "True"}]});
    let combined = aggregated(&job, &[("m1", complete.clone()), ("m2", failed)]);
    assert_eq!(
        combined["conditions"][0]["message"],
        json!("Job executed failed in member clusters: m2")
    );
    // A member without conditions is not judged by the one before it.
    let combined = aggregated(&job, &[("m1", complete.clone()), ("m2", json!({"active": 1}))]);
    assert_eq!(combined.get("conditions"), None);
    let combined = aggregated(&job, &[("m1", complete.clone()), ("m2", complete)]);
    assert_eq!(combined["conditions"][0]["type"], json!("Completed"));
}

#[test]
fn workflows() {
    let workflow = object(
        "argoproj.io/v1alpha1",
        "Workflow",
        json!({
        "metadata": {"namespace": "ci"}, "status": {"phase": "Running"},
        "spec": {"serviceAccountName": "default", "executor": {"serviceAccountName": "default"}, "nodeSelector": {"a": "b"},
                 "volumeClaimTemplates": [{"metadata": {"name": "work"}}], "imagePullSecrets": [{"name": "pull"}],
                 "volumes": [{"secret": {"name": "keys"}}, {"configMap": {"name": "files"}}]}}),
    );
    assert!(is_healthy(&workflow));
    let answer = interpreter().interpret_replica(&workflow).unwrap();
    assert_eq!(answer.replicas, 1);
    assert!(answer.requirements.unwrap().node_claim.is_some());
    assert_eq!(
        dependencies(&workflow),
        [
            "ConfigMap/files",
            "PersistentVolumeClaim/work",
            "Secret/keys",
            "Secret/pull",
            "ServiceAccount/default"
        ]
    );
    let observed = object(
        "argoproj.io/v1alpha1",
        "Workflow",
        json!({"spec": {"suspend": true}, "status": {"phase": "Failed"}}),
    );
    assert!(!is_healthy(&observed));
    let retained = interpreter().retain(workflow, &observed).unwrap();
    assert_eq!(
        (&retained["spec"]["suspend"], &retained["status"]),
        (&json!(true), &json!({"phase": "Failed"}))
    );
}

#[test]
fn volcano_jobs() {
    let job = object(
        "batch.volcano.sh/v1alpha1",
        "Job",
        json!({
        "spec": {"tasks": [{"minAvailable": 2, "template": pod("500m")}, {"name": "w", "replicas": 5}]},
        "status": {"state": {"phase": "Running"}, "taskStatusCount": {}, "running": 2}}),
    );
    assert_eq!(names(&job), ["task-0×2", "w×1"]);
    assert!(is_healthy(&job));
    assert_eq!(reflected(&job), json!({"state": {"phase": "Running"}, "running": 2}));
    let done = |duration: &str, phase: &str| {
        json!({"succeeded": 1, "version": 3, "runningDuration": duration, "state": {"phase": phase},
               "taskStatusCount": {"w": {"phase": {"Succeeded": 1}}},
               "conditions": [{"status": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    assert_eq!(
        aggregated(&job, &[("m1", done("1m30s", "Completed")), ("m2", done("2m0s", "Completed"))]),
        json!({"succeeded": 2, "version": 3, "runningDuration": "2m0s", "taskStatusCount": {"w": {"phase": {"Succeeded": 2}}},
               "conditions": [{"status": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
               "state": {"phase": "Completed", "reason": "Completed", "message": "Job completed successfully", "lastTransitionTime": NOW}})
    );
    let combined =
        aggregated(&job, &[("m1", done("1s", "Completed")), ("m2", done("1s", "Failed"))]);
    assert_eq!(combined["state"]["message"], json!("Job failed in clusters: m2"));
    assert_eq!(combined["conditions"][0]["status"], json!("Failed"));
    assert_eq!(aggregated(&job, &[("m1", done("1s", "Running"))]), done("1s", "Running"));
}

#[test]
fn flink_deployments() {
    let flink = |state: Value, error: &str| {
        object(
            "flink.apache.org/v1beta1",
            "FlinkDeployment",
            json!({
        "metadata": {"namespace": "stream"},
        "spec": {"job": {"parallelism": 10}, "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "4"},
                 "jobManager": {"resource": {"cpu": 1, "memory": "1Gi"}}, "taskManager": {"resource": {"cpu": 2, "memory": "512Mi"}},
                 "podTemplate": {"spec": {"nodeSelector": {"a": "b"}, "priorityClassName": "high"}}},
        "status": {"jobStatus": {"state": state}, "error": error, "jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"}}),
        )
    };
    let running = flink(json!("RUNNING"), "");
    // Example: I36
    assert_eq!(names(&running), ["jobmanager×1", "taskmanager×3"]);
    assert_eq!(
        components(&running)[0].1["resourceRequest"],
        json!({"cpu": "1", "memory": "1073741824"})
    );
    let answer = interpreter().interpret_replica(&running).unwrap();
    assert_eq!(answer.replicas, 4);
    assert_eq!(
        karmada_apimachinery::to_value(answer.requirements).unwrap(),
        json!({"namespace": "stream", "priorityClassName": "high", "nodeClaim": {"nodeSelector": {"a": "b"}},
               "resourceRequest": {"cpu": "2", "memory": "1Gi"}})
    );
    let cases = [
        (running.clone(), true),
        (flink(json!(null), ""), true),
        (flink(json!("CREATED"), ""), false),
        (flink(json!("RECONCILING"), "x ImagePullBackOff y"), true),
        (flink(json!("OTHER"), ""), false),
    ];
    for (object, healthy) in cases {
        assert_eq!(is_healthy(&object), healthy, "{object}");
    }
    let combined = aggregated(&running, &[("m1", reflected(&running)), ("m2", Value::Null)]);
    assert_eq!(combined["jobStatus"]["state"], json!("RUNNING"));
}

#[test]
fn spark_applications() {
    let spark = |kind: &str, driver: Value| {
        object(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            json!({
        "spec": {"type": kind, "driver": driver, "executor": {"instances": 2, "cores": 2, "memory": "8g", "memoryOverhead": "1g"},
                 "dynamicAllocation": {"enabled": true, "minExecutors": 4}}}),
        )
    };
    let memory = |object: &Value, role: usize| {
        Quantity::from_value(&components(object)[role].1["resourceRequest"]["memory"]).unwrap()
    };
    let scala =
        spark("Scala", json!({"memory": "1g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}));
    assert_eq!(names(&scala), ["driver×1", "executor×4"]);
    assert_eq!(memory(&scala, 0), Quantity::parse("1408Mi").unwrap());
    assert_eq!(memory(&scala, 1), Quantity::parse("9Gi").unwrap());
    assert_eq!(components(&scala)[0].1["resourceRequest"]["nvidia.com/gpu"], json!("1"));
    assert_eq!(
        memory(&spark("Python", json!({"memory": "10g"})), 0),
        Quantity::parse("14Gi").unwrap()
    );
    assert!(interpreter().interpret_component(&spark("Scala", json!({"memory": "many"}))).is_err());

    let state = |state: &str, attempts: i64| json!({"applicationState": {"state": state}, "executionAttempts": attempts, "terminationTime": "2026-01-01T00:00:00Z"});
    let combined = aggregated(
        &scala,
        &[("m1", state("RUNNING", 1)), ("m2", state("FAILED", 2)), ("m3", state("NOVEL", 0))],
    );
    assert_eq!(
        (&combined["applicationState"]["state"], &combined["executionAttempts"]),
        (&json!("FAILED"), &json!(3))
    );
    assert!(!is_healthy(&object(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        json!({"status": state("FAILED", 1)})
    )));
}

#[test]
fn training_jobs_of_kubeflow() {
    let pytorch = object(
        "kubeflow.org/v1",
        "PyTorchJob",
        json!({"spec": {"pytorchReplicaSpecs": {
        "Worker": {"replicas": 3, "template": pod("2")}, "Master": {"template": pod("1")}}}}),
    );
    assert_eq!(names(&pytorch), ["master×1", "worker×3"]);
    assert_eq!(dependencies(&pytorch), ["Secret/s-1", "Secret/s-2"]);
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let status = |kind: &str, end: &str| {
        json!({"startTime": early, "completionTime": end, "replicaStatuses": {"Worker": {"succeeded": 1, "active": 0}},
        "conditions": [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False", "lastUpdateTime": early}, {"type": kind, "status": "True"}]})
    };
    let combined = aggregated(
        &pytorch,
        &[("m1", status("Succeeded", early)), ("m2", status("Succeeded", late))],
    );
    let kinds: Vec<_> = combined["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].clone(), c["status"].clone()))
        .collect();
    assert_eq!(
        kinds,
        [
            (json!("Created"), json!("True")),
            (json!("Running"), json!("False")),
            (json!("Succeeded"), json!("True"))
        ]
    );
    assert_eq!(
        (&combined["completionTime"], &combined["replicaStatuses"]),
        (&json!(late), &json!({"Worker": {"succeeded": 2}}))
    );
    let combined =
        aggregated(&pytorch, &[("m1", status("Succeeded", early)), ("m2", status("Failed", late))]);
    assert_eq!(
        combined["conditions"][2]["message"],
        json!("PyTorchJob executed failed in member clusters: m2")
    );

    let tensorflow = object(
        "kubeflow.org/v1",
        "TFJob",
        json!({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": "2"}, "PS": {}}}}),
    );
    assert_eq!(names(&tensorflow), ["ps×1", "worker×2"]);
    let combined = aggregated(
        &tensorflow,
        &[("m1", status("Succeeded", early)), ("m2", status("Succeeded", late))],
    );
    assert_eq!(
        combined["conditions"],
        json!([{"type": "Succeeded", "status": "True", "reason": "Completed",
        "message": "TFJob completed successfully", "lastProbeTime": NOW, "lastTransitionTime": NOW}])
    );
    let failed = object("kubeflow.org/v1", "TFJob", json!({"status": status("Failed", late)}));
    assert!(!is_healthy(&failed));
    assert!(!is_healthy(&tensorflow));

    let mpi = object(
        "kubeflow.org/v2beta1",
        "MPIJob",
        json!({"spec": {"mpiReplicaSpecs": {
        "Worker": {"template": pod("1")}, "Launcher": {"template": pod("1")}, "Bare": {}}}, "status": {"conditions": []}}),
    );
    assert_eq!(names(&mpi), ["Launcher×1", "Worker×0"]);
    assert!(!is_healthy(&mpi));
    let member = |time: &str| json!({"conditions": [{"type": "Running", "status": "True", "lastUpdateTime": time}], "replicaStatuses": {"Worker": {"active": 1}}});
    let combined = aggregated(&mpi, &[("m1", member(late)), ("m2", member(early))]);
    assert_eq!(combined["conditions"][0]["lastUpdateTime"], json!(late));
    assert_eq!(
        combined["replicaStatuses"]["Worker"],
        json!({"active": 2, "succeeded": 0, "failed": 0})
    );
}

#[test]
fn notebooks() {
    let notebook = |state: Value| {
        object(
            "kubeflow.org/v1",
            "Notebook",
            json!({"status": {"readyReplicas": 1, "containerState": state}}),
        )
    };
    let cases = [
        (json!({"running": {}}), true),
        (json!({"waiting": {"reason": "ContainerCreating"}}), true),
        (json!({"waiting": {"reason": "ImagePullBackOff"}}), false),
        (json!({"terminated": {"exitCode": 0}}), true),
        (json!({"terminated": {"exitCode": 1}}), false),
        (json!({}), false),
    ];
    for (state, healthy) in cases {
        assert_eq!(is_healthy(&notebook(state.clone())), healthy, "{state}");
    }
    let running = |time: &str| json!({"readyReplicas": 1, "containerState": {"running": {"startedAt": time}}});
    let template = notebook(json!({}));
    let combined = aggregated(
        &template,
        &[("m1", running("2026-01-02T00:00:00Z")), ("m2", running("2026-01-01T00:00:00Z"))],
    );
    assert_eq!(
        (&combined["readyReplicas"], &combined["containerState"]["running"]["startedAt"]),
        (&json!(2), &json!("2026-01-02T00:00:00Z"))
    );
    assert_eq!(combined["conditions"][0]["type"], json!("Ready"));
    let combined =
        aggregated(&template, &[("m1", running("2026-01-02T00:00:00Z")), ("m2", json!({}))]);
    assert_eq!(combined["containerState"], json!({"waiting": {"reason": "Unschedulable"}}));
    assert_eq!(
        combined["conditions"][0]["message"],
        json!("Notebook executed failed in member clusters: m2")
    );
}

#[test]
fn ray_clusters_jobs_and_services() {
    let cluster = json!({"headGroupSpec": {"template": pod("1")}, "workerGroupSpecs": [
        {"groupName": "gpu", "replicas": 2, "template": pod("4")}, {"replicas": 1, "template": pod("2")}]});
    let ray = object("ray.io/v1", "RayCluster", json!({"spec": cluster}));
    assert_eq!(names(&ray), ["ray-head×1", "gpu×2", "worker-2×1"]);
    let status = |cpu: &str, gpu: &str| {
        json!({"desiredWorkerReplicas": 1, "desiredCPU": cpu, "desiredMemory": "1Gi", "desiredGPU": gpu, "head": {"podIP": cpu},
        "conditions": [{"type": "HeadPodReady", "status": "True"}, {"type": "RayClusterProvisioned", "status": "True"}]})
    };
    let combined = aggregated(&ray, &[("m1", status("1", "1")), ("m2", status("500m", "2"))]);
    assert_eq!(
        json!([
            combined["desiredWorkerReplicas"],
            combined["desiredCPU"],
            combined["desiredMemory"],
            combined["desiredGPU"],
            combined["desiredTPU"],
            combined["head"]
        ]),
        json!([2, "1500m", "2Gi", "3", "0", {"podIP": "1"}])
    );
    assert_eq!(combined["conditions"].as_array().unwrap().len(), 4);
    assert!(is_healthy(&object("ray.io/v1", "RayCluster", json!({"status": status("1", "1")}))));
    assert!(!is_healthy(&ray));

    let job = object(
        "ray.io/v1",
        "RayJob",
        json!({"spec": {"rayClusterSpec": cluster, "submitterPodTemplate": pod("3")},
        "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}),
    );
    assert_eq!(names(&job).len(), 3);
    assert!(is_healthy(&job));
    assert_eq!(dependencies(&job), ["Secret/s-1", "Secret/s-2", "Secret/s-3", "Secret/s-4"]);
    let status = |deployment: &str, job: &str| json!({"jobDeploymentStatus": deployment, "jobStatus": job, "reason": deployment});
    assert_eq!(
        aggregated(
            &job,
            &[
                ("m1", status("Running", "RUNNING")),
                ("m2", status("Failed", "FAILED")),
                ("m3", status("Complete", "SUCCEEDED"))
            ]
        ),
        json!({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "Failed"})
    );

    let service = object("ray.io/v1", "RayService", json!({"spec": {"rayClusterConfig": cluster}}));
    let answer = interpreter().interpret_replica(&service).unwrap();
    assert_eq!(answer.replicas, 4);
    assert_eq!(answer.requirements.unwrap().resource_request["cpu"], Quantity::parse("4").unwrap());
    let revised = interpreter().revise_replica(service.clone(), 8).unwrap();
    let groups = &revised["spec"]["rayClusterConfig"]["workerGroupSpecs"];
    assert_eq!((&groups[0]["replicas"], &groups[1]["replicas"]), (&json!(5), &json!(2)));
    let status = |application: &str| {
        json!({"numServeEndpoints": 1, "serviceStatus": "Running",
        "activeServiceStatus": {"applicationStatuses": {"app": {"status": application}}}})
    };
    let combined = aggregated(&service, &[("m1", status("RUNNING")), ("m2", status("UNHEALTHY"))]);
    assert_eq!(
        combined["activeServiceStatus"]["applicationStatuses"]["app"]["status"],
        json!("UNHEALTHY")
    );
    assert_eq!(
        (&combined["numServeEndpoints"], &combined["serviceStatus"]),
        (&json!(2), &json!("Running"))
    );
}

#[test]
fn flux_kinds() {
    let ready = |reason: &str, message: &str| json!({"type": "Ready", "status": "True", "reason": reason, "message": message});
    let release = object(
        "helm.toolkit.fluxcd.io/v2beta1",
        "HelmRelease",
        json!({
        "metadata": {"generation": 1},
        "spec": {"valuesFrom": [{"kind": "Secret", "name": "s"}, {"kind": "ConfigMap", "name": "c"}], "serviceAccountName": "robot",
                 "chart": {"spec": {"verify": {"secretRef": {"name": "cosign"}}}}},
        "status": {"failures": 5, "lastAppliedRevision": "1", "conditions": [ready("ReconciliationSucceeded", "ok")]}}),
    );
    assert!(is_healthy(&release));
    assert_eq!(
        dependencies(&release),
        ["ConfigMap/c", "Secret/cosign", "Secret/s", "ServiceAccount/robot"]
    );
    let status = |failures: i64| {
        json!({"failures": failures, "resourceTemplateGeneration": 1, "generation": 4, "observedGeneration": 4,
        "conditions": [ready("ReconciliationSucceeded", "ok")]})
    };
    let combined = aggregated(&release, &[("m1", status(1)), ("m2", status(2))]);
    assert_eq!(
        combined,
        json!({"observedGeneration": 1, "failures": 3, "lastAppliedRevision": "1",
               "conditions": [ready("ReconciliationSucceeded", "m1=ok, m2=ok")]})
    );

    let source = |api_version: &str, kind: &str, reason: &str| {
        object(
            api_version,
            kind,
            json!({
        "spec": {"suspend": true, "secretRef": {"name": "auth"}, "verify": {"secretRef": {"name": "key"}}},
        "status": {"artifact": {"revision": "r"}, "url": "u", "conditions": [ready(reason, "")]}}),
        )
    };
    let beta = "source.toolkit.fluxcd.io/v1beta2";
    let cases: [(Value, &[&str]); 5] = [
        (
            source("source.toolkit.fluxcd.io/v1", "GitRepository", "Succeeded"),
            &["Secret/auth", "Secret/key"],
        ),
        (source(beta, "Bucket", "Succeeded"), &["Secret/auth"]),
        (source(beta, "HelmRepository", "Succeeded"), &["Secret/auth"]),
        (source(beta, "HelmChart", "ChartPullSucceeded"), &["Secret/key"]),
        (source(beta, "OCIRepository", "Succeeded"), &["Secret/auth", "Secret/key"]),
    ];
    for (object, needs) in cases {
        assert!(is_healthy(&object), "{object}");
        assert_eq!(dependencies(&object), needs, "{object}");
        let combined = aggregated(&object, &[("m1", reflected(&object)), ("m2", Value::Null)]);
        assert_eq!(combined["artifact"], json!({"revision": "r"}), "{object}");
        let mut desired = object.clone();
        desired["spec"]["suspend"] = json!(false);
        assert_eq!(interpreter().retain(desired, &object).unwrap()["spec"]["suspend"], json!(true));
    }
    let kustomization = object(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        json!({"spec": {"decryption": {"secretRef": {"name": "sops"}}}}),
    );
    assert_eq!(dependencies(&kustomization), ["Secret/sops"]);
    assert!(!is_healthy(&kustomization));
}

#[test]
fn kyverno_policies() {
    let policy =
        |status: Value| object("kyverno.io/v1", "ClusterPolicy", json!({"status": status}));
    assert!(is_healthy(&policy(json!({"ready": true}))));
    assert!(!is_healthy(&policy(json!({"ready": false}))));
    assert!(is_healthy(&policy(
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded"}]})
    )));
    let status = json!({"ready": true, "rulecount": {"validate": 1, "generate": 0, "mutate": 2, "verifyimages": 0}});
    assert_eq!(
        aggregated(&policy(json!({"old": 1})), &[("m1", status.clone()), ("m2", status)]),
        json!({"ready": true, "rulecount": {"validate": 2, "generate": 0, "mutate": 4, "verifyimages": 0}})
    );
}
