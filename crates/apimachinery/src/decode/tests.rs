use crate::{Value, json};

use super::*;
use crate::schema::Definitions;

const DEFINITIONS: &str = r##"{
  "io.k8s.api.apps.v1.Deployment": {"type": "object", "properties": {
    "apiVersion": {"type": "string"},
    "metadata": {"$ref": "io.k8s.api.apps.v1.Meta"},
    "spec": {"$ref": "io.k8s.api.apps.v1.DeploymentSpec"},
    "data": {"type": "object", "additionalProperties": {"type": "string"}},
    "raw": {"$ref": "io.k8s.apimachinery.pkg.runtime.RawExtension"}}},
  "io.k8s.api.apps.v1.Meta": {"type": "object", "properties": {
    "name": {"type": "string"},
    "created": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.Time", "x-presence": "omitzero"}}},
  "io.k8s.api.apps.v1.DeploymentSpec": {"type": "object", "properties": {
    "replicas": {"type": "integer", "format": "int32", "x-presence": "pointer"},
    "paused": {"type": "boolean"},
    "key": {"type": "string", "format": "byte"},
    "since": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
    "memory": {"$ref": "io.k8s.apimachinery.pkg.api.resource.Quantity", "x-presence": "pointer"},
    "containers": {"type": "array", "x-presence": "always",
      "items": {"$ref": "io.k8s.api.apps.v1.Container"}}}},
  "io.k8s.api.apps.v1.Container": {"type": "object", "properties": {
    "name": {"type": "string", "x-presence": "always"},
    "image": {"type": "string"}}},
  "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
  "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
  "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"}
}"##;

fn definitions() -> Definitions {
    Definitions::parse(&serde_json::from_str(DEFINITIONS).expect("is JSON")).expect("is a schema")
}

