//! Puts the reasons of the control plane and the state of its objects together, and words the result.

use std::fmt;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::explain::{Explanation, Requirement, Scheduling};
use karmada_api::meta::Kind;
use karmada_api::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
};
use karmada_api::wire::Time;
use karmada_api::work::{ResourceBindingSpec, ResourceBindingStatus};
use karmada_api::{annotations, labels, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_propagation::claim;
use karmada_propagation::overrides::{OverrideIndex, Overrides};
use karmada_propagation::policies::{self, PolicyIndex};
use karmada_propagation::selector::Head;
use karmada_propagation::work;
use karmada_scheduler_core::snapshot::{ClusterInfo, Snapshot};
use karmada_scheduler_core::{Config, Estimates, Peers, Subject, explain_anew};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Everything the answer is made from.
pub(crate) struct Evidence {
    pub(crate) object: Value,
    pub(crate) policies: Vec<Value>,
    pub(crate) cluster_policies: Vec<Value>,
    pub(crate) overrides: Vec<Value>,
    pub(crate) cluster_overrides: Vec<Value>,
    pub(crate) binding: Option<Value>,
    /// What those who decided say, where they can be asked.
    pub(crate) told: Option<Explanation>,
    /// Those who decided exist and could not be reached.
    pub(crate) leader_is_away: bool,
    pub(crate) clusters: Vec<Value>,
    /// Per target the Work, if there is one.
    pub(crate) works: Vec<(String, Option<Value>)>,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) explanation: Explanation,
    /// What became of it in each target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) delivery: Vec<Delivery>,
    /// What else has to be known to read this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// What has to happen before all is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting_for: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    pub(crate) cluster: String,
    /// `namespace/name` of the Work.
    pub(crate) work: String,
    /// What the member answered.
    pub(crate) answer: String,
    pub(crate) health: String,
    /// The state of the workload there, in a few words.
    pub(crate) state: String,
}

impl Report {
    /// Leaves out what is about other clusters.
    pub(crate) fn keep_cluster(&mut self, cluster: &str) {
        self.explanation.overrides.retain(|step| step.cluster == cluster);
        self.explanation.deliveries.retain(|delivery| delivery.cluster == cluster);
        self.delivery.retain(|delivery| delivery.cluster == cluster);
        if let Some(scheduling) = &mut self.explanation.scheduling {
            for attempt in &mut scheduling.attempts {
                attempt.clusters.retain(|verdict| verdict.cluster == cluster);
            }
        }
    }
}

/// Lines of a screen, and how many of them the members and the waiting may take.
const SCREEN: usize = 24;
const TAIL: usize = 10;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tail = self.answers();
        if tail.len() > TAIL / 2 {
            let more = tail.len() - (TAIL / 2 - 1);
            tail.truncate(TAIL / 2 - 1);
            tail.push(format!("  … and {more} more answers"));
        }
        tail.extend(self.notes.iter().map(|note| format!("  {note}")));
        tail.extend(
            self.waiting_for.iter().take(TAIL / 2 - 1).map(|what| format!("  waiting for {what}")),
        );
        match self.waiting_for.len().saturating_sub(TAIL / 2 - 1) {
            0 if self.waiting_for.is_empty() && !self.delivery.is_empty() => {
                tail.push("  nothing is being waited for".to_owned());
            }
            0 => {}
            more => tail.push(format!("  … and for {more} more things")),
        }
        let room = SCREEN - tail.len();
        // The tail tells what the members answered, those with one answer on one line.
        let reasons = Explanation { deliveries: Vec::new(), ..self.explanation.clone() };
        write!(f, "{reasons:.room$}")?;
        tail.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

impl Report {
    /// What the members answered; those who answered the same share a line.
    fn answers(&self) -> Vec<String> {
        let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
        for Delivery { cluster, answer, health, state, .. } in &self.delivery {
            let parts = [answer, health, state].into_iter().filter(|part| !part.is_empty());
            let text = parts.map(String::as_str).collect::<Vec<_>>().join(", ");
            match answers.iter_mut().find(|(known, _)| *known == text) {
                Some((_, clusters)) => clusters.push(cluster),
                None => answers.push((text, vec![cluster])),
            }
        }
        let line = |(text, clusters): &(String, Vec<&str>)| match clusters.len() {
            0..=4 => format!("  {}: {text}", clusters.join(", ")),
            many => format!("  {} and {} more: {text}", clusters[..4].join(", "), many - 4),
        };
        answers.iter().map(line).collect()
    }
}

