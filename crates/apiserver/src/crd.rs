//! The life of CustomResourceDefinitions: their names are accepted, their resources served, and when
//! one goes away its objects go first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, crd, json};
use sha2::{Digest as _, Sha256};

use crate::cache::{Next, StoredObject};
use crate::http::query::encode_percent;
use crate::internal;
use crate::registry::{Converters, Custom, Served, Storage};
use crate::state::State;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is served for one definition.
struct Registered {
    basis: Basis,
    prefix: String,
    served: Vec<Arc<Served>>,
}

/// What a registration depends on, as digests: schemas are large, and there may be hundreds of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    /// What is defined, and what else may be stored.
    spec: [u8; 32],
    /// Accepted names, and whether it is going.
    rest: [u8; 32],
}

impl Basis {
    fn of(definition: &Value) -> Self {
        let digest = |value: &Value| Sha256::digest(value.to_string()).into();
        let names = definition.at(&["status", "acceptedNames"]);
        Self {
            spec: digest(&json!([definition.get("spec"), Custom::former_versions(definition)])),
            rest: digest(&json!([names, definition.is_being_deleted()])),
        }
    }
}

/// Follows the definitions.
struct Follower {
    state: Arc<State>,
    registered: HashMap<String, Registered>,
    /// The names every definition has and the status that says so, without its schemas.
    named: BTreeMap<String, Value>,
}

/// Serves what is defined already, then follows changes until the server stops.
pub(crate) async fn start(state: &Arc<State>) {
    let snapshot = state.registry.snapshot();
    let Some(cache) = snapshot
        .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .and_then(|served| served.storage.as_ref())
        .map(|storage| storage.cache.clone())
    else {
        return;
    };
    let mut follower =
        Follower { state: state.clone(), registered: HashMap::new(), named: BTreeMap::new() };
    let (objects, _, mut watcher) = cache.watch_with_list("");
    follower.sync_all(&objects).await;
    let stop = state.stop.clone();
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = watcher.next() => next,
            };
            match next {
                Next::Changes(changes) => {
                    for change in changes {
                        if change.deleted {
                            follower.forget(change.object.name());
                            follower.sync_group(&change.object.to_value()).await;
                        } else if cache
                            .get(&change.object.key)
                            .is_some_and(|now| now.revision == change.revision)
                        {
                            follower.sync(&change.object.to_value()).await;
                        }
                    }
                }
                Next::Lagged { .. } => {
                    let (objects, _, fresh) = cache.watch_with_list("");
                    watcher = fresh;
                    follower.sync_all(&objects).await;
                }
                Next::Closed => return,
            }
        }
    });
}

impl Follower {
    /// Serves all definitions there are.
    async fn sync_all(&mut self, objects: &[Arc<StoredObject>]) {
        self.named.clear();
        for object in objects {
            self.note(&object.to_value());
        }
        for object in objects {
            self.sync(&object.to_value()).await;
        }
    }

    /// Remembers which names a definition has.
    fn note(&mut self, definition: &Value) {
        let named = json!({
            "metadata": {"name": definition.name()},
            "spec": {"group": definition.at(&["spec", "group"])},
            "status": definition.get("status"),
        });
        self.named.insert(definition.name().to_owned(), named);
    }

    /// Serves a definition as it is now and brings its status up to date.
    async fn sync(&mut self, definition: &Value) {
        let status = if definition.is_being_deleted() {
            definition.get("status").cloned().unwrap_or_default()
        } else {
            self.accept_names(definition)
        };
        let mut accepted = definition.clone();
        accepted.set(&["status"], status.clone());
        self.note(&accepted);
        if has_condition(&status, "Established", "True") {
            self.register(&accepted).await;
        }
        if definition.is_being_deleted() {
            if definition.has_finalizer(CLEANUP) {
                tokio::spawn(clean_up(self.state.clone(), definition.clone()));
            }
        } else if Some(&status) != definition.get("status") {
            let path = format!("{COLLECTION}/{}/status", encode_percent(definition.name()));
            let (code, answer) =
                internal::send(&self.state, Method::PUT, &path, Some(&accepted)).await;
            if code >= 400 && code != 409 && code != 404 {
                tracing::warn!(name = definition.name(), code, %answer, "write the status of a definition");
            }
        }
    }

    /// Looks again at definitions whose names may have become free.
    async fn sync_group(&mut self, gone: &Value) {
        let waits = |other: &&Value| {
            !has_condition(other.get("status").unwrap_or(&Value::Null), "NamesAccepted", "True")
        };
        let others = self.others(gone);
        let waiting: Vec<String> =
            others.into_iter().filter(waits).map(|other| other.name().to_owned()).collect();
        let path = |name: &str| format!("{COLLECTION}/{}", encode_percent(name));
        for name in waiting {
            let (code, other) = internal::send(&self.state, Method::GET, &path(&name), None).await;
            if code == 200 {
                self.sync(&other).await;
            }
        }
    }

    /// The other definitions of a group.
    fn others(&self, definition: &Value) -> Vec<&Value> {
        let group = definition.str_at(&["spec", "group"]);
        let others = self.named.values();
        others
            .filter(|o| o.str_at(&["spec", "group"]) == group && o.name() != definition.name())
            .collect()
    }

