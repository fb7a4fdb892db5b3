//! Deletes objects when their last owner is gone, holds owners back until their dependents are
//! gone, and sets dependents free where that was asked for. Works on the metadata of every kind
//! that can be deleted, those that appear later included.
//!
//! Nothing is deleted because a cache does not know an owner: the server is asked first.

mod decide;
mod graph;
mod monitor;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::GroupVersion;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::{
    Api, ApiResource, Client, DeleteOptions, Discovery, Meta, OwnerReference, Propagation,
};
use karmada_runtime::{Action, Controller, ObjectReference, Recorder};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;

use self::decide::{Dependents, Owner, Plan, plan};
use self::graph::{Deletion, FOREGROUND, Graph, Node, ORPHAN};
use crate::Plane;

/// How long to wait for an owner that exists to appear in the cache.
const UNSEEN: Duration = Duration::from_secs(30);

/// How many owners are remembered as absent. A uid never comes back, so they stay absent.
const ABSENT_LIMIT: usize = 500;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("find the resource of {api_version}, Kind={kind}")]
    Discover { api_version: String, kind: String, source: karmada_client::Error },
    #[error("{api_version}, Kind={kind} is not served")]
    NoSuchKind { api_version: String, kind: String },
    #[error("read {node}")]
    Read { node: String, source: karmada_client::Error },
    #[error("read owner {owner} of {node}")]
    ReadOwner { node: String, owner: String, source: karmada_client::Error },
    #[error("delete {node}")]
    Delete { node: String, source: karmada_client::Error },
    #[error("change the metadata of {node}")]
    Patch { node: String, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    discovery: Discovery,
    events: Recorder,
    graph: Arc<RwLock<Graph>>,
    absent: Mutex<HashSet<(OwnerReference, String)>>,
    look: karmada_runtime::Queue<String>,
}

pub(super) fn start(plane: &Plane) {
    let controller = Controller::new("garbage-collector-controller", &plane.metrics).workers(20);
    let graph = Arc::new(RwLock::new(Graph::default()));
    let ctx = Arc::new(Ctx {
        client: plane.client.clone(),
        discovery: plane.discovery.clone(),
        events: plane.recorder("garbage-collector-controller"),
        graph: graph.clone(),
        absent: Mutex::default(),
        look: controller.queue().clone(),
    });
    let monitor = monitor::Monitor::new(plane, graph, controller.queue().clone());
    let shutdown = plane.shutdown.clone();
    plane.shutdown.spawn_until(async move {
        let mut monitor = monitor;
        monitor.begin().await;
        controller.start(&shutdown, move |uid: String| reconcile(uid, ctx.clone()));
        monitor.follow().await;
    });
}

async fn reconcile(uid: String, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(node) = ctx.graph.read().get(&uid) else { return Ok(Action::AwaitChange) };
    match node.deletion {
        Deletion::Other => Ok(Action::AwaitChange),
        Deletion::Orphan => ctx.set_dependents_free(&node).await,
        Deletion::Foreground => ctx.wait_for_dependents(&node).await,
        Deletion::None => ctx.collect(&node).await,
    }
}

/// What one look at the owners has shown.
struct Owners {
    states: Vec<(OwnerReference, Owner)>,
    /// An owner exists that the cache does not know yet.
    unseen: bool,
}

impl Ctx {
    fn api(&self, node: &Node) -> Api {
        self.client.api(&node.gvr).namespaced(&node.namespace).metadata_only()
    }

    /// Reads the object itself; nothing if it is gone or another one has its name.
    async fn read(&self, node: &Node) -> Result<Option<Value>, Error> {
        let found = self.api(node).find(&node.name).await;
        let found = found.map_err(|source| Error::Read { node: describe(node), source })?;
        Ok(found.filter(|object| *object.uid() == *node.uid))
    }

    /// Decides about an object that nobody deletes.
    async fn collect(&self, node: &Node) -> Result<Action, Error> {
        if node.owners.is_empty() || self.is_kept(node) {
            return Ok(Action::AwaitChange);
        }
        let Some(object) = self.read(node).await? else { return Ok(Action::AwaitChange) };
        let meta = meta_of(&object);
        let Some(owners) = self.judge_owners(node, &meta.owner_references).await? else {
            return Ok(Action::AwaitChange);
        };
        match plan(&meta, &owners.states, self.judge_dependents(node)) {
            Plan::Keep => {}
            Plan::DropOwners(uids) => {
                let keep = |reference: &Value| {
                    !uids.iter().any(|uid| reference.str_at(&["uid"]) == Some(uid))
                };
                self.patch_owners(node, &object, keep, |reference| reference).await?;
            }
            Plan::DeleteForeground { unblock } => {
                if unblock {
                    self.patch_owners(node, &object, |_| true, unblocked).await?;
                }
                self.delete(node, &object, Propagation::Foreground, unblock).await?;
            }
            Plan::Delete(propagation) => {
                self.delete(node, &object, propagation, false).await?;
            }
        }
        Ok(if owners.unseen { Action::Requeue(UNSEEN) } else { Action::AwaitChange })
    }

