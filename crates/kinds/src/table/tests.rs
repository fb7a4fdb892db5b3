use jiff::Timestamp;
use karmada_apimachinery::{Value, json};

use super::*;

/// One minute after the creation time every object here has.
fn now() -> Timestamp {
    "2020-01-02T03:05:05Z".parse().expect("a valid time")
}

fn row(group: &str, kind: &str, mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = json!("2020-01-02T03:04:05Z");
    object["metadata"]["name"] = json!("x");
    cells(group, kind, &object, now()).into()
}

#[test]
fn every_row_fills_its_columns() {
    for table in TABLES {
        // Addresses carry an age no column announces.
        let extra = usize::from(table.kind == "IPAddress");
        let cells = row(table.group, table.kind, json!({"metadata": {}}));
        let count = cells.as_array().map_or(0, |list| list.len());
        assert_eq!(count, table.columns.len() + extra, "{}", table.kind);
    }
}

#[test]
fn kinds_without_columns_show_name_and_creation() {
    assert_eq!(columns("", "LimitRange"), DEFAULT_COLUMNS);
    let cells = row("", "LimitRange", json!({}));
    assert_eq!(cells, json!(["x", "2020-01-02T03:04:05Z"]));
}

#[test]
fn rows_read_as_kubectl_shows_them() {
    let template = json!({"spec": {"containers": [
        {"name": "a", "image": "i"}, {"name": "b", "image": "j"},
    ]}});
    let cases = [
        (
            "apps",
            "Deployment",
            json!({"spec": {"replicas": 3, "template": template,
                "selector": {"matchLabels": {"k": "v"}}},
                "status": {"readyReplicas": 2, "updatedReplicas": 1}}),
            json!(["x", "2/3", 1, 0, "60s", "a,b", "i,j", "k=v"]),
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"parallelism": 4, "template": template},
                "status": {"succeeded": 1, "startTime": "2020-01-02T03:04:35Z",
                    "conditions": [{"type": "Suspended", "status": "True"}]}}),
            json!(["x", "Suspended", "1/1 of 4", "30s", "60s", "a,b", "i,j", "<none>"]),
        ),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "suspend": false}}),
            json!(["x", "* * * * *", "<none>", "False", 0, "<none>", "60s", "", "", "<none>"]),
        ),
        (
            "",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
                "externalIPs": ["192.0.2.9"], "selector": {"b": "2", "a": "1"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP"}]},
                "status": {"loadBalancer": {"ingress": [{"hostname": "b.example"}, {"ip": "192.0.2.1"}]}}}),
            json!([
                "x",
                "LoadBalancer",
                "10.0.0.1",
                "192.0.2.1,b.example,192.0.2.9",
                "80:30080/TCP,53/UDP",
                "60s",
                "a=1,b=2"
            ]),
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"tls": [{}], "rules": [
                {"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}, {}]}}),
            json!(["x", "<none>", "a,b,c + 2 more...", "", "80, 443", "60s"]),
        ),
        (
            "",
            "Endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "::1"}],
                "ports": [{"port": 1}, {"port": 2}]}]}),
            json!(["x", "10.0.0.1:1,[::1]:1,10.0.0.1:2 + 1 more...", "60s"]),
        ),
        (
            "",
            "Node",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}},
                "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "Unknown"}],
                    "nodeInfo": {"kubeletVersion": "v1", "architecture": "amd64"}}}),
            json!([
                "x",
                "NotReady,SchedulingDisabled",
                "db,worker",
                "60s",
                "v1",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown> (amd64)",
                "<unknown>"
            ]),
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s"},
                "status": {"phase": "Bound"}}),
            json!([
                "x", "1Gi", "RWO,RWX", "", "Bound", "n/c", "s", "<unset>", "", "60s", "<unset>"
            ]),
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1,
                "maxReplicas": 9, "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                    {"type": "Pods", "pods": {"target": {"averageValue": "1k"}}},
                    {"type": "External", "external": {"target": {"value": "3"}}}]},
                "status": {"currentReplicas": 2, "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]}}),
            json!([
                "x",
                "Deployment/d",
                "cpu: 40%/80%, <unknown>/1k + 1 more...",
                "1",
                9,
                2,
                "60s"
            ]),
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
            json!(["x", "Role/r", "60s", "u, v", "", "n/s"]),
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
                "status": {"certificate": "c", "conditions": [{"type": "Approved"}]}}),
            json!(["x", "60s", "s", "u", "60m", "Approved,Issued"]),
        ),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "10", "limits.cpu": "2"}, "used": {"pods": "3"}}}),
            json!(["x", "pods: 3/10", "limits.cpu: 0/2", "60s"]),
        ),
        (
            "events.k8s.io",
            "Event",
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": " m ", "reason": "R",
                "eventTime": "2020-01-02T03:05:00.000000Z", "regarding": {"kind": "Pod", "name": "p"},
                "reportingController": "c", "reportingInstance": "c-0", "type": "Normal"}),
            json!(["5s", "Normal", "R", "pod/p", "", "c, c-0", "m", "5s", 1, "x"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}}),
            json!([
                "x",
                "p",
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
                "60s"
            ]),
        ),
        (
            "apiregistration.k8s.io",
            "APIService",
            json!({"spec": {"service": {"namespace": "n", "name": "s"}}, "status": {"conditions": [
                {"type": "Available", "status": "False", "reason": "ServiceNotFound"}]}}),
            json!(["x", "n/s", "False (ServiceNotFound)", "60s"]),
        ),
    ];
    for (group, kind, object, expected) in cases {
        assert_eq!(row(group, kind, object), expected, "{kind}");
    }
}

