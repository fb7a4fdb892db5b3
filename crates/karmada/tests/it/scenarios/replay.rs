//! Performs the actions of one scenario and takes the states after its waits.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;
use tokio::time::{Instant, sleep};

use super::compare;
use super::lab::Lab;
use super::normal::Names;
use super::observe::{Scope, World};
use super::site::{Answered, reference};
use crate::server::PATIENCE;

/// How long the recorded state must stand to be believed, where something was to change.
const HOLD: Duration = Duration::from_secs(1);

/// How long nothing must have changed for another state to be the last word. A busy machine may
/// stand still for a while; only what fails waits for it.
const LAST_WORD: Duration = Duration::from_secs(60);

/// Where the recorder slept so that something is noticed, it is given more time on a busy machine.
const LONGER: f64 = 3.0;

/// How often to look.
const LOOK: Duration = Duration::from_millis(250);

struct Run<'a> {
    lab: &'a Lab,
    scenario: &'a Value,
    namespace: String,
    scope: Scope,
    names: Names,
    /// The recorded states.
    expected: Vec<Value>,
    last_word: Duration,
}

/// Returns the first difference to the recording, if there is one. One that is known to differ is
/// not waited for.
pub(super) async fn run(lab: &Lab, scenario: &Value, is_known: bool) -> Option<String> {
    let namespace = format!("g-{}", scenario["id"].as_str().unwrap_or_default());
    let scope = Scope {
        spaces: vec![namespace.clone()],
        kinds: scenario.list_at(&["kinds"]).to_vec(),
        with_namespaces: scenario["namespaces"] == true,
        with_clusters: scenario["clusters"] == true,
        with_member_status: scenario["memberStatus"] == true,
        ..Scope::default()
    };
    let mut run = Run {
        lab,
        scenario,
        namespace,
        scope,
        names: Names::default(),
        expected: compare::expand(scenario.list_at(&["expect"])),
        last_word: if is_known { Duration::ZERO } else { LAST_WORD },
    };
    let (results, states) = run.perform().await;
    run.clean_up().await;
    compare::difference(scenario.list_at(&["results"]), &results, &run.expected, &states)
}