pub(crate) fn assess(evidence: &Evidence) -> Result<Report> {
    let object = &evidence.object;
    let subject =
        format!("{} {}", object.kind(), names::namespaced_key(object.namespace(), object.name()));
    let mut report = Report {
        explanation: Explanation { subject, ..Explanation::default() },
        ..Report::default()
    };
    let Some(binding) = &evidence.binding else {
        report.explanation.policies = judge_policies(evidence)?;
        match never_bound(&evidence.object) {
            Some(note) => report.notes.push(note),
            None => report.waiting_for.push(no_binding(&report)),
        }
        return Ok(report);
    };
    let spec: ResourceBindingSpec = read_part(binding, "spec")?;
    match &evidence.told {
        Some(told) => report.explanation = told.clone(),
        None => {
            let clusters: Vec<Cluster> = read_all(&evidence.clusters)?;
            report.explanation.policies = judge_policies(evidence)?;
            report.explanation.scheduling = judge_scheduling(binding, &spec, &clusters)?;
            report.explanation.overrides = judge_overrides(evidence, &spec, &clusters)?;
        }
    }
    report.explanation.required_by = Requirement::all_of(&spec);
    if evidence.leader_is_away {
        let note = "the replica that leads was not reached: worked out here from the objects alone";
        report.notes.push(note.to_owned());
    }
    let told = &report.explanation.deliveries;
    report.delivery = evidence
        .works
        .iter()
        .map(|(cluster, work)| match (work, told.iter().find(|one| one.cluster == *cluster)) {
            (Some(work), _) => deliver(binding, cluster, work),
            (None, told) => undelivered(cluster, told),
        })
        .collect();
    report.waiting_for = waiting(evidence, binding, &spec);
    Ok(report)
}

fn read<T: Kind>(value: &Value) -> Result<T> {
    T::from_value(value).map_err(|error| {
        Error::Message(format!("understand {} {}: {error}", value.kind(), value.name()))
    })
}

fn read_all<T: Kind>(values: &[Value]) -> Result<Vec<T>> {
    values.iter().map(read).collect()
}

fn judge_policies(evidence: &Evidence) -> Result<Vec<karmada_api::explain::PolicyCandidate>> {
    let (mut namespaced, mut cluster_scoped) = (PolicyIndex::default(), PolicyIndex::default());
    for policy in read_all::<PropagationPolicy>(&evidence.policies)? {
        namespaced.insert(&policy);
    }
    for policy in read_all::<ClusterPropagationPolicy>(&evidence.cluster_policies)? {
        cluster_scoped.insert(&policy);
    }
    let head = Head::of(&evidence.object);
    let namespace = evidence.object.namespace();
    let own =
        if namespace.is_empty() { Vec::new() } else { namespaced.candidates(namespace, &head) };
    let mut candidates = policies::explain(&own, &cluster_scoped.candidates("", &head));
    keep_standing_claim(&mut candidates, &evidence.object);
    Ok(candidates)
}

/// A claim stands whatever better policies came later; the object says whose it is.
fn keep_standing_claim(
    candidates: &mut Vec<karmada_api::explain::PolicyCandidate>,
    object: &Value,
) {
    if claim::holder_of(object).is_none() {
        return;
    }
    let namespaced = object.annotation(annotations::PROPAGATION_POLICY_NAME);
    let holder = match namespaced {
        Some(name) => format!(
            "PropagationPolicy {}/{name}",
            object.annotation(annotations::PROPAGATION_POLICY_NAMESPACE).unwrap_or_default()
        ),
        None => match object.annotation(annotations::CLUSTER_PROPAGATION_POLICY_NAME) {
            Some(name) => format!("ClusterPropagationPolicy {name}"),
            None => return,
        },
    };
    let Some(place) = candidates.iter().position(|candidate| candidate.policy == holder) else {
        return;
    };
    for candidate in
        candidates.iter_mut().filter(|candidate| candidate.won && candidate.policy != holder)
    {
        candidate.won = false;
        candidate.reason = format!("{}; {holder} claimed it before and keeps it", candidate.reason);
    }
    let mut winner = candidates.remove(place);
    winner.won = true;
    candidates.insert(0, winner);
}

