use karmada_apimachinery::{Value, json};

use super::check;

#[test]
fn ingresses_route_to_one_backend() {
    let group = "networking.k8s.io";
    let ingress = |backend: Value| json!({"spec": {"defaultBackend": backend}});
    check(
        group,
        "Ingress",
        ingress(json!({"service": {"name": "s", "port": {"number": 80}}})),
        &[],
    );
    check(
        group,
        "Ingress",
        ingress(json!({"resource": {"kind": "", "name": "n"}})),
        &["spec.defaultBackend.resource.kind: Required value"],
    );
    let path = json!({"path": "a//b", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"name": "http"}}}});
    check(
        group,
        "Ingress",
        json!({"spec": {"rules": [{"host": "1.2.3.4", "http": {"paths": [path]}}]}}),
        &[
            r#"spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
            r#"spec.rules[0].http.paths[0].path: Invalid value: "a//b": must be an absolute path"#,
            r#"spec.rules[0].http.paths[0].path: Invalid value: "a//b": must not contain '//'"#,
        ],
    );
    check(
        group,
        "IngressClass",
        json!({"spec": {"controller": "nodomain"}}),
        &[
            r#"spec.controller: Invalid value: "nodomain": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ],
    );
}

#[test]
fn network_policies_name_peers_and_blocks() {
    let policy = |peer: Value| json!({"spec": {"podSelector": {}, "ingress": [{"from": [peer]}]}});
    let group = "networking.k8s.io";
    check(group, "NetworkPolicy", policy(json!({"podSelector": {}})), &[]);
    check(
        group,
        "NetworkPolicy",
        policy(json!({})),
        &["spec.ingress[0].from[0]: Required value: must specify a peer"],
    );
    check(
        group,
        "NetworkPolicy",
        policy(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
        &[
            r#"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
        ],
    );
    check(group, "ServiceCIDR", json!({"spec": {"cidrs": ["10.0.0.0/16"]}}), &[]);
    let parent = json!({"resource": "services", "name": "s", "namespace": "n"});
    check(
        group,
        "IPAddress",
        json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}}),
        &[],
    );
}

#[test]
fn endpoint_slices_hold_addresses_of_one_family() {
    let slice = |family: &str, address: &str| json!({"addressType": family, "endpoints": [{"addresses": [address]}]});
    let group = "discovery.k8s.io";
    check(group, "EndpointSlice", slice("IPv4", "10.0.0.1"), &[]);
    check(group, "EndpointSlice", slice("FQDN", "a.example.com"), &[]);
    check(
        group,
        "EndpointSlice",
        slice("IPv4", "2001:db8::1"),
        &[r#"endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address"#],
    );
    check(
        group,
        "EndpointSlice",
        slice("FQDN", "single"),
        &[
            r#"endpoints[0].addresses[0]: Invalid value: "single": should be a domain with at least two segments separated by dots"#,
        ],
    );
}

#[test]
fn roles_and_bindings_follow_their_scope() {
    let group = "rbac.authorization.k8s.io";
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    check(group, "Role", json!({"rules": [rule]}), &[]);
    check(
        group,
        "ClusterRole",
        json!({"rules": [{"verbs": [], "nonResourceURLs": ["/a"], "resources": ["pods"]}]}),
        &[
            "rules[0].verbs: Required value: verbs must contain at least one value",
            r#"rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs"#,
        ],
    );
    let binding = |subject: Value| json!({"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"}, "subjects": [subject]});
    check(group, "RoleBinding", binding(json!({"kind": "ServiceAccount", "name": "s"})), &[]);
    check(
        group,
        "ClusterRoleBinding",
        binding(json!({"kind": "ServiceAccount", "name": "s"})),
        &["subjects[0].namespace: Required value"],
    );
}

