//! Serves FederatedHPAs: looks at a workload in all clusters that it was sent to, reads the metrics of its
//! pods, and gives its template the size that follows. The clusters get it as any other change.

mod decide;
mod limits;
mod members;
mod replicas;
mod samples;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::autoscaling::FederatedHPA;
use karmada_api::cluster::Cluster;
use karmada_api::hpa::{CrossVersionObjectReference, HorizontalPodAutoscalerStatus};
use karmada_api::work::ResourceBinding;
use karmada_api::{event_reason, names};
use karmada_apimachinery::gvk::GroupVersion;
use karmada_apimachinery::selector::LabelSelector;
use karmada_client::{Api, Client, Discovery, Object};
use karmada_runtime::{Action, Clock, Informer, ObjectKey, Recorder, chain};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::decide::{ABLE_TO_SCALE, Plan, SCALING_ACTIVE, set_condition};
use self::limits::Memory;
use self::members::Gathered;
use self::replicas::Situation;
use self::samples::{Source, Subject};
use super::metrics::{HpaNumbers, action};
use super::target::{self, Scale};
use super::{ask_on_change, gvr, write_status};
use crate::context::{AutoscalerOptions, Context};
use crate::members::Members;

const NAME: &str = "federatedHPA-controller";

/// How long a change is left alone: who writes a scaler often corrects it at once, and metrics take longer anyway.
const SECOND_THOUGHTS: Duration = Duration::from_secs(1);
/// How soon what somebody else was faster with is looked at again.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the FederatedHPA")]
    Decode(#[from] serde_json::Error),
    #[error("set the scale of {0}")]
    Rescale(String, #[source] karmada_client::Error),
    #[error("write the status of the FederatedHPA")]
    Write(#[source] karmada_client::Error),
}

/// Why a workload cannot be looked at.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error(transparent)]
    Target(#[from] target::Error),
    #[error("read the scale of {0}")]
    Scale(String, #[source] karmada_client::Error),
    #[error("{0} has no binding in its namespace; a policy has to select it")]
    NoBinding(String),
    #[error("{0} was sent to no cluster yet")]
    NoClusters(String),
    #[error("no cluster that is ready and answers has replicas of {0}")]
    NoReplicas(String),
}

impl Obstacle {
    /// Reasons of the event and of the condition.
    fn reasons(&self) -> (&'static str, &'static str) {
        let same = |reason| (reason, reason);
        match self {
            Self::Target(target::Error::Version(_)) | Self::NoReplicas(_) => {
                same(event_reason::FAILED_GET_SCALE)
            }
            Self::Scale(_, source) if !source.is_not_found() => {
                same(event_reason::FAILED_GET_SCALE)
            }
            Self::Target(_) | Self::Scale(..) => same(event_reason::FAILED_GET_SCALE_TARGET_REF),
            // Compat: the event is named after many, the condition after one.
            Self::NoBinding(_) => (event_reason::FAILED_GET_BINDINGS, "FailedGetBinding"),
            Self::NoClusters(_) => same(event_reason::FAILED_GET_TARGET_CLUSTERS),
        }
    }
}

struct Ctx {
    client: Client,
    discovery: Discovery,
    clock: Clock,
    events: Recorder,
    numbers: HpaNumbers,
    members: Members,
    options: AutoscalerOptions,
    source: Source,
    scalers: Arc<Informer>,
    bindings: Arc<Informer>,
    clusters: Arc<Informer>,
    known: Mutex<HashMap<ObjectKey, Known>>,
    /// Which pods each FederatedHPA of a namespace scales by.
    selectors: Mutex<HashMap<String, BTreeMap<String, LabelSelector>>>,
}

/// What is known about one FederatedHPA.
#[derive(Debug, Default)]
struct Known {
    memory: Memory,
    /// Reasons of the warnings of the last look.
    warned: Option<HashSet<&'static str>>,
    /// When the workload was last scaled, until the status tells it.
    scaled_at: Option<Timestamp>,
}

/// A workload and where it is.
struct Found {
    api: Api,
    /// The scale of the template.
    scale: Scale,
    gathered: Gathered,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME).workers(context.options.workers);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        discovery: context.discovery.clone(),
        clock: context.clock.clone(),
        events: context.recorder(NAME),
        numbers: HpaNumbers::new(&context.metrics),
        members: context.members.clone(),
        options: context.options.autoscaler.clone(),
        source: Source::new(context.client.clone(), context.discovery.clone()),
        scalers: context.informers.all(&gvr::<FederatedHPA>()),
        bindings: context.informers.all(&gvr::<ResourceBinding>()),
        clusters: context.informers.all(&gvr::<Cluster>()),
        known: Mutex::default(),
        selectors: Mutex::default(),
    });
    context.keep(ask_on_change(&ctx.scalers, controller.queue(), SECOND_THOUGHTS));
    let inputs = vec![ctx.scalers.clone(), ctx.bindings.clone(), ctx.clusters.clone()];
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
        ctx.forget(&key);
        return Ok(Action::AwaitChange);
    };
    let scaler = object.typed::<FederatedHPA>()?;
    let mut known = ctx.known.lock().remove(&key).unwrap_or_default();
    let scaled_at = known.scaled_at.or(scaler.status.last_scale_time.map(|time| time.0));
    // Clusters that do not have the new size yet would speak for all the others too loudly.
    let rest = scaled_at.map(|at| ctx.options.sync_period.saturating_sub(ctx.clock.since(at)));
    if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
        ctx.known.lock().insert(key, known);
        return Ok(Action::Requeue(rest));
    }
    let served = ctx.serve(&object, &scaler, &mut known).await;
    ctx.known.lock().insert(key, known);
    served
}

