//! Ownership after a plain write: the writer owns what it changed, everyone else loses it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::Value;

use super::compare::{self, Comparison};
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
    // Most writers send back what they read, which saves a copy of it.
    if sent.as_ref() == stored
        && let Some(Value::Array(sent)) = sent
    {
        return entries::decode_owned(sent.into_iter()).unwrap_or_default();
    }
    if !ctx.subresource.is_empty() {
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
    let unreachable = ctx.unreachable_fields();
    let told = |comparison: Comparison| {
        let (changed, removed) = comparison.without(&unreachable).into_parts();
        Lost { changed, removed }
    };
    let mut versions: BTreeMap<String, Option<Lost>> = BTreeMap::new();
    let own_version = ctx.gvk.api_version();
    versions.insert(own_version.clone(), Some(told(compare::compare(old, new, place))));
    for owner in owners.iter() {
        if !versions.contains_key(&owner.api_version) {
            let seen = view(ctx, old, new, place, &owner.api_version)?;
            let seen = seen.map(|seen| told(compare::compare(&seen.old, &seen.new, seen.place)));
            versions.insert(owner.api_version.clone(), seen);
        }
    }
    owners.retain(|owner| versions.get(&owner.api_version).is_some_and(Option::is_some));
    let loss = |owner: &Entry| {
        let seen = versions.get(&owner.api_version).and_then(Option::as_ref);
        let Some(Lost { changed, removed }) = seen else { return Lost::default() };
        let changed = if !owner.is_same_manager(writer) && owner.fields.meet(changed) {
            owner.fields.set().intersection(changed)
        } else {
            FieldSet::default()
        };
        Lost { changed, removed: removed.clone() }
    };
    let lost = owners.iter().map(loss).collect();
    let own = versions.remove(&own_version).flatten().unwrap_or_default();
    Ok(Changes { gained: own.changed, lost })
}
