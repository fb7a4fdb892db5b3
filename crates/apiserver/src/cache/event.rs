//! One change of one object, and the line that tells a watcher of it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::object::StoredObject;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A committed change.
#[derive(Debug)]
pub struct Change {
    pub revision: i64,
    pub deleted: bool,
    /// The new state, or the last one with the revision of its deletion.
    pub object: Arc<StoredObject>,
    pub previous: Option<Arc<StoredObject>>,
    departed: OnceLock<Arc<StoredObject>>,
    /// What was told to the first of many watchers.
    line: OnceLock<(EventType, Bytes)>,
}

impl Change {
    pub(super) fn put(object: Arc<StoredObject>, previous: Option<Arc<StoredObject>>) -> Self {
        Self::new(object.revision, false, object, previous)
    }

    pub(super) fn delete(gone: Arc<StoredObject>, revision: i64) -> Self {
        let last = Arc::new(restamp(&gone, revision));
        Self::new(revision, true, last, Some(gone))
    }

    fn new(
        revision: i64,
        deleted: bool,
        object: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
    ) -> Self {
        Self {
            revision,
            deleted,
            object,
            previous,
            departed: OnceLock::new(),
            line: OnceLock::new(),
        }
    }

    /// What a watcher sees that only looks at objects `matches` accepts.
    pub fn seen_by(
        &self,
        matches: impl Fn(&StoredObject) -> bool,
    ) -> Option<(EventType, Arc<StoredObject>)> {
        let before = self.previous.as_ref().is_some_and(|previous| matches(previous));
        let after = !self.deleted && matches(&self.object);
        match (before, after) {
            (true, true) => Some((EventType::Modified, self.object.clone())),
            (false, true) => Some((EventType::Added, self.object.clone())),
            (true, false) if self.deleted => Some((EventType::Deleted, self.object.clone())),
            (true, false) => Some((EventType::Deleted, self.departed())),
            (false, false) => None,
        }
    }

    /// The last state that matched, with the revision at which it stopped matching.
    fn departed(&self) -> Arc<StoredObject> {
        let make = || match &self.previous {
            Some(previous) => Arc::new(restamp(previous, self.revision)),
            None => self.object.clone(),
        };
        self.departed.get_or_init(make).clone()
    }

    /// What [`Change::seen_by`] has shown, as the line that tells of it, made once for many watchers.
    pub fn line(&self, kind: EventType, object: &StoredObject) -> Bytes {
        let make = || {
            let mut line = Vec::with_capacity(object.size() + 40);
            encode_event(&mut line, kind.as_str(), |out| object.write_to(out));
            Bytes::from(line)
        };
        let (first, line) = self.line.get_or_init(|| (kind, make()));
        if *first == kind { line.clone() } else { make() }
    }
}

/// Appends a watch event around the object that `write` appends.
pub fn encode_event(out: &mut Vec<u8>, kind: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    write(out);
    out.extend_from_slice(b"}\n");
}

fn restamp(object: &StoredObject, revision: i64) -> StoredObject {
    object.restamped(revision)
}