#[test]
fn storage_kinds_are_checked() {
    let group = "storage.k8s.io";
    check(group, "StorageClass", json!({"provisioner": "p"}), &[]);
    check(group, "CSIDriver", json!({"spec": {}}), &[]);
    check(
        group,
        "CSIDriver",
        json!({"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}]}}),
        &[
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
            r#"spec.tokenRequests[1].audience: Duplicate value: "a""#,
        ],
    );
    check(
        group,
        "CSINode",
        json!({"spec": {"drivers": [{"name": "d", "nodeID": ""}]}}),
        &["spec.drivers[0].nodeID: Required value"],
    );
    check(
        group,
        "VolumeAttachment",
        json!({"spec": {"attacher": "a", "nodeName": "n", "source": {}}}),
        &[
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ],
    );
    check(
        group,
        "VolumeAttributesClass",
        json!({"driverName": "d"}),
        &["parameters: Required value: must contain at least one key/value pair"],
    );
    check(group, "CSIStorageCapacity", json!({"storageClassName": "s"}), &[]);
}

#[test]
fn cluster_wide_classes_are_checked() {
    check("scheduling.k8s.io", "PriorityClass", json!({"value": 1000}), &[]);
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1_000_000_001}),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
    check("node.k8s.io", "RuntimeClass", json!({"handler": "h"}), &[]);
    check("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "a"}}), &[]);
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseDurationSeconds": 0}}),
        &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    );
    check("policy", "PodDisruptionBudget", json!({"spec": {"minAvailable": "50%"}}), &[]);
    check(
        "policy",
        "PodDisruptionBudget",
        json!({"metadata": {"name": "a/b"}, "spec": {}}),
        &[r#"metadata.name: Invalid value: "a/b": may not contain '/'"#],
    );
}

#[test]
fn flow_control_is_checked() {
    let group = "flowcontrol.apiserver.k8s.io";
    let limited = |response: Value| json!({"spec": {"type": "Limited", "limited": {"limitResponse": response}}});
    check(group, "PriorityLevelConfiguration", limited(json!({"type": "Reject"})), &[]);
    check(
        group,
        "PriorityLevelConfiguration",
        limited(
            json!({"type": "Queue", "queuing": {"queues": 1_000_000, "handSize": 9, "queueLengthLimit": 0}}),
        ),
        &[
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 1000000 and handSize 9 should not be greater than 60",
        ],
    );
    let subject = json!({"kind": "User", "user": {"name": "u"}, "group": {"name": "g"}});
    check(
        group,
        "FlowSchema",
        json!({"spec": {
            "priorityLevelConfiguration": {"name": "p"},
            "matchingPrecedence": 1,
            "rules": [{"subjects": [subject], "nonResourceRules": [{"verbs": ["fly"], "nonResourceURLs": ["x"]}]}]
        }}),
        &[
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            r#"spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["fly"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch""#,
            r#"spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "x": must start with slash"#,
        ],
    );
}

#[test]
fn webhooks_are_reachable_and_free_of_side_effects() {
    let group = "admissionregistration.k8s.io";
    let hook = |client: Value| {
        json!({"webhooks": [{
            "name": "a.example.com", "clientConfig": client,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "*"]}]
        }]})
    };
    let service = json!({"service": {"namespace": "n", "name": "s", "path": "/a//b"}});
    let resources = r#"webhooks[0].rules[0].resources: Invalid value: ["pods","*"]: if '*' is present, must not specify other resources without subresources"#;
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        check(group, kind, hook(json!({"url": "https://host/path"})), &[]);
        check(
            group,
            kind,
            hook(service.clone()),
            &[
                r#"webhooks[0].clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty"#,
            ],
        );
    }
    let mut reversed = hook(json!({"url": "https://host"}));
    reversed["webhooks"][0]["rules"][0]["resources"] = json!(["*", "pods"]);
    let expected = resources.replace(r#"["pods","*"]"#, r#"["*","pods"]"#);
    check(group, "ValidatingWebhookConfiguration", reversed, &[expected.as_str()]);
}

