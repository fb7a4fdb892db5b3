//! Decides what a Job does next: which pods it makes and deletes, what it counts, and whether it
//! has come to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_apimachinery::{Value, json};

use super::conditions::{self, End};
use super::indexes;
use super::policy::{Verdict, judge_failure, judge_success};
use crate::workloads::pods::{Pod, rank_for_deletion};

pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The pause after a failure; it doubles with every further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(600);

/// A pod to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewPod {
    pub(super) index: Option<i64>,
    /// How often this index failed before, where that is counted.
    pub(super) failures: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<NewPod>,
    pub(super) delete: Vec<Pod>,
    /// Pods that are counted in `status` and may go.
    pub(super) release: Vec<Pod>,
    /// The status before the pods are released.
    pub(super) status: Value,
    pub(super) end: Option<End>,
    /// Whether the job was stopped or went on.
    pub(super) suspension: Option<bool>,
    pub(super) recheck_in: Option<Duration>,
}

impl Plan {
    fn recheck(&mut self, after: SignedDuration) {
        let after = Duration::try_from(after).unwrap_or_default();
        self.recheck_in = Some(self.recheck_in.map_or(after, |soonest| soonest.min(after)));
    }
}

/// A job and its pods, sorted.
struct Job<'a> {
    spec: &'a Value,
    value: &'a Value,
    pods: &'a [Pod],
    now: Timestamp,
    completions: Option<i64>,
    parallelism: i64,
    is_indexed: bool,
    is_suspended: bool,
    /// Pods are replaced only once they have failed, not when they begin to go.
    waits_for_failure: bool,
}

pub(super) fn index_of(pod: &Pod) -> Option<i64> {
    pod.annotation(INDEX)?.parse().ok()
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.object.meta().finalizers.iter().any(|finalizer| finalizer == TRACKING)
}

fn count<T>(items: &[T]) -> i64 {
    i64::try_from(items.len()).unwrap_or(i64::MAX)
}

/// What has been counted, as numbers and as uids still to be counted.
struct Tally {
    succeeded: i64,
    failed: i64,
    completed: BTreeSet<i64>,
    failed_indexes: BTreeSet<i64>,
    uncounted_succeeded: BTreeSet<String>,
    uncounted_failed: BTreeSet<String>,
    release: Vec<Pod>,
    fail_message: Option<String>,
}

/// Plans the next step of a job that has not ended.
pub(super) fn decide(job: &Value, pods: &[Pod], now: Timestamp) -> Plan {
    let spec = job.at(&["spec"]).unwrap_or(job);
    let own = Job {
        spec,
        value: job,
        pods,
        now,
        completions: spec.i64_at(&["completions"]),
        parallelism: spec.i64_at(&["parallelism"]).unwrap_or(1),
        is_indexed: spec.str_at(&["completionMode"]) == Some("Indexed"),
        is_suspended: spec.bool_at(&["suspend"]).unwrap_or_default(),
        waits_for_failure: spec.str_at(&["podReplacementPolicy"]) == Some("Failed"),
    };
    own.plan()
}

