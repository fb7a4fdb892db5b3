//! The watch cache: per resource the current objects in key order and a ring of recent events.
//!
//! One dispatcher reads every change from the store and feeds all caches, so the order of events is
//! the order of commits and one number tells how far all caches are. A watcher is a cursor into the
//! ring: it never holds up a writer, and one that falls off the ring is told so. What all of them have
//! read is remembered for a while, for those that come back.

mod dispatcher;
mod event;
mod key;
mod object;
mod texts;
mod watcher;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_signal::Signal;
use karmada_store::{Event, EventKind, KeyValue, Packed, Patterns};
use parking_lot::{Mutex, RwLock};

use crate::config::History;

pub use dispatcher::Caches;
pub use event::{Change, EventType, encode_event};
pub use key::Key;
pub use object::{Origin, Places, StoredObject, Unreadable, beginning_of, encode};
use watcher::Readers;
pub use watcher::{Next, Watcher};

/// How many events a resource remembers.
const RING: usize = 10_000;

/// How many objects are worth the start of threads that read them.
const MANY: usize = 1_000;

/// Brings an object up to date with its schema as it is read; returns whether that changed it.
pub type Transform = Arc<dyn Fn(&mut Value) -> bool + Send + Sync>;
type IsWhole = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;
type Fields = Arc<dyn Fn(&Value) -> Vec<(Arc<str>, String)> + Send + Sync>;

type Observe = Arc<dyn Fn(&Change) + Send + Sync>;

/// What a resource does to objects it reads from the store.
#[derive(Clone, Default)]
pub struct Reading {
    /// Brings an object up to date with its schema; absent where stored bytes are served as they are.
    pub transform: Option<Transform>,
    /// Whether a text needs no transformation, told without making a tree of it; a no may be wrong.
    pub is_whole: Option<IsWhole>,
    /// Stands for the rules of the transformation: what was written under the same ones needs none. Empty if nobody knows.
    pub rules: Vec<u8>,
    /// Extracts the selectable fields beside name and namespace.
    pub fields: Option<Fields>,
    /// Is told of every change, in order, before anyone can see it in the cache.
    pub observe: Option<Observe>,
    /// Texts are secret: none of them becomes a pattern for others, which could outlive it.
    pub is_secret: bool,
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    AsStored,
    /// Brought up to date with its schema.
    Otherwise,
}

/// The cache of one resource.
pub struct Cache {
    prefix: String,
    reading: Reading,
    state: RwLock<State>,
    /// The number of the next event; watchers wait for it to move.
    tail: Signal<u64>,
    /// The names of the selectable fields, once for all objects.
    field_names: OnceLock<Arc<[Arc<str>]>>,
    /// Objects on their way through the store, by where their text lies in memory.
    ahead: Mutex<HashMap<usize, StoredObject>>,
    readers: Readers,
    /// What texts are packed by.
    patterns: Patterns,
}

/// An object on its way through the store. While this lives, so does its text, and nothing else can lie
/// where it lies.
pub struct Ahead<'a> {
    cache: &'a Cache,
    text: Packed,
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.cache.ahead.lock().remove(&self.text.place());
    }
}

struct State {
    objects: BTreeMap<Key, Arc<StoredObject>>,
    ring: VecDeque<Arc<Change>>,
    ring_bytes: usize,
    /// How many bytes of events to remember, whatever their number.
    history: History,
    /// The number of the first event in the ring.
    head: u64,
    /// Everything after this revision is in the ring.
    since: i64,
    /// The revision of the newest event seen, or of the initial list.
    revision: i64,
    closed: bool,
}