#[test]
fn a_pod_is_described_in_one_word() {
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let ended =
        |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let container =
        |state: Value, ready: bool| json!({"name": "c", "state": state, "ready": ready});
    let cases = [
        (json!({"phase": "Pending"}), "Pending", "0/1"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted", "0/1"),
        (json!({"containerStatuses": [container(json!({"running": {}}), true)]}), "Running", "1/1"),
        (
            json!({"containerStatuses": [container(waiting("CrashLoopBackOff"), false)]}),
            "CrashLoopBackOff",
            "0/1",
        ),
        (json!({"containerStatuses": [container(ended(137, ""), false)]}), "ExitCode:137", "0/1"),
        (
            json!({"containerStatuses": [
                container(ended(0, "Completed"), false), container(json!({"running": {}}), true)]}),
            "NotReady",
            "1/1",
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
            "0/1",
        ),
    ];
    for (mut status, reason, ready) in cases {
        if status.get("phase").is_none() {
            status["phase"] = json!("Running");
        }
        let pod =
            json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}, "status": status});
        let cells = row("", "Pod", pod);
        assert_eq!((&cells[2], &cells[1]), (&json!(reason), &json!(ready)), "{status}");
    }
}

#[test]
fn starting_and_leaving_pods_say_so() {
    let spec = json!({
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "a"}, {"name": "b"}, {"name": "s", "restartPolicy": "Always"}],
    });
    let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0}}, "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2020-01-02T03:04:55Z"}}});
    let pending = json!({"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}});
    let status = json!({"phase": "Pending", "initContainerStatuses": [done, pending]});
    let pod = json!({"metadata": {}, "spec": spec, "status": status});
    let cells = row("", "Pod", pod);
    assert_eq!(cells[1], "0/2");
    assert_eq!(cells[2], "Init:1/3");
    assert_eq!(cells[3], "2 (10s ago)");

    let deleted = json!({"metadata": {"deletionTimestamp": "2020-01-02T03:05:05Z"},
        "spec": spec, "status": {"phase": "Running"}});
    assert_eq!(row("", "Pod", deleted.clone())[2], "Terminating");
    let mut lost = deleted;
    lost["status"]["reason"] = json!("NodeLost");
    assert_eq!(row("", "Pod", lost)[2], "Unknown");
}

#[test]
fn finished_pods_are_marked() {
    let failed = json!({"status": {"phase": "Failed"}});
    let conditions = row_conditions("", "Pod", &failed).expect("a finished pod has conditions");
    assert_eq!(conditions[0]["message"], "The pod failed.");
    assert_eq!(row_conditions("", "Pod", &json!({"status": {"phase": "Running"}})), None);
}
