//! What the plane and the members look like: everything a scenario can have touched.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use super::lab::{Lab, Site};
use super::normal::{NOISE, Names, tidy};

const POLICY_GROUPS: [&str; 6] =
    ["policy", "config", "apps", "autoscaling", "networking", "remedy"];

/// Everything read at one time.
#[derive(Default)]
pub(super) struct World {
    objects: Vec<Value>,
    pub(super) bindings: Vec<Value>,
    pub(super) works: Vec<Value>,
    clusters: Vec<Value>,
    members: BTreeMap<String, Vec<Value>>,
}

/// Reason, type, kind, namespace, name, message and component.
pub(super) type Event = [String; 7];

/// What a scenario has touched so far.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) spaces: Vec<String>,
    pub(super) refs: Vec<Value>,
    pub(super) member_refs: Vec<Value>,
    pub(super) kinds: Vec<Value>,
    pub(super) with_namespaces: bool,
    pub(super) with_clusters: bool,
    pub(super) with_member_status: bool,
    pub(super) works_seen: BTreeSet<(String, String)>,
    pub(super) events_seen: BTreeSet<Event>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

impl Scope {
    fn cluster_scoped(&self) -> BTreeSet<(String, String)> {
        let own = self.refs.iter().filter(|r| text(r, "namespace").is_empty());
        own.map(|r| (text(r, "kind").to_owned(), text(r, "name").to_owned())).collect()
    }

    pub(super) async fn gather(&mut self, lab: &Lab) -> World {
        let mut world = World::default();
        let mut kinds: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for r in self.refs.iter().chain(&self.member_refs).chain(&self.kinds) {
            let kind = (text(r, "apiVersion").to_owned(), text(r, "kind").to_owned());
            kinds.entry(kind).or_default().insert(text(r, "name").to_owned());
        }
        for ((version, kind), names) in kinds {
            if kind == "Cluster" && version.starts_with("cluster.karmada.io") {
                continue;
            }
            world.objects.extend(self.read(&lab.plane, true, (&version, &kind), &names).await);
            let group = version.split('/').next().unwrap_or_default();
            if group.ends_with(".karmada.io") {
                continue;
            }
            for (name, member) in &lab.members {
                let found = self.read(member, false, (&version, &kind), &names).await;
                world.members.entry(name.clone()).or_default().extend(found);
            }
        }
        let plane = &lab.plane;
        for space in &self.spaces {
            let api = plane.of("work.karmada.io", "v1alpha2", "resourcebindings");
            world.bindings.extend(plane.list(&api.namespaced(space)).await);
        }
        let own = self.cluster_scoped();
        let api = plane.of("work.karmada.io", "v1alpha2", "clusterresourcebindings");
        for binding in plane.list(&api).await {
            let resource = &binding["spec"]["resource"];
            let key = (text(resource, "kind").to_owned(), text(resource, "name").to_owned());
            if own.contains(&key) {
                world.bindings.push(binding);
            }
        }
        for work in plane.list(&plane.of("work.karmada.io", "v1alpha1", "works")).await {
            if self.concerns(&work, &own) {
                let key = (work.namespace().to_owned(), work.name().to_owned());
                self.works_seen.insert(key);
                world.works.push(work);
            }
        }
        if self.with_clusters {
            let api = plane.of("cluster.karmada.io", "v1alpha1", "clusters");
            world.clusters = plane.list(&api).await;
        }
        world
    }

    fn concerns(&self, work: &Value, own: &BTreeSet<(String, String)>) -> bool {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let (kind, name) = (manifest.kind().to_owned(), manifest.name().to_owned());
        if kind == "Namespace" {
            return self.with_namespaces
                && (self.spaces.contains(&name) || own.contains(&(kind, name)));
        }
        match manifest.namespace() {
            "" => own.contains(&(kind, name)),
            namespace => self.spaces.iter().any(|space| space == namespace),
        }
    }

