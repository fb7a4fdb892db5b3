//! What clients send: texts, patches, selectors, expressions, certificate requests.

use base64::Engine as _;
use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::json as literal;
use karmada_apimachinery::jsonpath::Template;
use karmada_apimachinery::managed::{self, WriteContext};
use karmada_apimachinery::patch;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::schema::Cursor;
use karmada_apimachinery::selector::{FieldSelector, LabelSelector};
use karmada_apimachinery::{decode, json as object};
use karmada_apiserver::paging::Place;
use karmada_cel::{Bindings, Budget, Declarations, Error, Type, Value as CelValue, compile};
use karmada_kinds::schema;

fn deployments() -> Cursor<'static> {
    schema::of("apps", "v1", "Deployment").expect("a built-in kind")
}

pub(crate) fn json(data: &[u8]) {
    let _ = decode::json_untyped(data);
    if let Ok(decoded) = decode::json(data, deployments()) {
        let _ = decode::normalise(decoded.value, deployments());
    }
}

pub(crate) fn yaml(data: &[u8]) {
    let _ = decode::yaml_untyped(data);
    if let Ok(decoded) = decode::yaml(data, deployments()) {
        let _ = decode::normalise(decoded.value, deployments());
    }
}

/// What can be read can be written and read again.
pub(crate) fn protobuf(data: &[u8]) {
    let Ok(object) = schema::decode_protobuf(data) else { return };
    if let Some(Ok(bytes)) = schema::encode_protobuf(&object) {
        let back = schema::decode_protobuf(&bytes).expect("we wrote it");
        assert_eq!(back, object);
    }
}

fn pair(data: &[u8]) -> Option<(Value, Value)> {
    let mut input: Value = serde_json::from_slice(data).ok()?;
    Some((input.get_mut("document")?.take(), input.get_mut("patch")?.take()))
}

pub(crate) fn json_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let _ = patch::json::apply(&document, &patch);
}

/// Applying a difference gives what it was made from.
pub(crate) fn merge_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let Ok(patched) = patch::merge::apply(&document, &patch) else { return };
    if let (Value::Object(from), Value::Object(to)) = (&document, &patched) {
        let difference = Value::Object(patch::merge::diff(from, to));
        if !holds_null(&patched) {
            assert_eq!(patch::merge::apply(&document, &difference).expect("an object"), patched);
        }
    }
}

/// A merge patch cannot write a null, so only documents without any can be rebuilt.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

pub(crate) fn strategic_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let _ = patch::strategic::apply(&document, &patch, Some(deployments()));
    let _ = patch::strategic::apply(&document, &patch, None);
}

pub(crate) fn apply(data: &[u8]) {
    let Some((document, mut patch)) = pair(data) else { return };
    if let Value::Object(fields) = &mut patch {
        fields.insert("apiVersion", "apps/v1".into());
        fields.insert("kind", "Deployment".into());
    }
    let gvk = Gvk::new("apps", "v1", "Deployment");
    let context = WriteContext::new("fuzz", &gvk, Timestamp::UNIX_EPOCH);
    let once = managed::apply(Some(&document), &patch, &context, true, Some(deployments()));
    if let Ok(once) = once {
        let _ = managed::apply(Some(&once), &patch, &context, false, Some(deployments()));
    }
    let _ = managed::apply(None, &patch, &context, false, Some(deployments()));
}

pub(crate) fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let labels = literal!({"app": "web", "tier": "front"});
    if let Ok(selector) = LabelSelector::parse(&text) {
        let _ = selector.matches(Some(&labels));
    }
    if let Ok(selector) = FieldSelector::parse(&text) {
        let _ = selector.matches_with(|field| Some(field.to_owned()));
    }
    let selector = serde_json::from_slice::<Value>(data).ok();
    if let Some(Ok(selector)) = selector.map(|value| LabelSelector::from_object(Some(&value))) {
        let _ = selector.matches(Some(&labels));
    }
}

pub(crate) fn jsonpath(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let data = object!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "ports": [{"port": 80}]}, {"name": "b"}]},
    });
    for path in [Template::parse(&text), Template::parse_path(&text)].into_iter().flatten() {
        let _ = path.render(&data);
        let _ = path.allowing_missing().find(&data).map(|found| found.len());
    }
}

/// A quantity that can be read is the same after writing it.
pub(crate) fn quantity(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(quantity) = Quantity::parse(&text) else { return };
    let again = Quantity::parse(&quantity.canonical()).expect("we wrote it");
    assert_eq!(again.nanos(), quantity.nanos(), "{text}");
    let _ = (quantity.value(), quantity.milli_value(), quantity.as_f64(), quantity.times(7));
}

/// Tokens are base64 around JSON: bytes are taken as both. What can be read can be written and read again.
pub(crate) fn continue_token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let packed = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(data);
    for token in [&*text, &*packed] {
        if let Ok(place) = Place::from_token(token) {
            assert!(!place.start.split('/').any(|part| part == ".."), "{token} leads elsewhere");
            assert_eq!(Place::from_token(&place.to_token()), Ok(place));
        }
    }
}

struct Variables;

impl Bindings for Variables {
    fn get(&self, name: &str, _budget: &mut Budget) -> Option<Result<CelValue, Error>> {
        let value = literal!({"name": "web", "replicas": 3, "items": [1, 2, "a"], "ratio": 0.5});
        (name == "self").then(|| Ok(CelValue::from_json(&value)))
    }
}

/// Whatever compiles ends within its budget.
pub(crate) fn cel(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let known = Declarations::from([("self".to_owned(), Type::Dyn)]);
    if let Ok(program) = compile(&text, &known) {
        let _ = program.run(&Variables, &mut Budget::new(100_000));
    }
}

pub(crate) fn csr(data: &[u8]) {
    let encoded = base64::engine::general_purpose::STANDARD.encode(data);
    let csr = literal!({"spec": {
        "request": encoded,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }});
    let _ = karmada_apiserver::auth::csr::parse(&csr);
    let _ = karmada_apiserver::auth::csr::check_subject(&csr);
}