impl Cache {
    fn new(prefix: String, reading: Reading, history: History) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            history,
            head: 0,
            since: 0,
            revision: 0,
            closed: false,
        };
        let (state, tail, ahead) = (RwLock::new(state), Signal::new(0), Mutex::default());
        let (field_names, readers) = (OnceLock::new(), Readers::default());
        let patterns = Patterns::marked(&reading.rules);
        Self { prefix, reading, state, tail, field_names, ahead, readers, patterns }
    }

    fn key_of<'a>(&self, kv: &'a KeyValue) -> &'a str {
        kv.key.strip_prefix(self.prefix.as_str()).unwrap_or(&kv.key)
    }

    fn own_key(&self, kv: &KeyValue) -> Key {
        Key::below(&self.prefix, &kv.key)
    }

    /// A pair of the store as this resource shows it: the cached object if it is of that version.
    pub fn object_of(&self, kv: &KeyValue) -> Result<Arc<StoredObject>, Unreadable> {
        match self.get(self.key_of(kv)) {
            Some(cached) if cached.revision == kv.mod_revision => Ok(cached),
            _ => self.read(kv).map(Arc::new),
        }
    }

    /// The text as it is to be stored. Where packing tells that a text was written under these rules, one that was not is
    /// kept as it is.
    pub fn pack(&self, text: &[u8], reads: Reads) -> Packed {
        let would_tell_wrongly = reads == Reads::Otherwise && !self.reading.rules.is_empty();
        if self.reading.is_secret || would_tell_wrongly {
            return text.into();
        }
        self.patterns.pack(text)
    }

    /// What is stored, as small as it can be kept here.
    fn kept(&self, stored: &Packed, reads: Reads) -> Packed {
        match stored.parts() {
            (text, None) => self.pack(text, reads),
            (_, Some(_)) => {
                self.patterns.follow(stored);
                stored.clone()
            }
        }
    }

    /// Whether a text reads differently from how it is stored, as far as that can be told without a tree.
    fn look_at(&self, stored: &Packed) -> Reads {
        let Reading { transform, is_whole, .. } = &self.reading;
        let is_whole = || is_whole.as_ref().is_some_and(|is| stored.with(|text| is(text)));
        if transform.is_none() || self.patterns.have_packed(stored) || is_whole() {
            Reads::AsStored
        } else {
            Reads::Otherwise
        }
    }

    /// Makes of a tree what it would be read as if it were stored; says whether that is anything else.
    pub fn complete(&self, value: &mut Value) -> Reads {
        match &self.reading.transform {
            Some(transform) if transform(value) => Reads::Otherwise,
            _ => Reads::AsStored,
        }
    }

    /// Tells what is about to be stored and read as it is, so that it needs not be read again when it comes back.
    pub fn expect(
        &self,
        (text, places): (&Packed, Option<Places>),
        value: &Value,
    ) -> Option<Ahead<'_>> {
        let mut object = StoredObject::ahead(text.clone(), places, value)?;
        if let Some(fields) = &self.reading.fields {
            object.set_fields(fields(value), &self.field_names);
        }
        self.ahead.lock().insert(text.place(), object);
        Some(Ahead { cache: self, text: text.clone() })
    }

    /// What a writer told about a pair of the store, or what is read from it. The key is that of its former state, so that
    /// it is kept once.
    fn take_or_read(
        &self,
        kv: &KeyValue,
        former: Option<&StoredObject>,
    ) -> Result<StoredObject, Unreadable> {
        let key = || former.map_or_else(|| self.own_key(kv), |former| former.key.clone());
        let told = self.ahead.lock().remove(&kv.value.place());
        match told {
            Some(mut object) if object.size_of_text() == kv.value.len() => {
                (object.key, object.revision) = (key(), kv.mod_revision);
                Ok(object)
            }
            _ => self.read_as(key(), kv),
        }
    }

    /// Reads a pair of the store as this resource shows it.
    pub fn read(&self, kv: &KeyValue) -> Result<StoredObject, Unreadable> {
        self.read_as(self.own_key(kv), kv)
    }

    fn read_as(&self, key: Key, kv: &KeyValue) -> Result<StoredObject, Unreadable> {
        let revision = kv.mod_revision;
        let (reads, origin) = (self.look_at(&kv.value), Origin::of(&kv.value));
        let kept = self.kept(&kv.value, reads);
        let mut object = StoredObject::read(key.clone(), &kept, revision, origin)?;
        if reads == Reads::AsStored && self.reading.fields.is_none() {
            return Ok(object);
        }
        let mut value = object.to_value();
        if reads == Reads::Otherwise && self.complete(&mut value) == Reads::Otherwise {
            value.remove_at(&["metadata", "resourceVersion"]);
            let text = self.pack(&encode(&value).0, Reads::AsStored);
            object = StoredObject::read(key, &text, revision, Origin::Ours)?;
            object.completed = true;
        }
        if let Some(fields) = &self.reading.fields {
            object.set_fields(fields(&value), &self.field_names);
        }
        Ok(object)
    }

    /// Tells of every change, without saying which.
    pub fn changes(&self) -> karmada_signal::Follow<u64> {
        self.tail.follow()
    }

    pub fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.state.read().objects.get(key).cloned()
    }

    /// The objects whose keys begin with `prefix`, in key order.
    pub fn list(&self, prefix: &str) -> Vec<Arc<StoredObject>> {
        let state = self.state.read();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found = state.objects.range::<str, _>(from);
        found
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends all watches; the resource is no longer served this way.
    pub fn close(&self) {
        self.state.write().closed = true;
        self.tail.change(|_| true);
    }

    /// Reads all pairs of a list, on all processors where there are many. What cannot be read is left out.
    fn read_all(&self, items: &[&KeyValue]) -> Vec<Arc<StoredObject>> {
        let read = |kv: &&KeyValue| match self.read(kv) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                tracing::error!(key = %kv.key, %error, "stored object skipped");
                None
            }
        };
        if items.len() < MANY {
            return items.iter().filter_map(read).collect();
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = items.len().div_ceil(threads);
        let parts: Vec<Vec<_>> = std::thread::scope(|scope| {
            let parts = items
                .chunks(share)
                .map(|part| scope.spawn(move || part.iter().filter_map(read).collect::<Vec<_>>()));
            let parts: Vec<_> = parts.collect();
            let whole = |panic| std::panic::resume_unwind(panic);
            parts.into_iter().map(|part| part.join().unwrap_or_else(whole)).collect()
        });
        parts.concat()
    }

    /// Fills a new cache with what is stored at a revision and with the changes that have led there. All of
    /// them since a revision are given, of which as many are remembered as would be if they came now.
    fn fill(&self, items: &[KeyValue], revision: i64, (since, history): (i64, &[Arc<Event>])) {
        let (since, history) = self.remembered(since, history);
        let mut wanted: Vec<&KeyValue> = items.iter().collect();
        let present: HashSet<i64> = items.iter().map(|kv| kv.mod_revision).collect();
        let mut former = HashSet::new();
        for event in history {
            let put = (event.kind == EventKind::Put).then_some(&event.kv);
            let new = |kv: &&KeyValue| !present.contains(&kv.mod_revision);
            let kvs = event.prev.as_ref().into_iter().chain(put).filter(new);
            wanted.extend(kvs.filter(|kv| former.insert(kv.mod_revision)));
        }
        let mut objects = self.read_all(&wanted);
        let is_present = |object: &Arc<StoredObject>| present.contains(&object.revision);
        let by_revision: HashMap<i64, Arc<StoredObject>> = match history {
            [] => HashMap::new(),
            _ => objects.iter().map(|object| (object.revision, object.clone())).collect(),
        };
        objects.retain(is_present);
        self.start_with(objects, since);
        let mut latest: HashMap<&str, Arc<StoredObject>> = HashMap::new();
        for event in history {
            let key = &*event.kv.key;
            let before = || by_revision.get(&event.prev.as_ref()?.mod_revision).cloned();
            let previous = latest.remove(key).or_else(before);
            let change = match (event.kind, by_revision.get(&event.revision())) {
                (EventKind::Put, Some(object)) => {
                    latest.insert(key, object.clone());
                    Change::put(object.clone(), previous)
                }
                (EventKind::Put, None) => {
                    latest.extend(previous.map(|previous| (key, previous)));
                    continue;
                }
                (EventKind::Delete, _) => match previous {
                    Some(gone) => Change::delete(gone, event.revision()),
                    None => continue,
                },
            };
            if let Some(observe) = &self.reading.observe {
                observe(&change);
            }
            self.state.write().remember(Arc::new(change));
        }
        let mut state = self.state.write();
        state.revision = revision;
        let tail = state.head + state.ring.len() as u64;
        drop(state);
        self.tail.set(tail);
    }

    /// The end of a history that is worth remembering, and since when that is all there was.
    fn remembered<'a>(&self, mut since: i64, history: &'a [Arc<Event>]) -> (i64, &'a [Arc<Event>]) {
        let (mut bytes, most) = (0, self.state.read().history.watched);
        let mut start = history.len();
        while start > 0 && history.len() - start < RING && bytes <= most {
            start -= 1;
            let event = &history[start];
            let told =
                if event.kind == EventKind::Put { Some(&event.kv) } else { event.prev.as_ref() };
            bytes += told.map_or(0, |kv| kv.value.weight());
        }
        let (forgotten, kept) = history.split_at(start);
        since = forgotten.last().map_or(since, |event| event.revision());
        (since, kept)
    }

    /// Replaces the content by what was there at a revision; watchers are told that history is lost.
    fn start_with(&self, objects: Vec<Arc<StoredObject>>, revision: i64) {
        let objects = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        let mut state = self.state.write();
        let dropped = state.ring.len() as u64;
        state.head += dropped + 1;
        state.ring.clear();
        state.ring_bytes = 0;
        state.objects = objects;
        state.since = revision;
        state.revision = revision;
        let tail = state.head;
        drop(state);
        self.tail.set(tail);
    }

    /// Replaces the content by a fresh list, and tells the observer what that changes.
    fn replace(&self, items: &[KeyValue], revision: i64) {
        let before = self.state.read().objects.clone();
        self.start_with(self.read_all(&items.iter().collect::<Vec<_>>()), revision);
        let Some(observe) = &self.reading.observe else { return };
        let after = self.state.read().objects.clone();
        for (key, gone) in &before {
            if !after.contains_key(key) {
                observe(&Change::delete(gone.clone(), revision));
            }
        }
        for (key, object) in &after {
            let previous = before.get(key);
            if previous.is_none_or(|previous| previous.revision != object.revision) {
                observe(&Change::put(object.clone(), previous.cloned()));
            }
        }
    }

    /// Takes in one change of the store.
    fn apply(&self, event: &Event) {
        let revision = event.revision();
        let state = self.state.read();
        if revision <= state.revision {
            return;
        }
        let previous = state.objects.get(self.key_of(&event.kv)).cloned();
        drop(state);
        // Events come one after the other, so nobody changes the cache while this one is read.
        let change = match event.kind {
            EventKind::Put => match self.take_or_read(&event.kv, previous.as_deref()) {
                Ok(object) => Change::put(Arc::new(object), previous),
                Err(error) => {
                    tracing::error!(key = %event.kv.key, %error, "stored object skipped");
                    return;
                }
            },
            EventKind::Delete => {
                let Some(gone) = previous else { return };
                Change::delete(gone, revision)
            }
        };
        let mut state = self.state.write();
        if let Some(observe) = &self.reading.observe {
            observe(&change);
        }
        state.take_in(Arc::new(change), revision);
        state.forget_read(&self.readers);
        let tail = state.head + state.ring.len() as u64;
        drop(state);
        self.tail.set(tail);
    }
}

