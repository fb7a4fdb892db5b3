//! Deletes finished Jobs once the time their author gave them is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_client::{Client, DeleteOptions, Propagation};
use karmada_runtime::{Action, Clock, Controller, Informer, ObjectKey};

use crate::Plane;

#[derive(Debug, thiserror::Error)]
#[error("delete the finished job {job}")]
struct Error {
    job: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    jobs: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let gvr = Gvr::new("batch", "v1", "jobs");
    let jobs = plane.informers.all(&gvr);
    let controller = Controller::new("ttl-after-finished-controller", &plane.metrics).workers(2);
    plane.keep(jobs.feed(controller.queue()));
    let (client, clock) = (plane.client.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, gvr, jobs: jobs.clone() });
    plane.start(controller, vec![jobs], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(cached) = ctx.jobs.cache().get(&key) else { return Ok(Action::AwaitChange) };
    match remaining(&cached.value(), ctx.clock.now()) {
        None => return Ok(Action::AwaitChange),
        Some(left) if !left.is_zero() => return Ok(Action::Requeue(left)),
        Some(_) => {}
    }
    let failed = |source| Error { job: key.clone(), source };
    let api = ctx.client.api(&ctx.gvr).namespaced(&key.namespace);
    // The time may have been prolonged since the cache was filled.
    let Some(job) = api.find(&key.name).await.map_err(failed)? else {
        return Ok(Action::AwaitChange);
    };
    match remaining(&job, ctx.clock.now()) {
        None => return Ok(Action::AwaitChange),
        Some(left) if !left.is_zero() => return Ok(Action::Requeue(left)),
        Some(_) => {}
    }
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        uid: Some(job.uid().to_owned()),
        ..DeleteOptions::default()
    };
    match api.delete(&key.name, &options).await {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        _ => Ok(Action::AwaitChange),
    }
}

/// Returns how long a finished job may still stay; nothing if it is to be left alone.
fn remaining(job: &Value, now: Timestamp) -> Option<Duration> {
    if job.is_being_deleted() {
        return None;
    }
    let seconds = job.i64_at(&["spec", "ttlSecondsAfterFinished"])?;
    let is_end = |condition: &&Value| {
        matches!(condition.str_at(&["type"]), Some("Complete" | "Failed"))
            && condition.str_at(&["status"]) == Some("True")
    };
    let end = job.list_at(&["status", "conditions"]).iter().find(is_end)?;
    let finished = parse_time(end.str_at(&["lastTransitionTime"])?)?;
    let due = finished.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn only_finished_jobs_with_a_time_to_live_are_due() {
        let now = parse_time("2026-01-01T00:10:00Z").unwrap();
        let job = |ttl: Value, kind: &str, status: &str, at: &str| {
            json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [
                {"type": kind, "status": status, "lastTransitionTime": at}]}})
        };
        let (old, young) = ("2026-01-01T00:00:00Z", "2026-01-01T00:09:50Z");
        let cases = [
            (job(json!(60), "Complete", "True", old), Some(0)),
            (job(json!(60), "Failed", "True", young), Some(50)),
            (job(json!(0), "Complete", "True", young), Some(0)),
            (job(json!(60), "Complete", "False", old), None),
            (job(json!(60), "Suspended", "True", old), None),
            (job(Value::Null, "Complete", "True", old), None),
        ];
        for (job, seconds) in cases {
            assert_eq!(remaining(&job, now), seconds.map(Duration::from_secs), "{job}");
        }
    }
}
