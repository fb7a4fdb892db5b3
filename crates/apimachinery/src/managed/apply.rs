//! Server-side apply: a manager states the fields it wants, the result is merged by type, and
//! disagreement with other owners is a conflict.

use crate::Value;

use super::check::{self, Duplicates};
use super::entries::{self, Entry, Fields, Operation};
use super::place::Place;
use super::set::FieldSet;
use super::update::{Changes, revise, track};
use super::{STRIPPED, WriteContext, view};
use super::{compare, merge, typed};
use crate::field::go_json;
use crate::names::metadata::ANNOTATIONS_MAX_BYTES;
use crate::object::{ObjectExt, ObjectMutExt};
use crate::schema::Cursor;
use crate::status::{Cause, Details, Status};

/// The manager `kubectl apply --server-side` uses; it takes over from client-side apply.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies `patch` to `live`, or to nothing. The result carries its managed fields and is yet to be
/// decoded and defaulted.
pub fn apply(
    live: Option<&Value>,
    patch: &Value,
    ctx: &WriteContext<'_>,
    force: bool,
    schema: Option<Cursor<'_>>,
) -> Result<Value, Status> {
    let place = Place::root(schema);
    check_patch(patch, ctx, place)?;
    let owners =
        entries::decode(live.map_or(&[][..], |live| live.list_at(&["metadata", "managedFields"])));
    let mut owners = owners.map_err(|error| {
        Status::unexplained(format!("failed to decode managed fields: {error}"))
    })?;
    let empty = || {
        let mut empty = place.empty();
        empty.set(&["apiVersion"], ctx.gvk.api_version());
        empty.set(&["kind"], ctx.gvk.kind.as_str());
        empty
    };
    if let Some(live) = live.filter(|_| owners.is_empty()) {
        owners = track(&place.empty(), live, owners, ctx, BEFORE_FIRST_APPLY, place)
            .map_err(Status::unexplained)?;
    }
    let live = live.cloned().unwrap_or_else(empty);
    let applier = Applier { live: &live, patch, ctx, place };
    match applier.run(owners.clone(), force) {
        Err(Refusal::Conflicts(conflicts)) if ctx.manager == KUBECTL => {
            match conflicts.except(applier.fields_of_last_applied()) {
                Some(conflicts) => Err(conflicts.into_status()),
                None => applier.run(owners, true).map_err(Refusal::into_status),
            }
        }
        outcome => outcome.map_err(Refusal::into_status),
    }
}

/// Why an apply is not carried out.
enum Refusal {
    Conflicts(Conflicts),
    /// The object cannot be seen in a version an owner wrote in.
    Unreadable(String),
}

impl Refusal {
    fn into_status(self) -> Status {
        match self {
            Self::Conflicts(conflicts) => conflicts.into_status(),
            Self::Unreadable(why) => Status::unexplained(why),
        }
    }
}

fn check_patch(patch: &Value, ctx: &WriteContext<'_>, place: Place<'_>) -> Result<(), Status> {
    let gvk = patch.gvk();
    let spelled = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
    if gvk != *ctx.gvk {
        return Err(Status::bad_request(format!("invalid object type: {spelled}")));
    }
    if patch.at(&["metadata", "managedFields"]).is_some_and(|entries| !entries.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    match check::check(patch, place, Duplicates::Refused) {
        None => Ok(()),
        Some(error) => Err(Status::unexplained(format!(
            "failed to create typed patch object ({}/{}; {spelled}): {error}",
            patch.namespace(),
            patch.name()
        ))),
    }
}

struct Applier<'a> {
    live: &'a Value,
    patch: &'a Value,
    ctx: &'a WriteContext<'a>,
    place: Place<'a>,
}