impl State {
    fn take_in(&mut self, change: Arc<Change>, revision: i64) {
        match change.deleted {
            true => self.objects.remove(&*change.object.key),
            false => self.objects.insert(change.object.key.clone(), change.object.clone()),
        };
        self.revision = revision;
        self.remember(change);
    }

    fn remember(&mut self, change: Arc<Change>) {
        self.ring_bytes += change.object.size();
        self.ring.push_back(change);
        while self.ring.len() > RING || self.remembers_more_than(self.history.watched) {
            self.forget_oldest();
        }
    }

    /// Forgets what all watchers have read, but for the last of it.
    fn forget_read(&mut self, readers: &Readers) {
        if !self.remembers_more_than(self.history.read) {
            return;
        }
        // While nobody watches, everybody may be on the way back, as after a restart.
        let Some(slowest) = readers.slowest() else { return };
        while self.head < slowest && self.remembers_more_than(self.history.read) {
            self.forget_oldest();
        }
    }

    fn remembers_more_than(&self, bytes: usize) -> bool {
        self.ring_bytes > bytes && self.ring.len() > 1
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.ring.pop_front() {
            self.ring_bytes -= oldest.object.size();
            self.since = oldest.revision;
            self.head += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use karmada_apimachinery::json;

    use super::*;

    #[test]
    fn what_was_written_under_the_same_rules_is_taken_as_it_is() {
        let asked = Arc::new(AtomicUsize::new(0));
        let cache_with = |rules: &[u8]| {
            let asked = asked.clone();
            let is_whole = move |_: &[u8]| asked.fetch_add(1, Ordering::Relaxed) < usize::MAX;
            let reading = Reading {
                transform: Some(Arc::new(|_| false)),
                is_whole: Some(Arc::new(is_whole)),
                rules: rules.to_vec(),
                ..Reading::default()
            };
            Cache::new("/x/".to_owned(), reading, History::default())
        };
        let (one, other) = (cache_with(b"#1"), cache_with(b"#2"));
        let text = encode(&json!({"metadata": {"name": "a"}, "spec": "x".repeat(1000)})).0;
        let asks = |cache: &Cache, value: Packed| {
            let key = "/x/a".into();
            let kv = KeyValue { key, value, create_revision: 2, mod_revision: 2, version: 1 };
            asked.store(0, Ordering::Relaxed);
            assert_eq!(cache.read(&kv).unwrap().name(), "a");
            asked.load(Ordering::Relaxed) > 0
        };
        let packed = one.pack(&text, Reads::AsStored);
        assert!(packed.weight() < text.len() / 2);
        assert!(!asks(&one, packed.clone()));
        assert!(asks(&other, packed), "it was written under others");
        assert!(asks(&one, text.clone().into()), "anybody may have written it");
        let otherwise = one.pack(&text, Reads::Otherwise);
        assert!(asks(&one, otherwise), "it is to be brought up to date");
    }
}
