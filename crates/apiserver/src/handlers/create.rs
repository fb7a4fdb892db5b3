//! POST to a collection.

use http::StatusCode;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::{GroupKind, GroupResource};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::Status;

use super::options::{Write, WriteOptions};
use super::write::{self, Written};
use super::{Answer, meta, present, sent};
use crate::admission::Operation;
use crate::call::Call;
use crate::http::negotiate::Transforms;
use crate::registry::Source;
use crate::{admission, allocator, codec, managed};

/// How often a generated name may collide before the server gives up.
const NAME_ATTEMPTS: usize = 8;

pub(crate) async fn create(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    let object = codec::decode_object(call, options.validation)?;
    let object = check_identity(call, object)?;
    let created = create_object(call, object, &options, Recording::Due).await?;
    present::object(call, StatusCode::CREATED, created, form)
}

/// Checks and completes where the object says it lives.
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
    }
    if let Some(why) = &call.served.create_refusal {
        return Err(Status::forbidden(&call.served.group_resource(), object.name(), why));
    }
    Ok(object)
}

/// Whether the writer of an object is yet to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    Due,
    Done,
}

/// Runs everything a create does after decoding and returns the object as served.
pub(crate) async fn create_object(
    call: &Call,
    mut object: Value,
    options: &WriteOptions,
    recording: Recording,
) -> Result<Value, Status> {
    if let Some(warning) = meta::dedup_owners(&mut object) {
        call.warn(warning);
    }
    call.served.strategy.apply_defaults(&mut object);
    object.remove_at(&["metadata", "uid"]);
    if recording == Recording::Due {
        managed::record_create(call, &mut object, options, "");
    }
    let attributes =
        write::admission_attributes(call, Operation::Create, "", object.name(), options.dry_run);
    admission::run::admit(call, &attributes, &mut object, None).await?;
    insert(call, object, options).await
}

/// Stamps, prepares, validates and stores.
async fn insert(call: &Call, mut whole: Value, options: &WriteOptions) -> Result<Value, Status> {
    let storage = call.storage()?;
    let generates = whole.name().is_empty()
        && whole.str_at(&["metadata", "generateName"]).is_some_and(|prefix| !prefix.is_empty());
    let request = call.attributes();
    let said_version = whole.resource_version().to_owned();
    let chance = &call.state.config.chance;
    for _ in 0..NAME_ATTEMPTS {
        // Only a generated name is tried more than once.
        let mut object = if generates { whole.clone() } else { std::mem::take(&mut whole) };
        if generates {
            let prefix = object.str_at(&["metadata", "generateName"]).unwrap_or_default();
            let name = meta::generate_name(prefix, chance);
            object.set(&["metadata", "name"], name);
            // Some defaults follow from the name.
            call.served.strategy.apply_defaults(&mut object);
        }
        meta::stamp_new(&mut object, call.namespace(), call.now(), chance);
        let built_in = call.served.is_judged_as_stored();
        if built_in {
            call.served.to_storage(&mut object).await?;
        }
        call.served.strategy.prepare_create(&mut object);
        call.state.guard.before_validation(&request, &mut object, None)?;
        validate(call, &object)?;
        call.state.guard.after_validation(&request, &object, None)?;
        let allocation = allocator::allocate(call, &mut object, None, options.dry_run).await?;
        let attributes = write::admission_attributes(
            call,
            Operation::Create,
            "",
            object.name(),
            options.dry_run,
        );
        if !built_in {
            call.served.to_storage(&mut object).await?;
        }
        admission::run::validate(call, &attributes, &object, None).await?;
        // Compat: a dry run stores nothing, and so nobody minds.
        if !matches!(said_version.as_str(), "" | "0") && !options.dry_run {
            return Err(Status::unexplained(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let name = object.name().to_owned();
        let written = if options.dry_run {
            dry_insert(call, object, &said_version).await?
        } else {
            write::insert(call, storage, object).await?
        };
        if let Written::Stored(mut object) = written {
            allocation.commit().await;
            call.served.from_storage(&mut object).await?;
            return Ok(object);
        }
        if !generates {
            return Err(exists(call, &name).await);
        }
    }
    let prefix = whole.str_at(&["metadata", "generateName"]).unwrap_or_default();
    let mut status = Status::already_exists(&call.served.group_resource(), prefix);
    status.message.push_str(", the server was not able to generate a unique name for the object");
    Err(status)
}

async fn dry_insert(call: &Call, mut object: Value, version: &str) -> Result<Written, Status> {
    let found = write::load(call, object.namespace(), object.name()).await?;
    object.remove_at(&["metadata", "resourceVersion"]);
    call.storage()?.cache.complete(&mut object);
    if !version.is_empty() {
        object.set(&["metadata", "resourceVersion"], version);
    }
    Ok(if found.is_some() { Written::Raced } else { Written::Stored(object) })
}

async fn exists(call: &Call, name: &str) -> Status {
    let mut status = Status::already_exists(&call.served.group_resource(), name);
    let found = write::load(call, call.namespace(), name).await;
    if let Ok(Some(current)) = found
        && current.value.is_being_deleted()
    {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// The kind a refusal names: what a custom object says it is, else what the path says.
fn judged_kind(call: &Call, object: &Value) -> GroupKind {
    if call.served.source == Source::BuiltIn {
        return call.served.stored_group_kind();
    }
    object.gvk().group_kind()
}

/// Devices are claimed as an administrator only where the namespace says so.
fn unasked_access(call: &Call, object: &Value) -> Vec<FieldError> {
    let requests = match (call.served.gvk.group.as_str(), call.served.gvk.kind.as_str()) {
        ("resource.k8s.io", "ResourceClaim") => object.list_at(&["spec", "devices", "requests"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            object.list_at(&["spec", "spec", "devices", "requests"])
        }
        _ => return Vec::new(),
    };
    let as_admin = |request: &Value| request.bool_at(&["exactly", "adminAccess"]) == Some(true);
    let Some(index) = requests.iter().position(as_admin) else { return Vec::new() };
    let namespaces = GroupResource::new("", "namespaces");
    let namespace = call.state.objects.get(&namespaces, "", call.namespace());
    let label = "resource.kubernetes.io/admin-access";
    if namespace.is_some_and(|namespace| namespace.label(label) == Some("true")) {
        return Vec::new();
    }
    // Compat: the path is that of a claim, in a template too.
    let path = Path::from("spec.devices.requests").index(index).child("adminAccess");
    let why = format!(
        "admin access to devices requires the `{label}: true` label on the containing namespace"
    );
    vec![FieldError::forbidden(&path, why)]
}

fn validate(call: &Call, object: &Value) -> Result<(), Status> {
    let mut errors = unasked_access(call, object);
    errors.extend(call.served.strategy.validate_create(object));
    if !errors.is_empty() {
        sent::show_empty(call, &mut errors);
        return Err(Status::invalid(&judged_kind(call, object), object.name(), &errors));
    }
    for warning in call.served.strategy.warnings(object, None) {
        call.warn(warning);
    }
    Ok(())
}