impl Applier<'_> {
    fn run(&self, mut owners: Vec<Entry>, force: bool) -> Result<Value, Refusal> {
        let (ctx, place) = (self.ctx, self.place);
        let mut own = ctx.entry(ctx.manager, Operation::Apply);
        let stated = typed::field_set(self.patch, place);
        own.fields = Fields::Decoded(stated.recursive_difference(&ctx.unreachable_fields()));
        for owner in &mut owners {
            self.reconcile(owner);
        }
        let last = owners.iter().position(|one| one.is_same_manager(&own));
        let last = last.map(|index| owners.remove(index));
        owners.push(own.clone());

        let merged = merge::merge(self.live, self.patch, place);
        let mut result = match &last {
            Some(last) if !last.fields.is_empty() => self.prune(merged, &owners, last),
            _ => merged,
        };
        let Changes { lost, .. } = revise(self.live, &result, &mut owners, &own, ctx, place)
            .map_err(Refusal::Unreadable)?;
        let conflicts = Conflicts::between(&owners, lost.iter().map(|lost| &lost.changed));
        if !force && !conflicts.0.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        let others = owners.iter_mut().zip(&lost).filter(|(one, _)| !one.is_same_manager(&own));
        for (owner, lost) in others {
            owner.fields.take_away(&lost.changed);
            owner.fields.take_away(&lost.removed);
        }
        let unchanged = typed::same(self.live, &result);
        if let Some(own) = owners.iter_mut().find(|one| one.is_same_manager(&own)) {
            own.fields.take_away(&FieldSet::of_fields(STRIPPED));
            // Compat: an apply that changes nothing keeps the time, even of a new owner.
            if unchanged {
                own.time = last.and_then(|last| last.time);
            }
        }
        owners.retain(|owner| !owner.fields.is_empty());
        if result.is_null() {
            result = Value::Object(crate::Map::new());
        }
        self.refresh_last_applied(&mut result);
        entries::store(&mut result, owners);
        Ok(result)
    }

    /// Makes an owner's fields fit the schema, which may have changed since it wrote.
    fn reconcile(&self, owner: &mut Entry) {
        let place = match self.ctx.versions {
            Some(versions) if owner.api_version != self.ctx.gvk.api_version() => {
                Place::root(versions.schema(&owner.api_version))
            }
            _ => self.place,
        };
        let fields = owner.fields.set();
        let reconciled = fields.reconciled(place);
        if reconciled != *fields {
            owner.fields = Fields::Decoded(reconciled);
        }
    }

    /// Removes what this manager stated last time and does not state now, unless another owns it or
    /// it never was in the object.
    fn prune(&self, merged: Value, owners: &[Entry], last: &Entry) -> Value {
        let (ctx, place) = (self.ctx, self.place);
        let Ok(Some(seen)) = view(ctx, &merged, &merged, place, &last.api_version) else {
            return merged;
        };
        let (seen_merged, seen_place) = (seen.new, seen.place);
        let dropped = last.fields.set().with_declared_parents(seen_place);
        let mut pruned = merge::remove(&seen_merged, &dropped, seen_place);

        let mut versions: Vec<&str> = owners.iter().map(|one| &*one.api_version).collect();
        versions.sort_by_key(|version| (*version != last.api_version, *version));
        versions.dedup();
        for version in versions {
            let owned = owners.iter().filter(|one| one.api_version == version);
            let owned = owned.fold(FieldSet::default(), |all, one| all.union(&one.fields.set()));
            let Ok(Some(seen)) = view(ctx, &merged, &pruned, place, version) else { continue };
            let all = declared_fields(&seen.old, seen.place);
            let kept = declared_fields(&seen.new, seen.place);
            let kept = kept.union(&owned.with_declared_parents(seen.place));
            pruned = merge::remove(&seen.old, &all.difference(&kept), seen.place);
        }

        // Only what the last statement named may go; a parent that lost all children may not.
        let Ok(Some(seen)) = view(ctx, &merged, &pruned, place, &last.api_version) else {
            return merged;
        };
        let all = declared_fields(&seen.old, seen.place);
        let gone = all.difference(&declared_fields(&seen.new, seen.place));
        let pruned = merge::remove(&seen.old, &gone.intersection(&dropped), seen.place);
        if last.api_version == ctx.gvk.api_version() {
            return pruned;
        }
        match ctx.versions {
            Some(versions) => {
                let shown = versions.convert(&pruned, &ctx.gvk.api_version());
                shown.ok().flatten().unwrap_or(merged)
            }
            None => pruned,
        }
    }

    /// The fields the last client-side apply stated that are still as it stated them.
    fn fields_of_last_applied(&self) -> FieldSet {
        let text = self.live.annotation(LAST_APPLIED).unwrap_or_default();
        let Ok(stated) = serde_json::from_str::<Value>(text) else { return FieldSet::default() };
        if stated.api_version() != self.ctx.gvk.api_version()
            || check::check(&stated, self.place, Duplicates::Refused).is_some()
        {
            return FieldSet::default();
        }
        let comparison = compare::compare(&stated, self.live, self.place, &[]);
        typed::field_set(&stated, self.place)
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed)
    }

    /// Keeps the annotation of client-side apply in step, so that its users see no difference.
    fn refresh_last_applied(&self, result: &mut Value) {
        let has_annotation = result.annotation(LAST_APPLIED).is_some_and(|text| !text.is_empty());
        if self.ctx.manager != KUBECTL || !has_annotation {
            return;
        }
        let mut stated = self.patch.clone();
        stated.remove_at(&["metadata", "annotations", LAST_APPLIED]);
        if stated.map_at(&["metadata", "annotations"]).is_some_and(crate::Map::is_empty) {
            stated.remove_at(&["metadata", "annotations"]);
        }
        let text = format!("{}\n", go_json(&stated));
        result.set(&["metadata", "annotations", LAST_APPLIED], text);
        let annotations = result.map_at(&["metadata", "annotations"]).into_iter().flatten();
        let bytes: usize =
            annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
        if bytes > ANNOTATIONS_MAX_BYTES {
            result.remove_at(&["metadata", "annotations", LAST_APPLIED]);
        }
    }
}

