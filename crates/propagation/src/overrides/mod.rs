//! Which override policies change an object for a cluster, in which order, and what they change.

mod document;
mod edit;
pub mod image;
pub mod pointer;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use karmada_api::OverridingPolicy;
use karmada_api::affinity::ClusterFacts;
use karmada_api::explain::OverrideStep;
use karmada_api::policy::{
    CommandArgsOverrider, ImageOverrider, LabelAnnotationOverrider, OverriderOperator, Overriders,
    ResourceSelector, RuleWithCluster,
};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::go_escape;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};

use crate::selector::{Head, Precision, best_pick};
use edit::{override_field, override_plaintext};
use image::{BadImage, Image};
use pointer::PointerError;

/// An override that cannot be applied; nothing of it reaches the cluster.
#[derive(Debug, thiserror::Error)]
#[error("{policy}: {overrider} overrider: {cause}")]
pub struct OverrideError {
    pub policy: String,
    /// The policies that were applied before it, in their order.
    pub applied: Vec<String>,
    pub overrider: &'static str,
    pub cause: Cause,
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Pointer(#[from] PointerError),
    #[error(transparent)]
    Image(#[from] BadImage),
    #[error("failed to obtain imageValue with predicate path({path}), error: {problem}")]
    NoImage { path: String, problem: String },
    #[error("Get object's value by overrider's path({0}) is not string")]
    NotText(String),
    #[error("invalid state detected")]
    BadJson,
    #[error("{path} holds no YAML: {problem}")]
    BadYaml { path: String, problem: String },
}

/// A policy prepared for use.
#[derive(Debug)]
struct Prepared {
    namespace: String,
    name: String,
    selectors: Vec<ResourceSelector>,
    rules: Vec<RuleWithCluster>,
}

impl Prepared {
    fn new<P: OverridingPolicy>(policy: &P) -> Self {
        let spec = policy.spec();
        let mut rules = spec.override_rules.clone();
        if rules.is_empty() {
            // The form of old policies: one rule, written in the spec itself.
            let (target_cluster, overriders) =
                (spec.target_cluster.clone(), spec.overriders.clone());
            rules.push(RuleWithCluster { target_cluster, overriders });
        }
        Self {
            namespace: policy.namespace().to_owned(),
            name: policy.name().to_owned(),
            selectors: spec.resource_selectors.clone(),
            rules,
        }
    }

    /// How precisely the object is selected; without selectors, every object is.
    fn picks(&self, object: &Value) -> Option<Precision> {
        if self.selectors.is_empty() {
            return Some(Precision::Kind);
        }
        best_pick(&self.selectors, &Head::of(object))
    }

    fn title(&self) -> String {
        if self.namespace.is_empty() {
            format!("ClusterOverridePolicy {}", self.name)
        } else {
            format!("OverridePolicy {}/{}", self.namespace, self.name)
        }
    }
}

/// Override policies of one scope, by the kinds they select.
#[derive(Debug, Default)]
pub struct OverrideIndex {
    policies: HashMap<(String, String), Arc<Prepared>>,
    /// By namespace of the policy, apiVersion and kind; policies for every kind stand under empty names.
    by_kind: HashMap<(String, String, String), Vec<Arc<Prepared>>>,
}

impl OverrideIndex {
    pub fn insert<P: OverridingPolicy>(&mut self, policy: &P) {
        self.remove(policy.namespace(), policy.name());
        let prepared = Arc::new(Prepared::new(policy));
        for place in places(&prepared) {
            self.by_kind.entry(place).or_default().push(prepared.clone());
        }
        self.policies.insert((prepared.namespace.clone(), prepared.name.clone()), prepared);
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(prepared) = self.policies.remove(&key) else { return };
        for place in places(&prepared) {
            if let Some(policies) = self.by_kind.get_mut(&place) {
                policies.retain(|policy| !Arc::ptr_eq(policy, &prepared));
            }
        }
    }

    /// Returns the policies that select the object, the least precise first: later ones win.
    fn matching(&self, scope: &str, object: &Value) -> Vec<Arc<Prepared>> {
        let of_kind = (scope.to_owned(), object.api_version().to_owned(), object.kind().to_owned());
        let of_any = (scope.to_owned(), String::new(), String::new());
        let candidates = [of_kind, of_any].into_iter().filter_map(|place| self.by_kind.get(&place));
        let mut picked: Vec<(Precision, Arc<Prepared>)> = candidates
            .flatten()
            .filter_map(|policy| Some((policy.picks(object)?, policy.clone())))
            .collect();
        picked.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        picked.dedup_by(|a, b| Arc::ptr_eq(&a.1, &b.1));
        picked.into_iter().map(|(_, policy)| policy).collect()
    }
}

fn places(policy: &Prepared) -> Vec<(String, String, String)> {
    let place = |api_version: &str, kind: &str| {
        (policy.namespace.clone(), api_version.to_owned(), kind.to_owned())
    };
    if policy.selectors.is_empty() {
        return vec![place("", "")];
    }
    let mut places: Vec<_> = policy
        .selectors
        .iter()
        .map(|selector| place(&selector.api_version, &selector.kind))
        .collect();
    places.sort();
    places.dedup();
    places
}

/// The overrides that concern one object, found once and applied for each of its clusters.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    cluster_scoped: Vec<Arc<Prepared>>,
    namespaced: Vec<Arc<Prepared>>,
}

impl Overrides {
    /// Finds the policies for an object: cluster-scoped ones, then those of its namespace.
    pub fn find(
        cluster_scoped: &OverrideIndex,
        namespaced: &OverrideIndex,
        object: &Value,
    ) -> Self {
        let namespace = object.namespace();
        Self {
            cluster_scoped: cluster_scoped.matching("", object),
            namespaced: if namespace.is_empty() {
                Vec::new()
            } else {
                namespaced.matching(namespace, object)
            },
        }
    }

