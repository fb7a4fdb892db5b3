//! Jobs: the template fails with the first failed member and completes with the last complete one.
//! What is made is what Kubernetes takes for the status of a Job: it refuses everything else for ever.

use jiff::Timestamp;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Map, Value, json};

use super::{put, replace_status};
use crate::error::Result;
use crate::fields::{count, objects, text, time, walk};
use crate::native::reflect::{JOB, write};
use crate::rules::Members;

pub(crate) fn job(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if let Some(status) = walk(object, &["status"])? {
        // A finished job never changes again, whatever members do afterwards.
        if finished(status).map_err(|e| e.under("status"))?.is_some() {
            return Ok(());
        }
    }
    let tally = Tally::of(members)?;
    let (has_failed, is_complete) = (tally.has_failed(), tally.is_complete(members));
    let is_finished = has_failed || is_complete;
    let mut status = Map::new();
    for (counter, sum) in JOB.iter().zip(tally.sums) {
        let value = match counter.name {
            "active" if is_finished => 0,
            "active" => sum,
            // What is done stays done, also if whoever did it reports no longer.
            name => sum.max(count(object, &["status", name])?),
        };
        write(&mut status, *counter, value);
    }
    let conditions = tally.conditions(members);
    put(
        &mut status,
        "conditions",
        (!conditions.is_empty()).then_some(Value::Array(conditions.into())),
    );

    let shown = |time: Timestamp| Value::String(format_time(time).into());
    let known = walk(object, &["status", "startTime"])?.cloned();
    let started = match time(object, &["status", "startTime"])? {
        Some(started) => Some(started),
        None if is_finished => {
            Some(tally.earliest_start.or(tally.latest_completion).unwrap_or(members.now))
        }
        None => tally.earliest_start.filter(|_| tally.started == members.len()),
    };
    put(&mut status, "startTime", known.or(started.map(shown)));
    let completed = is_complete.then(|| tally.latest_completion.unwrap_or(members.now));
    put(&mut status, "completionTime", completed.max(started.filter(|_| is_complete)).map(shown));
    replace_status(object, status)
}

/// Which final condition holds, if one does.
fn finished(status: &Value) -> Result<Option<&str>> {
    for condition in objects(status, &["conditions"])? {
        let kind = text(condition, &["type"])?;
        if matches!(kind, "Complete" | "Failed") && text(condition, &["status"])? == "True" {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

/// What the members report, counted.
#[derive(Default)]
struct Tally {
    sums: [i64; JOB.len()],
    failed_in: Vec<String>,
    successful: usize,
    started: usize,
    earliest_start: Option<Timestamp>,
    latest_completion: Option<Timestamp>,
}

impl Tally {
    fn of(members: &Members<'_>) -> Result<Self> {
        let mut tally = Self::default();
        members.each(|cluster, status| {
            for (sum, counter) in tally.sums.iter_mut().zip(JOB) {
                *sum = sum.saturating_add(count(status, &[counter.name])?);
            }
            match finished(status)? {
                Some("Complete") => tally.successful += 1,
                Some(_) => tally.failed_in.push(cluster.to_owned()),
                None => {}
            }
            if let Some(start) = time(status, &["startTime"])? {
                tally.started += 1;
                tally.earliest_start =
                    Some(tally.earliest_start.map_or(start, |first| first.min(start)));
            }
            if let Some(end) = time(status, &["completionTime"])? {
                tally.latest_completion = tally.latest_completion.max(Some(end));
            }
            Ok(())
        })?;
        Ok(tally)
    }

    fn has_failed(&self) -> bool {
        !self.failed_in.is_empty()
    }

    fn is_complete(&self, members: &Members<'_>) -> bool {
        self.successful > 0 && self.successful == members.len()
    }

    /// The final conditions. API servers take each of them only together with the one that says why.
    fn conditions(&self, members: &Members<'_>) -> Vec<Value> {
        let now = format_time(members.now);
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({
                "type": kind,
                "status": "True",
                "lastProbeTime": now,
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            })
        };
        let mut conditions = Vec::new();
        if self.has_failed() {
            let clusters = self.failed_in.join(",");
            let message = format!("Job executed failed in member clusters {clusters}");
            conditions.push(condition("Failed", "JobFailed", &message));
            conditions.push(condition("FailureTarget", "JobFailed", &message));
        }
        if self.is_complete(members) {
            conditions.push(condition("Complete", "Completed", "Job completed"));
            let message = "All member clusters have met success criteria";
            conditions.push(condition("SuccessCriteriaMet", "CompletionsReached", message));
        }
        conditions
    }
}
