//! PATCH: JSON, merge, strategic merge and apply patches.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::patch;
use karmada_apimachinery::status::{Details, Status};
use karmada_apimachinery::{Value, decode};

use super::options::{FieldValidation, Write, WriteOptions};
use super::update::{self, Change};
use super::{Answer, meta};
use crate::call::Call;
use crate::http::negotiate::{Format, Transforms};
use crate::registry::Source;
use crate::{codec, managed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Kind {
    /// The kind of patch a request carries.
    pub(crate) fn of(call: &Call) -> Result<Self, Status> {
        let content_type = call.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
        // Custom resources have no types to take merge keys from; everything else has.
        let typed = call.served.source != Source::Custom;
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if typed => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if typed => Err(Status::unsupported_media_type("415: Unsupported Media Type")
                .with_details(Details::default())),
            _ => Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}

pub(crate) async fn patch(call: &Call, subresource: &str) -> Answer {
    let kind = Kind::of(call)?;
    let form = call.negotiate(Transforms::Object)?;
    let options = WriteOptions::read(&call.query, Write::Patch { apply: kind == Kind::Apply })?;
    if kind == Kind::Apply {
        return Box::pin(managed::apply_patch(call, subresource, &options, form)).await;
    }
    let patch = read_body(call, kind, options.validation)?;
    let untouched = untouched(call, kind, &patch);
    let change = Change {
        subresource,
        options: &options,
        may_create: false,
        needs_version: false,
        check_uid: false,
        recorded: false,
    };
    let outcome = update::apply(call, call.name(), &change, |old| {
        let Some(old) = old else {
            return Err(Status::not_found(&call.served.group_resource(), call.name()));
        };
        let patched = apply_to(call, kind, old, &patch)?;
        let mut new = finish(call, patched, untouched, options.validation)?;
        if let Some(warning) = meta::dedup_owners(&mut new) {
            call.warn(warning);
        }
        check_unmoved(call, &new)?;
        managed::record_update(call, old, &mut new, &options, subresource);
        Ok(new)
    })
    .await?;
    update::answer(call, outcome, form)
}

/// The parts of an object that a patch leaves alone, of those that are large and often are.
fn untouched(call: &Call, kind: Kind, patch: &Value) -> &'static [&'static str] {
    const SPEC: &str = "spec";
    let names_it = |operation: &Value, field: &str| {
        let path = operation.str_at(&[field]);
        // A path of no steps is the whole object.
        path.is_some_and(|path| path.split('/').nth(1).is_none_or(|first| first == SPEC))
    };
    let touched = match (kind, patch) {
        (Kind::Merge | Kind::Strategic, Value::Object(fields)) => fields.contains_key(SPEC),
        (Kind::Json, Value::Array(operations)) => {
            operations.iter().any(|one| names_it(one, "path") || names_it(one, "from"))
        }
        _ => true,
    };
    if touched || !call.served.serves_stored_bytes() { &[] } else { &[SPEC] }
}

/// Parses a patch and complains of duplicate fields in it as the client wishes.
fn read_body(call: &Call, kind: Kind, validation: FieldValidation) -> Result<Arc<Value>, Status> {
    let (patch, problems) = codec::read_patch(call, Format::Json).map_err(|error| match kind {
        Kind::Json => Status::bad_request(format!("error decoding patch: {error}")),
        _ => Status::bad_request(error.to_string()),
    })?;
    let count = patch.as_array().map_or(0, |it| it.len());
    if kind == Kind::Json && count > patch::json::MAX_OPERATIONS {
        return Err(too_many_operations(count));
    }
    let problems = match kind {
        Kind::Json => operation_problems(&patch, &problems),
        _ => problems,
    };
    complain(call, &problems, validation)?;
    Ok(patch)
}

/// What is odd about the operations of a JSON patch.
fn operation_problems(patch: &Value, found: &decode::Problems) -> decode::Problems {
    const KNOWN: &[&str] = &["op", "path", "from", "value"];
    let mut problems = decode::Problems::default();
    for line in found.lines() {
        problems.add(format!("json patch {line}"));
    }
    for (index, operation) in patch.as_array().into_iter().flatten().enumerate() {
        let keys = operation.as_object().into_iter().flat_map(|operation| operation.keys());
        for key in keys.filter(|key| !KNOWN.contains(&key.as_str())) {
            problems.add(format!("json patch unknown field \"[{index}].{key}\""));
        }
    }
    problems
}

fn too_many_operations(count: usize) -> Status {
    Status::new(
        413,
        "RequestEntityTooLarge",
        format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {}, got {count}",
            patch::json::MAX_OPERATIONS
        ),
    )
}

/// Applies a patch to an object in the version served.
pub(crate) fn apply_to(
    call: &Call,
    kind: Kind,
    old: &Value,
    body: &Value,
) -> Result<Value, Status> {
    match kind {
        Kind::Json => patch::json::apply(old, body),
        Kind::Merge => patch::merge::apply(old, body),
        Kind::Strategic => {
            let gvk = &call.served.gvk;
            let schema = match call.served.source {
                // Of a kind of the embedding program only the metadata is known, as that of any kind.
                Source::Native => karmada_kinds::schema::of("", "v1", "ConfigMap"),
                _ => karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind),
            };
            patch::strategic::apply(old, body, schema)
        }
        Kind::Apply => Ok(body.clone()),
    }
}

/// Brings a patched object into shape as if it had been sent. What is untouched is as it was stored, and
/// in shape already.
pub(crate) fn finish(
    call: &Call,
    mut patched: Value,
    untouched: &[&str],
    validation: FieldValidation,
) -> Result<Value, Status> {
    let kept: Vec<Option<Value>> =
        untouched.iter().map(|field| patched.remove_at(&[field])).collect();
    let (mut object, problems) =
        codec::shape_object(call, patched).map_err(|why| bad_patch(call, why))?;
    for (field, kept) in untouched.iter().zip(kept) {
        if let Some(kept) = kept {
            object.set(&[field], kept);
        }
    }
    complain(call, &problems, validation)?;
    call.served.strategy.apply_defaults(&mut object);
    Ok(object)
}

fn complain(
    call: &Call,
    problems: &decode::Problems,
    validation: FieldValidation,
) -> Result<(), Status> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => problems.lines().iter().for_each(|line| call.warn(line)),
        FieldValidation::Strict => {
            return Err(bad_patch(call, problems.strict_error()));
        }
    }
    Ok(())
}

/// The refusal of a patch whose result is no object of its kind.
pub(crate) fn bad_patch(call: &Call, why: impl Into<String>) -> Status {
    let shown = Shown::Verbatim(quoted_patch(call));
    let error = FieldError::invalid(&Path::new("patch"), shown, why);
    // Compat: such refusals name neither kind nor object.
    Status::invalid(&GroupKind::default(), "", &[error])
}

fn quoted_patch(call: &Call) -> String {
    let body = call.body.text();
    let text = String::from_utf8_lossy(&body);
    karmada_apimachinery::field::quote(&text)
}

/// A patch cannot move an object.
pub(crate) fn check_unmoved(call: &Call, new: &Value) -> Result<(), Status> {
    let (name, url) = (new.name(), call.name());
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != url {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    let (namespace, url) = (new.namespace(), call.namespace());
    if call.served.namespaced && !namespace.is_empty() && namespace != url {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
