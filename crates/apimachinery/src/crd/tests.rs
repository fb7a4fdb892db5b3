use crate::{Value, json};

use super::*;
use crate::decode::Problems;
use crate::field::{Path, join_errors};
use crate::object::ObjectMutExt;
use crate::schema::{Definitions, Schema};

fn definition(schema: &Value) -> Value {
    let mut definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    apply_defaults(&mut definition);
    prepare_create(&mut definition);
    definition
}

fn refusal(definition: &Value) -> String {
    match validate_create(definition, &NoRules) {
        errors if errors.is_empty() => String::new(),
        errors => join_errors(&errors),
    }
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let root = "spec.validation.openAPIV3Schema";
    for (schema, expected) in [
        (json!({"type": "object"}), String::new()),
        (json!({}), format!("{root}.type: Required value: must not be empty at the root")),
        (
            json!({"type": "array"}),
            format!(
                "[{root}.items: Required value: must be specified, \
                 {root}.type: Invalid value: \"array\": must be object at the root]"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            format!(
                "{root}.properties[a].type: Required value: must not be empty for specified object fields"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}),
            format!("{root}.properties[a].$ref: Forbidden: $ref is not supported"),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "anyOf": [{"type": "object"}]}}}),
            format!(
                "{root}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"
            ),
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]}),
            format!(
                "{root}.properties[b]: Required value: because it is defined in \
                 {root}.anyOf[0].properties[b]"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
            String::new(),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}}),
            format!(
                "{root}.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \
                 \"integer\""
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"x": 1}}}}),
            format!(
                "{root}.properties[a].default: Invalid value: {{\"x\":1}}: must not have unknown fields"
            ),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}),
            format!(
                "{root}.properties[a].items.properties[k].default: Required value: this property is in \
                 x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ),
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object",
                "properties": {"labels": {"type": "object"}}}}}),
            format!(
                "{root}.properties[metadata]: Forbidden: must not specify anything other than name and \
                 generateName, but metadata is implicitly specified"
            ),
        ),
    ] {
        assert_eq!(refusal(&definition(&schema)), expected, "{schema}");
    }
}

#[test]
fn definitions_with_rules_are_accepted() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "too small"}],
        "properties": {"a": {"type": "integer"}}}}});
    assert_eq!(refusal(&definition(&schema)), "");
}

#[test]
fn what_versions_differ_in_is_named_by_version() {
    let mut two = definition(&json!({"type": "object"}));
    two["spec"]["versions"] = json!([
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "string"}}},
    ]);
    assert_eq!(
        refusal(&two),
        "spec.versions[1].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root"
    );
}

#[test]
fn kind_and_scope_are_fixed_once_established() {
    let mut old = definition(&json!({"type": "object"}));
    old.set(&["metadata", "resourceVersion"], "1");
    let mut new = old.clone();
    new.set(&["spec", "names", "kind"], "Other");
    assert!(validate_update(&new, &old, &NoRules).is_empty());
    old.set(&["status", "conditions"], json!([{"type": "Established", "status": "True"}]));
    let errors = validate_update(&new, &old, &NoRules);
    assert_eq!(
        join_errors(&errors),
        "spec.names.kind: Invalid value: \"Other\": field is immutable"
    );
}

