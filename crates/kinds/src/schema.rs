//! The schemas of the built-in kinds, unpacked from the generated tables on first use.

use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use karmada_apimachinery::schema::{Cursor, Definitions};

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    Definitions::parse(&unpack(include_bytes!("../data/definitions.json.gz")))
        .expect("the generated definitions are well formed")
});

/// Definition names by group, version and kind.
static BY_KIND: LazyLock<HashMap<(String, String, String), &'static str>> = LazyLock::new(|| {
    let mut by_kind = HashMap::new();
    for name in DEFINITIONS.names() {
        let kinds = DEFINITIONS.get(name).and_then(|schema| schema.extensions.kinds.as_deref());
        for kind in kinds.and_then(Value::as_array).into_iter().flatten() {
            let part = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
            by_kind.insert((part("group"), part("version"), part("kind")), name);
        }
    }
    by_kind
});

/// Every definition of the built-in API.
pub fn definitions() -> &'static Definitions {
    &DEFINITIONS
}

/// The name of the definition that describes a kind.
pub fn definition_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    BY_KIND.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).copied()
}

/// The schema of a kind.
pub fn of(group: &str, version: &str, kind: &str) -> Option<Cursor<'static>> {
    DEFINITIONS.cursor(definition_of(group, version, kind)?)
}

/// The schema of `metadata`, which all kinds share.
pub fn object_meta() -> Cursor<'static> {
    DEFINITIONS
        .cursor("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
        .expect("the generated definitions have ObjectMeta")
}

fn unpack(packed: &[u8]) -> Value {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text).expect("the generated table is intact");
    serde_json::from_slice(&text).expect("the generated table is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::schema::ListType;

    #[test]
    fn kinds_are_found_and_their_fields_reached() {
        let deployment = of("apps", "v1", "Deployment").expect("is built in");
        let containers = ["spec", "template", "spec", "containers"]
            .iter()
            .try_fold(deployment, |cursor, field| cursor.field(field))
            .expect("pods have containers");
        assert_eq!(containers.list_type(), ListType::Map(&["name".to_owned()]));
        assert_eq!(containers.patch_merge_key(), Some("name"));
        assert!(of("apps", "v1", "Nope").is_none());
        assert!(object_meta().field("labels").is_some());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn walk(cursor: Cursor<'_>, depth: usize) {
            if let Some(name) = &cursor.site().reference {
                assert!(cursor.definitions().get(name).is_some(), "{name} is missing");
                if depth > 0 {
                    return;
                }
            }
            cursor.properties().for_each(|(_, field)| walk(field, depth + 1));
            cursor.items().into_iter().for_each(|items| walk(items, depth + 1));
            cursor.values().into_iter().for_each(|values| walk(values, depth + 1));
        }
        for name in definitions().names() {
            walk(definitions().cursor(name).expect("is listed"), 0);
        }
    }
}