    pub fn is_empty(&self) -> bool {
        self.cluster_scoped.is_empty() && self.namespaced.is_empty()
    }

    /// Whether an override may reach for fields that a Work is pruned of.
    pub(crate) fn reach_pruned_fields(&self) -> bool {
        self.rules().any(|(_, rule)| {
            let paths = rule.overriders.plaintext.iter().map(|overrider| overrider.path.as_str());
            let fields = rule
                .overriders
                .field_overrider
                .iter()
                .map(|overrider| overrider.field_path.as_str());
            paths
                .chain(fields)
                .any(|path| !path.starts_with("/spec/") && !path.starts_with("/data/"))
        })
    }

    /// Applies every rule meant for the cluster, each on the result of the one before.
    pub fn apply(
        &self,
        object: &mut Value,
        cluster: &impl ClusterFacts,
        trace: Option<&mut Vec<OverrideStep>>,
    ) -> Result<Applied, OverrideError> {
        self.apply_rules(object, &self.rules_for(cluster), cluster.name(), trace)
    }

    /// The rules meant for a cluster, by their places. Clusters with the same rules get the same object.
    pub(crate) fn rules_for(&self, cluster: &impl ClusterFacts) -> Vec<usize> {
        let concerns = |rule: &RuleWithCluster| {
            rule.target_cluster.as_ref().is_none_or(|affinity| affinity.matches(cluster))
        };
        let rules = self.rules().enumerate();
        rules.filter(|(_, (_, rule))| concerns(rule)).map(|(place, _)| place).collect()
    }

    /// Applies the rules at these places; `cluster` is who the trace speaks of.
    pub(crate) fn apply_rules(
        &self,
        object: &mut Value,
        places: &[usize],
        cluster: &str,
        mut trace: Option<&mut Vec<OverrideStep>>,
    ) -> Result<Applied, OverrideError> {
        let mut applied = Applied::default();
        let mut left = places.iter().peekable();
        for (place, (policy, rule)) in self.rules().enumerate() {
            if left.next_if_eq(&&place).is_none() {
                continue;
            }
            apply_rule(object, &rule.overriders, policy, cluster, trace.as_deref_mut()).map_err(
                |error| {
                    let before = places.len() - left.len() - 1;
                    OverrideError { applied: self.titles(&places[..before]), ..error }
                },
            )?;
            let is_cluster_scoped = policy.namespace.is_empty();
            let record = if is_cluster_scoped {
                &mut applied.cluster_scoped
            } else {
                &mut applied.namespaced
            };
            record.push((policy.name.clone(), rule.overriders.clone()));
        }
        Ok(applied)
    }

