//! What every request passes before and after its handler: limits, audit id, default headers.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use karmada_apimachinery::status::Status;

use super::body::Body;
use crate::chance::Chance;

/// How many times the limit is read of a body that is refused for its size.
const DRAINED: usize = 4;

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Reads a whole body, up to a limit.
pub async fn read_body(body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, Status> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or_default();
    if announced > limit {
        // A client that is cut off while it still sends would not see the answer.
        let _ = Limited::new(body, limit * DRAINED).collect().await;
        return Err(too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Err(error) => Err(Status::bad_request(format!("read the request body: {error}"))),
    }
}

/// Refuses a body that is too large.
pub fn check_size(body: &Bytes, limit: usize) -> Result<(), Status> {
    if body.len() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn too_large(limit: usize) -> Status {
    let message = format!("Request entity too large: limit is {limit}");
    Status::new(413, "RequestEntityTooLarge", message)
}

/// Headers every answer carries.
pub fn finish_headers(headers: &mut HeaderMap, audit_id: &HeaderValue) {
    headers.insert(AUDIT_ID, audit_id.clone());
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
}

/// The id a request is known by: the client's own, or a new one.
pub(crate) fn audit_id(headers: &HeaderMap, chance: &Chance) -> HeaderValue {
    let fresh = || HeaderValue::from_str(&chance.id());
    let given = headers.get(AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= 64).cloned();
    given.or_else(|| fresh().ok()).unwrap_or(HeaderValue::from_static("-"))
}

/// A place among the requests served at the same time.
pub struct Seat<'a>(&'a AtomicI64);

impl<'a> Seat<'a> {
    /// Takes a place whatever the limit.
    pub fn take_anyway(gauge: &'a AtomicI64) -> Self {
        gauge.fetch_add(1, Ordering::AcqRel);
        Self(gauge)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
