//! The part of a store that lives in memory: the newest state of every key, the history since the
//! last compaction, and the rules of reading and writing them. It neither waits nor does I/O.

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::{
    Error, Event, EventKind, Expect, FIRST_REVISION, KeyValue, Packed, RangeQuery, RangeResult,
    Result,
};

/// How many events are kept as watchers are told of them. Most watchers are no further behind; for the others they
/// are made again.
const RECENT: usize = 256;

/// One state of a key: its value, or a tombstone left by the deletion at `revision`. The key itself is that of
/// the map.
#[derive(Debug, Clone)]
struct Version {
    value: Option<Packed>,
    created: i64,
    revision: i64,
    version: i64,
}

impl Version {
    fn of(event: &Event) -> Self {
        let KeyValue { value, create_revision, mod_revision, version, .. } = &event.kv;
        let value = (event.kind == EventKind::Put).then(|| value.clone());
        Self { value, created: *create_revision, revision: *mod_revision, version: *version }
    }

    fn size(&self) -> usize {
        self.value.as_ref().map_or(0, Packed::weight)
    }

    /// The state with its key, unless it is a tombstone.
    fn live(&self, key: &Arc<str>) -> Option<KeyValue> {
        Some(self.pair(key, self.value.clone()?))
    }

    fn pair(&self, key: &Arc<str>, value: Packed) -> KeyValue {
        let &Self { created, revision, version, .. } = self;
        let key = key.clone();
        KeyValue { key, value, create_revision: created, mod_revision: revision, version }
    }
}

#[derive(Debug, Clone)]
struct Versions {
    latest: Version,
    /// Superseded states since the last compaction, oldest first. Most keys rest and have none.
    #[expect(clippy::box_collection, reason = "an empty queue takes four times the room of none")]
    older: Option<Box<VecDeque<Version>>>,
}

impl Versions {
    fn only(latest: Version) -> Self {
        Self { latest, older: None }
    }

    fn at(&self, revision: i64) -> Option<&Version> {
        if self.latest.revision <= revision {
            return Some(&self.latest);
        }
        let older = self.older.as_deref()?;
        let place = older.partition_point(|version| version.revision <= revision);
        older.get(place.checked_sub(1)?)
    }

    /// Forgets the states before the one of `revision`, and that one too if it is a tombstone; returns how
    /// large they were.
    fn forget_before(&mut self, revision: i64) -> usize {
        let Some(older) = &mut self.older else { return 0 };
        let gone = |old: &mut Version| {
            old.revision < revision || (old.revision == revision && old.value.is_none())
        };
        let mut bytes = 0;
        while let Some(old) = older.pop_front_if(gone) {
            bytes += old.size();
        }
        if older.is_empty() {
            self.older = None;
        }
        bytes
    }
}

/// A revision in the history.
#[derive(Debug, Clone)]
struct Logged {
    key: Arc<str>,
    /// How much memory the value takes that it superseded.
    superseded: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Index {
    keys: BTreeMap<Arc<str>, Versions>,
    /// Every revision after `compacted`, without gaps.
    log: VecDeque<Logged>,
    /// The newest events.
    recent: VecDeque<Arc<Event>>,
    revision: i64,
    compacted: i64,
    /// How much memory all superseded values take.
    history_bytes: usize,
}

/// A write before it has a revision.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put { key: Arc<str>, value: Packed, expect: Expect },
    Delete { key: Arc<str>, expect: Expect },
}

/// What a step of compaction made unreachable.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Step {
    pub(crate) compacted: i64,
    /// Revisions whose records nobody can ask for any more.
    pub(crate) victims: Vec<i64>,
}

impl Default for Index {
    fn default() -> Self {
        Self::starting_at(FIRST_REVISION)
    }
}

impl Index {
    /// An empty index whose history begins at `compacted`.
    pub(crate) fn starting_at(compacted: i64) -> Self {
        Self {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            recent: VecDeque::new(),
            revision: compacted,
            compacted,
            history_bytes: 0,
        }
    }

    /// An index whose history begins at `compacted`, with the keys last written at or before it. Of
    /// a key that comes twice the newer one counts.
    pub(crate) fn resting_at(compacted: i64, mut resting: Vec<KeyValue>) -> Self {
        resting.sort_by(by_key);
        let rest = |kv: KeyValue| {
            let KeyValue { key, value, create_revision, mod_revision, version } = kv;
            let (value, created, revision) = (Some(value), create_revision, mod_revision);
            (key, Versions::only(Version { value, created, revision, version }))
        };
        Self { keys: resting.into_iter().map(rest).collect(), ..Self::starting_at(compacted) }
    }

