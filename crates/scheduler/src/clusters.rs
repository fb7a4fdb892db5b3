//! The member clusters as decisions read them: one shared snapshot, renewed when a cluster changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_scheduler_core::snapshot::{ClusterInfo, Snapshot};
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Clusters {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    infos: BTreeMap<String, Arc<ClusterInfo>>,
    /// What all decisions share until the next change.
    snapshot: Option<Arc<Snapshot>>,
}

impl Clusters {
    /// Takes a cluster in; returns whether it has more room than before in some respect.
    pub(crate) fn apply(&self, cluster: &Cluster) -> bool {
        let info = Arc::new(ClusterInfo::from_cluster(cluster));
        let mut state = self.state.lock();
        state.snapshot = None;
        let old = state.infos.insert(info.name.clone(), info.clone());
        old.is_none_or(|old| info.has_more_room_than(&old))
    }

    pub(crate) fn remove(&self, name: &str) {
        let mut state = self.state.lock();
        if state.infos.remove(name).is_some() {
            state.snapshot = None;
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        if let Some(snapshot) = &state.snapshot {
            return snapshot.clone();
        }
        let snapshot = Arc::new(Snapshot::new(state.infos.values().cloned().collect()));
        state.snapshot = Some(snapshot.clone());
        snapshot
    }
}

/// Whether bindings have to be looked at again after this change.
///
/// Compat: numbers and readiness in the status do not count; taints do.
pub(crate) fn concerns_bindings(old: &Cluster, new: &Cluster) -> bool {
    let (old, new) = (&old.metadata, &new.metadata);
    old.labels != new.labels
        || old.generation != new.generation
        || (old.deletion_timestamp.is_none() && new.deletion_timestamp.is_some())
}

/// The kinds a cluster serves now and did not before, as group and version with the kind.
pub(crate) fn new_kinds<'a>(old: &Cluster, new: &'a Cluster) -> BTreeSet<(&'a str, &'a str)> {
    if old.status.api_enablements == new.status.api_enablements {
        return BTreeSet::new();
    }
    let known: BTreeSet<_> = served(old).collect();
    served(new).filter(|kind| !known.contains(kind)).collect()
}

fn served(cluster: &Cluster) -> impl Iterator<Item = (&str, &str)> {
    cluster.status.api_enablements.iter().flat_map(|enabled| {
        let kinds = enabled.resources.iter().map(|resource| resource.kind.as_str());
        kinds.map(|kind| (enabled.group_version.as_str(), kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::meta::ObjectMeta;
    use karmada_api::wire::Time;

    #[test]
    fn labels_generation_and_deletion_count() {
        let cluster = |labels: &[(&str, &str)], generation, deleting: bool| {
            let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let deletion_timestamp = deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
            Cluster::with_metadata(ObjectMeta {
                labels,
                generation,
                deletion_timestamp,
                ..ObjectMeta::default()
            })
        };
        let old = cluster(&[("a", "b")], 1, false);
        for (new, expected) in [
            (cluster(&[("a", "b")], 1, false), false),
            (cluster(&[("a", "c")], 1, false), true),
            (cluster(&[("a", "b")], 2, false), true),
            (cluster(&[("a", "b")], 1, true), true),
        ] {
            assert_eq!(concerns_bindings(&old, &new), expected, "{new:?}");
        }
    }

    #[test]
    fn decisions_share_one_snapshot_until_a_cluster_changes() {
        let clusters = Clusters::default();
        let named = |name: &str| {
            Cluster::with_metadata(ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() })
        };
        clusters.apply(&named("m2"));
        clusters.apply(&named("m1"));
        let snapshot = clusters.snapshot();
        assert!(Arc::ptr_eq(&snapshot, &clusters.snapshot()));
        assert_eq!(snapshot.clusters().iter().map(|c| &*c.name).collect::<Vec<_>>(), ["m1", "m2"]);
        clusters.remove("m1");
        assert_eq!(clusters.snapshot().clusters().len(), 1);
        assert_eq!(snapshot.clusters().len(), 2);
    }
}