#[test]
fn a_name_in_use_keeps_a_definition_from_being_established() {
    let now = "2020-01-02T03:04:05Z".parse().expect("is a time");
    let mut first = definition(&json!({"type": "object"}));
    first["status"] = name_conditions(&first, &[], now);
    assert_eq!(first["status"]["conditions"][1]["reason"], "InitialNamesAccepted");
    assert_eq!(first["status"]["acceptedNames"]["listKind"], "ThingList");
    let mut second = definition(&json!({"type": "object"}));
    second.set(&["spec", "names", "plural"], "others");
    let status = name_conditions(&second, &[&first], now);
    assert_eq!(status["conditions"][0]["message"], "\"ThingList\" is already in use");
    assert_eq!(status["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(status["conditions"][1]["status"], "False");
    assert_eq!(status["acceptedNames"]["plural"], "others");
    assert_eq!(status["acceptedNames"]["kind"], "");
}

fn schema(text: Value) -> Schema {
    Schema::parse(&text).expect("is a schema")
}

#[test]
fn values_are_judged_as_kubernetes_judges_them() {
    let schema = schema(json!({"type": "object", "properties": {
        "str": {"type": "string", "maxLength": 4, "minLength": 2, "pattern": "^[a-z]+$"},
        "int": {"type": "integer", "minimum": 1, "maximum": 10},
        "int32": {"type": "integer", "format": "int32"},
        "num": {"type": "number", "exclusiveMinimum": true, "minimum": 1},
        "half": {"type": "integer", "maximum": 2.5},
        "long": {"type": "integer", "maximum": 9_223_372_036_854_775_000_i64},
        "one": {"type": "string", "maxLength": 1},
        "enum": {"type": "integer", "enum": [1, 2]},
        "any": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "ios": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }}));
    for (value, expected) in [
        (json!({"str": "abc", "int": 2.0, "ios": "5%", "num": 2}), ""),
        (
            json!({"str": 1}),
            "str: Invalid value: \"integer\": str in body must be of type string: \"integer\"",
        ),
        (json!({"str": "abcde"}), "str: Too long: may not be more than 4 bytes"),
        (json!({"str": "AB"}), "str: Invalid value: \"AB\": str in body should match '^[a-z]+$'"),
        (
            json!({"int": 0}),
            "int: Invalid value: 0: int in body should be greater than or equal to 1",
        ),
        (
            json!({"int": 1.5}),
            "[int: Invalid value: \"number\": int in body must be of type integer: \"number\", \
             <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in int]",
        ),
        (
            json!({"int32": 3_000_000_000_i64}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in int32",
        ),
        (
            json!({"half": 3}),
            "[<nil>: Invalid value: \"\": Maximum boundary value must be of type integer (default format) in \
             half, half: Invalid value: 3: half in body should be less than or equal to 2.5]",
        ),
        (
            json!({"long": 3, "half": "x"}),
            "half: Invalid value: \"string\": half in body must be of type integer: \"string\"",
        ),
        (json!({"one": "ab"}), "one: Too long: may not be more than 1 byte"),
        (json!({"num": 1}), "num: Invalid value: 1: num in body should be greater than 1"),
        (json!({"enum": 3}), "enum: Unsupported value: 3: supported values: \"1\", \"2\""),
        (
            json!({"any": {}}),
            "[<nil>: Invalid value: \"\": \"any\" must validate at least one schema (anyOf), \
             any.a: Required value]",
        ),
        (
            json!({"ios": true}),
            "ios: Invalid value: \"boolean\": ios in body must be of type integer,string: \"boolean\"",
        ),
        (json!({"list": ["a", "b"]}), "list: Too many: 2: must have at most 1 item"),
        (
            json!({"when": "soon"}),
            "when: Invalid value: \"soon\": when in body must be of type date-time: \"soon\"",
        ),
        (
            json!({"map": {"k": 1}}),
            "map.k: Invalid value: \"integer\": map.k in body must be of type string: \"integer\"",
        ),
    ] {
        let errors = validate(&value, &schema, &Path::root());
        let text = if errors.is_empty() { String::new() } else { join_errors(&errors) };
        assert_eq!(text, expected, "{value}");
    }
}

#[test]
fn unchanged_values_are_not_held_against_an_update() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 2}, "b": {"type": "string", "enum": ["y"]},
    }}));
    let old = json!({"a": "long", "b": "x"});
    assert!(
        validate_change(&json!({"a": "ok", "b": "x"}), &old, &schema, &Path::root()).is_empty()
    );
    assert_eq!(
        validate_change(&json!({"a": "other", "b": "x"}), &old, &schema, &Path::root()).len(),
        1
    );
}

#[test]
fn objects_with_preserved_fields_are_judged_anew() {
    let schema =
        schema(json!({"type": "object", "properties": {"a": {"type": "object", "minProperties": 5,
        "x-kubernetes-preserve-unknown-fields": true, "properties": {"k": {"type": "string"}}}}}));
    for (object, errors) in
        [(json!({"a": {"k": "x"}}), 0), (json!({"a": {"k": "x", "other": 1}}), 1)]
    {
        assert_eq!(
            validate_change(&object, &object, &schema, &Path::root()).len(),
            errors,
            "{object}"
        );
    }
}

#[test]
fn written_objects_are_pruned_and_defaulted() {
    let metas = Definitions::parse(&json!({"M": {"type": "object", "properties": {
        "name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }}}))
    .expect("is a schema");
    let meta = metas.cursor("M").expect("is defined");
    let schema = schema(
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "x": {"type": "string", "default": "d"},
            "n": {"type": "string", "nullable": true},
            "deep": {"type": "object", "default": {}, "properties": {"y": {"type": "integer", "default": 7}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object"}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
        }}}}),
    );
    let mut object = json!({"kind": "T", "other": 1, "metadata": {"name": "a", "bogus": 1}, "spec": {
        "x": null, "n": null, "gone": null, "free": {"any": {"z": 1}, "known": {"q": 1}},
        "pod": {"kind": "Pod", "metadata": {"name": "p", "bogus": 1}, "spec": {"s": 2.0}},
    }});
    let mut problems = Problems::default();
    shape_written(&mut object, (&schema, true), meta, &mut problems).expect("fits");
    assert_eq!(
        object,
        json!({"kind": "T", "metadata": {"name": "a"}, "spec": {
            "x": "d", "n": null, "deep": {"y": 7}, "free": {"any": {"z": 1}, "known": {}},
            "pod": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"s": 2}},
        }})
    );
    assert_eq!(
        problems.lines(),
        [
            "unknown field \"metadata.bogus\"",
            "unknown field \"other\"",
            "unknown field \"spec.free.known.q\"",
            "unknown field \"spec.gone\"",
            "unknown field \"spec.pod.metadata.bogus\"",
        ]
    );
    let mut bad = json!({"metadata": {"labels": "x"}});
    let error = shape_written(&mut bad, (&schema, true), meta, &mut problems);
    assert!(
        error.is_err_and(
            |text| text.starts_with("json: cannot unmarshal string into Go struct field")
        )
    );
}