    /// The policies of the rules at these places, each once.
    fn titles(&self, places: &[usize]) -> Vec<String> {
        let mut titles: Vec<String> = self
            .rules()
            .enumerate()
            .filter(|(place, _)| places.contains(place))
            .map(|(_, (policy, _))| policy.title())
            .collect();
        titles.dedup();
        titles
    }

    /// Every rule with its policy, in the order of application.
    fn rules(&self) -> impl Iterator<Item = (&Prepared, &RuleWithCluster)> {
        let policies = self.cluster_scoped.iter().chain(&self.namespaced);
        policies.flat_map(|policy| policy.rules.iter().map(|rule| (&**policy, rule)))
    }
}

/// What was applied for one cluster, as a Work records it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    cluster_scoped: Vec<(String, Overriders)>,
    namespaced: Vec<(String, Overriders)>,
}

impl Applied {
    /// The annotation value for cluster-scoped policies; absent when none applied.
    pub fn cluster_scoped(&self) -> Option<String> {
        record(&self.cluster_scoped)
    }

    /// The annotation value for policies of the namespace; absent when none applied.
    pub fn namespaced(&self) -> Option<String> {
        record(&self.namespaced)
    }

    /// Names of the policies that changed something, for events.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.cluster_scoped.iter().chain(&self.namespaced).map(|(name, _)| name.as_str())
    }
}

/// One applied rule; the order of the fields is that of the original.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    policy_name: &'a str,
    overriders: &'a Overriders,
}

fn record(applied: &[(String, Overriders)]) -> Option<String> {
    let mut items: Vec<Recorded<'_>> = applied
        .iter()
        .map(|(policy_name, overriders)| Recorded { policy_name, overriders })
        .collect();
    items.sort_by_key(|item| item.policy_name);
    let json = serde_json::to_string(&items).ok().filter(|_| !items.is_empty())?;
    Some(go_escape(&json))
}

type Changes = Vec<String>;

fn apply_rule(
    object: &mut Value,
    overriders: &Overriders,
    policy: &Prepared,
    cluster: &str,
    mut trace: Option<&mut Vec<OverrideStep>>,
) -> Result<(), OverrideError> {
    let mut run = |overrider: &'static str, result: Result<Changes, Cause>| match result {
        Ok(changes) => {
            if let (Some(trace), false) = (trace.as_deref_mut(), changes.is_empty()) {
                trace.push(OverrideStep {
                    cluster: cluster.to_owned(),
                    policy: policy.title(),
                    overrider: overrider.to_owned(),
                    changes,
                });
            }
            Ok(())
        }
        Err(cause) => {
            Err(OverrideError { policy: policy.title(), applied: Vec::new(), overrider, cause })
        }
    };
    for overrider in &overriders.image_overrider {
        run("image", override_image(object, overrider))?;
    }
    for overrider in &overriders.command_overrider {
        run("command", Ok(override_words(object, "command", overrider)))?;
    }
    for overrider in &overriders.args_overrider {
        run("args", Ok(override_words(object, "args", overrider)))?;
    }
    for overrider in &overriders.labels_overrider {
        run("labels", Ok(override_marks(object, "labels", overrider)))?;
    }
    for overrider in &overriders.annotations_overrider {
        run("annotations", Ok(override_marks(object, "annotations", overrider)))?;
    }
    for overrider in &overriders.field_overrider {
        run("field", override_field(object, overrider))?;
    }
    if !overriders.plaintext.is_empty() {
        run("plaintext", override_plaintext(object, &overriders.plaintext))?;
    }
    Ok(())
}

