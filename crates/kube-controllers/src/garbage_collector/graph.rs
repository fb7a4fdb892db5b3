//! Who owns whom, as the caches of all kinds tell it. Says after every change which objects have
//! to be looked at; what to do with them is decided elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::value::Text;
use karmada_client::{Meta, Object, OwnerReference};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// What the deletion of an object is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// It is not being deleted.
    None,
    /// Its dependents have to be set free first.
    Orphan,
    /// Its dependents have to go first.
    Foreground,
    /// Not for us.
    Other,
}

impl Deletion {
    pub(super) fn of(meta: &Meta) -> Self {
        let has = |finalizer: &str| meta.finalizers.iter().any(|own| own == finalizer);
        match &meta.deletion_timestamp {
            None => Self::None,
            Some(_) if has(ORPHAN) => Self::Orphan,
            Some(_) if has(FOREGROUND) => Self::Foreground,
            Some(_) => Self::Other,
        }
    }
}

/// An object as far as ownership is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) gvr: Arc<Gvr>,
    pub(super) kind: Arc<str>,
    pub(super) namespace: Text,
    pub(super) name: Text,
    pub(super) uid: Text,
    pub(super) owners: Arc<[OwnerReference]>,
    pub(super) deletion: Deletion,
}

impl Node {
    pub(super) fn new(gvr: &Arc<Gvr>, kind: &Arc<str>, object: &Object) -> Self {
        let meta = object.meta();
        Self {
            gvr: gvr.clone(),
            kind: kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            owners: meta.owner_references.clone(),
            deletion: Deletion::of(meta),
        }
    }

    pub(super) fn gvk(&self) -> Gvk {
        self.gvr.group_version().with_kind(&*self.kind)
    }

    /// Whether a reference from an object in `namespace` means this object. The version may
    /// differ: it is the same object in every version.
    pub(super) fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let group = GroupVersion::parse(&reference.api_version).unwrap_or_default().group;
        let reachable = self.namespace.is_empty() || self.namespace == namespace;
        reachable
            && *reference.uid == *self.uid
            && reference.name == self.name
            && *reference.kind == *self.kind
            && group == self.gvr.group
    }

    /// Whether this object keeps its owner from going in the foreground.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        let blocking = |reference: &OwnerReference| {
            reference.uid == owner && reference.block_owner_deletion == Some(true)
        };
        self.owners.iter().any(blocking)
    }
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Text, Arc<Node>>,
    /// By the uid of the owner, which need not be known itself.
    dependents: HashMap<Text, Uids>,
}

/// Objects that depend on the same one; mostly it is one.
#[derive(Debug)]
enum Uids {
    One(Text),
    Many(BTreeSet<Text>),
}

impl Uids {
    fn insert(&mut self, uid: &Text) {
        match self {
            Self::One(other) if other == uid => {}
            Self::One(other) => *self = Self::Many([std::mem::take(other), uid.clone()].into()),
            Self::Many(all) => drop(all.insert(uid.clone())),
        }
    }

    /// Returns whether any are left.
    fn remove(&mut self, uid: &str) -> bool {
        match self {
            Self::One(other) => other != uid,
            Self::Many(all) => {
                all.remove(uid);
                !all.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Text> {
        let (one, many) = match self {
            Self::One(uid) => (Some(uid), None),
            Self::Many(all) => (None, Some(all)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<Arc<Node>> {
        self.nodes.get(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Arc<Node>> {
        let uids = self.dependents.get(uid).into_iter().flat_map(Uids::iter);
        uids.filter_map(|uid| self.get(uid)).collect()
    }

    fn uids_below(&self, uid: &str) -> impl Iterator<Item = String> {
        self.dependents.get(uid).into_iter().flat_map(Uids::iter).map(ToString::to_string)
    }

    pub(super) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// Whether a state of an object says nothing new: most changes of objects are none of their owners.
    pub(super) fn knows(&self, object: &Object) -> bool {
        let meta = object.meta();
        self.nodes.get(&meta.uid).is_some_and(|known| {
            known.owners == meta.owner_references
                && known.deletion == Deletion::of(meta)
                && known.name == meta.name
                && known.namespace == meta.namespace
        })
    }

    /// Takes a state of an object in; returns the uids to look at.
    pub(super) fn apply(&mut self, node: Node) -> Vec<String> {
        let node = Arc::new(node);
        let old = self.nodes.insert(node.uid.clone(), node.clone());
        let old_owners = old.as_ref().map(|old| &*old.owners).unwrap_or_default();
        for reference in old_owners {
            if !node.owners.iter().any(|own| own.uid == reference.uid) {
                self.unlink(&reference.uid, &node.uid);
            }
        }
        for reference in node.owners.iter() {
            match self.dependents.get_mut(reference.uid.as_str()) {
                Some(dependents) => dependents.insert(&node.uid),
                None => {
                    let first = Uids::One(node.uid.clone());
                    self.dependents.insert(reference.uid.as_str().into(), first);
                }
            }
        }
        let mut look = Vec::new();
        let begins = old.as_ref().is_none_or(|old| old.deletion != node.deletion);
        let waits = matches!(node.deletion, Deletion::Foreground | Deletion::Orphan);
        if (begins && waits) || (!node.owners.is_empty() && *old_owners != *node.owners) {
            look.push(node.uid.to_string());
        }
        // Those who refer to an object just found may refer to it wrongly; those who depend on one
        // that begins to go have to go with it.
        if old.is_none() || (begins && node.deletion == Deletion::Foreground) {
            look.extend(self.uids_below(&node.uid));
        }
        if let Some(old) = old {
            let released = old.owners.iter().map(|reference| reference.uid.as_str());
            let released = released.filter(|owner| old.blocks(owner) && !node.blocks(owner));
            look.extend(released.filter(|owner| self.is_waiting(owner)).map(str::to_owned));
        }
        look
    }

    /// Takes an object out; returns the uids to look at.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let mut look: Vec<String> = self.uids_below(uid).collect();
        let Some(node) = self.nodes.remove(uid) else { return look };
        for reference in node.owners.iter() {
            self.unlink(&reference.uid, uid);
            if self.is_waiting(&reference.uid) {
                look.push(reference.uid.clone());
            }
        }
        look
    }

    /// Forgets the objects of a resource that is no longer followed, without any conclusion.
    pub(super) fn forget(&mut self, gvr: &Gvr) {
        let gone: Vec<_> = self.nodes.values().filter(|node| *node.gvr == *gvr).cloned().collect();
        for node in gone {
            self.nodes.remove(&node.uid);
            node.owners.iter().for_each(|reference| self.unlink(&reference.uid, &node.uid));
        }
    }

    fn is_waiting(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| node.deletion == Deletion::Foreground)
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if self.dependents.get_mut(owner).is_some_and(|dependents| !dependents.remove(dependent)) {
            self.dependents.remove(owner);
        }
    }
}
