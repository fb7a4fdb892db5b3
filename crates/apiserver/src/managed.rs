//! Who owns which field: `managedFields` of plain writes, and server-side apply.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::managed::{self, Versions, WriteContext};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::schema::Cursor;
use karmada_apimachinery::status::Status;
use karmada_kinds::ownership;

use crate::call::Call;
use crate::codec;
use crate::handlers::options::{FieldValidation, WriteOptions};
use crate::handlers::update::{self, Change};
use crate::handlers::{Answer, patch};
use crate::http::negotiate::{Format, Representation};
use crate::registry::{Served, Source};

/// The versions of the resource a call is about.
struct ServedVersions<'a>(&'a Call);

impl Versions for ServedVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<Value>, String> {
        let strategy = &self.0.served.strategy;
        let known = GroupVersion::parse(api_version).filter(|own| strategy.knows_version(own));
        let Some(target) = known else { return Ok(None) };
        if strategy.conversion_webhook().is_some() && object.api_version() != api_version {
            return self.0.conversions.find(object, api_version).transpose();
        }
        let mut object = object.clone();
        strategy.show_owner(&mut object, &target.group, &target.version);
        Ok(Some(object))
    }

    fn schema(&self, api_version: &str) -> Option<Cursor<'_>> {
        let version = GroupVersion::parse(api_version)?;
        let served = &self.0.served;
        served.strategy.schema_of(&version.with_kind(served.gvk.kind.as_str()))
    }
}

/// Records the manager of something that is answered but not kept, such as a request for a token.
pub(crate) fn record_unstored(
    call: &Call,
    object: &mut Value,
    options: &WriteOptions,
    (gvk, subresource): (&Gvk, &str),
) {
    let manager = options.manager_of(call);
    let mut ctx = WriteContext::new(&manager, gvk, call.now());
    ctx.subresource = subresource;
    let schema = karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind);
    managed::update(None, object, &ctx, schema);
}

/// Runs `record` with the context of a write to the resource or one of its subresources.
fn with_context<T>(
    call: &Call,
    manager: &str,
    subresource: &str,
    record: impl FnOnce(&WriteContext<'_>, Option<Cursor<'_>>) -> T,
) -> T {
    let versions = ServedVersions(call);
    let reset = reset_fields(&call.served, subresource);
    let ctx = WriteContext {
        manager,
        gvk: &call.served.gvk,
        subresource,
        now: call.now(),
        reset_fields: reset,
        versions: Some(&versions),
    };
    record(&ctx, call.served.strategy.schema_of(&call.served.gvk))
}

/// What writes through an endpoint do not reach.
fn reset_fields(served: &Served, subresource: &str) -> &'static [&'static [&'static str]] {
    if served.source == Source::BuiltIn {
        ownership::reset_fields(&served.gvk.group, &served.gvk.kind, subresource)
    } else {
        ownership::custom_reset_fields(subresource, served.has_status())
    }
}

/// Records the manager of a new object.
pub(crate) fn record_create(
    call: &Call,
    object: &mut Value,
    options: &WriteOptions,
    subresource: &str,
) {
    let manager = options.manager_of(call);
    with_context(call, &manager, subresource, |ctx, schema| {
        managed::update(None, object, ctx, schema)
    });
}

/// Records the manager of what an update changed.
pub(crate) fn record_update(
    call: &Call,
    old: &Value,
    new: &mut Value,
    options: &WriteOptions,
    subresource: &str,
) {
    let manager = options.manager_of(call);
    with_context(call, &manager, subresource, |ctx, schema| {
        managed::update(Some(old), new, ctx, schema);
    });
}

/// Server-side apply.
pub(crate) async fn apply_patch(
    call: &Call,
    subresource: &str,
    options: &WriteOptions,
    form: Representation,
) -> Answer {
    let wanted = read_patch(call, options.validation)?;
    let change = Change {
        subresource,
        options,
        may_create: subresource.is_empty(),
        needs_version: false,
        check_uid: false,
        recorded: true,
    };
    let outcome = update::apply(call, call.name(), &change, |old| {
        let uid = wanted.uid();
        if old.is_none() && !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(&call.served.group_resource(), call.name(), why));
        }
        let mut merged = with_context(call, &options.manager, subresource, |ctx, schema| {
            managed::apply(old, &wanted, ctx, options.force, schema)
        })?;
        if old.is_none() {
            merged.remove_at(&["metadata", "resourceVersion"]);
        }
        patch::check_unmoved(call, &merged)?;
        patch::finish(call, merged, &[], FieldValidation::Ignore)
    })
    .await?;
    update::answer(call, outcome, form)
}

/// The object a client applies.
fn read_patch(call: &Call, validation: FieldValidation) -> Result<Arc<Value>, Status> {
    let (wanted, problems) = codec::read_patch(call, Format::Yaml)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    if !problems.is_empty() {
        match validation {
            FieldValidation::Strict => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: {}",
                    problems.strict_error()
                )));
            }
            FieldValidation::Warn => problems.lines().iter().for_each(|line| call.warn(line)),
            FieldValidation::Ignore => {}
        }
    }
    if !wanted.is_object() {
        return Err(Status::bad_request("error decoding YAML: the body is no object"));
    }
    Ok(wanted)
}
