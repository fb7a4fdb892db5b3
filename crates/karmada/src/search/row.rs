//! The changes of several clusters in the order they became known, remembered for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Something that happened in a cluster.
#[derive(Debug)]
pub(super) struct Event<T> {
    pub(super) cluster: Arc<str>,
    pub(super) change: T,
    /// The version the cluster had reached with it.
    reached: u64,
    /// It became known after a change of this or a later version, as when everything is read again.
    late: bool,
}

/// How far a cluster has come.
struct Progress {
    /// Everything after this version is remembered.
    since: u64,
    reached: u64,
}

/// The version to go on from is not known any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooOld;

pub(super) struct Row<T> {
    clusters: BTreeMap<Arc<str>, Progress>,
    events: VecDeque<Arc<Event<T>>>,
    limit: usize,
}

impl<T> Row<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { clusters: BTreeMap::new(), events: VecDeque::new(), limit }
    }

    /// Remembers what happens in a cluster from this version on, and nothing from before.
    pub(super) fn begin(&mut self, cluster: &Arc<str>, version: u64) {
        self.forget(cluster);
        let progress = Progress { since: version, reached: version };
        self.clusters.insert(cluster.clone(), progress);
    }

    pub(super) fn forget(&mut self, cluster: &str) {
        self.clusters.remove(cluster);
        self.events.retain(|event| *event.cluster != *cluster);
    }

    /// Adds what happened; `version` is the one the changed object has now.
    pub(super) fn push(
        &mut self,
        cluster: &Arc<str>,
        version: u64,
        change: T,
    ) -> Option<Arc<Event<T>>> {
        let progress = self.clusters.get_mut(cluster)?;
        let late = version <= progress.reached;
        progress.reached = progress.reached.max(version);
        let (cluster, reached) = (cluster.clone(), progress.reached);
        let event = Arc::new(Event { cluster, change, reached, late });
        self.events.push_back(event.clone());
        if self.events.len() > self.limit {
            self.drop_oldest();
        }
        Some(event)
    }

    fn drop_oldest(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        if let Some(progress) = self.clusters.get_mut(&event.cluster) {
            // A late one may be unknown to those who know its version.
            progress.since = progress.since.max(event.reached + u64::from(event.late));
        }
    }

    /// What happened in these clusters after these versions. Whatever was late at exactly such a version is
    /// told once more: it cannot be known whether it was heard.
    pub(super) fn after(
        &self,
        known: &BTreeMap<Arc<str>, u64>,
    ) -> Result<Vec<Arc<Event<T>>>, TooOld> {
        for (cluster, version) in known {
            let progress = self.clusters.get(cluster).ok_or(TooOld)?;
            if *version < progress.since {
                return Err(TooOld);
            }
        }
        let is_news = |event: &&Arc<Event<T>>| {
            let Some(version) = known.get(&event.cluster) else { return false };
            event.reached > *version || (event.reached == *version && event.late)
        };
        Ok(self.events.iter().filter(is_news).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(limit: usize, clusters: &[(&str, u64)]) -> Row<u32> {
        let mut row = Row::new(limit);
        for (cluster, version) in clusters {
            row.begin(&Arc::from(*cluster), *version);
        }
        row
    }

    fn push(row: &mut Row<u32>, cluster: &str, version: u64, change: u32) {
        row.push(&Arc::from(cluster), version, change);
    }

    fn after(row: &Row<u32>, known: &[(&str, u64)]) -> Result<Vec<u32>, TooOld> {
        let known =
            known.iter().map(|(cluster, version)| (Arc::from(*cluster), *version)).collect();
        Ok(row.after(&known)?.iter().map(|event| event.change).collect())
    }

    #[test]
    fn whoever_comes_back_hears_what_happened_meanwhile_in_each_cluster() {
        let mut row = row(100, &[("m1", 10), ("m2", 70)]);
        push(&mut row, "m1", 11, 1);
        push(&mut row, "m2", 71, 2);
        push(&mut row, "m1", 12, 3);
        assert_eq!(after(&row, &[("m1", 10), ("m2", 70)]), Ok(vec![1, 2, 3]));
        assert_eq!(after(&row, &[("m1", 11), ("m2", 71)]), Ok(vec![3]));
        assert_eq!(after(&row, &[("m1", 12)]), Ok(vec![]));
        assert_eq!(after(&row, &[("m1", 9)]), Err(TooOld));
        assert_eq!(after(&row, &[("m3", 1)]), Err(TooOld));
    }

    #[test]
    fn what_is_told_out_of_order_is_not_lost() {
        let mut row = row(100, &[("m1", 10)]);
        push(&mut row, "m1", 20, 1);
        // Found when everything was read again: changed before, and deleted at an unknown version.
        push(&mut row, "m1", 15, 2);
        push(&mut row, "m1", 9, 3);
        assert_eq!(after(&row, &[("m1", 20)]), Ok(vec![2, 3]));
        push(&mut row, "m1", 21, 4);
        assert_eq!(after(&row, &[("m1", 20)]), Ok(vec![2, 3, 4]));
        assert_eq!(after(&row, &[("m1", 21)]), Ok(vec![]));
    }

    #[test]
    fn what_is_forgotten_is_said_to_be() {
        let mut row = row(2, &[("m1", 10), ("m2", 10)]);
        (11..15).for_each(|version| push(&mut row, "m1", version, 0));
        assert_eq!(after(&row, &[("m1", 11)]), Err(TooOld));
        assert_eq!(after(&row, &[("m1", 12), ("m2", 10)]).map(|events| events.len()), Ok(2));
        row.begin(&Arc::from("m1"), 40);
        assert_eq!(after(&row, &[("m1", 13)]), Err(TooOld));
        push(&mut row, "m4", 1, 9);
        assert_eq!(after(&row, &[("m1", 40), ("m2", 10)]), Ok(vec![]));
    }
}
