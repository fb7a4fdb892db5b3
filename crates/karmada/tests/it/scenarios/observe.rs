//! What the plane and the members look like: everything a scenario can have touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Object;

use super::lab::Lab;
use super::normal::{NOISE, Names, tidy};
use super::site::Site;

const POLICY_GROUPS: [&str; 6] =
    ["policy", "config", "apps", "autoscaling", "networking", "remedy"];

/// Everything read at one time.
#[derive(Default)]
pub(super) struct World {
    objects: Vec<Arc<Object>>,
    pub(super) bindings: Vec<Arc<Object>>,
    pub(super) works: Vec<Arc<Object>>,
    clusters: Vec<Arc<Object>>,
    members: BTreeMap<String, Vec<Arc<Object>>>,
}

const BY_MANIFEST: &str = "manifest";

const BY_SUBJECT: &str = "subject";

pub(super) fn works() -> Gvr {
    Gvr::new("work.karmada.io", "v1alpha1", "works")
}

fn bindings() -> Gvr {
    Gvr::new("work.karmada.io", "v1alpha2", "resourcebindings")
}

/// The namespace of what a Work holds, or its kind and name if it has none.
fn manifest_of(work: &Value) -> String {
    let manifest = &work["spec"]["workload"]["manifests"][0];
    match manifest.namespace() {
        "" => format!("{} {}", manifest.kind(), manifest.name()),
        namespace => format!("{namespace}/"),
    }
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
        let (plane, own) = (&lab.plane, self.cluster_scoped());
        for space in &self.spaces {
            world.bindings.extend(plane.objects(&bindings(), space).await);
        }
        let cluster_bindings = Gvr::new("work.karmada.io", "v1alpha2", "clusterresourcebindings");
        for binding in plane.cached(&cluster_bindings).await.cache().list() {
            let resource = &binding.value()["spec"]["resource"];
            if own.contains(&(text(resource, "kind").to_owned(), text(resource, "name").to_owned()))
            {
                world.bindings.push(binding);
            }
        }
        let works = plane.cached(&works()).await;
        works.cache().add_index(BY_MANIFEST, |work| vec![manifest_of(&work.value())]);
        let spaces = self.spaces.iter().map(|space| format!("{space}/"));
        let scoped = own.iter().map(|(kind, name)| format!("{kind} {name}"));
        let namespaces = self.spaces.iter().map(|space| format!("Namespace {space}"));
        let terms: BTreeSet<String> = spaces
            .chain(scoped.filter(|term| self.with_namespaces || !term.starts_with("Namespace ")))
            .chain(namespaces.filter(|_| self.with_namespaces))
            .collect();
        world.works = terms.iter().flat_map(|t| works.cache().by_index(BY_MANIFEST, t)).collect();
        let keys = world.works.iter().map(|w| (w.namespace().to_owned(), w.name().to_owned()));
        self.works_seen.extend(keys);
        if self.with_clusters {
            let clusters = Gvr::new("cluster.karmada.io", "v1alpha1", "clusters");
            world.clusters = plane.cached(&clusters).await.cache().list();
        }
        world
    }

    /// The objects of a kind at one place that were applied or that Karmada manages.
    async fn read(
        &self,
        site: &Site,
        is_plane: bool,
        (version, kind): (&str, &str),
        names: &BTreeSet<String>,
    ) -> Vec<Arc<Object>> {
        let Some(resource) = site.resource(version, kind).await else { return Vec::new() };
        let mut found = Vec::new();
        if !resource.namespaced {
            if kind == "Namespace" && !self.with_namespaces {
                return found;
            }
            let api = site.client.api(&resource.gvr);
            for name in names.iter().filter(|name| !name.is_empty()) {
                let object = api.find(name).await.ok().flatten();
                found.extend(
                    object.and_then(|object| Object::from_value(&object).ok().map(Arc::new)),
                );
            }
            return found;
        }
        for space in &self.spaces {
            for object in site.objects(&resource.gvr, space).await {
                let is_named = self.refs.iter().chain(&self.member_refs).any(|r| {
                    text(r, "kind") == kind
                        && text(r, "apiVersion") == version
                        && text(r, "namespace") == space
                        && text(r, "name") == object.name()
                });
                let labels = &object.meta().labels;
                let is_managed = labels.get("karmada.io/managed").is_some_and(|v| v == "true");
                let shows_all = is_plane
                    && !matches!(kind, "ConfigMap" | "ServiceAccount" | "Secret" | "EndpointSlice");
                if is_named || is_managed || shows_all {
                    found.push(object);
                }
            }
        }
        found
    }

    /// The names of the bindings of cluster-scoped templates.
    fn cluster_bindings(&self) -> impl Iterator<Item = (String, String)> {
        self.cluster_scoped().into_iter().map(|(kind, name)| {
            let name = format!("{}-{kind}", name.replace(':', ".")).to_lowercase();
            ("ClusterResourceBinding".to_owned(), name)
        })
    }

    /// The events about what was touched.
    pub(super) async fn event_objects(&self, lab: &Lab) -> Vec<Arc<Object>> {
        let own: BTreeSet<_> =
            self.cluster_scoped().into_iter().chain(self.cluster_bindings()).collect();
        let cached = lab.plane.cached(&Gvr::new("", "v1", "events")).await;
        cached.cache().add_index(BY_SUBJECT, |event| {
            let about = &event.value()["involvedObject"];
            let (kind, name) = (text(about, "kind"), text(about, "name"));
            vec![format!("{kind} {}/{name}", text(about, "namespace"))]
        });
        let works = self.works_seen.iter().map(|(space, name)| format!("Work {space}/{name}"));
        let scoped = own.iter().map(|(kind, name)| format!("{kind} /{name}"));
        let subjects = works.chain(scoped);
        let mut events: Vec<Arc<Object>> =
            subjects.flat_map(|s| cached.cache().by_index(BY_SUBJECT, &s)).collect();
        for space in &self.spaces {
            events.extend(cached.cache().list_namespace(space));
        }
        events
    }

    pub(super) async fn events(&self, lab: &Lab) -> BTreeSet<Event> {
        let mut found = BTreeSet::new();
        for event in self.event_objects(lab).await.iter().map(|event| event.value()) {
            let about = &event["involvedObject"];
            let message = text(&event, "message");
            let kind = text(about, "kind");
            if NOISE.is_match(message) || kind == "Namespace" && !self.with_namespaces {
                continue;
            }
            let component = match text(&event["source"], "component") {
                "" => text(&event, "reportingComponent"),
                component => component,
            };
            let (reason, how) = (text(&event, "reason"), text(&event, "type"));
            let (place, name) = (text(about, "namespace"), text(about, "name"));
            found.insert([reason, how, kind, place, name, message, component].map(str::to_owned));
        }
        found
    }

    /// The normal form of what was read; only events that are new are in it.
    pub(super) fn state(
        &self,
        world: &World,
        events: &BTreeSet<Event>,
        names: &mut Names,
    ) -> Value {
        let mut state = json!({
            "templates": [], "policies": [], "bindings": [], "works": [], "members": {},
        });
        let (mut templates, mut policies) = (Vec::new(), Vec::new());
        for object in world.objects.iter().map(|object| object.value()) {
            let group = object.api_version().split('.').next().unwrap_or_default();
            let is_policy =
                object.api_version().contains(".karmada.io/") && POLICY_GROUPS.contains(&group);
            let slim = slim(&object, !is_policy);
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
            let binding = binding.value();
            let mut shown = slim(&binding, false);
            if let Some(observed) = shown.pointer_mut("/status/schedulerObservedGeneration") {
                let is_current = *observed == binding["metadata"]["generation"];
                *observed = if is_current { "<generation>" } else { "<older>" }.into();
            }
            shown
        });
        state["bindings"] = sorted(bindings.collect());
        state["works"] =
            sorted(world.works.iter().map(|work| slim(&work.value(), false)).collect());
        for (member, objects) in &world.members {
            let shown = objects.iter().map(|object| {
                let object = object.value();
                let mut shown = slim(&object, false);
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
            let cluster = cluster.value();
            let conditions = cluster.list_at(&["status", "conditions"]).iter();
            let conditions: Vec<String> =
                conditions.map(|c| format!("{}{}", c["type"], c["status"])).collect();
            format!("{} {} {conditions:?}", cluster.name(), cluster["spec"])
        });
        versions.chain(clusters).collect()
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(karmada_apimachinery::Map::is_empty)
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
    Value::Array(objects.into())
}

fn clusters(clusters: &[Arc<Object>]) -> Value {
    let mut shown: Vec<Value> = clusters
        .iter()
        .map(|cluster| cluster.value())
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
    Value::Array(shown.into())
}
