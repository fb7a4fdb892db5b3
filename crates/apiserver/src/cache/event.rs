//! One change of one object, encoded for the wire at most once per form.

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
    encoded: [OnceLock<Bytes>; 3],
    departed: OnceLock<Arc<StoredObject>>,
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
        let (encoded, departed) = Default::default();
        Self { revision, deleted, object, previous, encoded, departed }
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

    /// The event as a line of JSON, shared by everyone who sees it the same way.
    pub fn encode(&self, kind: EventType, object: &Arc<StoredObject>) -> Bytes {
        self.encoded[kind as usize]
            .get_or_init(|| encode_event(kind.as_str(), &object.bytes))
            .clone()
    }
}

/// A watch event around an encoded object.
pub fn encode_event(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn restamp(object: &StoredObject, revision: i64) -> StoredObject {
    object.restamped(revision)
}