    /// Whether the caches show that all owners are there and stay.
    fn is_kept(&self, node: &Node) -> bool {
        let graph = self.graph.read();
        node.owners.iter().all(|reference| {
            let stays = |owner: Arc<Node>| {
                owner.is_meant_by(reference, &node.namespace)
                    && owner.deletion != Deletion::Foreground
            };
            graph.get(&reference.uid).is_some_and(stays)
        })
    }

    fn judge_dependents(&self, node: &Node) -> Dependents {
        let graph = self.graph.read();
        if !graph.has_dependents(&node.uid) {
            return Dependents::None;
        }
        let waits = |dependent: &Arc<Node>| dependent.deletion == Deletion::Foreground;
        match graph.dependents(&node.uid).iter().any(waits) {
            true => Dependents::Waiting,
            false => Dependents::Some,
        }
    }

    /// Finds out how it stands with each owner. Nothing if one of them can never be told.
    async fn judge_owners(
        &self,
        node: &Node,
        references: &[OwnerReference],
    ) -> Result<Option<Owners>, Error> {
        let mut owners = Owners { states: Vec::new(), unseen: false };
        for reference in references {
            let known = self.graph.read().get(&reference.uid);
            if let Some(owner) = &known
                && owner.is_meant_by(reference, &node.namespace)
            {
                let waits = owner.deletion == Deletion::Foreground;
                let state = if waits { Owner::Waiting } else { Owner::Solid };
                owners.states.push((reference.clone(), state));
                continue;
            }
            let resource = self.resource_of(reference).await?;
            if resource.namespaced && node.namespace.is_empty() {
                // An object of the whole cluster cannot belong to one in a namespace. That is a
                // mistake, and no reason to delete it.
                return Ok(None);
            }
            if let Some(owner) = &known
                && !owner.namespace.is_empty()
                && owner.namespace != node.namespace
            {
                self.report_other_namespace(node, reference);
            }
            let state = self.ask_for_owner(node, reference, &resource).await?;
            owners.unseen |= state != Owner::Dangling;
            owners.states.push((reference.clone(), state));
        }
        Ok(Some(owners))
    }

    async fn resource_of(&self, reference: &OwnerReference) -> Result<ApiResource, Error> {
        let OwnerReference { api_version, kind, .. } = reference;
        let version = GroupVersion::parse(api_version).unwrap_or_default();
        let found = self.discovery.resource_of(&version.with_kind(kind.as_str())).await;
        let (api_version, kind) = (api_version.clone(), kind.clone());
        match found {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(Error::NoSuchKind { api_version, kind }),
            Err(source) => Err(Error::Discover { api_version, kind, source }),
        }
    }

    async fn ask_for_owner(
        &self,
        node: &Node,
        reference: &OwnerReference,
        resource: &ApiResource,
    ) -> Result<Owner, Error> {
        let namespace = if resource.namespaced { node.namespace.as_str() } else { "" };
        let key = (reference.clone(), namespace.to_owned());
        if self.absent.lock().contains(&key) {
            return Ok(Owner::Dangling);
        }
        let api = self.client.api(&resource.gvr).namespaced(namespace).metadata_only();
        let found = api.find(&reference.name).await.map_err(|source| Error::ReadOwner {
            node: describe(node),
            owner: reference.name.clone(),
            source,
        })?;
        let Some(owner) = found.filter(|owner| owner.uid() == reference.uid) else {
            let mut absent = self.absent.lock();
            if absent.len() >= ABSENT_LIMIT {
                absent.clear();
            }
            absent.insert(key);
            return Ok(Owner::Dangling);
        };
        let waits = Deletion::of(&meta_of(&owner)) == Deletion::Foreground;
        Ok(if waits { Owner::Waiting } else { Owner::Solid })
    }

