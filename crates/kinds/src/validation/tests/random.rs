use karmada_apimachinery::{Map, Value, json};
use proptest::prelude::*;

use super::super::{RULES, validate_create, validate_delete_options, validate_update};

/// Field names that lead deep into the checks, so that random trees do not stop at the surface.
const FIELDS: [&str; 40] = [
    "metadata",
    "name",
    "labels",
    "spec",
    "status",
    "template",
    "containers",
    "initContainers",
    "volumes",
    "volumeMounts",
    "env",
    "valueFrom",
    "ports",
    "port",
    "resources",
    "limits",
    "requests",
    "cpu",
    "selector",
    "matchLabels",
    "matchExpressions",
    "operator",
    "values",
    "rules",
    "metrics",
    "type",
    "conditions",
    "devices",
    "webhooks",
    "data",
    "subjects",
    "clusterIPs",
    "schedule",
    "jobTemplate",
    "affinity",
    "securityContext",
    "hostPath",
    "projected",
    "limited",
    "cidrs",
];

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("In"),
            Just("-1"),
            Just("5%"),
            Just("é-"),
            Just("a/"),
            Just("1-2-"),
            Just("*")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let key = prop_oneof![
            4 => prop::sample::select(&FIELDS[..]).prop_map(str::to_owned),
            1 => "\\PC{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_object_however_odd_makes_a_check_panic(new in tree(), old in tree()) {
        for rule in RULES {
            validate_create(rule.group, rule.kind, &new);
            validate_create(rule.group, rule.kind, &json!({"spec": new, "metadata": old}));
            for subresource in ["", "status", "approval", "ephemeralcontainers", "resize", "finalize"] {
                validate_update(rule.group, rule.kind, subresource, &new, &old);
            }
        }
        validate_delete_options(&new);
    }
}
