//! Writing what a controller found out about an object, if it is news.

use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Object, Result};
use karmada_runtime::ObjectKey;

/// A controller could not do its work; it will try again.
#[derive(Debug, thiserror::Error)]
#[error("reconcile {kind} {key}")]
pub(crate) struct Error {
    pub(crate) kind: &'static str,
    pub(crate) key: ObjectKey,
    pub(crate) source: karmada_client::Error,
}

impl Error {
    pub(crate) fn new(kind: &'static str, key: &ObjectKey, source: karmada_client::Error) -> Self {
        Self { kind, key: key.clone(), source }
    }
}

/// Replaces the status of an object if it differs. Whoever was faster, or a deletion, brings the
/// object back to the controller, so neither is an error.
pub(crate) async fn write_status(api: &Api, object: &Object, status: Value) -> Result<bool> {
    let mut value = object.value();
    if value.get("status").unwrap_or(&json!({})) == &status {
        return Ok(false);
    }
    value.set(&["status"], status);
    settle(api.update_subresource(&value, "status").await).map(|written| written.is_some())
}

/// Takes "somebody was faster" and "it is gone" as answers, not as failures.
pub(crate) fn settle(result: Result<Value>) -> Result<Option<Value>> {
    match result {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
