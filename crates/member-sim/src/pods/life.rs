//! What becomes of a pod next: a function of the pod, its script and the time. All memory is in the
//! pod's own status, so a restart loses nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::parse_time;

use super::events::Note;
use super::script::{Exit, Script};
use super::status::{self, Containers};

/// The pause before the first restart with one; it doubles with every further one.
const BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// How long a failed pull shows before it is called a back-off.
const PULL_AGAIN: Duration = Duration::from_secs(2);

/// The node a pod is on.
pub(super) struct Machine<'a> {
    pub(super) host: String,
    pub(super) address: &'a dyn Fn() -> String,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum Step {
    #[default]
    Rest,
    /// The new status, in full.
    Report(Value),
    /// It has stopped: the object can go.
    Remove,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Step,
    pub(super) again: Option<Duration>,
    pub(super) notes: Vec<Note>,
}

impl Plan {
    fn rest() -> Self {
        Self::default()
    }

    fn wait(again: Duration) -> Self {
        Self { again: Some(again), ..Self::default() }
    }

    fn report(status: Value, again: Option<Duration>) -> Self {
        Self { step: Step::Report(status), again, notes: Vec::new() }
    }

    fn telling(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }
}

pub(super) fn advance(pod: &Value, script: &Script, now: Timestamp, machine: &Machine<'_>) -> Plan {
    if pod.is_being_deleted() {
        return stop(pod, script, now);
    }
    let phase = pod.str_at(&["status", "phase"]).unwrap_or("Pending");
    if matches!(phase, "Succeeded" | "Failed") || script.hold && phase == "Pending" {
        return Plan::rest();
    }
    let started = pod.str_at(&["status", "startTime"]).and_then(parse_time);
    if let Some(left) = deadline(pod, started, now) {
        if left.is_zero() {
            return Plan::report(status::past_deadline(pod, now), None);
        }
        let mut plan = go_on(pod, script, (now, started), machine);
        plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
        return plan;
    }
    go_on(pod, script, (now, started), machine)
}

fn go_on(
    pod: &Value,
    script: &Script,
    (now, started): (Timestamp, Option<Timestamp>),
    machine: &Machine<'_>,
) -> Plan {
    if pod.str_at(&["status", "phase"]) == Some("Running") {
        return run(pod, script, now, machine);
    }
    let report = |containers, again| Plan::report(status::of(pod, containers, now, machine), again);
    if let Some(image) = &script.missing_image {
        return pull(pod, image, (now, started), machine);
    }
    let begun = started.unwrap_or(now);
    let left = left_of(script.start_delay, begun, now);
    if !left.is_zero() {
        if started.is_some() && status::is_creating(pod) {
            return Plan::wait(left);
        }
        return report(Containers::Creating, Some(left));
    }
    let ready = script.ready_delay.is_zero();
    let again = [
        Some(script.ready_delay).filter(|delay| !delay.is_zero()),
        script.exit.as_ref().map(|exit| exit.after),
    ];
    report(Containers::Started { ready }, again.into_iter().flatten().min()).telling(Note::Started)
}

/// An image nobody has: the pull fails, and is said to be retried less and less.
fn pull(
    pod: &Value,
    image: &str,
    (now, started): (Timestamp, Option<Timestamp>),
    machine: &Machine<'_>,
) -> Plan {
    let waiting = status::waiting_reason(pod);
    match waiting.as_deref() {
        Some("ImagePullBackOff") => Plan::rest(),
        Some("ErrImagePull") => {
            let left = left_of(PULL_AGAIN, started.unwrap_or(now), now);
            if !left.is_zero() {
                return Plan::wait(left);
            }
            Plan::report(status::of(pod, Containers::PullBackOff(image), now, machine), None)
                .telling(Note::PullBackOff(image.to_owned()))
        }
        _ => {
            let status = status::of(pod, Containers::PullFailed(image), now, machine);
            Plan::report(status, Some(PULL_AGAIN)).telling(Note::PullFailed(image.to_owned()))
        }
    }
}

