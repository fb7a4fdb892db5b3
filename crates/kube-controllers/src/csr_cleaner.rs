//! Deletes certificate requests nobody needs any more: decided ones after an hour, forgotten ones
//! after a day, issued ones when their certificate ends.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_client::{Client, DeleteOptions};
use karmada_runtime::{Action, Clock, Controller, Informer, ObjectKey};
use x509_parser::pem::parse_x509_pem;

use crate::{Plane, csr};

const DECIDED: SignedDuration = SignedDuration::from_hours(1);
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, thiserror::Error)]
#[error("delete the certificate request {request}")]
struct Error {
    request: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    requests: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let requests = plane.informers.all(&csr::gvr());
    let name = "certificatesigningrequest-cleaner-controller";
    let controller = Controller::new(name, &plane.metrics);
    plane.keep(requests.feed(controller.queue()));
    let (client, clock) = (plane.client.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, requests: requests.clone() });
    plane.start(controller, vec![requests], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(request) = ctx.requests.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let Some(due) = due(&request.value()) else { return Ok(Action::AwaitChange) };
    let left = ctx.clock.until(due);
    if !left.is_zero() {
        // A second more: "older than" does not include the moment itself.
        return Ok(Action::Requeue(left + Duration::from_secs(1)));
    }
    let options = DeleteOptions { uid: Some(request.uid().to_owned()), ..DeleteOptions::default() };
    match ctx.client.api(&csr::gvr()).delete(&key.name, &options).await {
        Ok(_) => Ok(Action::AwaitChange),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Action::AwaitChange),
        Err(source) => Err(Error { request: key, source }),
    }
}

/// Returns when a request has to go.
fn due(request: &Value) -> Option<Timestamp> {
    let after =
        |time: Option<&str>, wait: SignedDuration| parse_time(time?)?.checked_add(wait).ok();
    let since = |kind, wait| {
        let condition = csr::condition(request, kind)?;
        after(condition.str_at(&["lastUpdateTime"]), wait)
    };
    let issued = csr::is_issued(request);
    let forgotten = request.list_at(&["status", "conditions"]).is_empty();
    let created = request.str_at(&["metadata", "creationTimestamp"]);
    [
        since("Denied", DECIDED),
        since("Failed", DECIDED),
        since("Approved", if issued { DECIDED } else { FORGOTTEN }),
        forgotten.then(|| after(created, FORGOTTEN)).flatten(),
        csr::condition(request, "Approved").and_then(|_| certificate_end(request)),
    ]
    .into_iter()
    .flatten()
    .min()
}

fn certificate_end(request: &Value) -> Option<Timestamp> {
    let pem = STANDARD.decode(request.str_at(&["status", "certificate"])?).ok()?;
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn requests_go_when_nobody_needs_them() {
        let request = |conditions: &[&str], certificate: &str| {
            let condition = |kind: &&str| {
                json!({"type": kind, "status": "True",
                "lastUpdateTime": "2026-01-01T10:00:00Z"})
            };
            let conditions: Vec<Value> = conditions.iter().map(condition).collect();
            json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": conditions, "certificate": certificate}})
        };
        let cases = [
            (request(&[], ""), "2026-01-02T00:00:00Z"),
            (request(&["Denied"], ""), "2026-01-01T11:00:00Z"),
            (request(&["Approved", "Failed"], ""), "2026-01-01T11:00:00Z"),
            (request(&["Approved"], ""), "2026-01-02T10:00:00Z"),
            (request(&["Approved"], "bm90IGEgY2VydGlmaWNhdGU="), "2026-01-01T11:00:00Z"),
        ];
        for (request, expected) in cases {
            assert_eq!(due(&request), parse_time(expected), "{request}");
        }
    }
}
