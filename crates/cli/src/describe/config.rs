//! ConfigMaps and Secrets in words. Of a Secret only the sizes are shown, whatever its type.

use base64::Engine as _;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};

use super::tabs::{Text, plain};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn config_map(map: &Value) -> Text {
    let mut out = Text::head(map);
    out.line(0, "\nData\n====");
    for (key, value) in map.map_at(&["data"]).into_iter().flatten() {
        out.line(0, &format!("{key}:\n----\n{}\n", plain(value)));
    }
    out.line(0, "\nBinaryData\n====");
    for (key, value) in map.map_at(&["binaryData"]).into_iter().flatten() {
        out.line(0, &format!("{key}: {} bytes", size(value)));
    }
    out.line(0, "");
    out
}

pub(super) fn secret(secret: &Value) -> Text {
    let mut out = Text::head(secret);
    out.line(0, "");
    out.line(0, &format!("Type:\t{}", secret.str_at(&["type"]).unwrap_or_default()));
    out.line(0, "");
    out.line(0, "Data");
    out.line(0, "====");
    // Compat: kubectl prints the token of a service account here; a terminal is no place for it.
    for (key, value) in secret.map_at(&["data"]).into_iter().flatten() {
        out.line(0, &format!("{key}:\t{} bytes", size(value)));
    }
    out
}

/// How many bytes are encoded.
fn size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD.decode(text).map_or(text.len(), |bytes| bytes.len())
}

/// Takes the values out of every Secret in a tree, such as the manifests of a Work.
pub(super) fn hide_secrets(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            let is_secret = map.get("kind").is_some_and(|kind| kind == "Secret");
            for (field, value) in map.iter_mut() {
                if is_secret && (field == "data" || field == "stringData") {
                    for (_, value) in value.as_object_mut().into_iter().flatten() {
                        *value = format!("{} bytes", size(value)).into();
                    }
                } else if is_secret && field == "metadata" {
                    // What was applied last is a copy of the whole.
                    value.remove_at(&["annotations", LAST_APPLIED]);
                } else {
                    hide_secrets(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hide_secrets),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn values_of_secrets_are_counted_not_shown() {
        let token = json!({
            "kind": "Secret", "metadata": {"name": "t", "namespace": "default"},
            "type": "kubernetes.io/service-account-token", "data": {"token": "aGVsbG8=", "ca.crt": "YQ=="}});
        let expected = "\
Name:         t
Namespace:    default
Labels:       <none>
Annotations:  <none>

Type:  kubernetes.io/service-account-token

Data
====
ca.crt:  1 bytes
token:   5 bytes
";
        assert_eq!(secret(&token).align(), expected);
        let mut applied = token.clone();
        applied["metadata"]["annotations"] = json!({LAST_APPLIED: token.to_string()});
        let mut work = json!({"kind": "Work", "spec": {"workload": {"manifests": [applied]}}});
        hide_secrets(&mut work);
        assert!(!work.to_string().contains("aGVsbG8="), "{work}");
    }

    #[test]
    fn config_maps_are_shown_whole() {
        let map = json!({
            "metadata": {"name": "c", "namespace": "d"}, "data": {"a": "1\n2"}, "binaryData": {"b": "YWI="}});
        let expected = "\
Name:         c
Namespace:    d
Labels:       <none>
Annotations:  <none>

Data
====
a:
----
1
2


BinaryData
====
b: 2 bytes

";
        assert_eq!(config_map(&map).align(), expected);
    }
}