    fn report_other_namespace(&self, node: &Node, reference: &OwnerReference) {
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        let namespace = &node.namespace;
        let about = ObjectReference {
            api_version: node.gvk().api_version(),
            kind: node.kind.to_string(),
            namespace: namespace.to_string(),
            name: node.name.to_string(),
            uid: node.uid.to_string(),
            resource_version: String::new(),
        };
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] \
             does not exist in namespace {namespace:?}"
        );
        self.events.warning(about, "OwnerRefInvalidNamespace", message);
    }

    /// Deletes the object unless its owners have changed since it was read.
    async fn delete(
        &self,
        node: &Node,
        object: &Value,
        propagation: Propagation,
        changed_by_us: bool,
    ) -> Result<(), Error> {
        let mut version = Some(object.resource_version().to_owned()).filter(|_| !changed_by_us);
        loop {
            let options = DeleteOptions {
                propagation: Some(propagation),
                uid: Some(node.uid.to_string()),
                resource_version: version.clone(),
                ..DeleteOptions::default()
            };
            let source = match self.api(node).delete(&node.name, &options).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => error,
            };
            let again = source.is_conflict() && version.take().is_some();
            let same = |now: Value| {
                let owners = ["metadata", "ownerReferences"];
                now.list_at(&owners) == object.list_at(&owners)
            };
            // Objects whose status changes all the time have to go as well.
            if !again || !self.read(node).await?.is_some_and(same) {
                return Err(Error::Delete { node: describe(node), source });
            }
        }
    }

    /// Writes the owner references that `keep` keeps, as `change` changes them.
    async fn patch_owners(
        &self,
        node: &Node,
        object: &Value,
        keep: impl Fn(&Value) -> bool,
        change: impl Fn(Value) -> Value,
    ) -> Result<(), Error> {
        let references = object.list_at(&["metadata", "ownerReferences"]).iter();
        let references: Vec<Value> =
            references.filter(|reference| keep(reference)).cloned().map(change).collect();
        let patch = json!({"ownerReferences": references});
        self.patch(node, object, patch).await
    }

    /// Patches metadata; what was read has to be what is stored.
    async fn patch(&self, node: &Node, object: &Value, mut metadata: Value) -> Result<(), Error> {
        metadata["uid"] = (*node.uid).into();
        metadata["resourceVersion"] = object.resource_version().into();
        match self.api(node).merge_patch(&node.name, json!({"metadata": metadata})).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(source) => Err(Error::Patch { node: describe(node), source }),
        }
    }

    async fn drop_finalizer(&self, node: &Node, finalizer: &str) -> Result<Action, Error> {
        let Some(object) = self.read(node).await? else { return Ok(Action::AwaitChange) };
        let finalizers = object.list_at(&["metadata", "finalizers"]).iter();
        let kept: Vec<&Value> = finalizers.clone().filter(|own| *own != finalizer).collect();
        if kept.len() < finalizers.len() {
            self.patch(node, &object, json!({"finalizers": kept})).await?;
        }
        Ok(Action::AwaitChange)
    }

    async fn set_dependents_free(&self, node: &Node) -> Result<Action, Error> {
        let dependents = self.graph.read().dependents(&node.uid);
        for dependent in dependents {
            let Some(object) = self.read(&dependent).await? else { continue };
            let keep = |reference: &Value| reference.str_at(&["uid"]) != Some(&node.uid);
            if !object.list_at(&["metadata", "ownerReferences"]).iter().all(keep) {
                self.patch_owners(&dependent, &object, keep, |reference| reference).await?;
            }
        }
        self.drop_finalizer(node, ORPHAN).await
    }

    async fn wait_for_dependents(&self, node: &Node) -> Result<Action, Error> {
        let dependents = self.graph.read().dependents(&node.uid);
        let blocking: Vec<_> =
            dependents.iter().filter(|dependent| dependent.blocks(&node.uid)).collect();
        if blocking.is_empty() {
            return self.drop_finalizer(node, FOREGROUND).await;
        }
        for dependent in blocking {
            if dependent.deletion != Deletion::Foreground {
                self.look.add(dependent.uid.to_string());
            }
        }
        // The last of them to go wakes us.
        Ok(Action::AwaitChange)
    }
}

fn unblocked(mut reference: Value) -> Value {
    if reference.get("blockOwnerDeletion").is_some() {
        reference["blockOwnerDeletion"] = false.into();
    }
    reference
}

fn meta_of(object: &Value) -> Meta {
    object.get("metadata").and_then(|meta| Meta::deserialize(meta).ok()).unwrap_or_default()
}

fn describe(node: &Node) -> String {
    let Node { gvr, namespace, name, .. } = node;
    match namespace.as_str() {
        "" => format!("{} {name}", gvr.group_resource()),
        namespace => format!("{} {namespace}/{name}", gvr.group_resource()),
    }
}
