//! Serves CronFederatedHPAs: when the time of a rule comes, a workload is scaled or the bounds of a
//! FederatedHPA are moved. Times that passed while nobody was there are not made up for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use karmada_api::autoscaling::{
    CronFederatedHPA, CronFederatedHPARule, CronFederatedHPAStatus, ExecutionHistory,
    FailedExecution, FederatedHPA, FederatedHPASpec, SuccessfulExecution,
};
use karmada_api::{Kind as _, event_reason};
use karmada_apimachinery::cron::{Schedule, find_zone};
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, Discovery};
use karmada_runtime::{Action, Clock, Informer, ObjectKey, Recorder, chain};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::metrics::CronNumbers;
use super::target::{self, Scale};
use super::{ask_on_change, gvr, write_status};
use crate::context::Context;

const NAME: &str = "cronfederatedhpa-controller";

/// Runs that are remembered unless the rule says otherwise.
const HISTORY_LIMIT: i32 = 3;
/// How often a change is tried while others are faster, and how far apart.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the CronFederatedHPA")]
    Decode(#[from] serde_json::Error),
    #[error("write the status of the CronFederatedHPA")]
    Write(#[source] karmada_client::Error),
}

/// Why a rule did not do what it should.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(
        "scaleTargetRef.kind {0} cannot be scaled; name a FederatedHPA, or a workload of another group"
    )]
    Unsupported(String),
    #[error("the rule says no targetReplicas")]
    NoReplicas,
    #[error(transparent)]
    Target(#[from] target::Error),
    #[error("read {what} {name}")]
    Read { what: String, name: String, source: karmada_client::Error },
    #[error("understand FederatedHPA {0}")]
    Decode(String, #[source] serde_json::Error),
    #[error("scale {what} {name}")]
    Scale { what: String, name: String, source: karmada_client::Error },
}

impl RunError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Scale { source, .. } if source.is_conflict())
    }
}

struct Ctx {
    client: Client,
    discovery: Discovery,
    clock: Clock,
    events: Recorder,
    numbers: CronNumbers,
    scalers: Arc<Informer>,
    /// Where hours are meant of rules that name no zone.
    local: TimeZone,
    known: Mutex<HashMap<ObjectKey, Known>>,
}

/// What is known about one CronFederatedHPA.
#[derive(Debug, Default)]
struct Known {
    alarms: Alarms,
    /// Runs that its status does not tell about yet.
    untold: Vec<Run>,
}

/// Rules that run, by name.
type Alarms = BTreeMap<String, Alarm>;

#[derive(Debug, Clone, PartialEq)]
struct Alarm {
    /// Schedule and zone of the rule; another one begins anew. What is scaled and how far is read when
    /// the time comes, so that a change of it neither stops nor moves the rule.
    of: (String, Option<String>),
    /// Nothing if the schedule cannot be read.
    schedule: Option<Schedule>,
    /// Nothing if the time never comes.
    next: Option<Timestamp>,
}

/// A rule that ran.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    rule: CronFederatedHPARule,
    planned: Timestamp,
    at: Timestamp,
    problem: Option<String>,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        discovery: context.discovery.clone(),
        clock: context.clock.clone(),
        events: context.recorder(NAME),
        numbers: CronNumbers::new(&context.metrics),
        scalers: context.informers.all(&gvr::<CronFederatedHPA>()),
        local: TimeZone::system(),
        known: Mutex::default(),
    });
    context.keep(ask_on_change(&ctx.scalers, controller.queue(), Duration::ZERO));
    let inputs = vec![ctx.scalers.clone()];
    context.start(controller, inputs, move |key| {
        let ctx = ctx.clone();
        async move {
            let began = Instant::now();
            let looked = reconcile(key, &ctx).await;
            ctx.numbers.looked(began, looked.is_ok());
            looked
        }
    });
}