fn declared_fields(value: &Value, place: Place<'_>) -> FieldSet {
    typed::field_set(value, place).with_declared_parents(place)
}

/// Owners and the fields of theirs an apply would change.
#[derive(Debug)]
struct Conflicts(Vec<(Entry, FieldSet)>);

impl Conflicts {
    fn between<'f>(owners: &[Entry], changed: impl Iterator<Item = &'f FieldSet>) -> Self {
        let pairs = owners.iter().zip(changed).filter(|(_, fields)| !fields.is_empty());
        let mut conflicts: Vec<(Entry, FieldSet)> =
            pairs.map(|(owner, fields)| (owner.clone(), fields.clone())).collect();
        conflicts.sort_by(|(a, _), (b, _)| {
            (&a.manager, a.operation, &a.subresource, &a.api_version).cmp(&(
                &b.manager,
                b.operation,
                &b.subresource,
                &b.api_version,
            ))
        });
        Self(conflicts)
    }

    /// The conflicts outside `allowed`, if there are any.
    fn except(self, allowed: FieldSet) -> Option<Self> {
        let left = self.0.into_iter().map(|(owner, fields)| {
            let fields = fields.difference(&allowed);
            (owner, fields)
        });
        let left: Vec<_> = left.filter(|(_, fields)| !fields.is_empty()).collect();
        (!left.is_empty()).then_some(Self(left))
    }

    fn into_status(self) -> Status {
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        for (owner, fields) in &self.0 {
            let owner = owner.describe();
            lines.push(format!("conflicts with {owner}:"));
            for path in fields.paths() {
                lines.push(format!("- {path}"));
                causes.push(Cause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: format!("conflict with {owner}"),
                    field: path,
                });
            }
        }
        let message = match causes.as_slice() {
            [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
            _ => format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n")),
        };
        Status::new(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
    }
}
