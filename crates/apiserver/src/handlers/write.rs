//! Reading and writing one object of the store: optimistic, without needless writes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_apimachinery::Value;
use karmada_apimachinery::managed::same_ignoring_timestamps;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::{Cause, Details, Status};
use karmada_apimachinery::value::Text;
use karmada_store::{Error, Expect, KeyValue, Packed};

use crate::admission::{Attributes, Operation};
use crate::cache::{self, Ahead, Reads};
use crate::call::Call;
use crate::registry::{Served, Storage};

/// How long an answer waits for the caches.
const SETTLE: Duration = Duration::from_secs(1);

/// An object as it is stored now.
pub(crate) struct Current {
    pub(crate) kv: KeyValue,
    /// In the stored version, with its resource version.
    pub(crate) value: Value,
    /// Whether it reads differently from what is stored.
    completed: bool,
}

/// Reads the object a call names, in its stored version.
pub(crate) async fn load(
    call: &Call,
    namespace: &str,
    name: &str,
) -> Result<Option<Current>, Status> {
    load_from(call, call.storage()?, namespace, name).await
}

pub(crate) async fn load_from(
    call: &Call,
    storage: &Storage,
    namespace: &str,
    name: &str,
) -> Result<Option<Current>, Status> {
    let key = storage.key(namespace, name);
    let Some(kv) = call.state.store.get(&key, None).await.map_err(store_error)? else {
        return Ok(None);
    };
    let object = storage.cache.object_of(&kv).map_err(Status::internal)?;
    Ok(Some(Current { kv, value: object.to_value(), completed: object.completed }))
}

/// Reads an object that must be there.
pub(crate) async fn load_existing(
    call: &Call,
    namespace: &str,
    name: &str,
) -> Result<Current, Status> {
    let current = load(call, namespace, name).await?;
    current.ok_or_else(|| Status::not_found(&call.served.group_resource(), name))
}

/// The bytes an object is stored as: without its version, which is the store's own. The tree becomes what it is read as
/// from then on, and the cache is told of it where that is the same.
fn encode_for_store<'a>(
    storage: &'a Storage,
    value: &mut Value,
) -> Result<(Packed, Option<Ahead<'a>>), Status> {
    value.remove_at(&["metadata", "resourceVersion"]);
    let (text, places) = cache::encode(value);
    let (text, reads) = (checked_size(text)?, storage.cache.complete(value));
    let packed = storage.cache.pack(&text, reads);
    let ahead = match reads {
        Reads::AsStored => storage.cache.expect((&packed, places), value),
        Reads::Otherwise => None,
    };
    Ok((packed, ahead))
}

/// The largest object that is kept.
const MAX_STORED: usize = 1536 * 1024;

fn checked_size(bytes: Bytes) -> Result<Bytes, Status> {
    if bytes.len() > MAX_STORED {
        return Err(Status::unexplained("etcdserver: request is too large"));
    }
    Ok(bytes)
}

/// What became of a write.
pub(crate) enum Written {
    Stored(Value),
    /// Somebody else wrote first.
    Raced,
}

/// Stores a new object and returns it with its version.
pub(crate) async fn insert(
    call: &Call,
    storage: &Storage,
    mut object: Value,
) -> Result<Written, Status> {
    let key = storage.key(object.namespace(), object.name());
    let (text, _ahead) = encode_for_store(storage, &mut object)?;
    match call.state.store.put(&key, text, Expect::Absent).await {
        Ok(kv) => Ok(Written::Stored(settled(call, object, kv.mod_revision).await)),
        Err(Error::Conflict { .. }) => Ok(Written::Raced),
        Err(error) => Err(store_error(error)),
    }
}