#[test]
fn admission_policies_say_what_they_match() {
    let group = "admissionregistration.k8s.io";
    let constraints = json!({"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]});
    check(
        group,
        "ValidatingAdmissionPolicy",
        json!({"spec": {"matchConstraints": constraints, "validations": [{"expression": "true"}]}}),
        &[],
    );
    check(
        group,
        "ValidatingAdmissionPolicy",
        json!({"spec": {
            "matchConstraints": constraints,
            "paramKind": {"apiVersion": "v1", "kind": ""},
            "variables": [{"name": "in", "expression": " "}],
            "validations": [{"expression": "", "message": " "}]
        }}),
        &[
            "spec.paramKind.kind: Required value",
            r#"spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier"#,
            "spec.variables[0].expression: Required value: expression is not specified",
            "spec.validations[0].expression: Required value: expression is not specified",
            r#"spec.validations[0].message: Invalid value: " ": must be non-empty if specified"#,
        ],
    );
    let mutation = json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}});
    check(
        group,
        "MutatingAdmissionPolicy",
        json!({"spec": {"matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "Never"}}),
        &[
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            r#"spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch"#,
        ],
    );
    check(
        group,
        "MutatingAdmissionPolicyBinding",
        json!({"spec": {"policyName": "p", "paramRef": {"parameterNotFoundAction": "Deny"}}}),
        &["spec.paramRef: Required value: one of name or selector must be specified"],
    );
}

#[test]
fn api_services_and_signing_requests_are_checked() {
    check(
        "apiregistration.k8s.io",
        "APIService",
        json!({"metadata": {"name": "v1.g.example.com"}, "spec": {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "insecureSkipTLSVerify": true}}),
        &[
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ],
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({"spec": {"request": "e30=", "signerName": "x/y", "usages": ["any", "any"]}}),
        &[
            r#"spec.request: Invalid value: "e30=": PEM block type must be CERTIFICATE REQUEST"#,
            r#"spec.usages[1]: Duplicate value: "any""#,
            r#"spec.signerName: Invalid value: "x": should be a domain with at least two segments separated by dots"#,
        ],
    );
}

#[test]
fn devices_are_requested_and_offered() {
    let group = "resource.k8s.io";
    let claim = |request: Value| json!({"spec": {"devices": {"requests": [request]}}});
    let exactly = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
    check(group, "ResourceClaim", claim(json!({"name": "r", "exactly": exactly})), &[]);
    check(
        group,
        "ResourceClaim",
        json!({"spec": {"devices": {
            "requests": [{"name": "r", "exactly": exactly}],
            "constraints": [{"requests": ["q"], "matchAttribute": "plain"}]
        }}}),
        &[
            r#"spec.devices.constraints[0].requests[0]: Invalid value: "q": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
            r#"spec.devices.constraints[0].matchAttribute: Invalid value: "plain": a fully qualified name must be a domain and a name separated by a slash"#,
        ],
    );
    let slice = |device: Value| json!({"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [device]}});
    let attributes = json!({"model": {"string": "x"}});
    check(group, "ResourceSlice", slice(json!({"name": "d", "attributes": attributes})), &[]);
    check(
        group,
        "ResourceSlice",
        slice(json!({"name": "d", "attributes": {"v": {"version": "1.0"}}})),
        &[
            r#"spec.devices[0].attributes[v].version: Invalid value: "1.0": must be a string compatible with semver.org spec 2.0.0"#,
        ],
    );
    check(
        group,
        "DeviceClass",
        json!({"spec": {"config": [{}], "extendedResourceName": "gpu"}}),
        &[
            "spec.config[0].opaque: Required value",
            r#"spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name"#,
        ],
    );
}

#[test]
fn reviews_ask_about_one_thing() {
    let group = "authorization.k8s.io";
    check_review(
        group,
        "SubjectAccessReview",
        json!({"spec": {}}),
        &[
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            r#"spec.user: Invalid value: "": at least one of user or group must be specified"#,
        ],
    );
    check_review(
        group,
        "LocalSubjectAccessReview",
        json!({"metadata": {"namespace": "n"}, "spec": {"user": "u", "resourceAttributes": {"namespace": "m"}}}),
        &[
            r#"spec.resourceAttributes.namespace: Invalid value: "m": must match metadata.namespace"#,
        ],
    );
    check_review(
        "authentication.k8s.io",
        "TokenRequest",
        json!({"spec": {"expirationSeconds": 1}}),
        &[
            "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        ],
    );
    check_review(
        "",
        "Binding",
        json!({"target": {"kind": "Moon"}}),
        &[
            r#"target.kind: Unsupported value: "Moon": supported values: "Node", "<empty>""#,
            "target.name: Required value",
        ],
    );
}

#[track_caller]
fn check_review(group: &str, kind: &str, object: Value, expected: &[&str]) {
    let errors: Vec<String> =
        super::validate_create(group, kind, &object).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected);
}

#[test]
fn events_are_judged_by_their_group_in_either_form() {
    let expected = [
        r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#,
        "eventTime: Required value",
        r#"type: Invalid value: "": has invalid value: "#,
        r#"count: Invalid value: "": needs to be unset"#,
    ];
    let group = "events.k8s.io";
    for event in [
        json!({"apiVersion": "events.k8s.io/v1", "regarding": {"namespace": "other"}, "deprecatedCount": 1}),
        json!({"apiVersion": "v1", "involvedObject": {"namespace": "other"}, "count": 1}),
    ] {
        check(group, "Event", event, &expected);
    }
}