fn judge_scheduling(
    binding: &Value,
    spec: &ResourceBindingSpec,
    clusters: &[Cluster],
) -> Result<Option<Scheduling>> {
    let status: ResourceBindingStatus = read_part(binding, "status")?;
    let infos =
        clusters.iter().map(|cluster| Arc::new(ClusterInfo::from_cluster(cluster))).collect();
    let peers = Peers::default();
    let subject = Subject {
        spec,
        status: &status,
        generation: binding.i64_at(&["metadata", "generation"]).unwrap_or_default(),
        deleting: binding.is_being_deleted(),
        applied_placement: binding.annotation(annotations::APPLIED_PLACEMENT),
        peers: &peers,
        now: Time(jiff::Timestamp::now()),
    };
    let (snapshot, estimates) = (Snapshot::new(infos), Estimates::default());
    Ok(explain_anew(&subject, &snapshot, &estimates, &Config::default()))
}

pub(crate) fn read_part<T: DeserializeOwned + Default>(binding: &Value, field: &str) -> Result<T> {
    match binding.get(field) {
        None => Ok(T::default()),
        Some(part) => karmada_apimachinery::from_value(part.clone()).map_err(|error| {
            Error::Message(format!("understand {field} of {}: {error}", binding.name()))
        }),
    }
}

fn judge_overrides(
    evidence: &Evidence,
    spec: &ResourceBindingSpec,
    clusters: &[Cluster],
) -> Result<Vec<karmada_api::explain::OverrideStep>> {
    let (mut cluster_scoped, mut namespaced) = (OverrideIndex::default(), OverrideIndex::default());
    for policy in read_all::<ClusterOverridePolicy>(&evidence.cluster_overrides)? {
        cluster_scoped.insert(&policy);
    }
    for policy in read_all::<OverridePolicy>(&evidence.overrides)? {
        namespaced.insert(&policy);
    }
    let overrides = Overrides::find(&cluster_scoped, &namespaced, &evidence.object);
    let mut steps = Vec::new();
    for target in work::targets(spec) {
        let Some(cluster) = clusters.iter().find(|one| one.metadata.name == target.name) else {
            continue;
        };
        let mut object = evidence.object.clone();
        // A rule that fails says so in its event; the steps before it are true all the same.
        let _ = overrides.apply(&mut object, cluster, Some(&mut steps));
    }
    Ok(steps)
}

/// Only whoever makes the Works knows why there is none.
fn undelivered(cluster: &str, told: Option<&karmada_api::explain::Delivery>) -> Delivery {
    let answer = match told {
        Some(told) if !told.message.is_empty() => format!("NOT applied: {}", told.message),
        _ => "no Work yet".to_owned(),
    };
    Delivery { cluster: cluster.to_owned(), answer, ..Delivery::default() }
}

fn deliver(binding: &Value, cluster: &str, work: &Value) -> Delivery {
    let condition = condition(work, "Applied");
    let is_suspended = work.bool_at(&["spec", "suspendDispatching"]) == Some(true);
    let answer = match (condition.and_then(|it| it.str_at(&["status"])), is_suspended) {
        (Some("True"), false) => "applied".to_owned(),
        (Some("True"), true) => "applied before delivery was suspended".to_owned(),
        (Some(_), _) => format!("NOT applied: {}", text(condition, "message")),
        (None, false) => "not applied yet".to_owned(),
        (None, true) => "not applied: delivery is suspended".to_owned(),
    };
    let items = binding.list_at(&["status", "aggregatedStatus"]);
    let item = items.iter().find(|item| item.str_at(&["clusterName"]) == Some(cluster));
    let health = item.and_then(|item| item.str_at(&["health"])).unwrap_or_default().to_lowercase();
    Delivery {
        cluster: cluster.to_owned(),
        work: names::namespaced_key(work.namespace(), work.name()),
        answer,
        health,
        state: item.and_then(|item| item.get("status")).map(state).unwrap_or_default(),
    }
}

fn text(condition: Option<&Value>, field: &str) -> String {
    condition.and_then(|condition| condition.str_at(&[field])).unwrap_or_default().to_owned()
}

