//! Decides what the Works of a binding should be, from what is cached. Writes nothing.

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::explain::OverrideStep;
use karmada_api::work::Work;
use karmada_api::{Binding, Kind, annotations, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Object;
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::overrides::Overrides;
use karmada_propagation::work::{Change, RenderError, Renderer, reconcile, targets};
use karmada_runtime::ObjectKey;

/// What is to be done in one cluster.
pub(super) struct Target {
    pub(super) cluster: String,
    pub(super) work: ObjectKey,
    pub(super) outcome: Result<Outcome, Failure>,
    pub(super) steps: Vec<OverrideStep>,
}

pub(super) struct Outcome {
    pub(super) change: Change,
    /// The Work that stands there now.
    pub(super) existing: Option<Box<Work>>,
    /// The override policies that had a part in it, as events name them.
    pub(super) policies: Vec<String>,
}

/// Why a cluster gets no Work, in the words of events.
pub(super) struct Failure {
    pub(super) message: String,
    /// The override policy that could not be applied, as events name it.
    pub(super) policy: Option<String>,
    /// The override policies that were applied before it.
    pub(super) applied: Vec<String>,
}

impl Failure {
    fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), policy: None, applied: Vec::new() }
    }
}

/// Where existing Works and Clusters are looked up.
pub(super) trait Lookup {
    fn work(&self, key: &ObjectKey) -> Option<Arc<Object>>;
    fn cluster(&self, name: &str) -> Option<Arc<Cluster>>;
}

/// Renders the Work of every target and compares it with the one that is there.
pub(super) fn plan<B: Binding>(
    binding: &B,
    template: &Value,
    overrides: &Overrides,
    interpreter: &Interpreter,
    inject_state: bool,
    lookup: &impl Lookup,
) -> Vec<Target> {
    let revise = |object: Value, replicas: i64| {
        interpreter.revise_replica(object, replicas).map_err(|error| error.to_string())
    };
    let can_revise = interpreter.hook_enabled(&template.gvk(), Operation::ReviseReplica);
    let revise = can_revise.then_some(&revise as &dyn Fn(Value, i64) -> Result<Value, String>);
    let renderer = Renderer::new(template, binding, overrides, revise, inject_state);
    let resource = &binding.spec().resource;
    let name = names::work(&resource.kind, &resource.name, &resource.namespace);
    let targets = targets(binding.spec()).into_iter();
    targets
        .map(|target| {
            let work = ObjectKey::new(names::execution_space(&target.name), name.as_str());
            let mut steps = Vec::new();
            let outcome = lookup.cluster(&target.name).ok_or_else(|| no_cluster(&target.name));
            let outcome = outcome.and_then(|cluster| {
                let existing = read(lookup.work(&work))?;
                let trace = Some(&mut steps).filter(|_| !overrides.is_empty());
                let mut desired = renderer
                    .render(target, &*cluster, existing.as_deref(), trace)
                    .map_err(failure)?;
                desired.api_version = Work::api_version();
                desired.kind = Work::KIND.to_owned();
                let policies = applied(&desired, &resource.namespace);
                let change = reconcile(existing.as_deref(), desired);
                Ok(Outcome { change, existing, policies })
            });
            Target { cluster: target.name.clone(), work, outcome, steps }
        })
        .collect()
}

fn read(work: Option<Arc<Object>>) -> Result<Option<Box<Work>>, Failure> {
    // Read for this pass alone: trees of all Works would not fit into memory.
    let parsed = work.map(|work| work.read().map(Box::new));
    parsed.transpose().map_err(|error| Failure::plain(format!("understand the work: {error}")))
}

fn no_cluster(name: &str) -> Failure {
    Failure::plain(format!("Cluster.cluster.karmada.io \"{name}\" not found"))
}

fn failure(error: RenderError) -> Failure {
    match error {
        RenderError::Replicas { problem, .. } => Failure::plain(problem),
        RenderError::Override { source, .. } => {
            let applied = source.applied.iter().map(|title| as_events_name(title)).collect();
            let policy = Some(as_events_name(&source.policy));
            Failure { message: source.cause.to_string(), policy, applied }
        }
    }
}

fn as_events_name(title: &str) -> String {
    match title.split_once(' ') {
        Some(("ClusterOverridePolicy", name)) => cluster_policy(name),
        Some((_, name)) => format!("override policy({name})"),
        None => title.to_owned(),
    }
}

fn cluster_policy(name: &str) -> String {
    format!("cluster override policy({name})")
}

/// The policies recorded in a Work, in the order they were applied in.
fn applied(work: &Work, namespace: &str) -> Vec<String> {
    let recorded = |key: &str| -> Vec<String> {
        let record = work.metadata.annotations.get(key);
        let record = record.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let entries = record.as_ref().and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.str_at(&["policyName"])?.to_owned())).collect()
    };
    let cluster_scoped = recorded(annotations::APPLIED_CLUSTER_OVERRIDES).into_iter();
    let namespaced = recorded(annotations::APPLIED_OVERRIDES).into_iter();
    let mut policies: Vec<String> = cluster_scoped
        .map(|name| cluster_policy(&name))
        .chain(namespaced.map(|name| format!("override policy({namespace}/{name})")))
        .collect();
    policies.dedup();
    policies
}
