//! Decides whether a CronJob is due, which of its Jobs run, and which finished ones may go.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::cron::{Schedule, find_zone};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_apimachinery::{Value, json};
use karmada_runtime::EventType;

use crate::workloads::job::has_ended;

/// More missed times than this are worth a warning.
const MANY: i64 = 100;
/// Looking a moment late makes sure that the time has come.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

pub(super) struct Known<'a> {
    pub(super) cron: &'a Value,
    pub(super) jobs: &'a [Value],
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The time a job is to be made for.
    pub(super) due: Option<Timestamp>,
    /// Names of jobs to delete.
    pub(super) delete: Vec<String>,
    pub(super) status: Value,
    pub(super) events: Vec<(EventType, &'static str, String)>,
    pub(super) recheck_in: Option<Duration>,
}

/// The name says which time the job is for, so that it is made once.
pub(super) fn job_name(cron: &str, due: Timestamp) -> String {
    format!("{cron}-{}", due.as_second() / 60)
}

pub(super) fn decide(known: &Known<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut active = follow_jobs(known, &mut plan);
    forget_finished(known, &mut plan);
    if !known.cron.is_being_deleted() && known.cron.bool_at(&["spec", "suspend"]) != Some(true) {
        schedule(known, &mut active, &mut plan);
    }
    if active.is_empty() {
        if let Some(fields) = plan.status.as_object_mut() {
            fields.remove("active");
        }
    } else {
        plan.status["active"] = active.into();
    }
    plan
}

fn uid_of(reference: &Value) -> &str {
    reference.str_at(&["uid"]).unwrap_or_default()
}

/// Returns the references to jobs that still run, and notes the latest success.
fn follow_jobs(known: &Known<'_>, plan: &mut Plan) -> Vec<Value> {
    plan.status = known.cron.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
    let mut active = plan.status.list_at(&["active"]).to_vec();
    for job in known.jobs {
        let listed = active.iter().any(|reference| uid_of(reference) == job.uid());
        if !has_ended(job) {
            if !listed {
                let message = format!(
                    "Saw a job that the controller did not create or forgot: {}",
                    job.name()
                );
                plan.events.push((EventType::Warning, "UnexpectedJob", message));
            }
            continue;
        }
        let end = end_of(job);
        if listed {
            active.retain(|reference| uid_of(reference) != job.uid());
            let message = format!("Saw completed job: {}, condition: {end}", job.name());
            plan.events.push((EventType::Normal, "SawCompletedJob", message));
        }
        let completed = job.str_at(&["status", "completionTime"]);
        if let (Some(completed), "Complete") = (completed, end) {
            let latest = plan.status.str_at(&["lastSuccessfulTime"]);
            if latest.and_then(parse_time) < parse_time(completed) {
                plan.status["lastSuccessfulTime"] = completed.into();
            }
        }
    }
    active.retain(|reference| {
        let exists = known.jobs.iter().any(|job| job.uid() == uid_of(reference));
        if !exists {
            let name = reference.str_at(&["name"]).unwrap_or_default();
            let message = format!("Active job went missing: {name}");
            plan.events.push((EventType::Normal, "MissingJob", message));
        }
        exists
    });
    active
}

fn end_of(job: &Value) -> &str {
    let mut ends = job.list_at(&["status", "conditions"]).iter().filter_map(|condition| {
        let name = condition.str_at(&["type"])?;
        let holds = condition.str_at(&["status"]) == Some("True");
        (holds && matches!(name, "Complete" | "Failed")).then_some(name)
    });
    ends.next_back().unwrap_or_default()
}

/// Picks the oldest finished jobs beyond the limits.
fn forget_finished(known: &Known<'_>, plan: &mut Plan) {
    for (end, field) in
        [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")]
    {
        let Some(limit) = known.cron.i64_at(&["spec", field]) else { continue };
        let of_kind = |job: &&Value| has_ended(job) && end_of(job) == end;
        let mut jobs: Vec<_> = known.jobs.iter().filter(of_kind).collect();
        jobs.sort_by_key(|job| {
            let started = job.str_at(&["status", "startTime"]).and_then(parse_time);
            (started, job.name().to_owned())
        });
        let surplus = jobs.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let alive = jobs[..surplus].iter().filter(|job| !job.is_being_deleted());
        plan.delete.extend(alive.map(|job| job.name().to_owned()));
    }
}

fn schedule(known: &Known<'_>, active: &mut Vec<Value>, plan: &mut Plan) {
    let text = known.cron.str_at(&["spec", "schedule"]).unwrap_or_default();
    let zone = find_zone(known.cron.str_at(&["spec", "timeZone"]).unwrap_or_default());
    let schedule = match zone.and_then(|zone| Schedule::parse(text, &zone)) {
        Ok(schedule) => schedule,
        Err(problem) => {
            let message = format!("unparseable schedule: {text:?} : {problem}");
            return plan.events.push((EventType::Warning, "UnparseableSchedule", message));
        }
    };
    let from = known.cron.str_at(&["status", "lastScheduleTime"]);
    let from = from.or(known.cron.str_at(&["metadata", "creationTimestamp"]));
    let Some(mut from) = from.and_then(parse_time) else { return };
    let next = schedule.next(known.now);
    plan.recheck_in = next.and_then(|next| {
        Duration::try_from(next.duration_since(known.now).saturating_add(MARGIN)).ok()
    });
    let deadline = known.cron.i64_at(&["spec", "startingDeadlineSeconds"]);
    let earliest = deadline.map(|seconds| known.now - SignedDuration::from_secs(seconds));
    from = from.max(earliest.unwrap_or(Timestamp::MIN));
    let Some((due, missed)) = most_recent(&schedule, from, known.now) else { return };
    if missed > MANY {
        let message = "too many missed start times. Set or decrease \
            .spec.startingDeadlineSeconds or check clock skew";
        plan.events.push((EventType::Warning, "TooManyMissedTimes", message.to_owned()));
    }
    let name = job_name(known.cron.name(), due);
    let last = known.cron.str_at(&["status", "lastScheduleTime"]).and_then(parse_time);
    let listed = |reference: &Value| reference.str_at(&["name"]) == Some(name.as_str());
    if last == Some(due) || active.iter().any(listed) {
        return;
    }
    match known.cron.str_at(&["spec", "concurrencyPolicy"]) {
        Some("Forbid") if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency \
                policy is Forbid";
            return plan.events.push((EventType::Normal, "JobAlreadyActive", message.to_owned()));
        }
        Some("Replace") => {
            let running = active.drain(..);
            plan.delete.extend(running.filter_map(|r| r.str_at(&["name"]).map(str::to_owned)));
        }
        _ => {}
    }
    plan.due = Some(due);
}

