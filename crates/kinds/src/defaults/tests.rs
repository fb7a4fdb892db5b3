use karmada_apimachinery::{Value, json};
use proptest::prelude::*;

use super::apply;

fn defaulted(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
    apply(group, version, kind, &mut object);
    object
}

fn pod_spec(spec: Value) -> Value {
    defaulted("", "v1", "Pod", json!({"spec": spec}))["spec"].take()
}

#[test]
fn a_minimal_pod_gets_the_usual_settings() {
    let spec = pod_spec(json!({"containers": [{"name": "c", "image": "nginx:1"}]}));
    let expected = json!({
        "containers": [{
            "name": "c", "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(spec, expected);
}

#[test]
fn volumes_probes_and_references_are_completed() {
    let spec = pod_spec(json!({
        "hostNetwork": true,
        "serviceAccount": "robot",
        "containers": [{
            "name": "c",
            "image": "nginx",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 81}, "periodSeconds": 2},
            "resources": {"limits": {"cpu": "1500u"}},
        }],
        "volumes": [
            {"name": "none"},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    }));
    let container = &spec["containers"][0];
    let cases = [
        (&container["imagePullPolicy"], json!("Always")),
        (&container["ports"][0], json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"})),
        (&container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], json!("v1")),
        (
            &container["livenessProbe"],
            json!({
                "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
                "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            }),
        ),
        (&container["readinessProbe"]["periodSeconds"], json!(2)),
        (&container["readinessProbe"]["grpc"]["service"], json!("")),
        (&container["resources"], json!({"limits": {"cpu": "2m"}, "requests": {"cpu": "2m"}})),
        (&spec["serviceAccountName"], json!("robot")),
        (&spec["volumes"][0]["emptyDir"], json!({})),
        (&spec["volumes"][1]["hostPath"]["type"], json!("")),
        (&spec["volumes"][2]["projected"]["defaultMode"], json!(420)),
        (
            &spec["volumes"][2]["projected"]["sources"][0]["serviceAccountToken"],
            json!({"path": "t", "expirationSeconds": 3600}),
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(*found, expected);
    }
}

#[test]
fn a_pod_with_limits_of_its_own_requests_what_its_containers_do() {
    let spec = pod_spec(json!({
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
        "containers": [
            {"name": "a", "image": "a", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "b", "image": "b", "resources": {"requests": {"cpu": "200m"}}},
        ],
    }));
    assert_eq!(spec["resources"]["requests"], json!({"cpu": "300m", "memory": "1Gi"}));
}

/// One row per kind: what is given and the part of the result that must appear.
#[test]
fn each_kind_is_completed() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
    let cases = [
        (
            "apps",
            "Deployment",
            "spec/strategy",
            json!({"spec": {}}),
            json!({
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            }),
        ),
        (
            "apps",
            "Deployment",
            "spec/strategy",
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
            json!({"type": "Recreate"}),
        ),
        (
            "apps",
            "DaemonSet",
            "spec/updateStrategy/rollingUpdate",
            json!({"spec": {}}),
            json!({"maxSurge": 0, "maxUnavailable": 1}),
        ),
        (
            "apps",
            "StatefulSet",
            "spec/updateStrategy",
            json!({"spec": {}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ),
        (
            "apps",
            "StatefulSet",
            "spec/updateStrategy",
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}),
            json!({"type": "RollingUpdate"}),
        ),
        ("apps", "ReplicaSet", "spec/replicas", json!({}), json!(1)),
        (
            "",
            "ReplicationController",
            "spec/selector",
            json!({"spec": {"template": template}}),
            json!({"a": "b"}),
        ),
        (
            "batch",
            "Job",
            "metadata/labels",
            json!({"spec": {"template": template}}),
            json!({"a": "b"}),
        ),
        ("batch", "Job", "spec/completions", json!({"spec": {"parallelism": 2}}), Value::Null),
        (
            "batch",
            "Job",
            "spec/backoffLimit",
            json!({"spec": {"backoffLimitPerIndex": 1}}),
            json!(i32::MAX),
        ),
        ("batch", "CronJob", "spec/successfulJobsHistoryLimit", json!({}), json!(3)),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "spec/behavior/scaleDown/policies",
            json!({"spec": {"behavior": {}}}),
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        ),
        (
            "",
            "Service",
            "spec/ports",
            json!({"spec": {"ports": [{"port": 8}]}}),
            json!([{"port": 8, "protocol": "TCP", "targetPort": 8}]),
        ),
        (
            "",
            "Service",
            "spec/externalTrafficPolicy",
            json!({"spec": {"type": "NodePort"}}),
            json!("Cluster"),
        ),
        (
            "",
            "Service",
            "spec/sessionAffinityConfig",
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
            json!({"clientIP": {"timeoutSeconds": 10800}}),
        ),
        ("", "Secret", "type", json!({}), json!("Opaque")),
        (
            "",
            "Secret",
            "data",
            json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"a": "y"}}),
            json!({"a": "eQ==", "b": "eA=="}),
        ),
        (
            "",
            "Pod",
            "spec/terminationGracePeriodSeconds",
            json!({"spec": {"terminationGracePeriodSeconds": -1}}),
            json!(1),
        ),
        (
            "",
            "Namespace",
            "metadata/labels",
            json!({"metadata": {"name": "n"}}),
            json!({"kubernetes.io/metadata.name": "n"}),
        ),
        (
            "",
            "LimitRange",
            "spec/limits/0/defaultRequest",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
            json!({"cpu": "1"}),
        ),
        ("", "PersistentVolumeClaim", "status/phase", json!({}), json!("Pending")),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            "subjects",
            json!({"subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount"}]}),
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"},
                {"kind": "ServiceAccount"}]),
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            "spec/policyTypes",
            json!({"spec": {"egress": [{}]}}),
            json!(["Ingress", "Egress"]),
        ),
        ("storage.k8s.io", "StorageClass", "volumeBindingMode", json!({}), json!("Immediate")),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
            "webhooks/0",
            json!({"webhooks": [{"clientConfig": {"service": {}}, "rules": [{}]}]}),
            json!({
                "clientConfig": {"service": {"port": 443}}, "failurePolicy": "Fail",
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "reinvocationPolicy": "Never", "rules": [{"scope": "*"}], "timeoutSeconds": 10,
            }),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "spec/names",
            json!({"spec": {"names": {"kind": "Thing"}}}),
            json!({"kind": "Thing", "listKind": "ThingList", "singular": "thing"}),
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "FlowSchema",
            "spec/matchingPrecedence",
            json!({}),
            json!(1000),
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            "ports",
            json!({"ports": [{"port": 1}]}),
            json!([{"name": "", "port": 1, "protocol": "TCP"}]),
        ),
        (
            "resource.k8s.io",
            "ResourceClaim",
            "spec/devices/requests/0/exactly/count",
            json!({"spec": {"devices": {"requests": [{"exactly": {}}]}}}),
            json!(1),
        ),
    ];
    for (group, kind, place, given, expected) in cases {
        let found = defaulted(group, "v2", kind, given);
        let at = found.pointer(&format!("/{place}")).cloned().unwrap_or_default();
        assert_eq!(at, expected, "{kind} {place}");
    }
}

