//! What happened in a world, line by line and in order: when, where, what. Random ids are left out.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::Object;
use karmada_runtime::{Change, Manager};
use parking_lot::Mutex;
use tokio::time::Instant;

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
const FOLLOWED_IN_MEMBERS: [&str; 4] = [
    "deployments.v1.apps",
    "configmaps.v1.",
    "services.v1.",
    "clusterroles.v1.rbac.authorization.k8s.io",
];

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    Added,
    Changed,
    Deleted,
    /// Nothing happened to an object: a line of the test.
    Noted,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Milliseconds since the beginning, whatever the clocks show.
    pub at: u64,
    /// `plane` or the name of a member.
    pub place: String,
    pub happening: Happening,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Whether Karmada put the object there.
    pub managed: bool,
    /// Whether it is being deleted.
    pub going: bool,
    /// The clusters a binding names.
    pub clusters: Vec<String>,
    /// The clusters a binding leaves, whose copies stay until they are replaced.
    pub leaving: Vec<String>,
    text: String,
}

/// The lines of a world. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Trace {
    began: Instant,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), lines: Arc::default() }
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn note(&self, place: &str, text: impl Into<String>) {
        self.lines.lock().push(Line {
            at: self.now(),
            place: place.to_owned(),
            happening: Happening::Noted,
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            managed: false,
            going: false,
            clusters: Vec::new(),
            leaving: Vec::new(),
            text: text.into(),
        });
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
        let (own, place) = (self.clone(), place.to_owned());
        let follows = informer.clone();
        manager.keep(informer.subscribe(move |change| {
            let (happening, object) = match change {
                Change::Applied { old: None, new } => (Happening::Added, new),
                Change::Applied { new, .. } => (Happening::Changed, new),
                Change::Deleted(object) => (Happening::Deleted, object),
            };
            // What was there before anybody looked is no news.
            if happening != Happening::Added || follows.is_synced() {
                own.tell(&place, happening, object);
            }
        }));
    }

    fn tell(&self, place: &str, happening: Happening, object: &Object) {
        let value = object.value();
        let managed = value.label(karmada_api::labels::MANAGED) == Some("true");
        if place != "plane" && !managed {
            return;
        }
        let clusters = value.list_at(&["spec", "clusters"]).iter();
        let tasks = value.list_at(&["spec", "gracefulEvictionTasks"]).iter();
        let leaving = tasks.filter(|task| task.str_at(&["purgeMode"]) != Some("Directly"));
        self.lines.lock().push(Line {
            at: self.now(),
            place: place.to_owned(),
            happening,
            kind: object.gvk().kind.clone(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            managed,
            going: object.is_being_deleted(),
            clusters: clusters
                .filter_map(|target| Some(target.str_at(&["name"])?.to_owned()))
                .collect(),
            leaving: leaving
                .filter_map(|task| Some(task.str_at(&["fromCluster"])?.to_owned()))
                .collect(),
            text: summary(&value),
        });
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().clone()
    }

    pub(crate) fn text(&self) -> String {
        self.lines.lock().iter().map(|line| format!("{line}\n")).collect()
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, place, happening, kind, namespace, name, text, .. } = self;
        let verb = match happening {
            Happening::Added => "added",
            Happening::Changed => "changed",
            Happening::Deleted => "deleted",
            Happening::Noted => return write!(f, "{at:>9} {place} {text}"),
        };
        write!(f, "{at:>9} {place} {verb} {kind} {namespace}/{name}{text}")
    }
}

/// The state that tells one step from the next.
fn summary(object: &Value) -> String {
    let mut text = String::new();
    if object.is_being_deleted() {
        text.push_str(" (leaving)");
    }
    for condition in object.list_at(&["status", "conditions"]) {
        let word = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        text.push_str(&format!(" {}={}({})", word("type"), word("status"), word("reason")));
    }
    for target in object.list_at(&["spec", "clusters"]) {
        let name = target.str_at(&["name"]).unwrap_or_default();
        text.push_str(&format!(" {name}:{}", target.i64_at(&["replicas"]).unwrap_or_default()));
    }
    for task in object.list_at(&["spec", "gracefulEvictionTasks"]) {
        text.push_str(&format!(" -{}", task.str_at(&["fromCluster"]).unwrap_or_default()));
    }
    for taint in object.list_at(&["spec", "taints"]) {
        text.push_str(&format!(" !{}", taint.str_at(&["key"]).unwrap_or_default()));
    }
    if let Some(payload) = object.annotation("payload") {
        text.push_str(&format!(" payload={payload}"));
    }
    if let (Some(wanted), Some(gvk)) = (object.i64_at(&["spec", "replicas"]), object.get("kind")) {
        let ready = object.i64_at(&["status", "readyReplicas"]).unwrap_or_default();
        if gvk != "ResourceBinding" {
            text.push_str(&format!(" {ready}/{wanted}"));
        }
    }
    text
}
