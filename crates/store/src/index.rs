//! The part of a store that lives in memory: the newest state of every key, the history since the
//! last compaction, and the rules of reading and writing them. It neither waits nor does I/O.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Error, Event, EventKind, Expect, FIRST_REVISION, KeyValue, RangeQuery, RangeResult, Result,
};

/// One state of a key: its value, or a tombstone left by the deletion at `revision`.
#[derive(Debug, Clone)]
struct Version {
    revision: i64,
    kv: Option<KeyValue>,
}

impl Version {
    fn size(&self) -> usize {
        self.kv.as_ref().map_or(0, |kv| kv.value.len())
    }
}

#[derive(Debug, Clone)]
struct Versions {
    latest: Version,
    /// Superseded states since the last compaction, oldest first.
    older: VecDeque<Version>,
}

impl Versions {
    fn at(&self, revision: i64) -> Option<&KeyValue> {
        if self.latest.revision <= revision {
            return self.latest.kv.as_ref();
        }
        self.older.iter().rev().find(|version| version.revision <= revision)?.kv.as_ref()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Index {
    keys: BTreeMap<Arc<str>, Versions>,
    /// The event of every revision after `compacted`, without gaps.
    log: VecDeque<Arc<Event>>,
    revision: i64,
    compacted: i64,
    /// The size of all superseded values.
    history_bytes: usize,
}

/// A write before it has a revision.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put { key: Arc<str>, value: Bytes, expect: Expect },
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
            let key = kv.key.clone();
            let latest = Version { revision: kv.mod_revision, kv: Some(kv) };
            (key, Versions { latest, older: VecDeque::new() })
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
        for event in self.log.iter().rev() {
            kept += event.prev.as_ref().map_or(0, |prev| prev.value.len());
            if kept > bytes {
                return event.revision();
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

    pub(crate) fn latest(&self, key: &str) -> Option<&KeyValue> {
        self.keys.get(key)?.latest.kv.as_ref()
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
        Ok(self.keys.get(key).and_then(|versions| versions.at(revision)).cloned())
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
        for versions in self.keys.range::<str, _>(bounds).map(|(_, versions)| versions) {
            let Some(kv) = versions.at(revision) else { continue };
            result.count += 1;
            if query.limit == 0 || result.items.len() < query.limit {
                result.items.push(kv.clone());
            } else {
                result.more = true;
            }
        }
        Ok(result)
    }

    /// Returns the events after revision `after`, at most `limit` of them.
    pub(crate) fn events_after(&self, after: i64, limit: usize) -> Result<Events<'_>> {
        if after < self.compacted {
            return Err(Error::Compacted { requested: after, compacted: self.compacted });
        }
        let skip = usize::try_from(after - self.compacted).unwrap_or(usize::MAX);
        let start = skip.min(self.log.len());
        let end = start.saturating_add(limit).min(self.log.len());
        Ok(self.log.range(start..end))
    }

    /// Makes the event's state the newest one of its key. Events come in order, without gaps.
    pub(crate) fn apply(&mut self, event: Arc<Event>) {
        debug_assert_eq!(event.revision(), self.revision + 1);
        self.revision = event.revision();
        let kv = (event.kind == EventKind::Put).then(|| event.kv.clone());
        let version = Version { revision: event.revision(), kv };
        match self.keys.get_mut(&event.kv.key) {
            Some(versions) => {
                let superseded = std::mem::replace(&mut versions.latest, version);
                self.history_bytes += superseded.size();
                versions.older.push_back(superseded);
            }
            None => {
                let versions = Versions { latest: version, older: VecDeque::new() };
                self.keys.insert(event.kv.key.clone(), versions);
            }
        }
        self.log.push_back(event);
    }

    /// Says what compacting to `target` would make unreachable, going at most `limit` revisions
    /// far. The records of the victims may go before the index follows with [`Self::compact`].
    pub(crate) fn plan_step(&self, target: i64, limit: usize) -> Option<Step> {
        let target = target.min(self.revision);
        if target <= self.compacted {
            return None;
        }
        let mut step = Step { compacted: self.compacted, ..Step::default() };
        for event in self.log.iter().take(limit).take_while(|event| event.revision() <= target) {
            step.compacted = event.revision();
            step.victims.extend(event.prev.as_ref().map(|prev| prev.mod_revision));
            if event.kind == EventKind::Delete {
                step.victims.push(event.revision());
            }
        }
        Some(step)
    }

    /// Forgets all history before `target`.
    pub(crate) fn compact(&mut self, target: i64) {
        while let Some(event) = self.log.front().filter(|event| event.revision() <= target) {
            self.compacted = event.revision();
            if let Some(versions) = self.keys.get_mut(&event.kv.key) {
                let gone = match event.kind {
                    EventKind::Put => event.prev.as_ref().map_or(0, |prev| prev.mod_revision),
                    EventKind::Delete => event.revision(),
                };
                while let Some(old) = versions.older.pop_front_if(|old| old.revision <= gone) {
                    self.history_bytes -= old.size();
                }
                if versions.older.is_empty() {
                    // Its room is more than a key takes otherwise, and most keys rest.
                    versions.older = VecDeque::new();
                }
                let deleted = versions.latest.kv.is_none() && versions.latest.revision <= gone;
                if deleted {
                    self.keys.remove(&event.kv.key);
                }
            }
            self.log.pop_front();
        }
    }
}

/// The order of states in which those of a key follow each other.
pub(crate) fn by_key(one: &KeyValue, other: &KeyValue) -> Ordering {
    one.key.cmp(&other.key).then(one.mod_revision.cmp(&other.mod_revision))
}

pub(crate) type Events<'a> = std::collections::vec_deque::Iter<'a, Arc<Event>>;

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
            None => index.latest(&key).cloned(),
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
    value: Option<Bytes>,
    current: Option<KeyValue>,
) -> Event {
    let kind = if value.is_some() { EventKind::Put } else { EventKind::Delete };
    let (create_revision, version) =
        current.as_ref().map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
    let value = value.unwrap_or_default();
    let kv = KeyValue { key, value, create_revision, mod_revision: revision, version };
    Event { kind, kv, prev: current }
}