    /// The objects of a kind at one place that were applied or that Karmada manages.
    async fn read(
        &self,
        site: &Site,
        is_plane: bool,
        (version, kind): (&str, &str),
        names: &BTreeSet<String>,
    ) -> Vec<Value> {
        let Some(resource) = site.resource(version, kind).await else { return Vec::new() };
        let api = site.client.api(&resource.gvr);
        let mut found = Vec::new();
        if !resource.namespaced {
            if kind == "Namespace" && !self.with_namespaces {
                return found;
            }
            for name in names.iter().filter(|name| !name.is_empty()) {
                found.extend(api.find(name).await.ok().flatten());
            }
            return found;
        }
        for space in &self.spaces {
            for object in site.list(&api.clone().namespaced(space)).await {
                let is_named = self.refs.iter().chain(&self.member_refs).any(|r| {
                    text(r, "kind") == kind
                        && text(r, "apiVersion") == version
                        && text(r, "namespace") == space
                        && text(r, "name") == object.name()
                });
                let is_managed = object.label("karmada.io/managed") == Some("true");
                let shows_all = is_plane
                    && !matches!(kind, "ConfigMap" | "ServiceAccount" | "Secret" | "EndpointSlice");
                if is_named || is_managed || shows_all {
                    found.push(object);
                }
            }
        }
        found
    }

    pub(super) async fn events(&self, lab: &Lab) -> BTreeSet<Event> {
        let mut own = self.cluster_scoped();
        let bindings: Vec<_> = own
            .iter()
            .map(|(kind, name)| format!("{}-{kind}", name.replace(':', ".")).to_lowercase())
            .collect();
        own.extend(bindings.into_iter().map(|name| ("ClusterResourceBinding".to_owned(), name)));
        let mut spaces: BTreeSet<String> = self.spaces.iter().cloned().collect();
        spaces.extend(self.works_seen.iter().map(|(namespace, _)| namespace.clone()));
        spaces.insert("default".to_owned());
        let mut found = BTreeSet::new();
        for space in spaces {
            let api = lab.plane.of("", "v1", "events").namespaced(&space);
            for event in lab.plane.list(&api).await {
                let about = &event["involvedObject"];
                let (kind, name) = (text(about, "kind").to_owned(), text(about, "name").to_owned());
                let place = text(about, "namespace").to_owned();
                let is_ours = self.spaces.contains(&space)
                    || kind == "Work" && self.works_seen.contains(&(place.clone(), name.clone()))
                    || space == "default" && own.contains(&(kind.clone(), name.clone()));
                let message = text(&event, "message").to_owned();
                if !is_ours
                    || NOISE.is_match(&message)
                    || kind == "Namespace" && !self.with_namespaces
                {
                    continue;
                }
                let component = match text(&event["source"], "component") {
                    "" => text(&event, "reportingComponent"),
                    component => component,
                };
                let (reason, how) = (text(&event, "reason"), text(&event, "type"));
                found.insert([
                    reason.to_owned(),
                    how.to_owned(),
                    kind,
                    place,
                    name,
                    message,
                    component.to_owned(),
                ]);
            }
        }
        found
    }