impl Ctx {
    fn forget(&self, key: &ObjectKey) {
        self.known.lock().remove(key);
        let mut selectors = self.selectors.lock();
        if let Some(of_namespace) = selectors.get_mut(&*key.namespace) {
            of_namespace.remove(&*key.name);
            if of_namespace.is_empty() {
                selectors.remove(&*key.namespace);
            }
        }
    }

    async fn serve(
        &self,
        object: &Object,
        scaler: &FederatedHPA,
        known: &mut Known,
    ) -> Result<Action, Error> {
        let began = Instant::now();
        let found = self.find(scaler).await;
        let plan = match &found {
            Ok(found) => self.plan(scaler, found, &mut known.memory).await,
            Err(obstacle) => hindered(&scaler.status, obstacle, self.clock.now()),
        };
        let wanted = plan.rescale.as_ref().map(|(replicas, _)| *replicas);
        let action = found.as_ref().map_or("none", |found| action(found.scale.wanted(), wanted));
        let is_hindered = found.is_err() || (wanted.is_none() && !plan.warnings.is_empty());
        let done = self.carry_out(object, scaler, known, found.ok(), plan).await;
        self.numbers.reconciled(action, began, done.is_ok() && !is_hindered);
        done
    }

    async fn carry_out(
        &self,
        object: &Object,
        scaler: &FederatedHPA,
        known: &mut Known,
        found: Option<Found>,
        mut plan: Plan,
    ) -> Result<Action, Error> {
        for (reason, message) in known.news(&scaler.status, &plan) {
            self.events.warning(object, reason, message);
        }
        let mut failed = None;
        if let (Some(found), Some((replicas, reason))) = (found, plan.rescale.take()) {
            let current = found.scale.wanted();
            let size = format!("New size: {replicas}; reason: {reason}");
            let now = self.clock.now();
            match found.scale.set(&found.api, replicas).await {
                Ok(()) => {
                    self.events.normal(object, event_reason::SUCCESSFUL_RESCALE, size);
                    known.memory.step(replicas - current, now);
                    known.scaled_at = Some(now);
                    let said = format!("the workload was given {replicas} replicas");
                    let able = ("SucceededRescale", said.as_str());
                    set_condition(&mut plan.status, ABLE_TO_SCALE, true, able, now);
                }
                // Somebody else changed the workload at this moment: it is looked at anew.
                Err(error) if error.is_conflict() => return Ok(Action::Requeue(PAUSE)),
                Err(error) => {
                    let note = format!("{size}; error: {error}");
                    self.events.warning(object, event_reason::FAILED_RESCALE, note);
                    let said =
                        format!("the workload could not be given {replicas} replicas: {error}");
                    let unable = ("FailedUpdateScale", said.as_str());
                    set_condition(&mut plan.status, ABLE_TO_SCALE, false, unable, now);
                    plan.status.desired_replicas = scaler.status.desired_replicas;
                    failed = Some(Error::Rescale(named(&scaler.spec.scale_target_ref), error));
                }
            }
        }
        let written = self.write(object, scaler, plan.status, known).await?;
        failed.map_or(Ok(written), Err)
    }