    /// How much memory the values take that are no longer the newest ones.
    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// The revision to compact to if history may take this much.
    pub(crate) fn revision_keeping(&self, bytes: usize) -> i64 {
        let mut kept = 0;
        for (place, logged) in self.log.iter().enumerate().rev() {
            kept += logged.superseded;
            if kept > bytes {
                return self.compacted + 1 + place as i64;
            }
        }
        self.compacted
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(crate) fn latest(&self, key: &str) -> Option<KeyValue> {
        let (key, versions) = self.keys.get_key_value(key)?;
        versions.latest.live(key)
    }

    fn resolve(&self, at: Option<i64>) -> Result<i64> {
        let revision = at.unwrap_or(self.revision);
        if revision < self.compacted {
            return Err(Error::Compacted { requested: revision, compacted: self.compacted });
        }
        if revision > self.revision {
            return Err(Error::FutureRevision { requested: revision, current: self.revision });
        }
        Ok(revision)
    }

    pub(crate) fn get(&self, key: &str, at: Option<i64>) -> Result<Option<KeyValue>> {
        let revision = self.resolve(at)?;
        let found = self.keys.get_key_value(key);
        Ok(found.and_then(|(key, versions)| versions.at(revision)?.live(key)))
    }

    pub(crate) fn range(&self, query: &RangeQuery) -> Result<RangeResult> {
        let revision = self.resolve(query.at)?;
        let mut result = RangeResult { revision, ..RangeResult::default() };
        let end = query.end.as_deref();
        if end.is_some_and(|end| end <= query.start.as_str()) {
            return Ok(result);
        }
        let bounds =
            (Bound::Included(query.start.as_str()), end.map_or(Bound::Unbounded, Bound::Excluded));
        for (key, versions) in self.keys.range::<str, _>(bounds) {
            let live = versions.at(revision).filter(|version| version.value.is_some());
            let Some(version) = live else { continue };
            result.count += 1;
            if query.limit == 0 || result.items.len() < query.limit {
                result.items.extend(version.live(key));
            } else {
                result.more = true;
            }
        }
        Ok(result)
    }

    /// Returns the revisions after `after` with the keys they are of, at most `limit` of them.
    pub(crate) fn revisions_after(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<impl Iterator<Item = (i64, &Arc<str>)>> {
        if after < self.compacted {
            return Err(Error::Compacted { requested: after, compacted: self.compacted });
        }
        let skip = usize::try_from(after - self.compacted).unwrap_or(usize::MAX);
        let start = skip.min(self.log.len());
        let end = start.saturating_add(limit).min(self.log.len());
        let keys = self.log.range(start..end).map(|logged| &logged.key);
        Ok((self.compacted + 1 + start as i64..).zip(keys))
    }

    /// Returns the event of a revision that was of this key, if it is still known.
    pub(crate) fn event(&self, revision: i64, key: &str) -> Option<Arc<Event>> {
        let first_recent = self.revision + 1 - self.recent.len() as i64;
        if revision >= first_recent {
            return self.recent.get(usize::try_from(revision - first_recent).ok()?).cloned();
        }
        let (key, versions) = self.keys.get_key_value(key)?;
        let version = versions.at(revision).filter(|version| version.revision == revision)?;
        let kind = if version.value.is_some() { EventKind::Put } else { EventKind::Delete };
        let kv = version.pair(key, version.value.clone().unwrap_or_default());
        let prev = versions.at(revision - 1).and_then(|prev| prev.live(key));
        Some(Arc::new(Event { kind, kv, prev }))
    }

    /// Makes the event's state the newest one of its key. Events come in order, without gaps.
    pub(crate) fn apply(&mut self, event: Arc<Event>) {
        debug_assert_eq!(event.revision(), self.revision + 1);
        self.revision = event.revision();
        let version = Version::of(&event);
        // Keys are kept once, whoever wrote them last.
        let (key, superseded) = match self.keys.entry(event.kv.key.clone()) {
            Entry::Occupied(mut entry) => {
                let versions = entry.get_mut();
                let superseded = std::mem::replace(&mut versions.latest, version);
                let size = superseded.size();
                // Many keys are written twice before they rest.
                let one = || Box::new(VecDeque::with_capacity(1));
                versions.older.get_or_insert_with(one).push_back(superseded);
                (entry.key().clone(), size)
            }
            Entry::Vacant(entry) => {
                let key = entry.key().clone();
                entry.insert(Versions::only(version));
                (key, 0)
            }
        };
        self.history_bytes += superseded;
        self.log.push_back(Logged { key, superseded });
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
    }

    /// Says what compacting to `target` would make unreachable, going at most `limit` revisions
    /// far. The records of the victims may go before the index follows with [`Self::compact`].
    pub(crate) fn plan_step(&self, target: i64, limit: usize) -> Option<Step> {
        let target = target.min(self.revision);
        if target <= self.compacted {
            return None;
        }
        let mut step = Step { compacted: self.compacted, ..Step::default() };
        let span = usize::try_from(target - self.compacted).unwrap_or(usize::MAX).min(limit);
        for (revision, logged) in (self.compacted + 1..).zip(self.log.iter().take(span)) {
            step.compacted = revision;
            let Some(versions) = self.keys.get(&logged.key) else { continue };
            let live = |version: &&Version| version.value.is_some();
            step.victims.extend(versions.at(revision - 1).filter(live).map(|prev| prev.revision));
            if versions.at(revision).is_some_and(|version| version.value.is_none()) {
                step.victims.push(revision);
            }
        }
        Some(step)
    }

    /// Forgets all history before `target`.
    pub(crate) fn compact(&mut self, target: i64) {
        while self.compacted < target
            && let Some(Logged { key, .. }) = self.log.pop_front()
        {
            self.compacted += 1;
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            self.history_bytes -= versions.forget_before(self.compacted);
            let Version { value, revision, .. } = &versions.latest;
            if value.is_none() && *revision <= self.compacted {
                self.keys.remove(&key);
            }
        }
        let kept = usize::try_from(self.revision - self.compacted).unwrap_or(0);
        let surplus = self.recent.len().saturating_sub(kept);
        self.recent.drain(..surplus);
        if self.log.capacity() > 4 * self.log.len() + 1024 {
            // A burst is over.
            self.log.shrink_to(2 * self.log.len());
        }
    }
}

/// The order of states in which those of a key follow each other.
pub(crate) fn by_key(one: &KeyValue, other: &KeyValue) -> Ordering {
    one.key.cmp(&other.key).then(one.mod_revision.cmp(&other.mod_revision))
}

/// Writes that follow each other and have not reached the index yet: each is judged by the index
/// as the ones before it will leave it.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) events: Vec<Arc<Event>>,
    latest: HashMap<Arc<str>, Option<KeyValue>>,
}

impl Stage {
    /// Turns a write into the event of the next revision, if what it expects is so.
    pub(crate) fn add(&mut self, index: &Index, write: Write) -> Result<Arc<Event>> {
        let (key, value, expect) = match write {
            Write::Put { key, value, expect } => (key, Some(value), expect),
            Write::Delete { key, expect } => (key, None, expect),
        };
        let current = match self.latest.get(&key) {
            Some(staged) => staged.clone(),
            None => index.latest(&key),
        };
        let met = match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::ModRevision(revision) => {
                current.as_ref().is_some_and(|kv| kv.mod_revision == revision)
            }
        };
        if !met || (value.is_none() && current.is_none()) {
            return Err(Error::conflict(current));
        }
        let revision = index.revision() + self.events.len() as i64 + 1;
        let event = Arc::new(event_of(revision, key.clone(), value, current));
        let staged = (event.kind == EventKind::Put).then(|| event.kv.clone());
        self.latest.insert(key, staged);
        self.events.push(event.clone());
        Ok(event)
    }
}

