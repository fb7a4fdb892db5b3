//! PATCH: JSON, merge, strategic merge and apply patches.

use http::header::CONTENT_TYPE;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::patch;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, decode};

use super::options::{FieldValidation, Write, WriteOptions};
use super::update::{self, Change};
use super::{Answer, meta};
use crate::call::Call;
use crate::http::negotiate::Transforms;
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
        let built_in = call.served.source == Source::BuiltIn;
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if built_in => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if built_in => Err(Status::unsupported_media_type("415: Unsupported Media Type")),
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
        return managed::apply_patch(call, subresource, &options, form).await;
    }
    let patch = read_body(call, kind, options.validation)?;
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
        let mut new = finish(call, patched, options.validation)?;
        if meta::dedup_owners(&mut new) {
            call.warn(meta::duplicate_owners_warning(false));
        }
        check_unmoved(call, &new, old)?;
        managed::record_update(call, old, &mut new, &options, subresource);
        Ok(new)
    })
    .await?;
    update::answer(call, outcome, form)
}

/// Parses a patch and complains of duplicate fields in it as the client wishes.
fn read_body(call: &Call, kind: Kind, validation: FieldValidation) -> Result<Value, Status> {
    let decoded = decode::json_untyped(&call.body).map_err(|error| match kind {
        Kind::Json => Status::bad_request(format!("error decoding patch: {error}")),
        _ => Status::bad_request(error.to_string()),
    })?;
    if kind == Kind::Json
        && decoded.value.as_array().is_some_and(|list| list.len() > patch::json::MAX_OPERATIONS)
    {
        let count = decoded.value.as_array().map_or(0, Vec::len);
        return Err(too_many_operations(count));
    }
    complain(call, &decoded.problems, validation)?;
    Ok(decoded.value)
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
            let schema = karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind);
            patch::strategic::apply(old, body, schema)
        }
        Kind::Apply => Ok(body.clone()),
    }
}

/// Brings a patched object into shape as if it had been sent.
pub(crate) fn finish(
    call: &Call,
    patched: Value,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let (mut object, problems) = codec::shape_object(call, patched)?;
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
            let error = FieldError::invalid(
                &Path::new("patch"),
                Shown::Verbatim(quoted_patch(call)),
                problems.strict_error(),
            );
            return Err(Status::invalid(&call.served.group_kind(), call.name(), &[error]));
        }
    }
    Ok(())
}

fn quoted_patch(call: &Call) -> String {
    let text = String::from_utf8_lossy(&call.body);
    karmada_apimachinery::field::quote(&text)
}

/// A patch cannot move an object.
fn check_unmoved(call: &Call, new: &Value, old: &Value) -> Result<(), Status> {
    if new.name() != old.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            new.name(),
            old.name()
        )));
    }
    if new.namespace() != call.namespace() {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the URL ({})",
            new.namespace(),
            call.namespace()
        )));
    }
    Ok(())
}