    fn accept_names(&self, definition: &Value) -> Value {
        crd::name_conditions(definition, &self.others(definition), (self.state.clock)())
    }

    async fn register(&mut self, definition: &Value) {
        let basis = Basis::of(definition);
        let name = definition.name().to_owned();
        if self.registered.get(&name).is_some_and(|before| before.basis == basis) {
            return;
        }
        let Some(storage) = self.open(definition, &name, &basis).await else { return };
        let State { converter, webhooks, objects, .. } = &*self.state;
        let converters = Converters::of(definition, converter.as_ref(), webhooks, objects);
        let served = Custom::serve(definition, &storage, &converters);
        let before = self.registered.remove(&name);
        let removed = before.map(|before| before.served).unwrap_or_default();
        self.state.registry.replace(&removed, served.clone());
        let registered = Registered { basis, prefix: storage.prefix.clone(), served };
        self.registered.insert(name, registered);
    }

    /// The storage of a definition; a new one if objects have to be read differently from now on.
    async fn open(&self, definition: &Value, name: &str, basis: &Basis) -> Option<Arc<Storage>> {
        let before = self.registered.get(name);
        let same_spec = before.is_some_and(|before| before.basis.spec == basis.spec);
        if same_spec && let Some(served) = before.and_then(|before| before.served.first()) {
            return served.storage.clone();
        }
        let (group, plural) = (
            definition.str_at(&["spec", "group"])?.to_owned(),
            definition.str_at(&["spec", "names", "plural"])?,
        );
        let version = Custom::storage_version(definition)?.to_owned();
        let prefix = format!("/registry/{group}/{plural}/");
        let reading = Custom::reading(definition)?;
        match self.state.caches.open(&prefix, reading).await {
            Ok(cache) => Some(Arc::new(Storage { prefix, group, version, cache })),
            Err(error) => {
                tracing::error!(name, %error, "open the cache of a definition");
                None
            }
        }
    }

    fn forget(&mut self, name: &str) {
        self.named.remove(name);
        if let Some(gone) = self.registered.remove(name) {
            self.state.registry.replace(&gone.served, Vec::new());
            self.state.caches.shut(&gone.prefix);
        }
    }
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    let conditions = status.list_at(&["conditions"]);
    conditions
        .iter()
        .any(|c| c.str_at(&["type"]) == Some(kind) && c.str_at(&["status"]) == Some(value))
}

/// How long to wait before looking again whether all objects are gone.
const RECHECK: Duration = Duration::from_millis(100);

/// Deletes all objects of a definition, then lets it go.
async fn clean_up(state: Arc<State>, definition: Value) {
    let path = format!("{COLLECTION}/{}", encode_percent(definition.name()));
    let (group, plural) = (
        definition.str_at(&["spec", "group"]).unwrap_or_default(),
        definition.str_at(&["spec", "names", "plural"]).unwrap_or_default(),
    );
    loop {
        let snapshot = state.registry.snapshot();
        let Some(served) = snapshot.find_resource(group, plural).cloned() else { break };
        let Some(storage) = &served.storage else { break };
        let objects = storage.cache.list("");
        if objects.is_empty() {
            break;
        }
        for object in objects {
            let place = if object.namespace().is_empty() {
                String::new()
            } else {
                format!("namespaces/{}/", encode_percent(object.namespace()))
            };
            let version = &served.gvk.version;
            let name = encode_percent(object.name());
            let target = format!("/apis/{group}/{version}/{place}{plural}/{name}");
            if !object.to_value().is_being_deleted() {
                internal::send(&state, Method::DELETE, &target, None).await;
            }
        }
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return,
            () = tokio::time::sleep(RECHECK) => {}
        }
    }
    let (code, mut current) = internal::send(&state, Method::GET, &path, None).await;
    if code != 200 {
        return;
    }
    let kept: Vec<Value> = current
        .list_at(&["metadata", "finalizers"])
        .iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .cloned()
        .collect();
    current.set(&["metadata", "finalizers"], kept);
    internal::send(&state, Method::PUT, &path, Some(&current)).await;
}

/// How long whoever deletes a definition waits until it is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// Waits until nobody can make objects of a definition that goes: whoever was told that it goes counts on that.
pub(crate) async fn until_closed(state: &State, definition: &Value) {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default();
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let is_open = || {
        let snapshot = state.registry.snapshot();
        snapshot.find_resource(group, plural).is_some_and(|served| served.create_refusal.is_none())
    };
    let mut changes = state.registry.changes();
    let closed = async {
        while is_open() {
            changes.moved().await;
        }
    };
    drop(tokio::time::timeout(CLOSED_WITHIN, closed).await);
}

/// Marks a definition for deletion; its objects go before it does.
pub(crate) fn mark_for_deletion(definition: &mut Value, now: jiff::Timestamp) {
    definition.set(&["metadata", "deletionTimestamp"], format_time(now));
    let mut finalizers = definition.list_at(&["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    definition.set(&["metadata", "finalizers"], finalizers);
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    let mut conditions = definition.list_at(&["status", "conditions"]).to_vec();
    conditions.retain(|c| c.str_at(&["type"]) != Some("Terminating"));
    conditions.push(condition);
    definition.set(&["status", "conditions"], conditions);
}
