use karmada_apimachinery::{Value, json};

use super::{check, container, workload};

#[test]
fn deployments_select_their_own_pods() {
    let cases: [(Value, &[&str]); 5] = [
        (workload(json!({})), &[]),
        (
            workload(json!({"selector": {"matchLabels": {"a": "c"}}})),
            &[
                r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
            ],
        ),
        (
            workload(
                json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}),
            ),
            &[],
        ),
        (
            workload(json!({"strategy": {"type": "Odd"}})),
            &[
                r#"spec.strategy: Unsupported value: {"type":"Odd"}: supported values: "Recreate", "RollingUpdate""#,
            ],
        ),
        (
            workload(
                json!({"strategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}}}),
            ),
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ],
        ),
    ];
    for (manifest, expected) in cases {
        check("apps", "Deployment", manifest, expected);
    }
}

#[test]
fn stateful_sets_may_mount_their_claim_templates() {
    let mounting = json!({"containers": [{"name": "app", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": mounting});
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    check(
        "apps",
        "StatefulSet",
        workload(json!({"template": template, "volumeClaimTemplates": claims})),
        &[],
    );
    check(
        "apps",
        "StatefulSet",
        workload(json!({"template": template})),
        &[r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data""#],
    );
    check(
        "apps",
        "StatefulSet",
        workload(json!({"serviceName": "A", "ordinals": {"start": -1}})),
        &[
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.serviceName: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
        ],
    );
}

#[test]
fn other_workloads_run_forever_too() {
    check("apps", "DaemonSet", workload(json!({})), &[]);
    check("apps", "ReplicaSet", workload(json!({})), &[]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [container()]}});
    for kind in ["DaemonSet", "ReplicaSet", "StatefulSet"] {
        check(
            "apps",
            kind,
            workload(json!({"template": template})),
            &[
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
            ],
        );
    }
    let controller = json!({"spec": {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}}});
    check("", "ReplicationController", controller, &[]);
    check(
        "apps",
        "ControllerRevision",
        json!({"data": [], "revision": -1}),
        &[
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data must be a valid JSON object",
        ],
    );
}

fn job(fields: Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container()]}});
    json!({"spec": super::with(json!({"template": template}), fields)})
}

#[test]
fn jobs_count_their_indexes() {
    let cases: [(Value, &[&str]); 5] = [
        (job(json!({})), &[]),
        (
            job(json!({"completionMode": "Indexed", "parallelism": 1})),
            &["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            job(json!({"backoffLimitPerIndex": 1})),
            &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            job(
                json!({"completionMode": "Indexed", "completions": 4, "successPolicy": {"rules": [{"succeededIndexes": "0-5"}]}}),
            ),
            &[
                r#"spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-5": error parsing succeededIndexes: too large index: "5""#,
            ],
        ),
        (
            job(
                json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2, 1]}}]}}),
            ),
            &[
                r#"spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#,
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
            ],
        ),
    ];
    for (manifest, expected) in cases {
        check("batch", "Job", manifest, expected);
    }
}

#[test]
fn cron_jobs_have_readable_schedules_and_zones() {
    let cron = |schedule: &str, zone: Value| json!({"spec": {"schedule": schedule, "timeZone": zone, "jobTemplate": job(json!({}))}});
    check("batch", "CronJob", cron("0 0 * * *", json!("Europe/Berlin")), &[]);
    check(
        "batch",
        "CronJob",
        cron("0 24 * * *", json!("")),
        &[
            r#"spec.schedule: Invalid value: "0 24 * * *": end of range (24) above maximum (23): 24"#,
            r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#,
        ],
    );
}

#[test]
fn autoscalers_measure_something() {
    let autoscaler = |metric: Value| {
        json!({"spec": {
            "minReplicas": 1, "maxReplicas": 2, "metrics": [metric],
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        }})
    };
    let kind = "HorizontalPodAutoscaler";
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let resource = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    check("autoscaling", kind, autoscaler(resource.clone()), &[]);
    let mut both = resource;
    both["pods"] =
        json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}});
    check(
        "autoscaling",
        kind,
        autoscaler(both),
        &["spec.metrics[0].pods: Forbidden: must populate the given metric source only"],
    );
    check(
        "autoscaling",
        kind,
        autoscaler(
            json!({"type": "External", "external": {"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "0"}}}),
        ),
        &[
            r#"spec.metrics[0].external.metric.name: Invalid value: "a/b": may not contain '/'"#,
            r#"spec.metrics[0].external.target.value: Invalid value: "0": must be positive"#,
        ],
    );
}
