//! Performs the actions of one scenario and takes the states after its waits.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;
use tokio::time::{Instant, sleep};

use super::compare;
use super::lab::{Answered, Lab, reference};
use super::normal::Names;
use super::observe::{Scope, World};

/// How long to wait for events that come late.
const LATE: Duration = Duration::from_secs(6);

struct Run<'a> {
    lab: &'a Lab,
    scenario: &'a Value,
    namespace: String,
    scope: Scope,
    names: Names,
}

/// Returns the first difference to the recording, if there is one.
pub(super) async fn run(lab: &Lab, scenario: &Value) -> Option<String> {
    let namespace = format!("g-{}", scenario["id"].as_str().unwrap_or_default());
    let scope = Scope {
        spaces: vec![namespace.clone()],
        kinds: scenario.list_at(&["kinds"]).to_vec(),
        with_namespaces: scenario["namespaces"] == true,
        with_clusters: scenario["clusters"] == true,
        with_member_status: scenario["memberStatus"] == true,
        ..Scope::default()
    };
    let mut run = Run { lab, scenario, namespace, scope, names: Names::default() };
    let (results, states) = run.perform().await;
    run.clean_up().await;
    compare::difference(scenario, &results, &states)
}

impl Run<'_> {
    async fn perform(&mut self) -> (Vec<Value>, Vec<Value>) {
        let own =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.lab.plane.apply(&own).await;
        self.lab.wait_for_namespace(&self.namespace).await;
        if self.is_pull() {
            self.lab.set_pull_clusters(true).await;
        }
        let (mut results, mut states) = (Vec::new(), Vec::new());
        for action in self.scenario.list_at(&["actions"]) {
            let action = fill(action, &self.namespace);
            if action.get("wait").is_some() {
                let expected = self.scenario["expect"][states.len()].list_at(&["events"]).len();
                states.push(self.settle(&action, expected).await);
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

    /// Waits until nothing changes any more and takes the state.
    async fn settle(&mut self, action: &Value, expected: usize) -> Value {
        let quiet = Duration::from_secs(action["quiet"].as_u64().unwrap_or(3));
        let limit = Duration::from_secs(action["max"].as_u64().unwrap_or(60));
        let began = Instant::now();
        let (mut last, mut seen) = (began, None);
        let world: World = loop {
            self.lab.heartbeat(self.is_pull()).await;
            let world = self.scope.gather(self.lab).await;
            let now = (world.signature(), self.scope.events(self.lab).await);
            if seen.as_ref() != Some(&now) {
                (seen, last) = (Some(now), Instant::now());
            }
            if last.elapsed() >= quiet || began.elapsed() > limit {
                break world;
            }
            sleep(Duration::from_millis(300)).await;
        };
        let mut events = self.scope.events(self.lab).await;
        let end = Instant::now() + LATE;
        while Instant::now() < end && events.difference(&self.scope.events_seen).count() < expected
        {
            sleep(Duration::from_millis(300)).await;
            events = self.scope.events(self.lab).await;
        }
        self.scope.state(&world, &events, &mut self.names)
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
            if is_new_space && answered.0 == 201 && self.scenario["skipNamespaceWait"] != true {
                self.lab.wait_for_namespace(object.name()).await;
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
        } else if action.get("idle").is_some() {
            self.lab.idle().await;
            return Value::Null;
        } else if let Some(seconds) = action["sleep"].as_f64() {
            sleep(Duration::from_secs_f64(seconds)).await;
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
        self.lab.restore().await;
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let world = self.scope.gather(self.lab).await;
            let is_left =
                |work: &Value| work["spec"]["workload"]["manifests"][0].kind() != "Namespace";
            if world.bindings.is_empty() && !world.works.iter().any(is_left) {
                break;
            }
            for work in world.works.iter().filter(|_| self.is_pull()) {
                // Nobody else removes the Works of clusters without an agent.
                if work["metadata"].get("deletionTimestamp").is_some()
                    && !work.namespace().contains("member")
                {
                    let body = json!({"metadata": {"finalizers": null}});
                    plane.patch(&reference(work), &body, ("merge", "")).await;
                }
            }
            sleep(Duration::from_millis(300)).await;
        }
        if self.is_pull() {
            self.lab.set_pull_clusters(false).await;
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
        let seen = self.scope.works_seen.iter().map(|(namespace, _)| namespace.as_str());
        for space in seen.chain(["default"]).collect::<std::collections::BTreeSet<_>>() {
            let api = plane.of("", "v1", "events").namespaced(space);
            for event in plane.list(&api).await {
                let about = &event["involvedObject"];
                let name = about["name"].as_str().unwrap_or_default().to_owned();
                let is_ours = self.scope.works_seen.iter().any(|(_, work)| *work == name)
                    || self.scope.refs.iter().any(|r| r["name"] == name.as_str());
                if is_ours {
                    drop(api.delete(event.name(), &DeleteOptions::default()).await);
                }
            }
        }
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
