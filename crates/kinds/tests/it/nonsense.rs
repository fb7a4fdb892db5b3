//! Objects that make no sense at all are handled without a panic by every function of every kind.

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_kinds::{
    Resource, admission, convert, defaults, fields, resources, service, strategy, subresource,
    table, warnings,
};
use proptest::prelude::*;

const KEYS: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "kind",
    "apiVersion",
    "spec",
    "status",
    "conditions",
    "type",
    "reason",
    "template",
    "containers",
    "initContainers",
    "volumes",
    "projected",
    "sources",
    "items",
    "path",
    "ports",
    "port",
    "nodePort",
    "containerPort",
    "hostPort",
    "env",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "replicas",
    "selector",
    "matchLabels",
    "matchExpressions",
    "values",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "externalIPs",
    "loadBalancerSourceRanges",
    "podIPs",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "terminated",
    "exitCode",
    "finishedAt",
    "lastState",
    "metrics",
    "currentMetrics",
    "target",
    "behavior",
    "scaleUp",
    "policies",
    "subsets",
    "addresses",
    "endpoints",
    "rules",
    "subjects",
    "stringData",
    "data",
    "tolerations",
    "schedulingGates",
    "affinity",
    "podAffinity",
    "schedule",
    "jobTemplate",
    "completions",
    "parallelism",
    "hard",
    "used",
    "versions",
    "storage",
    "devices",
];

const TEXTS: &[&str] = &[
    "",
    "x",
    "None",
    "True",
    "ExternalName",
    "NodePort",
    "LoadBalancer",
    "Local",
    "RollingUpdate",
    "Running",
    "Failed",
    "100m",
    "1Gi",
    "10.0.0.1",
    "::1",
    "010.1.1.1",
    "10.1.2.3/8",
    "a/b/c",
    "2020-01-02T03:04:05Z",
    "not a time",
    "25%",
    "\u{1f600}",
    "Resource",
    "Pods",
    "kubernetes.io/tls",
];

fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2i64..5).prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(KEYS), inner, 0..6).prop_map(|map| {
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}

/// Nonsense in the shape of an object, so that it reaches the deeper rules.
fn object() -> impl Strategy<Value = Value> {
    (nonsense(), nonsense(), nonsense(), nonsense()).prop_map(
        |(metadata, spec, status, mut rest)| {
            if let Some(map) = rest.as_object_mut() {
                for (key, value) in [("metadata", metadata), ("spec", spec), ("status", status)] {
                    map.insert(key, value);
                }
            }
            rest
        },
    )
}

/// Takes one object through everything a request can do to it.
fn exercise(resource: &Resource, object: &Value, old: &Value, now: Timestamp) {
    let Resource { group, version, kind, .. } = *resource;
    let mut new = object.clone();
    defaults::apply(group, version, kind, &mut new);
    strategy::prepare_create(group, kind, &mut new);
    for sub in ["", "status", "approval", "finalize", "ephemeralcontainers", "resize"] {
        let mut new = object.clone();
        strategy::prepare_update(group, kind, sub, &mut new, old, now);
    }
    table::cells(group, kind, object, now);
    warnings::warnings(group, version, kind, object, Some(old));
    warnings::warnings(group, version, kind, object, None);
    for field in fields::selectable(group, kind) {
        fields::value(group, kind, field, object);
    }
    admission::protect_storage(kind, &mut new);
    admission::default_class(kind, &mut new, std::slice::from_ref(old));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_object_makes_any_kind_panic(object in object(), old in object()) {
        let now = Timestamp::UNIX_EPOCH;
        for resource in resources() {
            exercise(resource, &object, &old, now);
        }
    }

    #[test]
    fn no_object_makes_the_single_purpose_functions_panic(object in object(), old in object()) {
        let now = Timestamp::UNIX_EPOCH;
        for families in [&["IPv4"][..], &["IPv4", "IPv6"], &[]] {
            let mut new = object.clone();
            if let Ok(plan) = service::plan(&mut new, Some(&old), families) {
                let claimed: Vec<_> =
                    plan.addresses.iter().map(|claim| (claim.index, "10.0.0.1".to_owned())).collect();
                service::fill(&mut new, &claimed, &[], None);
            }
            let _ = service::plan(&mut object.clone(), None, families);
        }
        service::release(&object);
        subresource::scale_of(&object);
        subresource::apply_scale(&mut object.clone(), &old);
        let _ = subresource::bind(&mut object.clone(), &old, now);
        let _ = subresource::evict(&object, std::slice::from_ref(&old), now);
        let _ = admission::service_account(&mut object.clone(), Some(&old), "abcde");
        let _ = admission::priority(&mut object.clone(), Some(&old));
        let _ = admission::runtime_class(&mut object.clone(), Some(&old));
        admission::default_tolerations(&mut object.clone());
        admission::taint_new_node(&mut object.clone());
        for (kind, from, group, version) in [
            ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling", "v2"),
            ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling", "v1"),
            ("Event", "v1", "events.k8s.io", "v1"),
            ("Event", "events.k8s.io/v1", "", "v1"),
        ] {
            let mut object = object.clone();
            if let Some(map) = object.as_object_mut() {
                map.insert("kind", kind.into());
                map.insert("apiVersion", from.into());
            }
            convert::convert(&mut object, group, version);
        }
    }
}
