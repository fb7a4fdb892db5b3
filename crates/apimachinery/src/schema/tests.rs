use crate::json;

use super::*;

fn definitions() -> Definitions {
    Definitions::parse(&json!({
        "Props": {"type": "object", "properties": {
            "not": {"$ref": "#/definitions/Props"},
            "title": {"type": "string"},
        }},
        "Spec": {"type": "object", "properties": {
            "strategy": {"$ref": "Props", "x-kubernetes-patch-strategy": "merge,retainKeys"},
            "ports": {
                "type": "array",
                "items": {"$ref": "Props"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "x-kubernetes-patch-merge-key": "port",
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        }},
        "Ring": {"$ref": "Ring"},
    }))
    .expect("the definitions are well formed")
}

#[test]
fn recursive_references_are_followed_step_by_step() {
    let definitions = definitions();
    let mut cursor = definitions.cursor("Props").expect("is defined");
    for _ in 0..50 {
        cursor = cursor.field("not").expect("the definition refers to itself");
        assert_eq!(cursor.definition(), Some("Props"));
    }
    assert_eq!(cursor.field("title").map(|c| c.schema().kind), Some(Type::String));
    assert!(definitions.cursor("Ring").is_some());
}

#[test]
fn places_keep_what_is_written_beside_a_reference() {
    let definitions = definitions();
    let spec = definitions.cursor("Spec").expect("is defined");
    let strategy = spec.field("strategy").expect("is a property").patch_strategy();
    assert_eq!(strategy, PatchStrategy { merge: true, retain_keys: true });
    let ports = spec.field("ports").expect("is a property");
    assert_eq!(ports.list_type(), ListType::Map(&["port".to_owned(), "protocol".to_owned()]));
    assert_eq!(ports.patch_merge_key(), Some("port"));
    let labels = spec.field("labels").expect("is a property");
    assert_eq!(labels.map_type(), MapType::Atomic);
    assert_eq!(labels.field("any").map(|c| c.schema().kind), Some(Type::String));
}

#[test]
fn parsing_and_writing_keeps_every_keyword() {
    let text = json!({
        "type": "object",
        "description": "d",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 1, "maximum": 2.5, "exclusiveMaximum": true, "default": 1},
            "b": {"type": "string", "pattern": "^x$", "enum": ["x"], "nullable": true, "maxLength": 3},
            "c": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "d": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 4},
            "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "not": {"required": ["z"]}},
            "f": {"type": "object", "additionalProperties": false},
        },
    });
    assert_eq!(Schema::parse(&text).expect("is well formed").to_openapi(""), text);
}

#[test]
fn hostile_schemas_are_refused() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    assert_eq!(Schema::parse(&deep), Err(ParseError::TooDeep));
    assert_eq!(Schema::parse(&json!([])), Err(ParseError::NotAnObject));
}