async fn reconcile(key: ObjectKey, ctx: &Ctx) -> Result<Action, Error> {
    let object = ctx.scalers.cache().get(&key).filter(|object| !object.is_being_deleted());
    let Some(object) = object else {
        ctx.known.lock().remove(&key);
        return Ok(Action::AwaitChange);
    };
    let scaler = object.typed::<CronFederatedHPA>()?;
    let mut known = ctx.known.lock().remove(&key).unwrap_or_default();
    let plan = set_alarms(&scaler.spec.rules, &known.alarms, &ctx.local, ctx.clock.now());
    for problem in &plan.problems {
        ctx.events.warning(&*object, event_reason::START_RULE_FAILED, problem.as_str());
    }
    for (rule, planned) in plan.due {
        let problem = ctx.run(&scaler, rule).await.err().map(|error| chain(&error));
        if let Some(problem) = &problem {
            ctx.events.warning(&*object, event_reason::SCALE_FAILED, problem.as_str());
        }
        known.untold.push(Run { rule: rule.clone(), planned, at: ctx.clock.now(), problem });
    }
    let status = tell(&scaler, &plan.alarms, &known.untold);
    let next = plan.alarms.values().filter_map(|alarm| alarm.next).min();
    known.alarms = plan.alarms;
    let written = match status == scaler.status {
        true => Ok(()),
        false => write_status::<CronFederatedHPA>(&ctx.client, &object, &status).await,
    };
    let has_news = !known.untold.is_empty();
    if written.is_ok() {
        known.untold.clear();
    }
    ctx.known.lock().insert(key, known);
    match written {
        Ok(()) => {
            Ok(next.map_or(Action::AwaitChange, |next| Action::Requeue(ctx.clock.until(next))))
        }
        // Whoever wrote between will be seen in a moment.
        Err(error) if error.is_conflict() => Ok(Action::Requeue(PAUSE)),
        Err(error) => {
            let reason = match has_news {
                true => event_reason::UPDATE_STATUS_FAILED,
                false => event_reason::UPDATE_CRON_FEDERATED_HPA_FAILED,
            };
            ctx.events.warning(&*object, reason, chain(&error));
            Err(Error::Write(error))
        }
    }
}

/// What is to be done about the rules.
#[derive(Debug, PartialEq)]
struct Plan<'a> {
    alarms: Alarms,
    /// Rules whose time has come, and that time.
    due: Vec<(&'a CronFederatedHPARule, Timestamp)>,
    /// What is wrong with rules that cannot run, told once.
    problems: Vec<String>,
}

/// Sets an alarm for every rule that is not suspended, and finds those that ring.
fn set_alarms<'a>(
    rules: &'a [CronFederatedHPARule],
    before: &Alarms,
    local: &TimeZone,
    now: Timestamp,
) -> Plan<'a> {
    let mut plan = Plan { alarms: Alarms::new(), due: Vec::new(), problems: Vec::new() };
    for rule in rules.iter().filter(|rule| rule.suspend != Some(true)) {
        let of = (rule.schedule.clone(), rule.time_zone.clone());
        let mut alarm = match before.get(&rule.name).filter(|alarm| alarm.of == of) {
            Some(alarm) => alarm.clone(),
            None => {
                let schedule = schedule_of(rule, local);
                if let Err(problem) = &schedule {
                    plan.problems.push(format!("rule {}: {problem}", rule.name));
                }
                let schedule = schedule.ok();
                let next = schedule.as_ref().and_then(|schedule| schedule.next(now));
                Alarm { of, schedule, next }
            }
        };
        if let Some(planned) = alarm.next.filter(|next| *next <= now) {
            plan.due.push((rule, planned));
            alarm.next = alarm.schedule.as_ref().and_then(|schedule| schedule.next(now));
        }
        plan.alarms.insert(rule.name.clone(), alarm);
    }
    plan
}

fn schedule_of(rule: &CronFederatedHPARule, local: &TimeZone) -> Result<Schedule, String> {
    let zone = match rule.time_zone.as_deref() {
        None | Some("Local") => local.clone(),
        Some(name) => find_zone(name)?,
    };
    Schedule::parse(&rule.schedule, &zone)
}