pub(super) fn with_deployment<T>(run: impl FnOnce(crate::schema::Cursor<'_>) -> T) -> T {
    let definitions = definitions();
    run(definitions.cursor("io.k8s.api.apps.v1.Deployment").expect("is defined"))
}

#[test]
fn problems_are_listed_in_the_order_of_the_text() {
    let text = br#"{"spec":{"foo":"bar","replicas":1,"replicas":2,"containers":[{"name":"a","imgae":"c"}]},
        "data":{"a":"1"},"data":{"b":"2"},"raw":{"x":1,"x":2},"odd":1,"odd":2}"#;
    let decoded = with_deployment(|schema| json(text, schema)).expect("is JSON");
    assert_eq!(
        decoded.problems.strict_error(),
        "strict decoding error: unknown field \"spec.foo\", duplicate field \"spec.replicas\", \
         unknown field \"spec.containers[0].imgae\", duplicate field \"data\", unknown field \"odd\""
    );
    // Go reads both texts into one map, and the later number over the earlier.
    assert_eq!(decoded.value["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(decoded.value["spec"]["replicas"], 2);
}

#[test]
fn without_a_schema_the_last_of_equal_fields_wins() {
    let decoded =
        json_untyped(br#"[{"op":"add","value":{"a":1},"value":{"b":2}}]"#).expect("is JSON");
    assert_eq!(decoded.value, json!([{"op": "add", "value": {"b": 2}}]));
    assert_eq!(decoded.problems.lines(), ["duplicate field \"[0].value\""]);
}

#[test]
fn broken_text_is_refused_in_go_words() {
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
    ] {
        assert_eq!(json_untyped(text.as_bytes()), Err(SyntaxError(expected.into())), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(json_untyped(deep.as_bytes()), Err(SyntaxError("exceeded max depth".into())));
}

#[test]
fn whole_and_broken_numbers_stay_apart() {
    let decoded =
        json_untyped(b"[1, 1.0, 9223372036854775807, 9223372036854775808]").expect("is JSON");
    let items = decoded.value.as_array().cloned().unwrap_or_default();
    let whole: Vec<bool> = items.iter().map(Value::is_i64).collect();
    assert_eq!(whole, [true, false, true, false]);
}

#[test]
fn normalising_writes_what_go_would_write() {
    for (given, expected) in [
        (
            json!({}),
            json!({"metadata": {}, "spec": {"since": null, "containers": null}, "raw": null}),
        ),
        (
            json!({
                "apiVersion": "", "other": 1, "data": {}, "raw": {"z": null},
                "metadata": {"name": null, "created": null},
                "spec": {
                    "replicas": 0, "paused": false, "key": "YQ==", "memory": "1024Mi",
                    "since": "2020-01-02T03:04:05.5+01:00", "containers": [{"image": ""}, null],
                },
            }),
            json!({
                "raw": {"z": null}, "metadata": {},
                "spec": {
                    "replicas": 0, "key": "YQ==", "memory": "1Gi", "since": "2020-01-02T02:04:05Z",
                    "containers": [{"name": ""}, {"name": ""}],
                },
            }),
        ),
    ] {
        let normal = with_deployment(|schema| normalise(given, schema)).expect("fits");
        assert_eq!(normal, expected);
        let again = with_deployment(|schema| normalise(normal, schema));
        assert_eq!(again, Ok(expected), "normal objects stay as they are");
    }
}

#[test]
fn values_of_a_wrong_type_are_refused_in_go_words() {
    for (given, expected) in [
        (
            json!({"spec": {"replicas": 2.0}}),
            "json: cannot unmarshal number 2.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 99_999_999_999_i64}}),
            "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"containers": [{"name": 5}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            json!({"data": "x"}),
            "json: cannot unmarshal string into Go struct field Deployment.data of type map[string]string",
        ),
        (json!([]), "json: cannot unmarshal array into Go value of type v1.Deployment"),
        (json!({"spec": {"key": "a b"}}), "illegal base64 data at input byte 1"),
    ] {
        let error = with_deployment(|schema| normalise(given, schema)).expect_err("does not fit");
        assert_eq!(error.to_string(), expected);
    }
}

/// Generators of definitions break long quoted texts so.
#[test]
fn a_quoted_text_goes_on_level_with_its_key() {
    let text = "a:\n  b: 'one\n  two\n\n  three: x'\n  c: \"four\n five\"\n  d:\n  - 'six\n  seven'\ne: 1\n";
    let expected = json!({
        "a": {"b": "one two\nthree: x", "c": "four five", "d": ["six seven"]}, "e": 1,
    });
    assert_eq!(yaml_untyped(text.as_bytes()).expect("is YAML").value, expected);
    assert!(yaml_untyped(b"a: 'one\nb: two\n").is_err());
    // However many such lines there are, it ends.
    let endless = format!("a:\n  b: '{}", "\n  x".repeat(300));
    assert!(yaml_untyped(endless.as_bytes()).is_err());
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    let text = b"spec:\n  replicas: 2\n  on: off\n  1: a\n  foo: 0x10\n  s: '1'\n  f: 1.5\n  m: ~\n  m: 2\n";
    let decoded = yaml_untyped(text).expect("is YAML");
    assert_eq!(
        decoded.value["spec"],
        json!({"replicas": 2, "true": false, "1": "a", "foo": 16, "s": "1", "f": 1.5, "m": 2})
    );
    assert_eq!(decoded.problems.lines().len(), 1);
    let decoded = with_deployment(|schema| yaml(b"spec: {foo: 1, replicas: 1}\n", schema));
    let problems = decoded.expect("is YAML").problems;
    assert_eq!(problems.lines(), ["unknown field \"spec.foo\""]);
    for (text, expected) in [
        ("a: 1e3\n", json!({"a": 1000})),
        ("---\na: 1\n---\nb: 2\n", json!({"a": 1})),
        ("", Value::Null),
        ("{\"a\": [true, null]}", json!({"a": [true, null]})),
    ] {
        assert_eq!(yaml_untyped(text.as_bytes()).expect("is YAML").value, expected, "{text}");
    }
    assert!(yaml_untyped(b"a: [").is_err());
}

#[test]
fn empty_lists_last_from_the_request_to_the_store() {
    let request = json!({"spec": {"containers": []}, "data": {}});
    with_deployment(|schema| {
        let normal = normalise(request.clone(), schema).expect("fits");
        assert_eq!(normal["spec"]["containers"], Value::Null);
        let mut carried = normal.clone();
        carry_empty_lists(&empty_lists(&request), &mut carried);
        assert_eq!(carried["spec"]["containers"], json!([]));
        drop_empty_lists(&mut carried, schema);
        assert_eq!(carried, normal);
        let mut absent = normal.clone();
        carry_empty_lists(&empty_lists(&json!({"spec": {}})), &mut absent);
        assert_eq!(absent, normal, "what the client did not write is not carried");
    });
}