/// The state of a workload in a few words, for the kinds that have replicas.
fn state(status: &Value) -> String {
    let Some(replicas) = status.i64_at(&["replicas"]) else { return String::new() };
    format!("{}/{replicas} ready", status.i64_at(&["readyReplicas"]).unwrap_or_default())
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object
        .list_at(&["status", "conditions"])
        .iter()
        .find(|condition| condition.str_at(&["type"]) == Some(kind))
}

/// Why no policy is waited for, for what goes nowhere and for what goes everywhere without one.
fn never_bound(object: &Value) -> Option<String> {
    let namespace = object.namespace();
    if names::is_reserved_namespace(namespace) {
        return Some(format!("objects of the namespace {namespace} are never propagated"));
    }
    if (object.api_version(), object.kind()) != ("v1", "Namespace") {
        return None;
    }
    if names::is_reserved_namespace(object.name()) {
        return Some("namespaces of the system stay in the control plane".to_owned());
    }
    Some(match object.label(labels::SKIP_AUTO_PROPAGATION) {
        Some("true") => format!("its label {} keeps it here", labels::SKIP_AUTO_PROPAGATION),
        _ => "namespaces go to every cluster by namespace sync, without a policy".to_owned(),
    })
}

fn no_binding(report: &Report) -> String {
    match report.explanation.policies.first() {
        None => "a policy: no PropagationPolicy or ClusterPropagationPolicy selects it".to_owned(),
        Some(winner) => format!("the binding that {} leads to", winner.policy),
    }
}

/// Conditions that are not as they should be, and clusters that do not answer.
fn waiting(evidence: &Evidence, binding: &Value, spec: &ResourceBindingSpec) -> Vec<String> {
    let mut waiting = Vec::new();
    if binding.is_being_deleted() {
        waiting.push("the end of its binding, which is being deleted".to_owned());
    }
    if binding.at(&["spec", "suspension", "scheduling"]) == Some(&Value::Bool(true)) {
        let what = "scheduling to be resumed: suspension.scheduling of the binding holds it back";
        waiting.push(what.to_owned());
    }
    let targets = work::targets(spec);
    let is_placed = spec.placement.is_some();
    if !is_placed && targets.is_empty() {
        waiting.push(nobody_leads(spec));
        return waiting;
    }
    let place = is_placed.then_some(("Scheduled", "a place"));
    for (kind, what) in place.into_iter().chain([("FullyApplied", "all members to apply it")]) {
        match condition(binding, kind) {
            Some(found) if found.str_at(&["status"]) == Some("True") => {}
            Some(found) => waiting.push(format!("{what}: {}", text(Some(found), "message"))),
            None => waiting.push(what.to_owned()),
        }
    }
    if condition(binding, "Scheduled").is_none_or(|own| text(Some(own), "status") != "True") {
        waiting.extend(super::unknown::clusters(binding, &evidence.clusters));
    }
    let suspended = targets.iter().filter(|target| spec.is_dispatching_suspended(&target.name));
    let suspended: Vec<&str> = suspended.map(|target| target.name.as_str()).collect();
    if !suspended.is_empty() {
        waiting.push(format!(
            "delivery to {} to be resumed: the suspension of its policy holds it back",
            suspended.join(", ")
        ));
    }
    for target in targets {
        let name = target.name.as_str();
        let cluster = evidence.clusters.iter().find(|cluster| cluster.name() == name);
        let ready = cluster.and_then(|cluster| condition(cluster, "Ready"));
        match (cluster, ready.and_then(|ready| ready.str_at(&["status"]))) {
            (None, _) => waiting.push(format!("{name}: there is no such cluster any more")),
            (Some(_), Some("True")) => {}
            (Some(_), _) => waiting.push(format!("{name} to be ready: {}", text(ready, "message"))),
        }
    }
    for task in binding.list_at(&["spec", "gracefulEvictionTasks"]) {
        let from = task.str_at(&["fromCluster"]).unwrap_or_default();
        waiting.push(format!("a healthy replacement before it leaves {from}"));
    }
    let unhealthy = binding.list_at(&["status", "aggregatedStatus"]).iter();
    for item in unhealthy.filter(|item| item.str_at(&["health"]) == Some("Unhealthy")) {
        waiting
            .push(format!("{} to be healthy", item.str_at(&["clusterName"]).unwrap_or_default()));
    }
    waiting
}