/// The status that shows every rule, its next time and its last runs.
fn tell(scaler: &CronFederatedHPA, alarms: &Alarms, runs: &[Run]) -> CronFederatedHPAStatus {
    let history = |rule: &CronFederatedHPARule| {
        let told = &scaler.status.execution_histories;
        let mut history =
            told.iter().find(|told| told.rule_name == rule.name).cloned().unwrap_or_else(|| {
                ExecutionHistory { rule_name: rule.name.clone(), ..ExecutionHistory::default() }
            });
        for run in runs.iter().filter(|run| run.rule.name == rule.name) {
            note(&mut history, run);
        }
        let next = alarms.get(&rule.name).and_then(|alarm| alarm.next);
        history.next_execution_time = next.map(Into::into);
        let limit = |limit: Option<i32>| usize::try_from(limit.unwrap_or(HISTORY_LIMIT));
        let (good, bad) = (rule.successful_history_limit, rule.failed_history_limit);
        history.successful_executions.truncate(limit(good).unwrap_or_default());
        history.failed_executions.truncate(limit(bad).unwrap_or_default());
        history
    };
    let execution_histories = scaler.spec.rules.iter().map(history).collect();
    CronFederatedHPAStatus { execution_histories }
}

/// Puts a run before those that are known.
fn note(history: &mut ExecutionHistory, run: &Run) {
    let (schedule_time, execution_time) = (Some(run.planned.into()), Some(run.at.into()));
    match &run.problem {
        Some(message) => {
            let message = message.clone();
            let failed = FailedExecution { schedule_time, execution_time, message };
            history.failed_executions.insert(0, failed);
        }
        None => {
            let succeeded = SuccessfulExecution {
                schedule_time,
                execution_time,
                applied_replicas: run.rule.target_replicas,
                applied_max_replicas: run.rule.target_max_replicas,
                applied_min_replicas: run.rule.target_min_replicas,
            };
            history.successful_executions.insert(0, succeeded);
        }
    }
}

impl Ctx {
    /// Does what a rule asks for, again while others are faster.
    async fn run(
        &self,
        scaler: &CronFederatedHPA,
        rule: &CronFederatedHPARule,
    ) -> Result<(), RunError> {
        let began = Instant::now();
        let mut attempt = 1;
        let ran = loop {
            match self.try_run(scaler, rule).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => attempt += 1,
                ran => break ran,
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.numbers.ran(began, ran.is_ok());
        ran
    }

    async fn try_run(
        &self,
        scaler: &CronFederatedHPA,
        rule: &CronFederatedHPARule,
    ) -> Result<(), RunError> {
        let reference = &scaler.spec.scale_target_ref;
        let namespace = &scaler.metadata.namespace;
        if reference.api_version != FederatedHPA::api_version() {
            let api = target::api_of(&self.client, &self.discovery, reference, namespace).await?;
            let replicas = rule.target_replicas.ok_or(RunError::NoReplicas)?;
            let (what, name) = (reference.kind.clone(), reference.name.clone());
            let scale = match Scale::read(&api, &name).await {
                Ok(scale) => scale,
                Err(source) => return Err(RunError::Read { what, name, source }),
            };
            let set = scale.set(&api, replicas).await;
            return set.map_err(|source| RunError::Scale { what, name, source });
        }
        if reference.kind != FederatedHPA::KIND {
            return Err(RunError::Unsupported(reference.kind.clone()));
        }
        self.move_bounds(namespace, &reference.name, rule).await
    }

    async fn move_bounds(
        &self,
        namespace: &str,
        name: &str,
        rule: &CronFederatedHPARule,
    ) -> Result<(), RunError> {
        let api = self.client.api(&gvr::<FederatedHPA>()).namespaced(namespace);
        let (what, name) = (FederatedHPA::KIND.to_owned(), name.to_owned());
        let object = match api.get(&name).await {
            Ok(object) => object,
            Err(source) => return Err(RunError::Read { what, name, source }),
        };
        let autoscaler = FederatedHPA::from_value(&object)
            .map_err(|source| RunError::Decode(name.clone(), source))?;
        let (min, max) = bounds_to_be(&autoscaler.spec, rule);
        if (min, max) == (autoscaler.spec.min_replicas, autoscaler.spec.max_replicas) {
            return Ok(());
        }
        // The version makes sure that what people write meanwhile is not undone.
        let patch = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"minReplicas": min, "maxReplicas": max},
        });
        let patched = api.merge_patch(&name, patch).await;
        patched.map(drop).map_err(|source| RunError::Scale { what, name, source })
    }
}