impl Job<'_> {
    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let tally = self.tally();
        let active: Vec<_> = self.pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let start = self.start_time();
        let mut status = self.value.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
        let mut remaining = count(&active);
        let succeeded = self.total_succeeded(&tally);
        plan.end = self.end(&tally, start, &mut plan);
        if plan.end.is_some() {
            plan.delete = active.clone();
            remaining = 0;
        } else if self.value.is_being_deleted() {
            // Its pods are left to the garbage collector.
        } else {
            remaining = self.manage(&active, succeeded, &tally, &mut plan);
            let complete = match self.completions {
                None => succeeded > 0 && remaining == 0,
                Some(completions) => succeeded >= completions && remaining == 0,
            };
            if complete {
                plan.end = Some(End::complete());
            } else {
                plan.suspension = conditions::suspend(&mut status, self.is_suspended, self.now);
            }
        }
        self.write_start(&mut status, start, plan.suspension);
        self.write_counts(&mut status, &tally, remaining, &plan);
        if let Some(end) = &plan.end {
            conditions::announce(&mut status, end, self.now);
        }
        plan.release = tally.release;
        plan.status = status;
        plan
    }

    fn start_time(&self) -> Option<Timestamp> {
        let stated = self.value.str_at(&["status", "startTime"]).and_then(parse_time);
        stated.or((!self.is_suspended).then_some(self.now))
    }

    /// A job that goes on begins anew, so that its deadline does not count the pause.
    fn write_start(&self, status: &mut Value, start: Option<Timestamp>, suspension: Option<bool>) {
        let start = match suspension {
            Some(true) => None,
            Some(false) => Some(self.now),
            None => start,
        };
        conditions::set_time(status, "startTime", start);
    }

    fn write_counts(&self, status: &mut Value, tally: &Tally, remaining: i64, plan: &Plan) {
        let ready = self.pods.iter().filter(|pod| pod.is_active() && pod.is_ready());
        let ready = ready.filter(|pod| !plan.delete.iter().any(|gone| gone.uid() == pod.uid()));
        let terminating = self.pods.iter().filter(|pod| pod.is_terminating() && !pod.is_finished());
        let terminating = terminating.count() + plan.delete.len();
        let mut uncounted = json!({});
        for (field, uids) in
            [("succeeded", &tally.uncounted_succeeded), ("failed", &tally.uncounted_failed)]
        {
            if !uids.is_empty() {
                uncounted[field] = json!(uids);
            }
        }
        conditions::set_number(status, "active", remaining);
        status["ready"] = ready.count().into();
        status["terminating"] = terminating.into();
        conditions::set_number(status, "succeeded", tally.succeeded);
        conditions::set_number(status, "failed", tally.failed);
        status["uncountedTerminatedPods"] = uncounted;
        if self.is_indexed {
            let fields = [("completedIndexes", &tally.completed)];
            for (field, set) in fields {
                conditions::set_text(status, field, &indexes::format(set));
            }
            if self.spec.i64_at(&["backoffLimitPerIndex"]).is_some() {
                status["failedIndexes"] = indexes::format(&tally.failed_indexes).into();
            }
        }
    }

    fn total_succeeded(&self, tally: &Tally) -> i64 {
        if self.is_indexed {
            return i64::try_from(tally.completed.len()).unwrap_or(i64::MAX);
        }
        let uncounted = i64::try_from(tally.uncounted_succeeded.len()).unwrap_or(i64::MAX);
        tally.succeeded + uncounted
    }

    fn has_failed(&self, pod: &Pod) -> bool {
        let phase = &*pod.status().phase;
        // A pod that is deleted may never get to say that it failed.
        phase == "Failed"
            || (pod.is_terminating() && phase != "Succeeded" && !self.waits_for_failure)
    }

    /// Adds what finished to what was counted before.
    fn tally(&self) -> Tally {
        let status = |field: &str| self.value.i64_at(&["status", field]).unwrap_or_default();
        let text = |field: &str| self.value.str_at(&["status", field]).unwrap_or_default();
        let uids = |field: &str| -> BTreeSet<String> {
            let uids = self.value.list_at(&["status", "uncountedTerminatedPods", field]);
            uids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let completions = self.completions.unwrap_or(i64::MAX);
        let mut tally = Tally {
            succeeded: status("succeeded"),
            failed: status("failed"),
            completed: indexes::parse(text("completedIndexes"), completions),
            failed_indexes: indexes::parse(text("failedIndexes"), completions),
            uncounted_succeeded: uids("succeeded"),
            uncounted_failed: uids("failed"),
            release: Vec::new(),
            fail_message: None,
        };
        let tracked: BTreeSet<_> = self
            .pods
            .iter()
            .filter(|pod| is_tracked(pod))
            .map(|pod| pod.uid().to_owned())
            .collect();
        // Those no longer tracked were released before the count was written.
        tally.succeeded += drain_missing(&mut tally.uncounted_succeeded, &tracked);
        tally.failed += drain_missing(&mut tally.uncounted_failed, &tracked);
        for pod in self.pods.iter().filter(|pod| is_tracked(pod)) {
            self.count_pod(pod, &mut tally);
        }
        if self.is_indexed {
            tally.succeeded = i64::try_from(tally.completed.len()).unwrap_or(i64::MAX);
        }
        tally
    }

    fn count_pod(&self, pod: &Pod, tally: &mut Tally) {
        let uid = pod.uid().to_owned();
        let index = index_of(pod).filter(|index| *index < self.completions.unwrap_or(0));
        if pod.status().phase == "Succeeded" && !tally.uncounted_failed.contains(&uid) {
            match (self.is_indexed, index) {
                (true, Some(index)) => drop(tally.completed.insert(index)),
                (true, None) => {}
                (false, _) => drop(tally.uncounted_succeeded.insert(uid)),
            }
            tally.release.push(pod.clone());
        } else if self.has_failed(pod) {
            let verdict = judge_failure(self.spec.at(&["podFailurePolicy"]), pod);
            let known = tally.uncounted_failed.contains(&uid);
            if !known && verdict != Verdict::Ignore {
                tally.uncounted_failed.insert(uid);
            }
            self.judge_index(pod, index, &verdict, tally);
            if let Verdict::FailJob(message) = verdict {
                tally.fail_message.get_or_insert(message);
            }
            tally.release.push(pod.clone());
        } else if self.value.is_being_deleted() && pod.is_terminating() {
            tally.release.push(pod.clone());
        }
    }

    fn judge_index(&self, pod: &Pod, index: Option<i64>, verdict: &Verdict, tally: &mut Tally) {
        let Some(limit) = self.spec.i64_at(&["backoffLimitPerIndex"]) else { return };
        let Some(index) = index else { return };
        let before: i64 = pod.annotation(INDEX_FAILURES).and_then(|n| n.parse().ok()).unwrap_or(0);
        let spent = *verdict == Verdict::Count && before >= limit;
        if spent || *verdict == Verdict::FailIndex {
            tally.failed_indexes.insert(index);
        }
    }

    /// Whether the job has come to its end before all is done.
    fn end(&self, tally: &Tally, start: Option<Timestamp>, plan: &mut Plan) -> Option<End> {
        if let Some(end) = conditions::announced(self.value) {
            return Some(end);
        }
        if let Some(message) = &tally.fail_message {
            return Some(End::failed("PodFailurePolicy", message));
        }
        let failed = tally.failed + i64::try_from(tally.uncounted_failed.len()).unwrap_or(i64::MAX);
        let limit = self.spec.i64_at(&["backoffLimit"]).unwrap_or(6);
        if failed > limit || self.restarted_too_often(limit) {
            let message = "Job has reached the specified backoff limit";
            return Some(End::failed("BackoffLimitExceeded", message));
        }
        let deadline = self.spec.i64_at(&["activeDeadlineSeconds"]).map(SignedDuration::from_secs);
        if let (Some(deadline), Some(start), false) = (deadline, start, self.is_suspended) {
            let left = deadline - self.now.duration_since(start);
            if left <= SignedDuration::ZERO {
                let message = "Job was active longer than specified deadline";
                return Some(End::failed("DeadlineExceeded", message));
            }
            plan.recheck(left);
        }
        let completions = self.completions.filter(|_| self.is_indexed)?;
        let (lost, done) = (tally.failed_indexes.len(), tally.completed.len());
        let most =
            self.spec.i64_at(&["maxFailedIndexes"]).and_then(|most| usize::try_from(most).ok());
        if most.is_some_and(|most| lost > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::failed("MaxFailedIndexesExceeded", message));
        }
        if lost > 0 && i64::try_from(lost + done).unwrap_or(i64::MAX) >= completions {
            return Some(End::failed("FailedIndexes", "Job has failed indexes"));
        }
        judge_success(self.spec.at(&["successPolicy"]), completions, &tally.completed)
            .map(|message| End::succeeded("SuccessPolicy", &message))
    }

    /// Containers restarted in place count as well.
    fn restarted_too_often(&self, limit: i64) -> bool {
        if self.spec.str_at(&["template", "spec", "restartPolicy"]) != Some("OnFailure") {
            return false;
        }
        let living =
            self.pods.iter().filter(|p| matches!(&*p.status().phase, "Running" | "Pending"));
        let restarts: i64 = living.map(Pod::restarts).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// Brings the number of running pods to what is wanted; returns how many there will be.
    fn manage(&self, active: &[Pod], succeeded: i64, tally: &Tally, plan: &mut Plan) -> i64 {
        if self.is_suspended {
            plan.delete = active.to_vec();
            return 0;
        }
        let wanted = match self.completions {
            None if succeeded > 0 => count(active),
            None => self.parallelism,
            Some(completions) => (completions - succeeded).clamp(0, self.parallelism.max(0)),
        };
        let mut surplus = self.doubles(active, tally);
        let mut rest: Vec<_> = active
            .iter()
            .filter(|pod| !surplus.iter().any(|other| other.uid() == pod.uid()))
            .cloned()
            .collect();
        rank_for_deletion(&mut rest, &BTreeMap::new(), self.now);
        let over = usize::try_from(count(&rest) - wanted).unwrap_or(0);
        surplus.extend(rest.drain(..over));
        plan.delete = surplus;
        let leaving = self.pods.iter().filter(|pod| pod.is_terminating() && !pod.is_finished());
        let leaving = if self.waits_for_failure { leaving.count() } else { 0 };
        let missing = wanted - count(&rest) - i64::try_from(leaving).unwrap_or(i64::MAX);
        if missing <= 0 {
            return count(&rest);
        }
        let pause = self.pause();
        if pause > SignedDuration::ZERO {
            plan.recheck(pause);
            return count(&rest);
        }
        plan.create = self.new_pods(missing, &rest, tally);
        count(&rest) + count(&plan.create)
    }

    /// Pods whose index is not theirs alone, done already, or beyond the last one.
    fn doubles(&self, active: &[Pod], tally: &Tally) -> Vec<Pod> {
        if !self.is_indexed {
            return Vec::new();
        }
        let (mut seen, completions) = (BTreeSet::new(), self.completions.unwrap_or_default());
        let is_double = |pod: &&Pod| match index_of(pod) {
            Some(index) => {
                index >= completions || tally.completed.contains(&index) || !seen.insert(index)
            }
            None => true,
        };
        active.iter().filter(is_double).cloned().collect()
    }

    fn new_pods(&self, missing: i64, staying: &[Pod], tally: &Tally) -> Vec<NewPod> {
        let missing = usize::try_from(missing).unwrap_or_default();
        if !self.is_indexed {
            return vec![NewPod { index: None, failures: None }; missing];
        }
        let taken: BTreeSet<_> = staying
            .iter()
            .chain(self.pods.iter().filter(|pod| self.waits_for_failure && pod.is_terminating()))
            .filter_map(index_of)
            .collect();
        let free = |index: &i64| {
            !taken.contains(index)
                && !tally.completed.contains(index)
                && !tally.failed_indexes.contains(index)
        };
        let counted = self.spec.i64_at(&["backoffLimitPerIndex"]).is_some();
        (0..self.completions.unwrap_or_default())
            .filter(free)
            .take(missing)
            .map(|index| NewPod {
                index: Some(index),
                failures: counted.then(|| self.failures_of(index)),
            })
            .collect()
    }

    fn failures_of(&self, index: i64) -> i64 {
        let failed =
            self.pods.iter().filter(|pod| index_of(pod) == Some(index) && self.has_failed(pod));
        let before = |pod: &Pod| -> i64 {
            pod.annotation(INDEX_FAILURES).and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        failed.map(|pod| before(pod) + 1).max().unwrap_or_default()
    }

    /// How long to wait after the failures since the last success.
    fn pause(&self) -> SignedDuration {
        let succeeded = self.pods.iter().filter(|pod| pod.status().phase == "Succeeded");
        let last_success = succeeded.filter_map(finished_at).max();
        let failed = self.pods.iter().filter(|pod| pod.status().phase == "Failed");
        let failures: Vec<_> =
            failed.filter_map(finished_at).filter(|at| Some(*at) > last_success).collect();
        let Some(last) = failures.iter().max() else { return SignedDuration::ZERO };
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(10);
        let pause = (FIRST_PAUSE * 2_i32.pow(doublings)).min(LONGEST_PAUSE);
        (pause - self.now.duration_since(*last)).max(SignedDuration::ZERO)
    }
}

/// Counts the uids that are not tracked any more and forgets them.
fn drain_missing(uids: &mut BTreeSet<String>, tracked: &BTreeSet<String>) -> i64 {
    let before = uids.len();
    uids.retain(|uid| tracked.contains(uid));
    i64::try_from(before - uids.len()).unwrap_or(i64::MAX)
}

fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let ended = pod.status().container_statuses.iter();
    let ended = ended.filter_map(|status| status.state.terminated.as_ref()?.finished_at);
    let changed = || pod.condition("Ready")?.since;
    ended.max().or_else(changed).or_else(|| pod.created())
}
