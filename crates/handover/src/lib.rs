//! What a client and an API server of one process hand to each other without making text of it: requests and
//! answers as a call ([`Server`]), and the events of a watch in the extensions of an ordinary answer. Whoever
//! does not know those sees an empty body, so a client asks for them only where they are known.

mod alike;
mod asked;
mod lately;
mod path;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use futures::stream::BoxStream;
use karmada_apimachinery::Value;
use karmada_apimachinery::pairs::Pairs;
use karmada_packing::Packed;
use parking_lot::Mutex;

pub use alike::Seen;
pub use asked::{Asked, Content, Failure, Reply, Server};
pub use lately::{Lately, Ticket};
pub use path::{Query, path};

/// Marks a watch whose reader takes events as they are.
#[derive(Debug, Clone, Copy)]
pub struct TakesEvents;

/// An object as the server's cache holds it.
pub trait Shown: Send + Sync + 'static {
    /// The object as text, without its version.
    fn text(&self) -> &Packed;

    /// Where in the text the version belongs.
    fn version_at(&self) -> usize;

    /// Behind which byte of the text the metadata end.
    fn metadata_end(&self) -> usize;

    /// The record of who wrote which field, which is the larger half of most metadata. Without this part
    /// the text reads the same, but for the record; empty if there is none.
    fn record(&self) -> Range<usize>;

    fn revision(&self) -> i64;

    fn labels(&self) -> &Pairs;

    /// The object as a tree without its version, if it was written a moment ago.
    fn tree(&self) -> Option<Arc<Value>> {
        None
    }

    /// What a reader made of the object, for all who read it after the first.
    fn made(&self) -> &Made;
}

/// What a reader made of an object, for others who read it while somebody still has it. The server
/// keeps many states for watchers that come late; what was made of those must not stay with them.
#[derive(Default)]
pub struct Made(Mutex<Option<Weak<dyn Any + Send + Sync>>>);

impl Made {
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.lock().as_ref()?.upgrade()?.downcast().ok()
    }

    pub fn set<T: Any + Send + Sync>(&self, made: &Arc<T>) {
        let made: Weak<T> = Arc::downgrade(made);
        *self.0.lock() = Some(made);
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made")
    }
}

/// An event of a watch.
#[derive(Clone)]
pub enum Event {
    Added(Arc<dyn Shown>),
    Modified(Arc<dyn Shown>),
    Deleted(Arc<dyn Shown>),
    Bookmark {
        revision: i64,
        initial_events_end: bool,
    },
    /// A status that ends the watch.
    Failed(Value),
}

/// The events of a watch, for the first who takes them.
#[derive(Clone)]
pub struct Watched(Arc<Mutex<Option<BoxStream<'static, Vec<Event>>>>>);

impl Watched {
    pub fn new(events: BoxStream<'static, Vec<Event>>) -> Self {
        Self(Arc::new(Mutex::new(Some(events))))
    }

    pub fn take(&self) -> Option<BoxStream<'static, Vec<Event>>> {
        self.0.lock().take()
    }
}

/// The version as a field of the metadata that `text` continues at `at`, and the text around it.
pub fn with_version(text: &[u8], at: usize, version: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + version.len() + 24);
    write_with_version(&mut out, text, at, version);
    out
}

/// Appends the text with its version.
pub fn write_with_version(out: &mut Vec<u8>, text: &[u8], at: usize, version: &str) {
    let (before, after) = text.split_at(at.min(text.len()));
    out.extend_from_slice(before);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(version.as_bytes());
    out.push(b'"');
    if after.first() != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(after);
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => write!(f, "added@{}", object.revision()),
            Self::Modified(object) => write!(f, "modified@{}", object.revision()),
            Self::Deleted(object) => write!(f, "deleted@{}", object.revision()),
            Self::Bookmark { revision, .. } => write!(f, "bookmark@{revision}"),
            Self::Failed(status) => write!(f, "failed: {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_lives_as_long_as_somebody_has_it() {
        let made = Made::default();
        let first = Arc::new(7_u32);
        made.set(&first);
        assert_eq!(made.get::<u32>(), Some(first.clone()));
        assert_eq!(made.get::<i64>(), None);
        drop(first);
        assert_eq!(made.get::<u32>(), None);
    }

    #[test]
    fn the_version_becomes_the_first_field_of_the_metadata() {
        let cases = [
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"resourceVersion":"7","name":"a"}}"#),
            (r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"7"}}"#),
        ];
        for (text, expected) in cases {
            let stamped = with_version(text.as_bytes(), r#"{"metadata":{"#.len(), "7");
            assert_eq!(String::from_utf8(stamped).unwrap(), expected);
        }
    }
}