impl Run<'_> {
    async fn perform(&mut self) -> (Vec<Value>, Vec<Value>) {
        self.lab.clear_namespace(&self.namespace).await;
        let own =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.lab.plane.apply(&own).await;
        self.await_namespace(&self.namespace).await;
        if self.scenario["exclusive"] != false {
            self.lab.set_pull_clusters(self.is_pull()).await;
        }
        let (mut results, mut states) = (Vec::new(), Vec::new());
        for action in self.scenario.list_at(&["actions"]) {
            let action = fill(action, &self.namespace);
            if action.get("wait").is_some() {
                states.push(self.settle(&action, states.len()).await);
                results.push(Value::Null);
            } else {
                results.push(self.act(&action).await);
            }
        }
        (results, states)
    }

    fn is_pull(&self) -> bool {
        self.scenario["pull"] == true
    }

    async fn await_namespace(&self, name: &str) {
        if self.scenario["skipNamespaceWait"] != true {
            self.lab.wait_for_namespace(name).await;
        }
    }

    /// Waits for the recorded state, or until nothing changes any more.
    async fn settle(&mut self, action: &Value, at: usize) -> Value {
        let quiet = Duration::from_secs(action["quiet"].as_u64().unwrap_or(3));
        let limit = Duration::from_secs(action["max"].as_u64().unwrap_or(60));
        let limit = if self.last_word.is_zero() { limit } else { limit.max(PATIENCE) };
        let began = Instant::now();
        let hold = if self.brings_news(at) { HOLD.min(quiet) } else { quiet };
        let (mut last, mut seen, mut is_right) = (began, None, None);
        loop {
            self.lab.heartbeat(self.is_pull()).await;
            let world: World = self.scope.gather(self.lab).await;
            let now = (world.signature(), self.scope.events(self.lab).await);
            if seen.as_ref() != Some(&now) {
                (seen, last, is_right) = (Some(now.clone()), Instant::now(), None);
            }
            let still = last.elapsed();
            let is_right = still >= hold
                && *is_right.get_or_insert_with(|| {
                    let state = self.scope.state(&world, &now.1, &mut self.names.clone());
                    let want = self.expected.get(at);
                    want.is_some_and(|want| compare::states(want, &state, at).is_none())
                });
            if is_right || still >= quiet.max(self.last_word) || began.elapsed() > limit {
                let state = self.scope.state(&world, &now.1, &mut self.names);
                self.scope.events_seen.extend(now.1);
                return state;
            }
            sleep(LOOK).await;
        }
    }

    /// Whether the recorded state says anything that the one before did not.
    fn brings_news(&self, at: usize) -> bool {
        let Some(want) = self.expected.get(at) else { return false };
        !want.list_at(&["events"]).is_empty()
            || at == 0 && want["bindings"] != json!([])
            || at > 0 && compare::states(want, &self.expected[at - 1], at).is_some()
    }

    async fn act(&mut self, action: &Value) -> Value {
        let place = action["member"].as_str();
        let site = match place {
            Some(member) => &self.lab.members[member],
            None => &self.lab.plane,
        };
        let (code, message): Answered = if let Some(object) = action.get("apply") {
            let is_new_space = object.kind() == "Namespace" && place.is_none();
            if is_new_space && !self.scope.spaces.iter().any(|space| space == object.name()) {
                self.scope.spaces.push(object.name().to_owned());
            }
            let answered = site.apply(object).await;
            self.track(reference(object), place.is_some());
            if is_new_space && answered.0 == 201 {
                self.await_namespace(object.name()).await;
            }
            answered
        } else if let Some(reference) = action.get("patch") {
            let how = action["type"].as_str().unwrap_or("merge");
            let subresource = action["subresource"].as_str().unwrap_or_default();
            let answered = site.patch(reference, &action["body"], (how, subresource)).await;
            if reference.kind() != "Cluster" {
                self.track(reference.clone(), place.is_some());
            }
            answered
        } else if let Some(reference) = action.get("delete") {
            let how = action["propagationPolicy"].as_str().unwrap_or("Background");
            site.delete(reference, how).await
        } else if let Some(member) = action["join"].as_str() {
            self.lab.join(member).await
        } else if action.get("idle").is_some() {
            self.lab.idle().await;
            return Value::Null;
        } else if let Some(seconds) = action["sleep"].as_f64() {
            sleep(Duration::from_secs_f64(seconds * LONGER)).await;
            return Value::Null;
        } else {
            (0, Some(format!("not an action of this leg: {action}")))
        };
        match message {
            Some(message) => json!({"code": code, "message": self.names.text(&message)}),
            None => json!({"code": code}),
        }
    }

    fn track(&mut self, reference: Value, in_member: bool) {
        let list = if in_member { &mut self.scope.member_refs } else { &mut self.scope.refs };
        if !list.contains(&reference) {
            list.push(reference);
        }
    }

    async fn clean_up(&mut self) {
        let plane = &self.lab.plane;
        for reference in self.scope.refs.iter().rev() {
            if reference.kind() == "Cluster" {
                continue;
            }
            if plane.delete(reference, "Background").await.0 == 403 {
                let key = "resourcetemplate.karmada.io/deletion-protected";
                let body = json!({"metadata": {"labels": {key: null}}});
                plane.patch(reference, &body, ("merge", "")).await;
                plane.delete(reference, "Background").await;
            }
        }
        if self.touches_clusters() {
            self.lab.restore().await;
        }
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let world = self.scope.gather(self.lab).await;
            let is_left =
                |work: &Value| work["spec"]["workload"]["manifests"][0].kind() != "Namespace";
            let works: Vec<Value> = world.works.iter().map(|work| work.value()).collect();
            if world.bindings.is_empty() && !works.iter().any(is_left) {
                break;
            }
            // Orphans have nobody whose end would be theirs.
            for binding in world.bindings.iter().map(|binding| binding.value()) {
                if binding.list_at(&["metadata", "ownerReferences"]).is_empty() {
                    plane.delete(&reference(&binding), "Background").await;
                }
            }
            for work in works.iter().filter(|_| self.is_pull()) {
                // Nobody else removes the Works of clusters without an agent.
                if work["metadata"].get("deletionTimestamp").is_some()
                    && !work.namespace().contains("member")
                {
                    let body = json!({"metadata": {"finalizers": null}});
                    plane.patch(&reference(work), &body, ("merge", "")).await;
                }
            }
            sleep(LOOK).await;
        }
        for reference in &self.scope.member_refs {
            for member in self.lab.members.values() {
                member.delete(reference, "Background").await;
            }
        }
        for space in &self.scope.spaces {
            let namespaces = plane.of("", "v1", "namespaces");
            drop(namespaces.delete(space, &DeleteOptions::default()).await);
        }
        for event in self.scope.event_objects(self.lab).await {
            let api = plane.of("", "v1", "events").namespaced(event.namespace());
            drop(api.delete(event.name(), &DeleteOptions::default()).await);
        }
        if self.actions_have("join") {
            self.lab.join_missing().await;
        }
    }

    fn actions_have(&self, key: &str) -> bool {
        self.scenario.list_at(&["actions"]).iter().any(|action| action.get(key).is_some())
    }

    fn touches_clusters(&self) -> bool {
        let is_cluster = |action: &Value| {
            ["patch", "delete", "apply"].into_iter().any(|how| action[how].kind() == "Cluster")
        };
        self.actions_have("join") || self.scenario.list_at(&["actions"]).iter().any(is_cluster)
    }
}

/// Puts the scenario's namespace in.
fn fill(value: &Value, namespace: &str) -> Value {
    match value {
        Value::String(text) => text.replace("${ns}", namespace).into(),
        Value::Array(list) => list.iter().map(|item| fill(item, namespace)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), fill(v, namespace))).collect())
        }
        other => other.clone(),
    }
}
