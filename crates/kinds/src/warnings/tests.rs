use karmada_apimachinery::{Value, json};

use super::*;

fn created(group: &str, kind: &str, object: Value) -> Vec<String> {
    warnings(group, "v1", kind, &object, None)
}

#[test]
fn pods_are_warned_about_settings_without_effect() {
    let pod = json!({
        "metadata": {"name": "a.b", "annotations": {"security.alpha.kubernetes.io/sysctls": "x"}},
        "spec": {
            "nodeSelector": {"beta.kubernetes.io/os": "linux"},
            "topologySpreadConstraints": [{"topologyKey": "zone"}],
            "volumes": [
                {"name": "v", "gitRepo": {}},
                {"name": "w", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}]}},
            ],
            "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
            "containers": [
                {
                    "name": "c",
                    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"},
                        {"name": "A", "value": "$(A)3"}],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"memory": "1500m"}},
                },
                {"name": "d", "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 8080}]},
            ],
        },
    });
    let expected = [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [",
        "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        "metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the \"sysctls\" field instead",
        "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "volume \"w\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
        "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
        "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
        "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
    ];
    let found = created("", "Pod", pod.clone());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert!(warnings("", "v1", "Pod", &pod, Some(&pod)).is_empty());
}

#[test]
fn templates_are_looked_at_when_the_wanted_state_changes() {
    let deployment = json!({
        "metadata": {"name": "d", "generation": 1},
        "spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}},
    });
    let warning = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
    assert_eq!(created("apps", "Deployment", deployment.clone()), [warning]);
    assert!(warnings("apps", "v1", "Deployment", &deployment, Some(&deployment)).is_empty());
    let mut changed = deployment.clone();
    changed["metadata"]["generation"] = json!(2);
    assert_eq!(warnings("apps", "v1", "Deployment", &changed, Some(&deployment)), [warning]);
}

#[test]
fn odd_addresses_and_ranges_are_corrected() {
    let service = |field: &str, value: Value| json!({"spec": {"type": "ClusterIP", field: value, "clusterIP": "10.0.0.1"}});
    let cases = [
        (
            service("loadBalancerIP", json!("010.0.0.1")),
            "spec.loadBalancerIP: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
        ),
        (
            service("loadBalancerIP", json!("::ffff:1.2.3.4")),
            "spec.loadBalancerIP: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"",
        ),
        (
            service("loadBalancerIP", json!("2001:DB8::1")),
            "spec.loadBalancerIP: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        ),
        (
            service("loadBalancerSourceRanges", json!(["10.1.2.3/8"])),
            "spec.loadBalancerSourceRanges[0]: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)",
        ),
        (
            service("externalName", json!("x")),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            service("externalIPs", json!(["192.0.2.1"])),
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
    ];
    for (service, expected) in cases {
        assert_eq!(created("", "Service", service), [expected]);
    }
    for fine in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32"] {
        let service = service("loadBalancerSourceRanges", json!([fine]));
        assert!(created("", "Service", service).is_empty(), "{fine}");
    }
}

#[test]
fn other_kinds_earn_their_warnings() {
    let cases = [
        (
            "networking.k8s.io",
            "Ingress",
            json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}}),
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
        ),
        (
            "storage.k8s.io",
            "CSIDriver",
            json!({"spec": {"tokenRequests": [{"audience": "a"}]}}),
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes",
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"storageos": {}}}),
            "spec.storageOS: deprecated in v1.22, non-functional in v1.25+",
        ),
        (
            "",
            "Secret",
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            "",
            "ResourceQuota",
            json!({"spec": {"hard": {"cpu": "3", "limits.cpu": "2"}}}),
            "ResourceQuota cpu (3) should be less than limits.cpu (2)",
        ),
    ];
    for (group, kind, object, expected) in cases {
        assert_eq!(created(group, kind, object), [expected], "{kind}");
    }
    assert!(deprecation("", "v1", "Endpoints").is_some());
    assert!(on_delete("batch", "Job").is_some());
    assert!(on_delete("batch", "CronJob").is_none());
}
