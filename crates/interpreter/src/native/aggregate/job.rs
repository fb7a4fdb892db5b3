//! Jobs: the template fails with the first failed member and completes with the last complete one.

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
    let mut status = Map::new();
    for (counter, sum) in JOB.iter().zip(tally.sums) {
        write(&mut status, *counter, sum);
    }
    let conditions = tally.conditions(members);
    put(
        &mut status,
        "conditions",
        (!conditions.is_empty()).then_some(Value::Array(conditions.into())),
    );

    let everywhere = |reached: usize| reached == members.len() && reached > 0;
    let started = walk(object, &["status", "startTime"])?.cloned().or_else(|| {
        let first = tally.earliest_start.filter(|_| everywhere(tally.started))?;
        Some(Value::String(format_time(first).into()))
    });
    put(&mut status, "startTime", started);
    let completed = tally.latest_completion.filter(|_| everywhere(tally.completed));
    put(
        &mut status,
        "completionTime",
        completed.map(|time| Value::String(format_time(time).into())),
    );
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

fn has_met_criteria(status: &Value) -> Result<bool> {
    for condition in objects(status, &["conditions"])? {
        if text(condition, &["type"])? == "SuccessCriteriaMet"
            && text(condition, &["status"])? == "True"
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the members report, counted.
#[derive(Default)]
struct Tally {
    sums: [i64; JOB.len()],
    failed_in: Vec<String>,
    successful: usize,
    met_criteria: usize,
    started: usize,
    completed: usize,
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
            tally.met_criteria += usize::from(has_met_criteria(status)?);
            if let Some(start) = time(status, &["startTime"])? {
                tally.started += 1;
                tally.earliest_start =
                    Some(tally.earliest_start.map_or(start, |first| first.min(start)));
            }
            if let Some(end) = time(status, &["completionTime"])? {
                tally.completed += 1;
                tally.latest_completion = tally.latest_completion.max(Some(end));
            }
            Ok(())
        })?;
        Ok(tally)
    }

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
        if !self.failed_in.is_empty() {
            let clusters = self.failed_in.join(",");
            let message = format!("Job executed failed in member clusters {clusters}");
            conditions.push(condition("Failed", "JobFailed", &message));
        }
        if self.successful > 0 && self.successful == members.len() {
            conditions.push(condition("Complete", "Completed", "Job completed"));
            if self.met_criteria == members.len() {
                let message = "All member clusters have met success criteria";
                conditions.push(condition("SuccessCriteriaMet", "CompletionsReached", message));
            }
        }
        conditions
    }
}