/// Manifests with arbitrary nonsense at the places defaults look at.
fn arbitrary_object() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "metadata",
        "labels",
        "name",
        "spec",
        "status",
        "template",
        "containers",
        "volumes",
        "ports",
        "port",
        "targetPort",
        "resources",
        "limits",
        "requests",
        "cpu",
        "type",
        "strategy",
        "behavior",
        "scaleUp",
        "metrics",
        "replicas",
        "rules",
        "webhooks",
        "jobTemplate",
        "names",
        "kind",
        "versions",
        "storage",
        "devices",
        "exactly",
        "livenessProbe",
        "httpGet",
        "projected",
        "sources",
        "dataSource",
        "sessionAffinity",
        "subjects",
        "roleRef",
        "policyTypes",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..5).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "RollingUpdate", "ClientIP", "100m", "1Gi", "NodePort"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..5).prop_map(|map| {
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn defaulting_twice_changes_nothing_more(object in arbitrary_object()) {
        for (group, kind, _) in super::DEFAULTS {
            let once = defaulted(group, "v2", kind, object.clone());
            let twice = defaulted(group, "v2", kind, once.clone());
            prop_assert_eq!(&once, &twice, "{}", kind);
        }
    }
}

#[test]
fn one_and_the_first_of_many_are_the_same() {
    let node = |spec: Value| {
        let mut node = json!({"spec": spec});
        apply("", "v1", "Node", &mut node);
        node["spec"].clone()
    };
    let both = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]});
    assert_eq!(node(json!({"podCIDR": "10.0.0.0/24"})), both);
    assert_eq!(node(json!({"podCIDRs": ["10.0.0.0/24"]})), both);
    assert_eq!(node(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.1.0.0/24"]})), both);
    let two = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]});
    assert_eq!(node(two.clone()), two);
    let mut pod = json!({"spec": {"containers": []}, "status": {"podIP": "10.0.0.1"}});
    apply("", "v1", "Pod", &mut pod);
    assert_eq!(pod["status"], json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}));
}
