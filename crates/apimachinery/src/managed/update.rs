//! Ownership after a plain write: the writer owns what it changed, everyone else loses it.

use std::sync::LazyLock;

use crate::Value;
use crate::value::Text;

use super::compare::compare;
use super::entries::{self, Entry, Fields, Operation};
use super::gained::gained;
use super::place::Place;
use super::set::FieldSet;
use super::{STRIPPED, WriteContext, view};
use crate::object::{ObjectExt, ObjectMutExt};
use crate::schema::Cursor;

const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(STRIPPED));

/// Writes the managed fields of an object about to be created (no `live`) or updated. Both objects
/// are complete: decoded, defaulted, in the version of the request.
pub fn update(
    live: Option<&Value>,
    new: &mut Value,
    ctx: &WriteContext<'_>,
    schema: Option<Cursor<'_>>,
) {
    let place = Place::root(schema);
    let stored = live.and_then(|live| live.at(MANAGED_FIELDS));
    let sent = new.remove_at(MANAGED_FIELDS);
    let owners = owners_before(stored, sent, ctx);
    let exists = live.is_some_and(|live| !live.uid().is_empty());
    // An object nobody tracks stays untracked until the first apply.
    if exists && owners.is_empty() {
        return;
    }
    let empty;
    let old = match live {
        Some(live) => live,
        None => {
            empty = place.empty();
            &empty
        }
    };
    // Compat: where an owner's version cannot hold the object any more, all tracking ends.
    if let Ok(owners) = track(old, new, owners, ctx, ctx.manager, place) {
        entries::store(new, owners);
    }
}

/// Whether a request wants managed fields to be reset: it says so by an empty list.
pub fn asks_for_reset(request: &Value) -> bool {
    request.at(MANAGED_FIELDS).and_then(Value::as_array).is_some_and(|list| list.is_empty())
}

/// Keeps the wish to reset managed fields through decoding, which drops the empty list it is made of.
pub fn carry_reset(decoded: &mut Value) {
    decoded.set(MANAGED_FIELDS, Vec::<Value>::new());
}

/// The entries a write starts from: what it brings along, else what is stored. An empty list, or a
/// list of one empty entry, resets them.
fn owners_before(
    stored: Option<&Value>,
    sent: Option<Value>,
    ctx: &WriteContext<'_>,
) -> Vec<Entry> {
    let from_store = || {
        let stored = stored.and_then(Value::as_array).map_or(&[][..], |list| list.as_slice());
        entries::decode(stored).unwrap_or_default()
    };
    // Most writers send back what they read.
    if !ctx.subresource.is_empty() || sent.as_ref() == stored {
        return from_store();
    }
    match sent.as_ref().and_then(Value::as_array).map(|list| list.as_slice()) {
        None => from_store(),
        Some([]) => Vec::new(),
        Some([only]) if only.as_object().is_some_and(crate::Map::is_empty) => Vec::new(),
        Some(sent) => entries::decode(sent)
            .ok()
            .filter(|sent| !sent.is_empty() && entries::check(sent).is_ok())
            .unwrap_or_else(from_store),
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
) -> Result<Vec<Entry>, String> {
    let mut writer = ctx.entry(manager, Operation::Update);
    if owners.is_empty() {
        writer.fields = Fields::Encoded(gained(old, new, place, ctx.reset_fields));
        return Ok(Some(writer).filter(|writer| !writer.fields.is_empty()).into_iter().collect());
    }
    let changes = revise(old, new, &mut owners, &writer, ctx, place)?;
    let mut gained = changes.gained;
    gained.take_away(&NOBODYS);
    for (owner, lost) in owners.iter_mut().zip(&changes.lost) {
        owner.fields.take_away(&lost.changed);
        owner.fields.take_away(&lost.removed);
    }
    owners.retain(|owner| !owner.fields.is_empty());

    if !gained.is_empty() {
        let index = owners.iter().position(|one| one.is_same_manager(&writer));
        let mut entry = index.map_or_else(|| writer.clone(), |index| owners.remove(index));
        entry.fields.add(gained);
        entry.time = writer.time;
        owners.push(entry);
    }
    entries::cap(&mut owners);
    Ok(owners)
}

/// What a write means for the owners.
pub(super) struct Changes {
    /// What is new or has another value, as the writer sees it.
    pub(super) gained: FieldSet,
    /// What each owner has to let go, in the order of the owners.
    pub(super) lost: Vec<Lost>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    /// Fields of the owner that have another value now; the writer loses none of its own.
    pub(super) changed: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

/// Compares two objects for every owner, each in the version it wrote in. Owners whose
/// version is not served any more are dropped; one whose version cannot hold the object is an error.
pub(super) fn revise(
    old: &Value,
    new: &Value,
    owners: &mut Vec<Entry>,
    writer: &Entry,
    ctx: &WriteContext<'_>,
    place: Place<'_>,
) -> Result<Changes, String> {
    let told = |old: &Value, new: &Value, place: Place<'_>| {
        let (changed, removed) = compare(old, new, place, ctx.reset_fields).into_parts();
        Lost { changed, removed }
    };
    let own = told(old, new, place);
    let own_version = &writer.api_version;
    // What owners see that wrote in other versions.
    let mut others: Vec<(Text, Option<Lost>)> = Vec::new();
    for owner in owners.iter().filter(|owner| owner.api_version != *own_version) {
        if !others.iter().any(|(version, _)| *version == owner.api_version) {
            let seen = view(ctx, old, new, place, &owner.api_version)?;
            let seen = seen.map(|seen| told(&seen.old, &seen.new, seen.place));
            others.push((owner.api_version.clone(), seen));
        }
    }
    let seen_by = |owner: &Entry| match others.iter().find(|(one, _)| *one == owner.api_version) {
        Some((_, seen)) => seen.as_ref(),
        None => Some(&own),
    };
    owners.retain(|owner| seen_by(owner).is_some());
    let loss = |owner: &Entry| {
        let Some(Lost { changed, removed }) = seen_by(owner) else { return Lost::default() };
        let changed = if !owner.is_same_manager(writer) && owner.fields.meet(changed) {
            owner.fields.set().intersection(changed)
        } else {
            FieldSet::default()
        };
        let removed =
            if owner.fields.meet(removed) { removed.clone() } else { FieldSet::default() };
        Lost { changed, removed }
    };
    let lost = owners.iter().map(loss).collect();
    Ok(Changes { gained: own.changed, lost })
}
