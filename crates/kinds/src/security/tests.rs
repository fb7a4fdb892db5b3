//! Pods and namespaces beside what Kubernetes says about them.

use karmada_apimachinery::{Value, json};

use super::{Level, Standard, Standards, details, existing_pods, violations};

fn standard(level: Level) -> Standard {
    Standard { level, minor: None }
}

/// A pod that keeps every rule, with changes.
fn pod(spec: Value, container: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "app", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    }});
    merge(&mut pod["spec"], spec);
    merge(&mut pod["spec"]["containers"][0], container);
    pod
}

fn merge(into: &mut Value, from: Value) {
    match from {
        Value::Object(fields) => {
            for (key, value) in fields {
                merge(&mut into[key.as_str()], value);
            }
        }
        other => *into = other,
    }
}

#[track_caller]
fn check(level: Level, pod: &Value, expected: &str) {
    assert_eq!(details(&violations(standard(level), pod)), expected, "{pod}");
}

#[test]
fn a_pod_that_keeps_every_rule_breaks_none() {
    check(Level::Restricted, &pod(json!({}), json!({})), "");
}

#[test]
fn a_plain_pod_is_told_everything_it_lacks() {
    let plain = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    check(Level::Baseline, &plain, "");
    check(
        Level::Restricted,
        &plain,
        "allowPrivilegeEscalation != false (containers \"a\", \"b\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (containers \"a\", \"b\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or containers \"a\", \"b\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or containers \"a\", \"b\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
    );
}

#[test]
fn every_rule_of_the_baseline_is_told() {
    let with = |spec: Value, container: Value| pod(spec, container);
    let none = || json!({});
    for (pod, expected) in [
        (
            with(json!({"hostNetwork": true, "hostIPC": true}), none()),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            with(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), none()),
            "hostPath volumes (volume \"v\")",
        ),
        (
            with(none(), json!({"ports": [{"hostPort": 80}, {"hostPort": 443}]})),
            "hostPort (container \"app\" uses hostPorts 443, 80)",
        ),
        (
            with(none(), json!({"livenessProbe": {"httpGet": {"host": "h"}}})),
            "probe or lifecycle host (container \"app\" uses probe or lifecycle host \"h\")",
        ),
        (
            with(none(), json!({"securityContext": {"privileged": true}})),
            "privileged (container \"app\" must not set securityContext.privileged=true)",
        ),
        (
            with(none(), json!({"securityContext": {"procMount": "Unmasked"}})),
            "procMount (container \"app\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            with(
                json!({"securityContext": {"seLinuxOptions": {"type": "t", "user": "u"}}}),
                none(),
            ),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be set)",
        ),
        (
            with(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), none()),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            with(
                json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}}),
                none(),
            ),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            with(
                none(),
                json!({"securityContext": {"capabilities": {"add": ["NET_RAW", "CHOWN"]}}}),
            ),
            "non-default capabilities (container \"app\" must not include \"NET_RAW\" in securityContext.capabilities.add)",
        ),
        (
            with(json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), none()),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            with(
                json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
                json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
            ),
            "forbidden AppArmor profile (pod and container \"app\" must not set AppArmor profile type to \"Unconfined\")",
        ),
    ] {
        check(Level::Baseline, &pod, expected);
    }
}

#[test]
fn stricter_rules_stand_for_milder_ones() {
    let adding = pod(json!({}), json!({"securityContext": {"capabilities": {"add": ["CHOWN"]}}}));
    check(Level::Baseline, &adding, "");
    check(
        Level::Restricted,
        &adding,
        "unrestricted capabilities (container \"app\" must not include \"CHOWN\" in securityContext.capabilities.add)",
    );
    let mounting = pod(json!({"volumes": [{"name": "v", "hostPath": {}}]}), json!({}));
    check(
        Level::Restricted,
        &mounting,
        "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")",
    );
    let root = pod(json!({"securityContext": {"runAsUser": 0}}), json!({}));
    check(Level::Restricted, &root, "runAsUser=0 (pod must not set runAsUser=0)");
}

#[test]
fn users_of_their_own_and_older_versions_are_judged_otherwise() {
    let own = pod(
        json!({"hostUsers": false, "securityContext": {"runAsUser": 0, "runAsNonRoot": false}}),
        json!({}),
    );
    check(Level::Restricted, &own, "");
    let older = Standard { level: Level::Restricted, minor: Some(34) };
    assert_eq!(
        details(&violations(older, &own)),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), \
         runAsUser=0 (pod must not set runAsUser=0)"
    );
    let annotated = json!({"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}});
    let oldest = Standard { level: Level::Baseline, minor: Some(18) };
    assert_eq!(
        details(&violations(oldest, &annotated)),
        "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let mut namespace = json!({"metadata": {"name": "n", "labels": {}}});
    for (name, value) in labels {
        namespace["metadata"]["labels"][format!("pod-security.kubernetes.io/{name}")] =
            (*value).into();
    }
    namespace
}

#[test]
fn warnings_follow_what_is_enforced_unless_labels_say_otherwise() {
    let told = |labels: &[(&str, &str)]| {
        let (standards, errors) = Standards::of(&namespace(labels));
        assert!(errors.is_empty(), "{errors:?}");
        [standards.enforce, standards.audit, standards.warn].map(|s| s.to_string()).join(" ")
    };
    assert_eq!(told(&[]), "privileged:latest privileged:latest privileged:latest");
    assert_eq!(
        told(&[("enforce", "baseline"), ("enforce-version", "v1.30")]),
        "baseline:v1.30 privileged:latest baseline:v1.30"
    );
    assert_eq!(
        told(&[("enforce", "restricted"), ("warn", "baseline"), ("audit", "baseline")]),
        "restricted:latest baseline:latest baseline:latest"
    );
}

#[test]
fn labels_that_cannot_be_read_are_errors_and_nothing_gets_laxer() {
    let (standards, errors) = Standards::of(&namespace(&[
        ("enforce", "soft"),
        ("warn", "x"),
        ("audit-version", "v1.07"),
    ]));
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"soft\": must be one of privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.07\": must be \"latest\" or \"v1.x\"",
            "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"x\": must be one of privileged, baseline, restricted",
        ]
    );
    assert_eq!(standards.enforce.level, Level::Restricted);
    assert_eq!(standards.warn.level, Level::Privileged);
}

#[test]
fn pods_that_break_the_same_rules_are_told_together() {
    let named = |name: &str, spec: Value| {
        let mut pod = pod(spec, json!({}));
        pod["metadata"]["name"] = name.into();
        pod
    };
    let pods = [
        named("c", json!({"hostPID": true})),
        named("a", json!({"hostNetwork": true})),
        named("b", json!({"volumes": [{"name": "v", "hostPath": {}}]})),
        named("fine", json!({})),
    ];
    let pods: Vec<&Value> = pods.iter().collect();
    assert_eq!(
        existing_pods("n", standard(Level::Baseline), &pods),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): host namespaces",
            "b: hostPath volumes",
        ]
    );
}