    async fn write(
        &self,
        object: &Object,
        scaler: &FederatedHPA,
        mut status: HorizontalPodAutoscalerStatus,
        known: &mut Known,
    ) -> Result<Action, Error> {
        if let Some(at) = known.scaled_at {
            status.last_scale_time = Some(at.into());
        }
        if status != scaler.status {
            match write_status::<FederatedHPA>(&self.client, object, &status).await {
                Ok(()) => {}
                // Whoever wrote between will be seen in a moment.
                Err(error) if error.is_conflict() => return Ok(Action::Requeue(PAUSE)),
                Err(error) => {
                    let reason = event_reason::FAILED_UPDATE_STATUS;
                    self.events.warning(object, reason, chain(&error));
                    return Err(Error::Write(error));
                }
            }
        }
        known.scaled_at = None;
        Ok(Action::Requeue(self.options.sync_period))
    }

    /// Looks for the workload, in the control plane and in the clusters.
    async fn find(&self, scaler: &FederatedHPA) -> Result<Found, Obstacle> {
        let reference = &scaler.spec.scale_target_ref;
        let namespace = &scaler.metadata.namespace;
        let api = target::api_of(&self.client, &self.discovery, reference, namespace).await?;
        let scale = Scale::read(&api, &reference.name).await;
        let scale = scale.map_err(|source| Obstacle::Scale(named(reference), source))?;
        let clusters = self.clusters_of(reference, namespace)?;
        let gathered =
            members::gather(&self.members, &clusters, api.gvr(), namespace, &reference.name).await;
        if gathered.assigned == 0 {
            return Err(Obstacle::NoReplicas(named(reference)));
        }
        Ok(Found { api, scale, gathered })
    }

    /// The clusters that a workload was sent to and that are ready.
    fn clusters_of(
        &self,
        reference: &CrossVersionObjectReference,
        namespace: &str,
    ) -> Result<Vec<String>, Obstacle> {
        let key = ObjectKey::new(namespace, names::binding(&reference.kind, &reference.name));
        let binding = self.bindings.cache().get(&key);
        let binding = binding.and_then(|object| object.typed_for_now::<ResourceBinding>().ok());
        // Two kinds of the same name share the name of the binding, and one of them has it.
        let group = |version: &str| GroupVersion::parse(version).map(|version| version.group);
        let is_its = |binding: &Arc<ResourceBinding>| {
            let resource = &binding.spec.resource;
            resource.kind == reference.kind
                && resource.name == reference.name
                && group(&resource.api_version) == group(&reference.api_version)
        };
        let binding =
            binding.filter(is_its).ok_or_else(|| Obstacle::NoBinding(named(reference)))?;
        if binding.spec.clusters.is_empty() {
            return Err(Obstacle::NoClusters(named(reference)));
        }
        let is_ready = |name: &String| {
            let cluster = self.clusters.cache().get(&ObjectKey::cluster(name.as_str()));
            let cluster = cluster.and_then(|cluster| cluster.typed::<Cluster>().ok());
            cluster.is_some_and(|cluster| cluster.is_ready())
        };
        let clusters = binding.spec.clusters.iter().map(|cluster| cluster.name.clone());
        Ok(clusters.filter(is_ready).collect())
    }