/// The bounds of a FederatedHPA once the rule has moved those that it names.
fn bounds_to_be(spec: &FederatedHPASpec, rule: &CronFederatedHPARule) -> (Option<i32>, i32) {
    (
        rule.target_min_replicas.or(spec.min_replicas),
        rule.target_max_replicas.unwrap_or(spec.max_replicas),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    fn rule(name: &str, schedule: &str) -> CronFederatedHPARule {
        CronFederatedHPARule {
            name: name.to_owned(),
            schedule: schedule.to_owned(),
            target_replicas: Some(5),
            ..CronFederatedHPARule::default()
        }
    }

    fn look<'a>(rules: &'a [CronFederatedHPARule], before: &Alarms, now: &str) -> Plan<'a> {
        set_alarms(rules, before, &TimeZone::UTC, at(now))
    }

    /// The times of the alarms.
    fn times(plan: &Plan<'_>) -> Vec<(String, String)> {
        let time = |alarm: &Alarm| alarm.next.map_or("never".to_owned(), |next| next.to_string());
        plan.alarms.iter().map(|(name, alarm)| (name.clone(), time(alarm))).collect()
    }

    #[test]
    fn a_rule_rings_when_its_time_comes_and_once() {
        let rules = [rule("up", "0 9 * * *"), rule("down", "30 9 * * *")];
        let first = look(&rules, &Alarms::new(), "08:59:59");
        assert_eq!(first.due, []);
        let second = look(&rules, &first.alarms, "09:00:00");
        assert_eq!(second.due, [(&rules[0], at("09:00:00"))]);
        let third = look(&rules, &second.alarms, "09:00:00");
        assert_eq!(third.due, []);
        let next = |name: &str, time: &str| (name.to_owned(), time.to_owned());
        let expected = [next("down", "2026-01-01T09:30:00Z"), next("up", "2026-01-02T09:00:00Z")];
        assert_eq!(times(&third), expected);
    }

    #[test]
    fn times_nobody_saw_are_not_made_up_for() {
        let rules = [rule("up", "0 * * * *")];
        let new = look(&rules, &Alarms::new(), "10:30:00");
        assert_eq!(new.due, [], "nobody was there at ten");
        let late = look(&rules, &new.alarms, "13:10:00");
        assert_eq!(late.due, [(&rules[0], at("11:00:00"))], "once, however many were missed");
    }

    /// Row 16 of the quirk register: fixed.
    #[test]
    fn what_is_changed_but_the_schedule_does_not_move_an_alarm() {
        let before = look(&[rule("up", "@every 1h")], &Alarms::new(), "08:00:00").alarms;
        let mut changed = rule("up", "@every 1h");
        changed.target_replicas = Some(7);
        let rules = [changed];
        assert_eq!(look(&rules, &before, "08:30:00").alarms, before);
        assert_eq!(look(&rules, &before, "09:00:00").due.len(), 1);
        let other = [rule("up", "@every 2h")];
        let moved = look(&other, &before, "09:00:00");
        assert_eq!((moved.due.len(), moved.alarms["up"].next), (0, Some(at("11:00:00"))));
    }

    #[test]
    fn suspended_and_removed_rules_have_no_alarm() {
        let before = look(&[rule("up", "0 9 * * *")], &Alarms::new(), "08:00:00").alarms;
        let mut suspended = rule("up", "0 9 * * *");
        suspended.suspend = Some(true);
        assert_eq!(look(&[suspended], &before, "09:00:00").alarms, Alarms::new());
        assert_eq!(look(&[], &before, "09:00:00").due, []);
    }

    #[test]
    fn hours_are_those_of_the_zone_of_the_rule() {
        let in_zone = |zone: Option<&str>| {
            let mut rule = rule("up", "0 9 * * *");
            rule.time_zone = zone.map(str::to_owned);
            let tokyo = find_zone("Asia/Tokyo").unwrap();
            let rules = [rule];
            let plan = set_alarms(&rules, &Alarms::new(), &tokyo, at("01:00:00"));
            plan.alarms["up"].next.unwrap().to_string()
        };
        assert_eq!(in_zone(Some("Europe/Berlin")), "2026-01-01T08:00:00Z");
        assert_eq!(in_zone(Some("")), "2026-01-01T09:00:00Z");
        assert_eq!(in_zone(None), "2026-01-02T00:00:00Z");
        assert_eq!(in_zone(Some("Local")), "2026-01-02T00:00:00Z");
    }

    #[test]
    fn a_schedule_that_cannot_run_is_told_once_and_holds_up_no_other() {
        let rules = [rule("seconds", "0 0 9 * * *"), rule("up", "0 9 * * *")];
        let first = look(&rules, &Alarms::new(), "08:00:00");
        let [problem] = &first.problems[..] else { panic!("{first:?}") };
        assert!(problem.contains("rule seconds: expected exactly 5 fields"), "{problem}");
        let second = look(&rules, &first.alarms, "09:00:00");
        assert_eq!((second.problems.len(), second.due.len()), (0, 1));
    }

    fn scaler(rules: Vec<CronFederatedHPARule>) -> CronFederatedHPA {
        let mut scaler = CronFederatedHPA::default();
        scaler.spec.rules = rules;
        scaler
    }

    fn run(rule: &CronFederatedHPARule, time: &str, problem: Option<&str>) -> Run {
        let problem = problem.map(str::to_owned);
        Run { rule: rule.clone(), planned: at(time), at: at(time), problem }
    }

    #[test]
    fn the_last_runs_are_told_newest_first() {
        let rule = rule("up", "0 * * * *");
        let mut scaler = scaler(vec![rule.clone()]);
        for hour in 1..6 {
            let time = format!("{hour:02}:00:00");
            scaler.status = tell(&scaler, &Alarms::new(), &[run(&rule, &time, None)]);
        }
        scaler.status = tell(&scaler, &Alarms::new(), &[run(&rule, "06:00:00", Some("away"))]);
        let [history] = &scaler.status.execution_histories[..] else { panic!("one rule") };
        let succeeded = &history.successful_executions;
        let times: Vec<_> = succeeded.iter().map(|run| run.schedule_time.unwrap().0).collect();
        assert_eq!(times, [at("05:00:00"), at("04:00:00"), at("03:00:00")]);
        assert_eq!(succeeded[0].applied_replicas, Some(5));
        assert_eq!(history.failed_executions[0].message, "away");
    }

    /// Row 16 of the quirk register: fixed.
    #[test]
    fn a_limit_of_zero_keeps_no_failures() {
        let mut rule = rule("up", "0 * * * *");
        rule.failed_history_limit = Some(0);
        rule.successful_history_limit = Some(1);
        let scaler = scaler(vec![rule.clone()]);
        let runs = [
            run(&rule, "01:00:00", Some("away")),
            run(&rule, "02:00:00", None),
            run(&rule, "03:00:00", None),
        ];
        let status = tell(&scaler, &Alarms::new(), &runs);
        let [history] = &status.execution_histories[..] else { panic!("one rule") };
        assert_eq!(history.failed_executions, []);
        assert_eq!(history.successful_executions.len(), 1);
    }

    #[test]
    fn the_history_of_a_rule_goes_with_it_and_stays_while_it_is_suspended() {
        let (one, two) = (rule("one", "0 * * * *"), rule("two", "0 * * * *"));
        let mut before = scaler(vec![one.clone(), two.clone()]);
        let alarms = look(&before.spec.rules, &Alarms::new(), "08:00:00").alarms;
        let runs = [run(&one, "01:00:00", None), run(&two, "01:00:00", None)];
        before.status = tell(&before, &alarms, &runs);
        assert!(before.status.execution_histories[1].next_execution_time.is_some());
        let mut after = scaler(vec![two]);
        after.status = before.status.clone();
        let status = tell(&after, &Alarms::new(), &[]);
        let [history] = &status.execution_histories[..] else { panic!("{status:?}") };
        assert_eq!((history.rule_name.as_str(), history.next_execution_time), ("two", None));
        assert_eq!(history.successful_executions.len(), 1);
    }

    /// Row 16 of the quirk register: fixed.
    #[test]
    fn bounds_nobody_set_are_moved_like_any_other() {
        let spec =
            |min| FederatedHPASpec { min_replicas: min, max_replicas: 10, ..Default::default() };
        let rule = |min, max| CronFederatedHPARule {
            target_min_replicas: min,
            target_max_replicas: max,
            ..CronFederatedHPARule::default()
        };
        assert_eq!(bounds_to_be(&spec(None), &rule(Some(4), None)), (Some(4), 10));
        assert_eq!(bounds_to_be(&spec(None), &rule(None, Some(20))), (None, 20));
        assert_eq!(bounds_to_be(&spec(Some(2)), &rule(Some(4), Some(20))), (Some(4), 20));
    }
}
