//! PUT of an object, and the update every other change of an object is made of.

use http::StatusCode;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::Status;

use super::create::Recording;
use super::options::{Write, WriteOptions};
use super::write::{self, Current, Written};
use super::{Answer, create, meta, present, sent};
use crate::admission::Operation;
use crate::call::Call;
use crate::http::negotiate::Transforms;
use crate::{admission, allocator, codec, managed};

/// How often a change is tried anew when others write at the same time.
const ATTEMPTS: usize = 32;
/// How often a change is worked out anew because a webhook has to show it in another version first.
const CONVERSIONS: usize = 8;

pub(crate) async fn update(call: &Call, subresource: &str) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    let options = WriteOptions::read(&call.query, Write::Update)?;
    let object = codec::decode_object(call, options.validation)?;
    let object = check_identity(call, object)?;
    let change = Change {
        subresource,
        options: &options,
        may_create: subresource.is_empty() && call.served.strategy.rules().put_creates,
        needs_version: !call.served.strategy.rules().unconditional_update,
        check_uid: true,
        recorded: false,
    };
    let outcome = apply(call, call.name(), &change, |old| {
        let mut object = object.clone();
        if let Some(warning) = meta::dedup_owners(&mut object) {
            call.warn(warning);
        }
        call.served.strategy.apply_defaults(&mut object);
        if let Some(old) = old {
            managed::record_update(call, old, &mut object, &options, subresource);
        }
        Ok(object)
    })
    .await?;
    answer(call, outcome, form)
}

pub(crate) fn answer(
    call: &Call,
    outcome: Outcome,
    form: crate::http::negotiate::Representation,
) -> Answer {
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    present::object(call, code, outcome.object, form)
}

fn check_identity(call: &Call, mut object: Value) -> Result<Value, Status> {
    if call.served.namespaced {
        let said = object.namespace();
        if !said.is_empty() && said != call.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let namespace = call.namespace().to_owned();
        object.set(&["metadata", "namespace"], namespace);
    } else {
        object.remove_at(&["metadata", "namespace"]);
    }
    let (said, asked) = (object.name(), call.name());
    if said.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({asked} based on URL) was undeterminable: name must be provided"
        )));
    }
    if said != asked {
        return Err(Status::bad_request(format!(
            "the name of the object ({said}) does not match the name on the URL ({asked})"
        )));
    }
    Ok(object)
}

/// How a change is made.
pub(crate) struct Change<'a> {
    pub(crate) subresource: &'a str,
    pub(crate) options: &'a WriteOptions,
    pub(crate) may_create: bool,
    /// The new object must carry the version it replaces.
    pub(crate) needs_version: bool,
    /// A uid in the new object is a precondition rather than a field.
    pub(crate) check_uid: bool,
    /// The writer is recorded already, also if the object is created.
    pub(crate) recorded: bool,
}

/// What came of a change; the object is in the version served.
pub(crate) struct Outcome {
    pub(crate) object: Value,
    pub(crate) created: bool,
}

/// Reads, changes and writes one object, again and again until nobody else wrote in between.
/// `make` gets the stored object in the version served and returns the new one.
pub(crate) async fn apply(
    call: &Call,
    name: &str,
    change: &Change<'_>,
    make: impl Fn(Option<&Value>) -> Result<Value, Status>,
) -> Result<Outcome, Status> {
    for _ in 0..ATTEMPTS {
        let Some(current) = write::load(call, call.namespace(), name).await? else {
            if !change.may_create {
                return Err(Status::not_found(&call.served.group_resource(), name));
            }
            let object = make(None)?;
            let recording = if change.recorded { Recording::Done } else { Recording::Due };
            let created = create::create_object(call, object, change.options, recording);
            let object = Box::pin(created).await?;
            return Ok(Outcome { object, created: true });
        };
        let served = match call.served.serves_stored_bytes() {
            true => None,
            false => {
                let mut old = current.value.clone();
                call.served.from_storage(&mut old).await?;
                Some(old)
            }
        };
        let old = served.as_ref().unwrap_or(&current.value);
        let mut new = make(Some(old));
        for _ in 0..CONVERSIONS {
            if !call.conversions.supply(&call.served).await {
                break;
            }
            new = make(Some(old));
        }
        if let Some(object) = attempt(call, name, change, &current, (new?, old)).await? {
            return Ok(Outcome { object, created: false });
        }
    }
    Err(Status::stale(&call.served.group_resource(), name))
}

