//! The status of a Job, written piece by piece: its conditions, and the step from announcing an
//! end to having ended.

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

/// Why and how a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) failed: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl End {
    pub(super) fn failed(reason: &str, message: &str) -> Self {
        Self { failed: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn succeeded(reason: &str, message: &str) -> Self {
        Self { failed: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn complete() -> Self {
        Self::succeeded("CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The condition that says the end is near, and the one that says it is here.
    fn names(&self) -> [&'static str; 2] {
        if self.failed { ["FailureTarget", "Failed"] } else { ["SuccessCriteriaMet", "Complete"] }
    }
}

fn is_true(job: &Value, name: &str) -> bool {
    find(job.list_at(&["status", "conditions"]), name).is_some()
}

fn find<'a>(conditions: &'a [Value], name: &str) -> Option<&'a Value> {
    let wanted = |condition: &&Value| {
        condition.str_at(&["type"]) == Some(name) && condition.str_at(&["status"]) == Some("True")
    };
    conditions.iter().find(wanted)
}

pub(crate) fn has_ended(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// The end announced earlier: once decided it stays.
pub(super) fn announced(job: &Value) -> Option<End> {
    let conditions = job.list_at(&["status", "conditions"]);
    let end = |name: &str, failed: bool| {
        let condition = find(conditions, name)?;
        let text = |field: &str| condition.str_at(&[field]).unwrap_or_default().to_owned();
        Some(End { failed, reason: text("reason"), message: text("message") })
    };
    end("SuccessCriteriaMet", false).or_else(|| end("FailureTarget", true))
}

/// Sets a condition; returns whether that changed its status.
fn set_condition(
    status: &mut Value,
    (name, value): (&str, &str),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> bool {
    let at = format_time(now);
    let condition = json!({"type": name, "status": value, "reason": reason, "message": message,
        "lastProbeTime": at, "lastTransitionTime": at});
    let mut conditions = status.list_at(&["conditions"]).to_vec();
    let place = conditions.iter().position(|other| other.str_at(&["type"]) == Some(name));
    match place {
        Some(place) if conditions[place].str_at(&["status"]) == Some(value) => return false,
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
    true
}

/// Notes that the job is stopped or goes on; returns which, if that is new.
pub(super) fn suspend(status: &mut Value, suspended: bool, now: Timestamp) -> Option<bool> {
    let conditions = status.list_at(&["conditions"]);
    let known = conditions.iter().any(|c| c.str_at(&["type"]) == Some("Suspended"));
    if !suspended && !known {
        return None;
    }
    let changed = if suspended {
        set_condition(status, ("Suspended", "True"), ("JobSuspended", "Job suspended"), now)
    } else {
        set_condition(status, ("Suspended", "False"), ("JobResumed", "Job resumed"), now)
    };
    changed.then_some(suspended)
}

pub(super) fn announce(status: &mut Value, end: &End, now: Timestamp) {
    set_condition(status, (end.names()[0], "True"), (&end.reason, &end.message), now);
}

/// Counts what was released, and ends the job if nothing is left to count. Returns whether it
/// ended.
pub(super) fn settle(
    status: &mut Value,
    released: &[String],
    end: Option<&End>,
    now: Timestamp,
) -> bool {
    for field in ["succeeded", "failed"] {
        let uids = status.list_at(&["uncountedTerminatedPods", field]).to_vec();
        let (gone, left): (Vec<_>, Vec<_>) = uids
            .into_iter()
            .partition(|uid| released.iter().any(|other| uid.as_str() == Some(other.as_str())));
        let gone = i64::try_from(gone.len()).unwrap_or(i64::MAX);
        let total = status.i64_at(&[field]).unwrap_or_default() + gone;
        set_number(status, field, total);
        if left.is_empty() {
            if let Some(uncounted) = status["uncountedTerminatedPods"].as_object_mut() {
                uncounted.remove(field);
            }
        } else {
            status["uncountedTerminatedPods"][field] = left.into();
        }
    }
    let Some(end) = end else { return false };
    let uncounted = status.map_at(&["uncountedTerminatedPods"]).is_some_and(|map| !map.is_empty());
    if uncounted || status.i64_at(&["terminating"]).unwrap_or_default() > 0 {
        return false;
    }
    set_condition(status, (end.names()[1], "True"), (&end.reason, &end.message), now);
    if !end.failed {
        set_time(status, "completionTime", Some(now));
    }
    true
}

/// Compat: numbers are left out when zero.
pub(super) fn set_number(status: &mut Value, field: &str, number: i64) {
    set(status, field, (number != 0).then(|| number.into()));
}

pub(super) fn set_text(status: &mut Value, field: &str, text: &str) {
    set(status, field, (!text.is_empty()).then(|| text.into()));
}

pub(super) fn set_time(status: &mut Value, field: &str, time: Option<Timestamp>) {
    set(status, field, time.map(|time| format_time(time).into()));
}

fn set(status: &mut Value, field: &str, value: Option<Value>) {
    match (value, status.as_object_mut()) {
        (Some(value), _) => status[field] = value,
        (None, Some(fields)) => drop(fields.remove(field)),
        (None, None) => {}
    }
}