    async fn plan(&self, scaler: &FederatedHPA, found: &Found, memory: &mut Memory) -> Plan {
        let (now, current) = (self.clock.now(), found.scale.wanted());
        let (spec, gathered) = (&scaler.spec, &found.gathered);
        memory.begin(current, now);
        let mut status = scaler.status.clone();
        let able = ("SucceededGetScale", "the scale of the workload was read");
        set_condition(&mut status, ABLE_TO_SCALE, true, able, now);
        status.current_replicas = current;
        let mut plan = if let Some((replicas, reason)) = decide::pull_into_bounds(spec, current) {
            status.desired_replicas = replicas;
            status.current_metrics = None;
            Plan { status, rescale: Some((replicas, reason)), warnings: Vec::new() }
        } else {
            match self.claim_pods(&scaler.metadata.namespace, &scaler.metadata.name, gathered) {
                Err((reason, message)) => {
                    set_condition(&mut status, SCALING_ACTIVE, false, (reason, &message), now);
                    Plan { status, rescale: None, warnings: vec![(reason, message)] }
                }
                Ok(selector) => {
                    let namespace = &scaler.metadata.namespace;
                    let subject = Subject { namespace, selector, pods: &gathered.pods };
                    let (readings, took) =
                        self.source.read(&spec.metrics, &subject, &self.numbers).await;
                    let situation = Situation {
                        options: &self.options,
                        now,
                        pods: &gathered.pods,
                        current,
                        assigned: gathered.assigned,
                        running: gathered.running,
                    };
                    for ((metric, reading), took) in spec.metrics.iter().zip(&readings).zip(took) {
                        let wanted = decide::wanted(metric, reading, &situation);
                        let action = action(current, wanted);
                        self.numbers.computed(&metric.r#type, action, took, wanted.is_some());
                    }
                    decide::follow_metrics(spec, status, &situation, &readings, memory)
                }
            }
        };
        plan.warnings.extend(gathered.warnings.iter().cloned());
        plan
    }

    /// Notes by which pods a FederatedHPA scales; two that scale by the same would pull in two directions.
    fn claim_pods<'a>(
        &self,
        namespace: &str,
        name: &str,
        gathered: &'a Gathered,
    ) -> Result<&'a LabelSelector, (&'static str, String)> {
        let Some(selector) = &gathered.selector else {
            let said = "no cluster tells by which labels the pods of the workload are found";
            return Err((event_reason::INVALID_SELECTOR, said.to_owned()));
        };
        let mut selectors = self.selectors.lock();
        let of_namespace = selectors.entry(namespace.to_owned()).or_default();
        of_namespace.insert(name.to_owned(), selector.clone());
        let selects_them = |other: &LabelSelector| {
            gathered.objects.iter().any(|pod| other.matches_map(&pod.meta().labels))
        };
        let others = of_namespace.iter().filter(|(other, _)| *other != name);
        let others: Vec<&str> = others
            .filter(|(_, selector)| selects_them(selector))
            .map(|(other, _)| other.as_str())
            .collect();
        if others.is_empty() {
            return Ok(selector);
        }
        let said = format!(
            "pods of {selector} are those of other FederatedHPAs too: {}; let each workload have \
             labels of its own, or one FederatedHPA",
            others.join(", ")
        );
        Err((event_reason::AMBIGUOUS_SELECTOR, said))
    }
}

impl Known {
    /// The warnings that were not given at the last look. After a restart those are known that led to what
    /// the status says already.
    fn news(
        &mut self,
        told: &HorizontalPodAutoscalerStatus,
        plan: &Plan,
    ) -> Vec<(&'static str, String)> {
        let reasons: HashSet<_> = plan.warnings.iter().map(|(reason, _)| *reason).collect();
        let said = |status: &HorizontalPodAutoscalerStatus| -> Vec<[String; 3]> {
            let conditions = status.conditions.iter();
            conditions.map(|c| [c.r#type.clone(), c.status.clone(), c.reason.clone()]).collect()
        };
        let before = self.warned.take().unwrap_or_else(|| match said(told) == said(&plan.status) {
            true => reasons.clone(),
            false => HashSet::new(),
        });
        self.warned = Some(reasons);
        let is_new = |(reason, _): &&(&'static str, String)| !before.contains(reason);
        plan.warnings.iter().filter(is_new).cloned().collect()
    }
}

fn named(reference: &CrossVersionObjectReference) -> String {
    format!("{} {}", reference.kind, reference.name)
}

/// What is said if the workload cannot be looked at.
fn hindered(told: &HorizontalPodAutoscalerStatus, obstacle: &Obstacle, now: Timestamp) -> Plan {
    let (event, condition) = obstacle.reasons();
    let problem = chain(obstacle);
    let mut status = told.clone();
    set_condition(&mut status, ABLE_TO_SCALE, false, (condition, &problem), now);
    Plan { status, rescale: None, warnings: vec![(event, problem)] }
}