fn event_of(
    revision: i64,
    key: Arc<str>,
    value: Option<Packed>,
    current: Option<KeyValue>,
) -> Event {
    let kind = if value.is_some() { EventKind::Put } else { EventKind::Delete };
    let (create_revision, version) =
        current.as_ref().map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
    let value = value.unwrap_or_default();
    let kv = KeyValue { key, value, create_revision, mod_revision: revision, version };
    Event { kind, kv, prev: current }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(index: &mut Index, key: &str, value: Option<&'static str>) -> Arc<Event> {
        let (key, expect) = (Arc::from(key), Expect::Any);
        let write = match value {
            Some(value) => Write::Put { key, value: value.into(), expect },
            None => Write::Delete { key, expect },
        };
        let event = Stage::default().add(index, write).unwrap();
        index.apply(event.clone());
        event
    }

    #[test]
    fn old_events_are_made_again_as_they_were() {
        let mut index = Index::default();
        let mut events = Vec::new();
        for round in 0..RECENT {
            events.push(write(&mut index, "/a", Some("1")));
            events.push(write(&mut index, "/b", Some("22")));
            if round % 3 == 0 {
                events.push(write(&mut index, "/a", None));
            }
        }
        for compacted in [0, 1, 2, 3, 4, 5, 6, 7, 8, 100] {
            index.compact(FIRST_REVISION + compacted);
            let revisions = index.revisions_after(FIRST_REVISION + compacted, usize::MAX).unwrap();
            let known: Vec<_> =
                revisions.map(|(revision, key)| index.event(revision, key).unwrap()).collect();
            assert_eq!(known, events[compacted as usize..], "{compacted}");
        }
        let superseded: usize = index.log.iter().map(|logged| logged.superseded).sum();
        assert_eq!(index.history_bytes(), superseded);
        index.compact(index.revision());
        assert_eq!((index.history_bytes(), index.log.len(), index.recent.len()), (0, 0, 0));
        assert!(index.keys.values().all(|versions| versions.older.is_none()));
    }

    #[test]
    fn a_resting_key_takes_little() {
        assert_eq!(size_of::<(Arc<str>, Versions)>(), 72);
    }
}