    /// The normal form of what was read; only events that are new are in it.
    pub(super) fn state(
        &mut self,
        world: &World,
        events: &BTreeSet<Event>,
        names: &mut Names,
    ) -> Value {
        let mut state = json!({
            "templates": [], "policies": [], "bindings": [], "works": [], "members": {},
        });
        let (mut templates, mut policies) = (Vec::new(), Vec::new());
        for object in &world.objects {
            let group = object.api_version().split('.').next().unwrap_or_default();
            let is_policy =
                object.api_version().contains(".karmada.io/") && POLICY_GROUPS.contains(&group);
            let slim = slim(object, !is_policy);
            let mut shown = json!({});
            for key in ["apiVersion", "kind", "metadata", "status"] {
                if let Some(value) = slim.get(key).filter(|value| !is_empty(value)) {
                    shown[key] = value.clone();
                }
            }
            if is_policy { policies.push(shown) } else { templates.push(shown) }
        }
        state["templates"] = sorted(templates);
        state["policies"] = sorted(policies);
        let bindings = world.bindings.iter().map(|binding| {
            let mut shown = slim(binding, false);
            if let Some(observed) = shown.pointer_mut("/status/schedulerObservedGeneration") {
                let is_current = *observed == binding["metadata"]["generation"];
                *observed = if is_current { "<generation>" } else { "<older>" }.into();
            }
            shown
        });
        state["bindings"] = sorted(bindings.collect());
        state["works"] = sorted(world.works.iter().map(|work| slim(work, false)).collect());
        for (member, objects) in &world.members {
            let shown = objects.iter().map(|object| {
                let mut shown = slim(object, false);
                let fields = shown.as_object_mut().expect("an object");
                if !self.with_member_status {
                    fields.remove("status");
                }
                if object["type"] == "kubernetes.io/service-account-token" {
                    fields.remove("data");
                }
                shown
            });
            if !objects.is_empty() {
                state["members"][member] = sorted(shown.collect());
            }
        }
        if self.with_clusters {
            state["clusters"] = clusters(&world.clusters);
        }
        let mut state = names.walk(&state);
        let new: Vec<Event> = events.difference(&self.events_seen).cloned().collect();
        self.events_seen.extend(new.iter().cloned());
        let shown =
            new.into_iter().map(|[reason, how, kind, namespace, name, message, component]| {
                json!({"reason": reason, "type": how, "kind": kind, "namespace": namespace,
                "name": name, "message": names.text(&message), "component": component})
            });
        state["events"] = shown.collect();
        tidy(&mut state);
        state
    }
}

impl World {
    /// Changes whenever anything did.
    pub(super) fn signature(&self) -> BTreeSet<String> {
        let all = self.objects.iter().chain(&self.bindings).chain(&self.works);
        let all = all.chain(self.members.values().flatten());
        let versions = all.map(|object| format!("{} {}", object.uid(), object.resource_version()));
        let clusters = self.clusters.iter().map(|cluster| {
            let conditions = cluster.list_at(&["status", "conditions"]).iter();
            let conditions: Vec<String> =
                conditions.map(|c| format!("{}{}", c["type"], c["status"])).collect();
            format!("{} {} {conditions:?}", cluster.name(), cluster["spec"])
        });
        versions.chain(clusters).collect()
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn slim(object: &Value, keep_generation: bool) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in [
            "managedFields",
            "selfLink",
            "creationTimestamp",
            "resourceVersion",
            "deletionGracePeriodSeconds",
        ] {
            metadata.remove(key);
        }
        if !keep_generation {
            metadata.remove("generation");
        }
        if let Some(stamp) = metadata.get_mut("deletionTimestamp") {
            *stamp = "<time>".into();
        }
    }
    object
}

fn sorted(mut objects: Vec<Value>) -> Value {
    objects.sort_by_cached_key(|object| {
        [object.kind().to_owned(), object.namespace().to_owned(), object.name().to_owned()]
    });
    Value::Array(objects)
}

fn clusters(clusters: &[Value]) -> Value {
    let mut shown: Vec<Value> = clusters
        .iter()
        .map(|cluster| {
            let mut conditions: Vec<Value> = cluster
                .list_at(&["status", "conditions"])
                .iter()
                .map(|c| json!([c["type"], c["status"], c["reason"].as_str().unwrap_or_default()]))
                .collect();
            conditions.sort_by_key(ToString::to_string);
            let taints: Vec<Value> = cluster
                .list_at(&["spec", "taints"])
                .iter()
                .map(|t| json!({"key": t["key"], "value": t["value"], "effect": t["effect"]}))
                .collect();
            let metadata = &cluster["metadata"];
            json!({"name": cluster.name(), "labels": metadata["labels"],
                "finalizers": metadata["finalizers"],
                "deleting": metadata.get("deletionTimestamp").is_some(),
                "taints": taints, "conditions": conditions})
        })
        .collect();
    shown.sort_by_key(|cluster| cluster["name"].to_string());
    Value::Array(shown)
}
