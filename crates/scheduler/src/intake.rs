//! What happens to bindings and clusters, and which bindings it puts into the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use karmada_api::cluster::Cluster;
use karmada_api::scopes::Binding;
use karmada_api::work::{ObjectReference, ResourceBindingSpec};
use karmada_client::Object;
use karmada_runtime::{Change, ObjectKey};
use tracing::warn;

use crate::Scheduler;
use crate::birth;
use crate::clusters::{concerns_bindings, new_kinds};
use crate::lane::Lane;
use crate::placements::concern;
use crate::queue::{Causes, Urgency};

pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl Scheduler {
    /// Whether a binding that says this is for this scheduler, and now.
    pub(crate) fn schedules(&self, spec: &ResourceBindingSpec) -> bool {
        let name = match spec.scheduler_name.as_str() {
            "" => DEFAULT_SCHEDULER,
            name => name,
        };
        name == self.options.scheduler_name && !spec.is_scheduling_suspended()
    }

    /// Whether the binding is this scheduler's to place.
    pub(crate) fn accepts<B: Binding>(&self, binding: &B) -> bool {
        binding.has_owner() && self.schedules(binding.spec())
    }

    pub(crate) fn binding_changed<B: Binding>(&self, lane: &Lane<B>, change: &Change) {
        let key = ObjectKey::of(change.object());
        let (old, new) = match change {
            Change::Applied { old, new } => (old, new),
            Change::Deleted(_) => return self.binding_gone(lane, &key),
        };
        let Ok(binding) = new.typed_for_now::<B>() else {
            warn!(binding = %key, "a binding could not be read");
            return;
        };
        let ours = self.schedules(binding.spec());
        self.placements.lock().apply(&key, concern(&*binding).filter(|_| ours));
        lane.seen(&key, &binding);
        // What it was before is read only where that may tell something.
        let read = |old: &Arc<Object>| old.typed_for_now::<B>().ok();
        if self.assumptions.knows(&key)
            && let Some(old) = old.as_ref().and_then(read)
        {
            self.assumptions.observe(&key, old.status(), binding.status());
        }
        let changed = old.as_ref().is_none_or(|old| old.meta().generation != new.meta().generation);
        let was_accepted = old.as_ref().is_some_and(|old| {
            if !changed && old.meta().labels == new.meta().labels {
                return self.accepts(&*binding);
            }
            read(old).is_some_and(|old| self.accepts(&*old))
        });
        if !self.accepts(&*binding) {
            if was_accepted {
                self.assumptions.forget(&key);
            }
            return;
        }
        let (event, cause) = match (was_accepted, changed) {
            (false, _) => ("BindingAdd", Causes::ADDED),
            (true, true) if !lane.is_own(&binding) => ("BindingUpdate", Causes::UPDATED),
            (true, _) => return,
        };
        self.metrics.incoming(event);
        let is_placed = cause == Causes::ADDED && !binding.spec().clusters.is_empty();
        let epoch = self.epoch.load(Ordering::Acquire);
        if is_placed && self.births.epoch_of(&key) == Some(epoch) {
            // It has its placement, and from now on it hears of clusters that change. What there is to
            // say about it is said with what comes next.
            return self.queue.push_after(key, urgency(&*binding), Causes::BORN, birth::PATIENCE);
        }
        self.queue.push(key, urgency(&*binding), cause);
    }

    fn binding_gone<B: Binding>(&self, lane: &Lane<B>, key: &ObjectKey) {
        self.placements.lock().remove(key);
        self.assumptions.forget(key);
        self.births.forget(key);
        lane.forget(key);
    }

    pub(crate) fn cluster_changed(&self, change: &Change) {
        let name = change.object().name();
        let (old, new) = match change {
            Change::Applied { old, new } => (old, new),
            Change::Deleted(_) => return self.clusters.remove(name),
        };
        let Ok(cluster) = new.typed::<Cluster>() else {
            warn!(cluster = name, "a cluster could not be read");
            return;
        };
        if self.clusters.apply(&cluster) {
            self.queue.room_grew();
        }
        let Some(old) = old.as_ref().and_then(|old| old.typed::<Cluster>().ok()) else { return };
        if concerns_bindings(&old, &cluster) {
            return self.look_again(&[old, cluster], |_| true);
        }
        let new = new_kinds(&old, &cluster);
        if !new.is_empty() {
            // Its kind may be what kept the cluster from being a target.
            let is_new =
                |of: &ObjectReference| new.contains(&(of.api_version.as_str(), of.kind.as_str()));
            self.look_again(std::slice::from_ref(&cluster), is_new);
        }
    }

    /// Puts the bindings that one of these states of a cluster concerns into the queue, as far as
    /// their templates do.
    fn look_again(&self, states: &[Arc<Cluster>], of: impl Fn(&ObjectReference) -> bool) {
        // Before the bindings are listed: one that comes later sees that it missed this.
        self.epoch.fetch_add(1, Ordering::AcqRel);
        let keys = {
            let placements = self.placements.lock();
            let mut keys = placements.matching(&*states[0]);
            for state in &states[1..] {
                keys.extend(placements.matching(&**state));
            }
            keys
        };
        for key in keys {
            let urgency = match key.namespace.as_str() {
                "" => self.global.latest(&key).and_then(|binding| wanted(&*binding, &of)),
                _ => self.namespaced.latest(&key).and_then(|binding| wanted(&*binding, &of)),
            };
            if let Some(urgency) = urgency {
                self.metrics.incoming("ClusterChanged");
                self.queue.push(key, urgency, Causes::CLUSTERS);
            }
        }
    }
}

/// How urgent a binding is whose template is asked for.
fn wanted<B: Binding>(binding: &B, of: &impl Fn(&ObjectReference) -> bool) -> Option<Urgency> {
    of(&binding.spec().resource).then(|| urgency(binding))
}

fn urgency<B: Binding>(binding: &B) -> Urgency {
    let observed = binding.status().scheduler_observed_generation;
    Urgency {
        priority: binding.spec().schedule_priority(),
        settled: observed == binding.metadata().generation,
    }
}
