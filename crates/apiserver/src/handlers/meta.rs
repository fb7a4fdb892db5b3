//! Metadata the server owns: what it fills in on create and keeps on update.

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::format_time;

use crate::chance::Chance;

/// Characters of generated suffixes: no vowels, so that no words appear.
const SUFFIX_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const NAME_LENGTH: usize = 63;

/// Drops what clients may not say and stamps a new object.
pub(crate) fn stamp_new(object: &mut Value, namespace: &str, now: Timestamp, chance: &Chance) {
    let metadata = object.map_at_mut(&["metadata"]);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid", chance.id().into());
    metadata.insert("creationTimestamp", format_time(now).into());
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace", namespace.into());
    }
}

/// A name made of the prefix the client wants and a random suffix.
pub(crate) fn generate_name(prefix: &str, chance: &Chance) -> String {
    let draw = || chance.below(0..SUFFIX_CHARACTERS.len() as u64) as usize;
    let kept: String = prefix.chars().take(NAME_LENGTH - SUFFIX_LENGTH).collect();
    let suffix = (0..SUFFIX_LENGTH).map(|_| SUFFIX_CHARACTERS[draw()] as char);
    kept.chars().chain(suffix).collect()
}

/// Takes over from the stored object what an update cannot change.
pub(crate) fn keep_owned(new: &mut Value, old: &Value) {
    let nothing = karmada_apimachinery::Map::new();
    let old_metadata = old.map_at(&["metadata"]).unwrap_or(&nothing);
    let metadata = new.map_at_mut(&["metadata"]);
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        copy(metadata, old_metadata, "uid");
    }
    copy(metadata, old_metadata, "creationTimestamp");
    copy(metadata, old_metadata, "generation");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old_metadata.get(field).is_some_and(|value| !value.is_null()) {
            copy(metadata, old_metadata, field);
        }
    }
    metadata.remove("selfLink");
}

fn copy(to: &mut karmada_apimachinery::Map, from: &karmada_apimachinery::Map, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Removes repeated owner references; the warning that is due if there were any.
pub(crate) fn dedup_owners(object: &mut Value) -> Option<String> {
    let owners = object.at_mut(&["metadata", "ownerReferences"])?.as_array_mut()?;
    let mut seen: Vec<Value> = Vec::with_capacity(owners.len());
    let mut repeated: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let first = !seen.contains(owner);
        if first {
            seen.push(owner.clone());
        } else {
            let uid = owner.str_at(&["uid"]).unwrap_or_default().to_owned();
            if !repeated.contains(&uid) {
                repeated.push(uid);
            }
        }
        first
    });
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references \
             in 1.20+, and may reject such requests as early as 1.24; please fix your requests; \
             duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Whether the object goes away with the write that brings it into this state.
pub(crate) fn is_finished(object: &Value) -> bool {
    object.is_being_deleted()
        && object.list_at(&["metadata", "finalizers"]).is_empty()
        && object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn generated_names_keep_the_prefix_within_the_limit() {
        let long = "a".repeat(80);
        assert_eq!(generate_name(&long, &Chance::default()).len(), 63);
        let name = generate_name("web-", &Chance::default());
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    }

    #[test]
    fn repeated_owners_are_dropped() {
        let mut object =
            json!({"metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "b"}, {"uid": "a"}]}});
        assert!(dedup_owners(&mut object).is_some_and(|warning| warning.ends_with("observed: a")));
        assert_eq!(object.list_at(&["metadata", "ownerReferences"]).len(), 2);
        assert_eq!(dedup_owners(&mut object), None);
    }
}
