//! ConfigMap, Secret, ServiceAccount and Namespace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::{Value, names};

use crate::validation::meta::{self, Scope, check_standard_finalizer};
use crate::validation::place::{At, Errors};

/// Bytes the data of a ConfigMap or Secret may take together.
const MAX_DATA: usize = 1024 * 1024;
const WHEN_IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(crate) fn config_map_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let (data, binary) = (object.field("data"), object.field("binaryData"));
    let mut size = 0;
    for (key, entry) in data.entries() {
        errs.messages_for(&entry, key, &names::config_map_key(key));
        if binary.map().is_some_and(|map| map.contains_key(key)) {
            errs.invalid(&entry, key, "duplicate of key present in binaryData");
        }
        size += entry.len();
    }
    for (key, entry) in binary.entries() {
        errs.messages_for(&entry, key, &names::config_map_key(key));
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA {
        errs.push(FieldError::too_long(&Path::new("[]"), MAX_DATA));
    }
}

/// The length of base64 text once decoded.
fn decoded_len(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take(2).filter(|c| *c == b'=').count().min(text.len())
}

pub(crate) fn config_map_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    check_frozen(new, old, &["data", "binaryData"], errs);
    config_map_create(new, errs);
}

fn check_frozen(new: &At<'_>, old: &At<'_>, fields: &[&str], errs: &mut Errors) {
    if !old.field("immutable").is_true() {
        return;
    }
    if !new.field("immutable").is_true() {
        errs.forbidden(&new.field("immutable"), WHEN_IMMUTABLE);
    }
    for field in fields {
        if new.field(field).value != old.field(field).value {
            errs.forbidden(&new.field(field), WHEN_IMMUTABLE);
        }
    }
}

pub(crate) fn secret_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let data = object.field("data");
    let mut size = 0;
    for (key, entry) in data.entries() {
        errs.messages_for(&entry, key, &names::config_map_key(key));
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA {
        errs.too_long(&data, MAX_DATA);
    }
    let require = |keys: &[&str], errs: &mut Errors| {
        for key in keys {
            errs.required(&data.key(key), "");
        }
    };
    let missing = |key: &str| data.map().is_none_or(|map| !map.contains_key(key));
    match object.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let name = object.at(&["metadata", "annotations"]).key(SERVICE_ACCOUNT_NAME);
            errs.required_text(&name);
        }
        "kubernetes.io/dockercfg" => check_docker_config(&data.key(".dockercfg"), errs),
        "kubernetes.io/dockerconfigjson" => {
            check_docker_config(&data.key(".dockerconfigjson"), errs);
        }
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => {
            require(&["username", "password"], errs);
        }
        "kubernetes.io/ssh-auth" if data.field("ssh-privatekey").is_empty() => {
            require(&["ssh-privatekey"], errs);
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| missing(key)) {
                require(&[key], errs);
            }
        }
        _ => {}
    }
}

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

fn check_docker_config(entry: &At<'_>, errs: &mut Errors) {
    if !entry.is_set() {
        return errs.required(entry, "");
    }
    let bytes = STANDARD.decode(entry.text()).unwrap_or_default();
    let problem = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => {
            // Compat: the reader goes by bytes, so a longer character shows its first one.
            let at = bytes.get(error.column().saturating_sub(1)).copied().unwrap_or(b' ');
            let place = if error.to_string().starts_with("trailing") {
                "after top-level value"
            } else {
                "looking for beginning of value"
            };
            format!("invalid character '{}' {place}", char::from(at))
        }
    };
    errs.invalid(entry, "<secret contents redacted>", problem);
}

pub(crate) fn secret_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    errs.immutable(&new.field("type"), &old.field("type"));
    check_frozen(new, old, &["data"], errs);
    secret_create(new, errs);
}

pub(crate) fn service_account_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
}

pub(crate) fn service_account_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    service_account_create(new, errs);
}

pub(crate) fn namespace_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::label_name, errs);
    let finalizers = object.at(&["spec", "finalizers"]);
    for finalizer in finalizers.items() {
        check_namespace_finalizer(&finalizer.reported_at(finalizers.path.clone()), errs);
    }
}

fn check_namespace_finalizer(finalizer: &At<'_>, errs: &mut Errors) {
    errs.messages(finalizer, &names::qualified_name(finalizer.text()));
    check_standard_finalizer(finalizer, errs);
}

pub(crate) fn namespace_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource.is_empty() {
        namespace_create(new, errs);
    }
    meta::update(new, old, errs);
    match subresource {
        "finalize" => {
            for finalizer in new.at(&["spec", "finalizers"]).items() {
                check_namespace_finalizer(&finalizer, errs);
            }
        }
        "status" => {
            let deleted = new.at(&["metadata", "deletionTimestamp"]).is_set();
            let phase = new.field("status").renamed("phase", "Phase");
            let (expected, state) =
                if deleted { ("Terminating", "not empty") } else { ("Active", "empty") };
            if phase.text() != expected {
                let detail = format!("may only be '{expected}' if `deletionTimestamp` is {state}");
                errs.invalid_text(&phase, detail);
            }
        }
        _ => {}
    }
}
