use crate::json;
use proptest::prelude::*;

use super::*;
use crate::schema::Definitions;

fn descriptors() -> Descriptors {
    Descriptors::parse(&json!({
        "t.Thing": [
            [1, "name", "string"], [2, "", "t.Inline"], [3, "count", "int32"], [4, "ratio", "double"],
            [5, "labels", "{}string"], [6, "children", "[]t.Thing"], [7, "data", "bytes"],
            [8, "extra", "{}t.Extra"], [9, "flags", "[]bool"],
            [10, "at", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"],
            [11, "port", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"],
            [12, "raw", "io.k8s.apimachinery.pkg.runtime.RawExtension"],
        ],
        "t.Inline": [[1, "inner", "string"]],
        "t.Extra": [[1, "items", "[]string"]],
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time": [[1, "seconds", "int64"], [2, "nanos", "int32"]],
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
            [[1, "type", "int64"], [2, "intVal", "int32"], [3, "strVal", "string"]],
        "io.k8s.apimachinery.pkg.runtime.RawExtension": [[1, "raw", "bytes"]],
    }))
}

fn definitions() -> Definitions {
    Definitions::parse(&json!({"t.Thing": {"type": "object", "properties": {
        "name": {"type": "string"},
        "inner": {"type": "string", "x-presence": "pointer"},
        "count": {"type": "integer", "x-presence": "pointer"},
    }}}))
    .expect("is a schema")
}

#[test]
fn trees_survive_the_way_through_bytes() {
    let thing = json!({
        "name": "a", "inner": "b", "count": -3, "ratio": 0.5, "labels": {"x": "y", "z": ""},
        "children": [{"name": "c"}], "data": "AAEC", "extra": {"k": ["v", "w"]},
        "flags": [true, false], "at": "2020-01-02T03:04:05Z", "port": "http", "raw": {"q": [1, 2.5]},
    });
    let bytes = descriptors().encode(&definitions(), "t.Thing", &thing).expect("fits");
    assert_eq!(descriptors().decode("t.Thing", &bytes), Ok(thing));
}

#[test]
fn values_that_are_no_pointers_are_always_written() {
    let bytes = descriptors().encode(&definitions(), "t.Thing", &json!({})).expect("fits");
    // An empty name and an empty inlined message, but neither count nor lists.
    assert_eq!(bytes, [0x0a, 0x00, 0x12, 0x00]);
}

#[test]
fn lists_of_numbers_may_be_packed() {
    let packed = [0x4a, 0x02, 0x01, 0x00];
    assert_eq!(descriptors().decode("t.Thing", &packed), Ok(json!({"flags": [true, false]})));
}

#[test]
fn envelopes_name_the_kind() {
    let bytes = encode_envelope("apps/v1", "Deployment", b"raw");
    let envelope = decode_envelope(&bytes).expect("is an envelope");
    assert_eq!((&*envelope.api_version, &*envelope.kind), ("apps/v1", "Deployment"));
    assert_eq!(envelope.raw, b"raw");
    assert_eq!(decode_envelope(b"{}"), Err(Error::NotEnveloped));
}

#[test]
fn endless_nesting_is_refused() {
    let mut bytes = Vec::new();
    for _ in 0..300 {
        let mut outer = Vec::new();
        wire::put_bytes(&mut outer, 6, &bytes);
        bytes = outer;
    }
    assert_eq!(descriptors().decode("t.Thing", &bytes), Err(Error::TooDeep));
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = descriptors().decode("t.Thing", &bytes);
        let mut enveloped = b"k8s\0".to_vec();
        enveloped.extend(&bytes);
        let _ = decode_envelope(&enveloped);
    }
}