/// What an object without a placement of its own waits for while it has no cluster.
fn nobody_leads(spec: &ResourceBindingSpec) -> String {
    match Requirement::all_of(spec).first() {
        Some(by) => format!("a place for {}, which requires it", by.binding),
        None => "a policy, or a workload that requires it: nobody does any more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn cluster(name: &str, labels: Value) -> Value {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "labels": labels}, "spec": {"syncMode": "Push"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]},
        })
    }

    fn evidence() -> Evidence {
        let placement = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
        let policy = |name: &str, selector: Value| {
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"resourceSelectors": [selector], "placement": placement}})
        };
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default"});
        Evidence {
            object: json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx", "namespace": "default"},
                "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "a", "image": "nginx"}]}}}}),
            policies: vec![
                policy("all", json!({"apiVersion": "apps/v1", "kind": "Deployment"})),
                policy(
                    "named",
                    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}),
                ),
            ],
            cluster_policies: vec![],
            overrides: vec![json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                "metadata": {"name": "o", "namespace": "default"},
                "spec": {"overrideRules": [{"overriders": {"imageOverrider": [
                    {"component": "Registry", "operator": "replace", "value": "r.io"}]}}]}})],
            cluster_overrides: vec![],
            binding: Some(json!({
                "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"name": "nginx-deployment", "namespace": "default", "generation": 2},
                "spec": {"resource": resource, "replicas": 2, "placement": placement,
                    "clusters": [{"name": "m1", "replicas": 2}]},
                "status": {
                    "conditions": [
                        {"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                        {"type": "FullyApplied", "status": "False", "reason": "x", "message": "one of two", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                    "aggregatedStatus": [{"clusterName": "m1", "health": "Healthy", "applied": true,
                        "status": {"replicas": 2, "readyReplicas": 1}}]}})),
            told: None,
            leader_is_away: false,
            clusters: vec![cluster("m1", json!({})), cluster("m2", json!({}))],
            works: vec![(
                "m1".to_owned(),
                Some(json!({"metadata": {"name": "w", "namespace": "karmada-es-m1"},
                    "status": {"conditions": [{"type": "Applied", "status": "True"}]}})),
            )],
        }
    }

    #[test]
    fn one_screen_tells_the_whole_chain() {
        let report = assess(&evidence()).unwrap();
        let text = report.to_string();
        for part in [
            "Deployment default/nginx",
            "claimed by PropagationPolicy default/named: selected by name",
            "not by     PropagationPolicy default/all",
            "- m2: ",
            "+ m1: score",
            "m1: image by OverridePolicy default/o",
            "m1: applied, healthy, 1/2 ready",
            "waiting for all members to apply it: one of two",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(text.lines().count() <= 24, "{text}");
    }

    #[test]
    fn those_who_decided_are_believed() {
        let told =
            Explanation { subject: "Deployment default/nginx".into(), ..Explanation::default() };
        let report = assess(&Evidence { told: Some(told.clone()), ..evidence() }).unwrap();
        assert_eq!(report.explanation, told);
        assert_eq!(report.delivery.len(), 1, "{report}");
    }

    #[test]
    fn a_fleet_fits_on_a_screen_too() {
        let mut report = assess(&evidence()).unwrap();
        for number in 0..100 {
            let state = format!("{}/9 ready", number % 10);
            let cluster = format!("c{number}");
            report.delivery.push(Delivery {
                cluster: cluster.clone(),
                state,
                ..Delivery::default()
            });
            report.waiting_for.push(format!("{cluster} to be healthy"));
            let scheduling = report.explanation.scheduling.as_mut().unwrap();
            let verdict = karmada_api::explain::ClusterVerdict {
                cluster,
                selected: true,
                ..Default::default()
            };
            scheduling.attempts[0].clusters.push(verdict);
        }
        let text = report.to_string();
        assert!(text.lines().count() <= SCREEN, "{text}");
        assert!(
            text.contains("more lines (-o yaml shows all)") && text.contains("more answers"),
            "{text}"
        );
    }

    #[test]
    fn an_object_nobody_selects_waits_for_a_policy() {
        let mut evidence = evidence();
        evidence.binding = None;
        evidence.policies.clear();
        let report = assess(&evidence).unwrap();
        assert_eq!(
            report.waiting_for,
            ["a policy: no PropagationPolicy or ClusterPropagationPolicy selects it"]
        );
    }

    #[test]
    fn a_claim_that_stands_is_kept() {
        let mut evidence = evidence();
        evidence.object["metadata"]["annotations"] = json!({
            "propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "all"});
        evidence.object["metadata"]["labels"] =
            json!({"propagationpolicy.karmada.io/permanent-id": "1"});
        let report = assess(&evidence).unwrap();
        let winner = &report.explanation.policies[0];
        assert_eq!((winner.policy.as_str(), winner.won), ("PropagationPolicy default/all", true));
        assert!(report.explanation.policies[1].reason.contains("claimed it before"), "{report}");
    }

    /// A ConfigMap that goes to m1 because a workload there requires it.
    fn dependency() -> Evidence {
        let mut evidence = evidence();
        evidence.object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "conf", "namespace": "default"}});
        evidence.policies.clear();
        evidence.overrides.clear();
        evidence.binding = Some(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "conf-configmap", "namespace": "default", "generation": 1},
            "spec": {
                "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "conf", "namespace": "default"},
                "requiredBy": [{"namespace": "default", "name": "nginx-deployment",
                    "clusters": [{"name": "m1", "replicas": 2}]}]},
            "status": {"conditions": [{"type": "FullyApplied", "status": "True", "reason": "x",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        evidence
    }

    #[test]
    fn a_dependency_is_where_whoever_requires_it_is() {
        let report = assess(&dependency()).unwrap();
        assert_eq!(
            report.to_string(),
            "\
ConfigMap default/conf
  required by ResourceBinding default/nginx-deployment, which goes to m1
  m1: applied
  nothing is being waited for"
        );
    }

    #[test]
    fn a_dependency_waits_for_a_place_of_whoever_requires_it() {
        let mut evidence = dependency();
        evidence.works.clear();
        let binding = evidence.binding.as_mut().unwrap();
        binding["spec"]["requiredBy"][0]["clusters"] = json!([]);
        assert_eq!(
            assess(&evidence).unwrap().waiting_for,
            ["a place for ResourceBinding default/nginx-deployment, which requires it"]
        );
    }

    #[test]
    fn a_namespace_waits_for_no_policy() {
        let mut evidence = evidence();
        evidence.binding = None;
        evidence.object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let report = assess(&evidence).unwrap();
        assert_eq!(report.waiting_for, Vec::<String>::new());
        let text = report.to_string();
        assert!(text.contains("go to every cluster by namespace sync"), "{text}");
    }

    #[test]
    fn delivery_that_is_suspended_is_named() {
        let mut evidence = evidence();
        evidence.works[0].1 = Some(json!({
            "metadata": {"name": "w", "namespace": "karmada-es-m1"}, "spec": {"suspendDispatching": true}}));
        let binding = evidence.binding.as_mut().unwrap();
        binding["spec"]["suspension"] = json!({"dispatching": true});
        let text = assess(&evidence).unwrap().to_string();
        for part in
            ["m1: not applied: delivery is suspended", "waiting for delivery to m1 to be resumed"]
        {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn reasons_that_the_leader_did_not_give_say_so() {
        let text = assess(&Evidence { leader_is_away: true, ..evidence() }).unwrap().to_string();
        assert!(text.contains("the replica that leads was not reached"), "{text}");
        assert!(text.contains("worked out anew from today's clusters"), "{text}");
    }

    #[test]
    fn a_cluster_without_a_work_says_why_there_is_none() {
        let mut evidence = evidence();
        evidence.works[0].1 = None;
        let deliveries = vec![karmada_api::explain::Delivery {
            cluster: "m1".into(),
            message: "an override fails".into(),
            ..Default::default()
        }];
        evidence.told = Some(Explanation { deliveries, ..Explanation::default() });
        let report = assess(&evidence).unwrap();
        assert_eq!(report.delivery[0].answer, "NOT applied: an override fails");
    }

    #[test]
    fn one_cluster_can_be_looked_at_alone() {
        let mut report = assess(&evidence()).unwrap();
        report.keep_cluster("m2");
        let text = report.to_string();
        assert!(text.contains("- m2: ") && !text.contains("m1: applied"), "{text}");
    }
}