/// What a server of Kubernetes 1.36 makes of them.
#[test]
fn nulls_in_resources_inside_are_gone_where_the_schema_mentions_them() {
    let metas = Definitions::parse(&json!({"M": {"type": "object", "properties": {
        "name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }}}))
    .expect("is a schema");
    let meta = metas.cursor("M").expect("is defined");
    let resource = |properties: Value| json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": properties});
    let text = json!({"type": "string"});
    let declared = resource(json!({
        "apiVersion": text, "kind": text, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "d": {"type": "string", "default": "x"}, "n": {"type": "string", "nullable": true}, "m": text,
        }},
    }));
    let nullable = json!({"metadata": {"type": "object", "nullable": true}});
    let schema = schema(json!({"type": "object", "properties": {
        "bare": resource(json!({})), "declared": declared, "nullable": resource(nullable),
        "list": {"type": "array", "items": declared},
        "map": {"type": "object", "additionalProperties": declared},
    }}));
    for (written, expected) in [
        (json!({"bare": {"metadata": null}}), json!({"bare": {"metadata": {}}})),
        (json!({"nullable": {"metadata": null}}), json!({"nullable": {"metadata": {}}})),
        (json!({"declared": {"metadata": null}}), json!({"declared": {}})),
        (
            json!({"declared": {"apiVersion": null, "kind": "K"}}),
            json!({"declared": {"kind": "K"}}),
        ),
        (
            json!({"declared": {"metadata": {"name": null, "labels": {"a": null}}}}),
            json!({"declared": {"metadata": {"labels": {"a": ""}}}}),
        ),
        (
            json!({"declared": {"spec": {"d": null, "n": null, "m": null, "z": null}}}),
            json!({"declared": {"spec": {"d": "x", "n": null}}}),
        ),
        (json!({"list": [{"metadata": null}, null]}), json!({"list": [{}, null]})),
        (json!({"map": {"a": {"metadata": null}, "b": null}}), json!({"map": {"a": {}}})),
    ] {
        let mut object = written.clone();
        shape_written(&mut object, (&schema, true), meta, &mut Problems::default()).expect("fits");
        assert_eq!(object, expected, "{written}");
    }
    let mut refused = json!({"bare": {"apiVersion": null}});
    let error = shape_written(&mut refused, (&schema, true), meta, &mut Problems::default());
    assert_eq!(error, Err("bare.apiVersion: Invalid value: null: must be a string".to_owned()));
}

#[test]
fn sets_and_maps_hold_each_element_once() {
    let schema = schema(json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object"}},
    }}));
    let value = json!({
        "set": ["a", "b", "a", "a"],
        "map": [{"k": 1, "p": "x", "v": 1}, {"k": 1, "p": "y"}, {"k": 1, "p": "x", "v": 2}],
    });
    assert_eq!(
        join_errors(&validate_lists(&value, &schema, &Path::root())),
        r#"[map[2]: Duplicate value: {"k":1,"p":"x"}, set[2]: Duplicate value: "a"]"#
    );
}

#[test]
fn the_status_subresource_splits_writes() {
    let mut crd =
        definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let resource = CustomResource::compile(&crd, "v1").expect("has the version");
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"a": 1}, "status": {"s": 1}});
    resource.prepare_create(&mut object);
    assert_eq!(object, json!({"metadata": {"name": "a", "generation": 1}, "spec": {"a": 1}}));
    let mut status = json!({"metadata": {"name": "b"}, "spec": {"a": 9}, "status": {"s": 1}});
    resource.prepare_status_update(&mut status, &object);
    assert_eq!(
        status,
        json!({"metadata": {"name": "a", "generation": 1}, "spec": {"a": 1}, "status": {"s": 1}})
    );
    let mut changed = json!({"metadata": {"name": "a"}, "spec": {"a": 2}, "status": {"s": 5}});
    resource.prepare_update(&mut changed, &status);
    assert_eq!(
        changed,
        json!({"metadata": {"name": "a", "generation": 2}, "spec": {"a": 2}, "status": {"s": 1}})
    );
}