/// Containers run, get ready, exit, and are started again.
fn run(pod: &Value, script: &Script, now: Timestamp, machine: &Machine<'_>) -> Plan {
    let report = |containers, again| Plan::report(status::of(pod, containers, now, machine), again);
    if let Some(since) = status::stopped_since(pod) {
        let restarts = status::restarts(pod);
        let left = match &script.exit {
            // What made them crash is over.
            None => Duration::ZERO,
            Some(_) => left_of(back_off(restarts), since, now),
        };
        if !left.is_zero() {
            if status::waiting_reason(pod).is_some() {
                return Plan::wait(left);
            }
            let back_off = Containers::BackOff(back_off(restarts));
            return report(back_off, Some(left)).telling(Note::BackOff);
        }
        let ready = script.ready_delay.is_zero();
        let again = script.exit.as_ref().map(|exit| exit.after);
        return report(Containers::Restarted { ready }, again.or(Some(script.ready_delay)))
            .telling(Note::Started);
    }
    let since = status::running_since(pod).unwrap_or(now);
    let mut again = None;
    if let Some(exit) = &script.exit {
        let left = left_of(exit.after, since, now);
        if left.is_zero() {
            return exited(pod, exit, now, machine);
        }
        again = Some(left);
    }
    let left = left_of(script.ready_delay, since, now);
    if !left.is_zero() {
        return Plan::wait(again.map_or(left, |again: Duration| again.min(left)));
    }
    let fresh = status::of(pod, Containers::Running, now, machine);
    if status::differs(pod, &fresh) {
        Plan::report(fresh, again)
    } else {
        Plan { again, ..Plan::rest() }
    }
}

fn exited(pod: &Value, exit: &Exit, now: Timestamp, machine: &Machine<'_>) -> Plan {
    let policy = pod.str_at(&["spec", "restartPolicy"]).unwrap_or("Always");
    let restarts = policy == "Always" || policy == "OnFailure" && exit.code != 0;
    if !restarts {
        return Plan::report(status::of(pod, Containers::Finished(exit), now, machine), None);
    }
    let again = back_off(status::restarts(pod));
    let plan = Plan::report(
        status::of(pod, Containers::Exited(exit, again), now, machine),
        Some(again.max(Duration::from_millis(1))),
    );
    if again.is_zero() { plan } else { plan.telling(Note::BackOff) }
}

/// The first restart comes at once.
fn back_off(restarts: i64) -> Duration {
    match u32::try_from(restarts).unwrap_or_default() {
        0 => Duration::ZERO,
        restarts => LONGEST_BACK_OFF.min(BACK_OFF * 2_u32.saturating_pow(restarts.min(10) - 1)),
    }
}

fn stop(pod: &Value, script: &Script, now: Timestamp) -> Plan {
    let end = pod.str_at(&["metadata", "deletionTimestamp"]).and_then(parse_time).unwrap_or(now);
    let grace = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default().max(0);
    let began = end.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(end);
    let finished = matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    let needed = script.stop_delay.min(Duration::from_secs(grace.unsigned_abs()));
    let left = left_of(needed, began, now);
    if !finished && !left.is_zero() {
        return Plan::wait(left);
    }
    let has_run = pod.str_at(&["status", "startTime"]).is_some();
    // Whoever holds the object back wants to know how the containers ended.
    if !finished && has_run && !pod.list_at(&["metadata", "finalizers"]).is_empty() {
        return Plan::report(status::killed(pod, now), None).telling(Note::Killing);
    }
    if grace == 0 && !pod.list_at(&["metadata", "finalizers"]).is_empty() {
        return Plan::rest();
    }
    Plan { step: Step::Remove, ..Plan::default() }
}

fn left_of(whole: Duration, since: Timestamp, now: Timestamp) -> Duration {
    let gone = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    whole.saturating_sub(gone)
}

/// Returns how long the pod may still be active, if that is limited.
fn deadline(pod: &Value, started: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let seconds = pod.i64_at(&["spec", "activeDeadlineSeconds"])?;
    Some(left_of(Duration::from_secs(seconds.unsigned_abs()), started?, now))
}
