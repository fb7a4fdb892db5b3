use karmada_apimachinery::{Value, json};

use super::{check, pod, pod_with};

#[track_caller]
fn core(kind: &str, manifest: Value, expected: &[&str]) {
    check("", kind, manifest, expected);
}

#[test]
fn pods_need_sound_containers() {
    let cases: [(Value, &[&str]); 11] = [
        (pod(json!({})), &[]),
        (json!({"spec": {}}), &["spec.containers: Required value"]),
        (pod_with(json!({"image": ""})), &["spec.containers[0].image: Required value"]),
        (
            pod_with(json!({"image": " a"})),
            &[
                r#"spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace"#,
            ],
        ),
        (
            pod_with(json!({"ports": [{"containerPort": 70000, "name": "x--y"}]})),
            &[
                r#"spec.containers[0].ports[0].name: Invalid value: "x--y": must not contain consecutive hyphens"#,
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            pod_with(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]})),
            &[r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#],
        ),
        (
            pod_with(
                json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]}),
            ),
            &[
                r#"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": error converting fieldPath: field label not supported: spec.nope"#,
            ],
        ),
        (
            pod_with(json!({"readinessProbe": {"httpGet": {"port": 0}, "periodSeconds": -1}})),
            &[
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            pod_with(
                json!({"resources": {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "2"}}}),
            ),
            &[
                r#"spec.containers[0].resources.requests: Invalid value: "2": must be equal to example.com/gpu limit of 1"#,
            ],
        ),
        (
            pod_with(json!({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}})),
            &[
                r#"spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                r#"spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            ],
        ),
        (
            pod_with(json!({"lifecycle": {"postStart": {}}})),
            &[
                "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type",
            ],
        ),
    ];
    for (manifest, expected) in cases {
        core("Pod", manifest, expected);
    }
}