/// Replaces an object unless it is stored like that already.
pub(crate) async fn replace(
    call: &Call,
    current: &Current,
    mut object: Value,
) -> Result<Written, Status> {
    if is_stored_like_this(&object, current) {
        return Ok(Written::Stored(current.value.clone()));
    }
    let (storage, key) = (call.storage()?, &current.kv.key);
    let (text, _ahead) = encode_for_store(storage, &mut object)?;
    let expect = Expect::ModRevision(current.kv.mod_revision);
    match call.state.store.put(key, text, expect).await {
        Ok(kv) => Ok(Written::Stored(settled(call, object, kv.mod_revision).await)),
        Err(Error::Conflict { .. }) => Ok(Written::Raced),
        Err(error) => Err(store_error(error)),
    }
}

/// What [`replace`] would leave behind.
pub(crate) fn rehearse(current: &Current, object: Value) -> Value {
    if is_stored_like_this(&object, current) { current.value.clone() } else { object }
}

/// Whether a write would change nothing but times of managed fields.
fn is_stored_like_this(object: &Value, current: &Current) -> bool {
    if !current.completed && object.resource_version() == current.value.resource_version() {
        return same_ignoring_timestamps(object, &current.value);
    }
    let Ok(stored) = current.kv.value.with(Value::from_text) else { return false };
    let stored = stamped(stored, current.kv.mod_revision);
    let object = stamped(object.clone(), current.kv.mod_revision);
    same_ignoring_timestamps(&object, &stored)
}

/// Deletes an object and returns its last state with the version of its deletion.
pub(crate) async fn remove(call: &Call, current: &Current, last: Value) -> Result<Written, Status> {
    let expect = Expect::ModRevision(current.kv.mod_revision);
    match call.state.store.delete(&current.kv.key, expect).await {
        Ok(event) => Ok(Written::Stored(settled(call, last, event.revision()).await)),
        Err(Error::Conflict { .. }) => Ok(Written::Raced),
        Err(error) => Err(store_error(error)),
    }
}

/// Waits until the caches know the write, so that whoever reads next sees it.
async fn settled(call: &Call, object: Value, revision: i64) -> Value {
    call.state.caches.reach(revision, SETTLE).await;
    stamped(object, revision)
}

pub(crate) fn stamped(mut object: Value, revision: i64) -> Value {
    object.set(&["metadata", "resourceVersion"], revision.to_string());
    object
}

/// Failures of the store in the words of the API.
pub(crate) fn store_error(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        Error::FutureRevision { requested, current } => too_large_version(requested, current),
        Error::Closed => Status::unavailable("the store is closed"),
        Error::Unavailable { .. } | Error::KeyService { .. } => {
            let details = Details { retry_after_seconds: 1, ..Details::default() };
            Status::unavailable(error.to_string()).with_details(details)
        }
        // Trying again blindly could undo what somebody did in between. Some clients do that by
        // themselves when they read "timeout" or "unavailable".
        Error::Ambiguous { .. } => Status::unexplained(error.to_string()),
        Error::TooLarge { reason } => Status::unexplained(reason),
        error => Status::internal(error),
    }
}

/// The client knows a newer version than the server.
pub(crate) fn too_large_version(requested: i64, current: i64) -> Status {
    let cause = Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        ..Cause::default()
    };
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    Status::new(504, "Timeout", message).with_details(Details {
        causes: vec![cause],
        retry_after_seconds: 1,
        ..Details::default()
    })
}

/// What admission is told about a write.
pub(crate) fn admission_attributes(
    call: &Call,
    operation: Operation,
    subresource: &str,
    name: &str,
    dry_run: bool,
) -> Attributes {
    attributes_for(call, &call.served, operation, subresource, name, dry_run)
}

pub(crate) fn attributes_for(
    call: &Call,
    served: &Arc<Served>,
    operation: Operation,
    subresource: &str,
    name: &str,
    dry_run: bool,
) -> Attributes {
    Attributes {
        operation,
        gvk: served.gvk.clone(),
        resource: served.plural.as_str().into(),
        subresource: subresource.into(),
        namespace: if served.namespaced { call.target.namespace.clone() } else { Text::default() },
        name: name.into(),
        dry_run,
        user: call.user.clone(),
    }
}