/// The last time that has passed since `from`, and how many there were, roughly.
fn most_recent(schedule: &Schedule, from: Timestamp, now: Timestamp) -> Option<(Timestamp, i64)> {
    let first = schedule.next(from).filter(|first| *first <= now)?;
    let Some(second) = schedule.next(first).filter(|second| *second <= now) else {
        return Some((first, 1));
    };
    let step = second.duration_since(first).as_secs().max(1);
    let missed = now.duration_since(first).as_secs() / step + 1;
    // Schedules are not even: begin a step early and count on.
    let skip = SignedDuration::from_secs((missed - 2).max(0) * step);
    let mut latest = first;
    let mut time = schedule.next(first.checked_add(skip).ok()?);
    while let Some(due) = time.filter(|due| *due <= now) {
        latest = due;
        time = schedule.next(due);
    }
    Some((latest, missed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(spec: Value, status: Value) -> Value {
        let mut cron = json!({
            "metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedule": "*/10 * * * *", "concurrencyPolicy": "Allow"}, "status": status});
        for (field, value) in spec.as_object().into_iter().flatten() {
            cron["spec"][field] = value.clone();
        }
        cron
    }

    fn job(name: &str, end: &str) -> Value {
        json!({"metadata": {"name": name, "uid": name}, "status": {
            "startTime": format!("2026-01-01T00:0{}:00Z", name.len()),
            "completionTime": "2026-01-01T00:09:00Z",
            "conditions": [{"type": end, "status": "True"}]}})
    }

    fn at(text: &str) -> Timestamp {
        parse_time(&format!("2026-01-01T{text}Z")).unwrap()
    }

    #[test]
    fn the_latest_missed_time_is_made_up_for_once() {
        let due = |spec: Value, status: Value, now: &str| {
            let cron = cron(spec, status);
            decide(&Known { cron: &cron, jobs: &[], now: at(now) }).due
        };
        assert_eq!(due(json!({}), json!({}), "00:09:59"), None);
        assert_eq!(due(json!({}), json!({}), "00:10:00"), Some(at("00:10:00")));
        assert_eq!(due(json!({}), json!({}), "05:35:00"), Some(at("05:30:00")));
        let done = json!({"lastScheduleTime": "2026-01-01T05:30:00Z"});
        assert_eq!(due(json!({}), done, "05:35:00"), None);
        assert_eq!(due(json!({"suspend": true}), json!({}), "00:10:00"), None);
        let late = json!({"startingDeadlineSeconds": 60});
        assert_eq!(due(late.clone(), json!({}), "00:15:00"), None);
        assert_eq!(due(late, json!({}), "00:10:30"), Some(at("00:10:00")));
    }

    #[test]
    fn running_jobs_forbid_or_are_replaced() {
        let running = json!({"metadata": {"name": "r", "uid": "r"}, "status": {}});
        let status = json!({"active": [{"name": "r", "uid": "r"}]});
        let plan = |policy: &str| {
            let cron = cron(json!({"concurrencyPolicy": policy}), status.clone());
            decide(&Known {
                cron: &cron,
                jobs: std::slice::from_ref(&running),
                now: at("00:10:00"),
            })
        };
        assert_eq!(plan("Forbid").due, None);
        assert_eq!(plan("Forbid").events[0].1, "JobAlreadyActive");
        assert_eq!(plan("Replace").delete, ["r"]);
        assert!(plan("Replace").due.is_some() && plan("Allow").due.is_some());
    }

    #[test]
    fn finished_jobs_leave_the_list_and_the_oldest_go() {
        let status = json!({"active": [{"name": "aa", "uid": "aa"}, {"name": "x", "uid": "x"}]});
        let cron = cron(json!({"successfulJobsHistoryLimit": 1}), status);
        let jobs = [job("aa", "Complete"), job("a", "Complete"), job("f", "Failed")];
        let plan = decide(&Known { cron: &cron, jobs: &jobs, now: at("00:05:00") });
        assert_eq!(plan.delete, ["a"]);
        assert_eq!(plan.status.get("active"), None);
        assert_eq!(plan.status["lastSuccessfulTime"], "2026-01-01T00:09:00Z");
        let reasons: Vec<_> = plan.events.iter().map(|event| event.1).collect();
        assert_eq!(reasons, ["SawCompletedJob", "MissingJob"]);
    }
}