#[test]
fn pod_specs_are_checked_as_a_whole() {
    let cases: [(Value, &[&str]); 10] = [
        (
            pod(
                json!({"initContainers": [{"name": "app", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            ),
            &[
                r#"spec.initContainers[0].name: Duplicate value: "app""#,
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            pod(json!({"ephemeralContainers": [{"name": "e", "image": "i"}]})),
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            pod(json!({"tolerations": [{"operator": "Equal", "tolerationSeconds": 1}]})),
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                r#"spec.tolerations[0].effect: Invalid value: "": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
            ],
        ),
        (
            pod(
                json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": "z", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]}]}}}),
            ),
            &[
                r#"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys"#,
            ],
        ),
        (
            pod(json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
            ]})),
            &[
                r#"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, ScheduleAnyway}""#,
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        (
            pod(json!({"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}})),
            &["spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"],
        ),
        (
            pod(json!({"securityContext": {"runAsUser": -1, "sysctls": [{"name": "UPPER"}]}})),
            &[
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                r#"spec.securityContext.sysctls[0].name: Invalid value: "UPPER": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"#,
            ],
        ),
        (
            pod(json!({"hostUsers": false, "hostPID": true})),
            &["spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
        (
            pod(json!({"dnsConfig": {"nameservers": ["a"], "searches": ["_ok.example", "Bad"]}})),
            &[
                r#"spec.dnsConfig.nameservers[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                r#"spec.dnsConfig.searches[1]: Invalid value: "Bad": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
        (
            pod(
                json!({"resources": {"requests": {"cpu": "1"}}, "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}),
            ),
            &[
                r#"spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2"#,
            ],
        ),
    ];
    for (manifest, expected) in cases {
        core("Pod", manifest, expected);
    }
}

#[test]
fn volumes_have_one_source_with_its_own_rules() {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        pod(json!({"volumes": [volume]}))
    };
    let cases: [(Value, &[&str]); 8] = [
        (volume(json!({"configMap": {"name": "c"}})), &[]),
        (
            volume(json!({"configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}})),
            &[
                r#"spec.volumes[0].configMap.items[0].path: Invalid value: "../x": must not contain '..'"#,
            ],
        ),
        (
            volume(json!({"secret": {"secretName": "s", "defaultMode": 4096}})),
            &[
                "spec.volumes[0].secret.defaultMode: Invalid value: 4096: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            volume(json!({"hostPath": {"path": "/a", "type": "Odd"}})),
            &[
                r#"spec.volumes[0].hostPath.type: Unsupported value: "Odd": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
            ],
        ),
        (
            volume(json!({"nfs": {"server": "s", "path": "a"}})),
            &[r#"spec.volumes[0].nfs.path: Invalid value: "a": must be an absolute path"#],
        ),
        (
            volume(json!({"projected": {"sources": [
                {"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                {"configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]}}
            ]}})),
            &[r#"spec.volumes[0].projected: Invalid value: "b": conflicting duplicate paths"#],
        ),
        (
            volume(json!({"csi": {"driver": "bad_name"}})),
            &[
                r#"spec.volumes[0].csi.driver: Invalid value: "bad_name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
        (
            volume(json!({"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.bad", "lun": 256}})),
            &[
                r#"spec.volumes[0].iscsi.iqn: Invalid value: "iqn.bad": must be valid format"#,
                "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        ),
    ];
    for (manifest, expected) in cases {
        core("Pod", manifest, expected);
    }
}

#[test]
fn services_agree_with_their_type() {
    let service = |mut spec: Value| {
        spec["clusterIP"] = json!("10.0.0.1");
        spec["clusterIPs"] = json!(["10.0.0.1"]);
        json!({"spec": spec})
    };
    let port = json!([{"port": 80}]);
    core("Service", service(json!({"ports": port})), &[]);
    core("Service", service(json!({})), &["spec.ports: Required value"]);
    core(
        "Service",
        service(json!({"ports": port, "ipFamilies": ["IPv6"]})),
        &[
            r#"spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`"#,
        ],
    );
    core(
        "Service",
        service(
            json!({"ports": port, "trafficDistribution": "Near", "externalIPs": ["127.0.0.1"]}),
        ),
        &[
            r#"spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
            r#"spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode""#,
        ],
    );
    core("Service", json!({"spec": {"type": "ExternalName", "externalName": "example.com."}}), &[]);
}

#[test]
fn claims_and_volumes_describe_storage() {
    let claim = |spec: Value| json!({"spec": spec});
    let storage = json!({"requests": {"storage": "1Gi"}});
    core(
        "PersistentVolumeClaim",
        claim(json!({"accessModes": ["ReadWriteOnce"], "resources": storage})),
        &[],
    );
    core(
        "PersistentVolumeClaim",
        claim(json!({})),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    core(
        "PersistentVolume",
        json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "local": {"path": "/a"}
        }}),
        &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    );
    core(
        "PersistentVolume",
        json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"
        }}),
        &[
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ],
    );
}

#[test]
fn data_kinds_limit_keys_sizes_and_types() {
    core("ConfigMap", json!({"data": {"ok.key": "v"}}), &[]);
    let big = "x".repeat(1024 * 1024 + 1);
    core(
        "ConfigMap",
        json!({"data": {"a": big}}),
        &["[]: Too long: may not be more than 1048576 bytes"],
    );
    core(
        "Secret",
        json!({"type": "kubernetes.io/ssh-auth"}),
        &["data[ssh-privatekey]: Required value"],
    );
    core("Secret", json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "e30="}}), &[]);
    core(
        "Secret",
        json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "W10="}}),
        &[
            r#"data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of type map[string]interface {}"#,
        ],
    );
    core("ServiceAccount", json!({}), &[]);
    core("Namespace", json!({}), &[]);
    core(
        "ServiceAccount",
        json!({"metadata": {"finalizers": ["plain"]}}),
        &[
            r#"metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
}

#[test]
fn limits_and_quotas_are_consistent() {
    let range = |limit: Value| json!({"spec": {"limits": [limit]}});
    core("LimitRange", range(json!({"type": "Container", "max": {"cpu": "1"}})), &[]);
    core(
        "LimitRange",
        range(json!({"type": "Pod", "default": {"cpu": "1"}})),
        &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    );
    core(
        "LimitRange",
        range(json!({"type": "PersistentVolumeClaim"})),
        &[
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
        ],
    );
    core("ResourceQuota", json!({"spec": {"hard": {"count/pods": "1", "pods": "2"}}}), &[]);
    core(
        "ResourceQuota",
        json!({"spec": {"hard": {"services": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}}),
        &[
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource"#,
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource"#,
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#,
        ],
    );
}

#[test]
fn nodes_endpoints_and_events_are_checked() {
    core("Node", json!({"spec": {"podCIDRs": ["10.0.0.0/24"]}}), &[]);
    core(
        "Node",
        json!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}}),
        &[
            r#"spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one CIDR for each IP family"#,
        ],
    );
    let subset =
        json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}, {"port": 81}]}]);
    core(
        "Endpoints",
        json!({"subsets": subset}),
        &["subsets[0].ports[0].name: Required value", "subsets[0].ports[1].name: Required value"],
    );
    core("Event", json!({"apiVersion": "v1", "involvedObject": {"namespace": "n"}}), &[]);
    core(
        "Event",
        json!({"apiVersion": "v1", "involvedObject": {"namespace": "other"}}),
        &[r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#],
    );
}
