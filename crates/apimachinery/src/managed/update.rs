//! Ownership after a plain write: the writer owns what it changed, everyone else loses it.

use serde_json::Value;

use super::entries::{self, Entry, Operation};
use super::place::Place;
use super::set::FieldSet;
use super::typed::{self, Comparison, Duplicates};
use super::{STRIPPED, WriteContext, view};
use crate::object::{ObjectExt, ObjectMutExt};
use crate::schema::Cursor;

const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

/// Writes the managed fields of an object about to be created (no `live`) or updated. Both objects
/// are complete: decoded, defaulted, in the version of the request.
pub fn update(
    live: Option<&Value>,
    new: &mut Value,
    ctx: &WriteContext<'_>,
    schema: Option<Cursor<'_>>,
) {
    let place = Place::root(schema);
    let owners = owners_before(live, new, ctx);
    new.remove_at(MANAGED_FIELDS);
    let exists = live.is_some_and(|live| !live.uid().is_empty());
    // An object nobody tracks stays untracked until the first apply.
    if exists && owners.is_empty() {
        return;
    }
    if typed::check(new, place, Duplicates::Allowed).is_some() {
        return;
    }
    let old = live.cloned().unwrap_or_else(|| place.empty());
    let owners = track(&old, new, owners, ctx, ctx.manager, place);
    entries::store(new, owners);
}

/// Keeps the wish to reset managed fields through decoding, which drops the empty list it is made of.
pub fn carry_reset(request: &Value, decoded: &mut Value) {
    if request.at(MANAGED_FIELDS).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        decoded.set(MANAGED_FIELDS, Vec::<Value>::new());
    }
}

/// The entries a write starts from: what it brings along, else what is stored. An empty list, or a
/// list of one empty entry, resets them.
fn owners_before(live: Option<&Value>, new: &Value, ctx: &WriteContext<'_>) -> Vec<Entry> {
    let stored = || {
        let entries = live.map_or(&[][..], |live| live.list_at(MANAGED_FIELDS));
        entries::decode(entries).unwrap_or_default()
    };
    if !ctx.subresource.is_empty() {
        return stored();
    }
    match new.at(MANAGED_FIELDS).and_then(Value::as_array).map(Vec::as_slice) {
        None => stored(),
        Some([]) => Vec::new(),
        Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty) => Vec::new(),
        Some(entries) => {
            entries::decode(entries).ok().filter(|e| !e.is_empty()).unwrap_or_else(stored)
        }
    }
}

/// Computes the owners after `manager` turned `old` into `new`.
pub(super) fn track(
    old: &Value,
    new: &Value,
    mut owners: Vec<Entry>,
    ctx: &WriteContext<'_>,
    manager: &str,
    place: Place<'_>,
) -> Vec<Entry> {
    let changes = revise(old, new, &mut owners, None, ctx, place);
    let lost = owners.iter_mut().zip(&changes.lost);
    for (owner, lost) in lost {
        owner.fields = owner.fields.difference(&lost.changed).difference(&lost.removed);
    }
    owners.retain(|owner| !owner.fields.is_empty());

    let gained = changes.own.changed().recursive_difference(&ctx.unreachable_fields());
    let gained = gained.difference(&FieldSet::of_fields(STRIPPED));
    if !gained.is_empty() {
        let mut writer = ctx.entry(manager, Operation::Update);
        writer.fields = gained;
        if let Some(index) = owners.iter().position(|one| one.is_same_manager(&writer)) {
            writer.fields = writer.fields.union(&owners.remove(index).fields);
        }
        owners.push(writer);
    }
    entries::cap(&mut owners);
    owners
}

/// What a write means for the owners.
pub(super) struct Changes {
    /// As the writer sees it.
    pub(super) own: Comparison,
    /// What each owner has to let go, in the order of the owners.
    pub(super) lost: Vec<Lost>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    /// Fields of the owner that have another value now.
    pub(super) changed: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

/// Compares two objects for every owner but `writer`, each in the version it wrote in. Owners whose
/// version is not served any more are dropped.
pub(super) fn revise(
    old: &Value,
    new: &Value,
    owners: &mut Vec<Entry>,
    writer: Option<&Entry>,
    ctx: &WriteContext<'_>,
    place: Place<'_>,
) -> Changes {
    let unreachable = ctx.unreachable_fields();
    let own = typed::compare(old, new, place).without(&unreachable);
    let mut versions: Vec<(String, Option<Comparison>)> =
        vec![(ctx.gvk.api_version(), Some(own.clone()))];
    let mut lost = Vec::with_capacity(owners.len());
    owners.retain(|owner| {
        if writer.is_some_and(|writer| writer.is_same_manager(owner)) {
            lost.push(Lost::default());
            return true;
        }
        let known = versions.iter().position(|(version, _)| *version == owner.api_version);
        let index = known.unwrap_or_else(|| {
            let seen = view(ctx, old, new, place, &owner.api_version);
            let seen = seen.map(|seen| typed::compare(&seen.old, &seen.new, seen.place));
            let seen = seen.map(|comparison| comparison.without(&unreachable));
            versions.push((owner.api_version.clone(), seen));
            versions.len() - 1
        });
        let Some((_, Some(comparison))) = versions.get(index) else { return false };
        lost.push(Lost {
            changed: owner.fields.intersection(&comparison.changed()),
            removed: comparison.removed.clone(),
        });
        true
    });
    Changes { own, lost }
}
