//! What happened in a world, line by line: when, where, what. Random ids are left out and lines of
//! one instant are sorted, so that traces of one seed can be compared.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_runtime::{Change, Clock, Manager};
use parking_lot::Mutex;

/// What is followed on the control plane.
const FOLLOWED: [&str; 6] = [
    "clusters.v1alpha1.cluster.karmada.io",
    "resourcebindings.v1alpha2.work.karmada.io",
    "clusterresourcebindings.v1alpha2.work.karmada.io",
    "works.v1alpha1.work.karmada.io",
    "propagationpolicies.v1alpha1.policy.karmada.io",
    "clusterpropagationpolicies.v1alpha1.policy.karmada.io",
];
/// What is followed in the members.
const FOLLOWED_IN_MEMBERS: [&str; 3] = ["deployments.v1.apps", "configmaps.v1.", "services.v1."];

/// Lines with the milliseconds they happened at.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    lines: Arc<Mutex<Vec<(i64, String)>>>,
}

impl Trace {
    pub(crate) fn note(&self, clock: &Clock, text: impl Into<String>) {
        self.lines.lock().push((clock.now().as_millisecond(), text.into()));
    }

    pub(crate) fn follow_plane(&self, manager: &Manager) {
        FOLLOWED.iter().for_each(|resource| self.follow(manager, "plane", resource));
    }

    pub(crate) fn follow_member(&self, manager: &Manager, name: &str) {
        FOLLOWED_IN_MEMBERS.iter().for_each(|resource| self.follow(manager, name, resource));
    }

    fn follow(&self, manager: &Manager, place: &str, resource: &str) {
        let mut words = resource.splitn(3, '.');
        let mut word = || words.next().unwrap_or_default();
        let (plural, version, group) = (word(), word(), word());
        let informer = manager.informers.all(&Gvr::new(group, version, plural));
        let (own, clock, place) = (self.clone(), manager.clock.clone(), place.to_owned());
        manager.keep(informer.subscribe(move |change| {
            let (verb, object) = match change {
                Change::Applied { old: None, new } => ("added", new),
                Change::Applied { new, .. } => ("changed", new),
                Change::Deleted(object) => ("deleted", object),
            };
            let (kind, namespace, name) = (&object.gvk().kind, object.namespace(), object.name());
            let state = summary(&object.value());
            own.note(&clock, format!("{place} {verb} {kind} {namespace}/{name}{state}"));
        }));
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = self.lines.lock().clone();
        let start = lines.iter().map(|(at, _)| *at).min().unwrap_or_default();
        lines.sort();
        lines.iter().map(|(at, text)| format!("{:>9} {text}\n", at - start)).collect()
    }
}

/// The state that tells one step from the next.
fn summary(object: &Value) -> String {
    let mut text = String::new();
    for condition in object.list_at(&["status", "conditions"]) {
        let word = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        text.push_str(&format!(" {}={}({})", word("type"), word("status"), word("reason")));
    }
    for target in object.list_at(&["spec", "clusters"]) {
        let name = target.str_at(&["name"]).unwrap_or_default();
        text.push_str(&format!(" {name}:{}", target.i64_at(&["replicas"]).unwrap_or_default()));
    }
    for taint in object.list_at(&["spec", "taints"]) {
        text.push_str(&format!(" !{}", taint.str_at(&["key"]).unwrap_or_default()));
    }
    text
}