/// Where the containers of a workload stand.
///
/// Compat: told by kind alone; init containers and CronJobs are not covered.
fn containers_path(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Pod" => Some(&["spec", "containers"]),
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => {
            Some(&["spec", "template", "spec", "containers"])
        }
        _ => None,
    }
}

fn override_image(object: &mut Value, overrider: &ImageOverrider) -> Result<Changes, Cause> {
    let edit = |text: &str| -> Result<String, Cause> {
        let mut image = Image::parse(text)?;
        image.edit(&overrider.component, &overrider.operator, &overrider.value);
        Ok(image.to_string())
    };
    let mut changes = Changes::new();
    if let Some(predicate) = &overrider.predicate {
        let no_image = |problem| Cause::NoImage { path: predicate.path.clone(), problem };
        let place = image_at(object, &predicate.path).map_err(no_image)?;
        let text = place.as_str().unwrap_or_default();
        let edited = edit(text)?;
        changes.push(format!("replace {} = {edited}", predicate.path));
        *place = edited.into();
        return Ok(changes);
    }
    let Some(path) = containers_path(object.kind()) else { return Ok(changes) };
    for (index, container) in object.list_at_mut(path).iter_mut().enumerate() {
        let Some(text) = container.str_at(&["image"]) else { continue };
        let edited = edit(text)?;
        changes.push(format!("replace /{}/{index}/image = {edited}", path.join("/")));
        container.set(&["image"], edited);
    }
    Ok(changes)
}

/// The text a predicate names. Its path is no JSON pointer: nothing in it is escaped.
fn image_at<'a>(object: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let path = path.trim_matches('/');
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    let mut place = object;
    for segment in above.split('/').filter(|_| !above.is_empty()) {
        if place.is_array() && segment.parse::<i32>().is_err() {
            return Err(format!("path({segment}) of rawObj's is not number"));
        }
        let held = pointer::child(place, segment);
        place = held.filter(|held| held.is_object() || held.is_array()).ok_or_else(|| {
            format!("path({segment}) of rawObj's type is not map[string]interface{{}} and []interface{{}}")
        })?;
    }
    let text = pointer::child(place, last).filter(|held| held.is_string());
    text.ok_or_else(|| format!("failed to convert path({last}) to string"))
}

fn override_words(object: &mut Value, field: &str, overrider: &CommandArgsOverrider) -> Changes {
    let mut changes = Changes::new();
    let Some(path) = containers_path(object.kind()) else { return changes };
    for (index, container) in object.list_at_mut(path).iter_mut().enumerate() {
        if container.str_at(&["name"]) != Some(&overrider.container_name) {
            continue;
        }
        let present = container.list_at(&[field]);
        let words: Vec<Value> = match overrider.operator {
            OverriderOperator::Add => {
                let added = overrider.value.iter().map(|word| Value::from(word.as_str()));
                present.iter().cloned().chain(added).collect()
            }
            OverriderOperator::Remove => {
                let is_removed = |word: &&Value| overrider.value.iter().any(|one| **word == **one);
                present.iter().filter(|word| !is_removed(word)).cloned().collect()
            }
            _ => continue,
        };
        let words = Value::from(words);
        changes.push(format!("replace /{}/{index}/{field} = {words}", path.join("/")));
        container.set(&[field], words);
    }
    changes
}

/// Adding makes the map where it is missing; replacing and removing touch only what is there.
fn override_marks(object: &mut Value, map: &str, overrider: &LabelAnnotationOverrider) -> Changes {
    let mut changes = Changes::new();
    for (key, value) in &overrider.value {
        let path = &["metadata", map, key.as_str()];
        let exists = object.at(path).is_some();
        match overrider.operator {
            OverriderOperator::Add => object.set(path, value.as_str()),
            OverriderOperator::Replace if exists => object.set(path, value.as_str()),
            OverriderOperator::Remove if exists => {
                object.remove_at(path);
            }
            _ => continue,
        }
        changes.push(format!("{} /metadata/{map}/{}", overrider.operator, key.replace('/', "~1")));
    }
    changes
}
