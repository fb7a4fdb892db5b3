//! Ownership seen through the scale subresource, where only the number of replicas is visible.

use crate::Value;

use super::entries::{self, Entry, Fields};
use super::set::FieldSet;
use crate::object::{ObjectExt, ObjectMutExt};
use crate::value::Text;

const SCALE_VERSION: &str = "autoscaling/v1";
const REPLICAS_IN_SCALE: &[&str] = &["spec", "replicas"];

/// The managed fields of the Scale of `parent`: who owns the replicas. `replicas` is their path in
/// the parent.
pub fn scale_from_parent(parent: &Value, replicas: &[&str]) -> Vec<Value> {
    let owners = entries::decode(parent.list_at(&["metadata", "managedFields"]));
    let visible = owners.unwrap_or_default().into_iter().filter(|one| owns(one, replicas));
    let visible = visible.map(|owner| Entry {
        api_version: Text::new_static(SCALE_VERSION),
        fields: Fields::Decoded(FieldSet::of_fields(&[REPLICAS_IN_SCALE])),
        ..owner
    });
    stored(visible.collect())
}

/// The managed fields of `parent` after its Scale was written with the given ones; `api_version` is
/// the version of the parent.
pub fn scale_to_parent(
    parent: &Value,
    scale_entries: &[Value],
    replicas: &[&str],
    api_version: &str,
) -> Vec<Value> {
    let path = FieldSet::of_fields(&[replicas]);
    let mut scale = entries::decode(scale_entries).unwrap_or_default();
    let owners = entries::decode(parent.list_at(&["metadata", "managedFields"]));
    let mut result = Vec::new();
    for mut owner in owners.unwrap_or_default() {
        if owns(&owner, replicas) {
            // Seen through the scale, an updater bears the version of the scale.
            let seen = Entry { api_version: Text::new_static(SCALE_VERSION), ..owner.clone() };
            let kept = scale
                .iter()
                .position(|one| one.is_same_manager(&owner) || one.is_same_manager(&seen));
            match kept {
                Some(index) => drop(scale.remove(index)),
                None => owner.fields.take_away(&path),
            }
        }
        if !owner.fields.is_empty() {
            result.push(owner);
        }
    }
    let added = scale.into_iter().filter(|one| owns(one, REPLICAS_IN_SCALE));
    result.extend(added.map(|owner| Entry {
        api_version: api_version.into(),
        // Compat: owners that came through the scale carry no time.
        time: None,
        fields: Fields::Decoded(path.clone()),
        ..owner
    }));
    stored(result)
}

fn owns(owner: &Entry, path: &[&str]) -> bool {
    owner.fields.contain(&FieldSet::of_fields(&[path]))
}

fn stored(owners: Vec<Entry>) -> Vec<Value> {
    let mut holder = Value::Object(crate::Map::new());
    entries::store(&mut holder, owners);
    match holder.remove_at(&["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => entries.into(),
        _ => Vec::new(),
    }
}
