//! Field ownership: `metadata.managedFields` on every write, and server-side apply.
//!
//! Every write has a manager. A plain write makes its manager the owner of what it changed; an apply
//! makes it the owner of what it states, refuses to change what others own unless forced, and removes
//! what it stated before and states no more. Decoding, defaulting and validating the results is the
//! caller's part.

mod apply;
mod check;
mod compare;
mod entries;
mod gained;
mod merge;
mod place;
mod scale;
mod set;
mod typed;
mod update;
mod way;

use crate::Value;
use crate::value::Text;
use jiff::Timestamp;

pub use apply::apply;
pub use scale::{scale_from_parent, scale_to_parent};
pub use set::{DecodeError, FieldSet, Step};
pub use update::{asks_for_reset, carry_reset, update};

use crate::gvk::Gvk;
use crate::object::ObjectExt;
use crate::schema::Cursor;
use crate::time::format_time;
use check::Duplicates;
use entries::{Entry, Fields, Operation};
use place::Place;

/// Fields no manager owns: they identify the object or belong to the server.
const STRIPPED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// The other versions an object is served in, for managers that wrote in them.
pub trait Versions {
    /// The object in that version, nothing if the version is not served any more, or why it cannot be
    /// shown in it.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<Value>, String>;
    fn schema(&self, api_version: &str) -> Option<Cursor<'_>>;
}

/// Who writes what, and when.
pub struct WriteContext<'a> {
    /// Empty means unknown.
    pub manager: &'a str,
    /// The kind the request is about; its version is that of the request.
    pub gvk: &'a Gvk,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Fields (with all below them) that writes through this endpoint do not reach.
    pub reset_fields: &'a [&'a [&'a str]],
    /// Without it, all versions are taken to look alike.
    pub versions: Option<&'a dyn Versions>,
}

impl<'a> WriteContext<'a> {
    /// A write to the object itself, through which all of it can be reached.
    pub fn new(manager: &'a str, gvk: &'a Gvk, now: Timestamp) -> Self {
        Self { manager, gvk, subresource: "", now, reset_fields: &[], versions: None }
    }

    fn entry(&self, manager: &str, operation: Operation) -> Entry {
        Entry {
            manager: if manager.is_empty() { "unknown" } else { manager }.into(),
            operation,
            api_version: self.gvk.api_version().into(),
            subresource: self.subresource.into(),
            time: Some(format_time(self.now).into()),
            fields: Fields::Decoded(FieldSet::default()),
            read: None,
        }
    }

    fn unreachable_fields(&self) -> FieldSet {
        FieldSet::of_fields(self.reset_fields)
    }
}

/// A pair of objects in one version, with the place that describes both.
struct View<'v> {
    old: Value,
    new: Value,
    place: Place<'v>,
}

/// Both objects as a manager of `api_version` sees them; nothing if that version is not served any
/// more, an error if it cannot hold them.
fn view<'v>(
    ctx: &WriteContext<'v>,
    old: &Value,
    new: &Value,
    place: Place<'v>,
    api_version: &str,
) -> Result<Option<View<'v>>, String> {
    let foreign = ctx.versions.filter(|_| api_version != ctx.gvk.api_version());
    let Some(versions) = foreign else {
        return Ok(Some(View { old: old.clone(), new: new.clone(), place }));
    };
    let both = versions.convert(old, api_version)?.zip(versions.convert(new, api_version)?);
    let Some((old, new)) = both else { return Ok(None) };
    let place = Place::root(versions.schema(api_version));
    match check::check(&old, place, Duplicates::Allowed)
        .or_else(|| check::check(&new, place, Duplicates::Allowed))
    {
        None => Ok(Some(View { old, new, place })),
        Some(why) => Err(why),
    }
}

/// Whether two objects differ at most in the times of their managed fields, so that writing the
/// second over the first would change nothing.
pub fn same_ignoring_timestamps(a: &Value, b: &Value) -> bool {
    same_untimed(a.list_at(MANAGED), b.list_at(MANAGED)) && same_except_managed_fields(a, b)
}

const MANAGED: &[&str] = &["metadata", "managedFields"];

fn same_untimed(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let [a, b] = [a, b].map(|entry| entry.as_object().into_iter().flatten());
            let told = |(name, _): &(&Text, &Value)| name.as_str() != "time";
            a.filter(told).eq(b.filter(told))
        })
}

fn same_except_managed_fields(a: &Value, b: &Value) -> bool {
    let equal = |a: &Value, b: &Value, skip: &str, inner: &dyn Fn(&Value, &Value) -> bool| {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
        let others = |map: &crate::Map| map.keys().filter(|key| *key != skip).count();
        others(a) == others(b)
            && a.iter().all(|(key, a)| match b.get(key) {
                Some(b) if key == skip => inner(a, b),
                Some(b) => a == b,
                None => key == skip,
            })
    };
    equal(a, b, "metadata", &|a, b| equal(a, b, "managedFields", &|_, _| true))
}

#[cfg(test)]
mod tests;
