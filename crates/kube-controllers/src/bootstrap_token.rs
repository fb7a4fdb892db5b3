//! Bootstrap tokens as they stand in Secrets, for the controllers that sign with them and that
//! remove them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_runtime::InformerSpec;

pub(super) const TYPE: &str = "bootstrap.kubernetes.io/token";
pub(super) const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";

/// The Secrets that hold bootstrap tokens.
pub(super) fn secrets() -> InformerSpec {
    let all = InformerSpec::all(Gvr::new("", "v1", "secrets"));
    all.namespaced(NAMESPACE).with_fields(format!("type={TYPE}"))
}

pub(super) fn data(secret: &Value, key: &str) -> String {
    let decoded = secret.str_at(&["data", key]).and_then(|text| STANDARD.decode(text).ok());
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// When the token ends. One whose end cannot be read has ended already.
pub(super) fn expiration(secret: &Value) -> Option<Timestamp> {
    let text = data(secret, "expiration");
    (!text.is_empty()).then(|| parse_time(&text).unwrap_or(Timestamp::MIN))
}

/// Returns id and secret of a token that may sign now.
pub(super) fn for_signing(secret: &Value, now: Timestamp) -> Option<(String, String)> {
    let (id, key) = (data(secret, "token-id"), data(secret, "token-secret"));
    let named = secret.name().strip_prefix(PREFIX) == Some(id.as_str());
    let ended = expiration(secret).is_some_and(|end| end <= now);
    let signs = data(secret, "usage-bootstrap-signing") == "true";
    let ours = secret.str_at(&["type"]) == Some(TYPE);
    (ours && named && signs && !ended && !key.is_empty()).then_some((id, key))
}

#[cfg(test)]
pub(super) fn example(id: &str, fields: &[(&str, &str)]) -> Value {
    use karmada_apimachinery::json;
    let mut data = karmada_apimachinery::Map::new();
    for (key, value) in
        [("token-id", id), ("token-secret", "0123456789abcdef")].iter().chain(fields)
    {
        data.insert((*key).to_owned(), STANDARD.encode(value).into());
    }
    json!({"metadata": {"namespace": NAMESPACE, "name": format!("{PREFIX}{id}")},
        "type": TYPE, "data": data})
}
