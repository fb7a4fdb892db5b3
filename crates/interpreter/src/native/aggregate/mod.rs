//! Combining the statuses of the members into the status of a template.

mod addresses;
mod counters;
mod job;
mod phases;

use jiff::Timestamp;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Map, Value};

pub(super) use addresses::{ingress, service};
pub(super) use counters::{
    daemon_set, deployment, horizontal_pod_autoscaler, pod_disruption_budget, replica_set,
    stateful_set,
};
pub(super) use job::job;
pub(super) use phases::{persistent_volume, persistent_volume_claim, pod};

use crate::error::Result;
use crate::fields::{list, make_map, set, time};
use crate::rules::Members;

/// All active runs; the latest times.
pub(super) fn cron_job(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let mut active = Vec::new();
    let mut latest: [Option<Timestamp>; 2] = [None, None];
    const TIMES: [&str; 2] = ["lastScheduleTime", "lastSuccessfulTime"];
    members.each(|_, status| {
        active.extend(list(status, &["active"])?.iter().cloned());
        for (latest, field) in latest.iter_mut().zip(TIMES) {
            *latest = (*latest).max(time(status, &[field])?);
        }
        Ok(())
    })?;
    let status = make_map(object, &["status"])?;
    put(status, "active", (!active.is_empty()).then_some(Value::Array(active.into())));
    for (latest, field) in latest.into_iter().zip(TIMES) {
        put(status, field, latest.map(|time| Value::String(format_time(time).into())));
    }
    Ok(())
}

/// Sets a field, or takes it out.
fn put(status: &mut Map, field: &str, value: Option<Value>) {
    match value {
        Some(value) => status.insert(field.to_owned(), value),
        None => status.remove(field),
    };
}

fn replace_status(object: &mut Value, status: Map) -> Result<()> {
    set(object, &["status"], Value::Object(status))
}