/// One attempt; nothing if somebody else wrote first.
async fn attempt(
    call: &Call,
    name: &str,
    change: &Change<'_>,
    current: &Current,
    (mut new, old): (Value, &Value),
) -> Result<Option<Value>, Status> {
    check_preconditions(call, change, current, &new)?;
    let dry_run = change.options.dry_run;
    let asked = &call.target.subresource;
    let attributes = write::admission_attributes(call, Operation::Update, asked, name, dry_run);
    admission::run::admit(call, &attributes, &mut new, Some(old)).await?;
    let built_in = call.served.is_judged_as_stored();
    if built_in {
        call.served.to_storage(&mut new).await?;
    }
    let old = if built_in { &current.value } else { old };
    meta::keep_owned(&mut new, old);
    let version = current.kv.mod_revision;
    new.set(&["metadata", "resourceVersion"], version.to_string());
    let is_binding = change.subresource == "binding";
    if !is_binding {
        call.served.strategy.prepare_update(change.subresource, &mut new, old, call.now());
    }
    let request = call.attributes();
    call.state.guard.before_validation(&request, &mut new, Some(old))?;
    if !is_binding {
        validate(call, change.subresource, &new, old)?;
    }
    call.state.guard.after_validation(&request, &new, Some(old))?;
    let allocation = allocator::allocate(call, &mut new, Some(old), dry_run).await?;
    admission::run::validate(call, &attributes, &new, Some(old)).await?;
    if !built_in {
        call.served.to_storage(&mut new).await?;
    }
    let finished = meta::is_finished(&new) && is_finalized(call, &new);
    let written = if dry_run {
        Written::Stored(if finished { new } else { write::rehearse(current, new) })
    } else if finished {
        // Compat: the answer carries the version the object had, not that of its deletion.
        match write::remove(call, current, new).await? {
            Written::Stored(last) => Written::Stored(write::stamped(last, version)),
            Written::Raced => Written::Raced,
        }
    } else {
        write::replace(call, current, new).await?
    };
    let Written::Stored(mut object) = written else { return Ok(None) };
    allocation.commit().await;
    if finished && !dry_run {
        allocator::released(call, &object).await;
    }
    call.served.from_storage(&mut object).await?;
    Ok(Some(object))
}

/// Namespaces carry finalizers in their spec too.
fn is_finalized(call: &Call, object: &Value) -> bool {
    !(call.served.gvk.group.is_empty() && call.served.gvk.kind == "Namespace")
        || object.list_at(&["spec", "finalizers"]).is_empty()
}

fn check_preconditions(
    call: &Call,
    change: &Change<'_>,
    current: &Current,
    new: &Value,
) -> Result<(), Status> {
    let resource = call.served.group_resource();
    let (said, is) = (new.uid(), current.value.uid());
    if change.check_uid && !said.is_empty() && said != is {
        // Compat: a dry run does not know where its store begins.
        let key: &str = &current.kv.key;
        let key = match change.options.dry_run {
            true => key.strip_prefix("/registry").unwrap_or(key),
            false => key,
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {said}, UID in object meta: {is}"
        );
        return Err(Status::conflict(&resource, call.name(), why));
    }
    match new.resource_version() {
        "" | "0" if change.needs_version => {
            let path = Path::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(
                &path,
                Shown::Verbatim("0".into()),
                "must be specified for an update",
            );
            // Compat: this refusal names the resource where others name the kind.
            let named =
                GroupKind { group: resource.group.clone(), kind: resource.resource.clone() };
            Err(Status::invalid(&named, call.name(), &[error]))
        }
        "" | "0" => Ok(()),
        version => match version.parse::<u64>() {
            Err(_) => Err(Status::unexplained(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                karmada_apimachinery::field::quote(version)
            ))),
            Ok(version) if version as i64 == current.kv.mod_revision => Ok(()),
            Ok(_) => Err(Status::stale(&resource, call.name())),
        },
    }
}

fn validate(call: &Call, subresource: &str, new: &Value, old: &Value) -> Result<(), Status> {
    let mut errors = call.served.strategy.validate_update(subresource, new, old);
    if !errors.is_empty() {
        sent::show_empty(call, &mut errors);
        return Err(Status::invalid(&call.served.stored_group_kind(), new.name(), &errors));
    }
    for warning in call.served.strategy.warnings(new, Some(old)) {
        call.warn(warning);
    }
    Ok(())
}
