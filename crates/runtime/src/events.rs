//! Events about objects, for people to read. Repetitions are counted instead of written again,
//! many similar ones are folded into one, and a flood about one object is cut off, by the numbers
//! of client-go.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, Object, Patch, PatchOptions};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use crate::{Clock, Shutdown};

/// Similar events within [`SIMILAR_WITHIN`] before they are folded into one.
const SIMILAR_LIMIT: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Events about one object: a burst, then one every five minutes.
const BURST: f64 = 25.0;
const REFILL_PER_SECOND: f64 = 1.0 / 300.0;

/// How many objects and messages are remembered.
const MEMORY: usize = 4096;

const MESSAGE_LIMIT: usize = 1024;

/// How many events the components of a process write together, or one that has a budget of its own. A flood
/// of them must not take the time of those whose work it tells about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventBudget {
    /// So many at once,
    pub burst: f64,
    /// then so many.
    pub per_second: f64,
    /// Events that may wait to be written; more are dropped, as client-go does. Of warnings twice as many
    /// are taken: what went wrong must not be lost among what went well.
    pub waiting: usize,
}

impl Default for EventBudget {
    fn default() -> Self {
        Self { burst: 1000.0, per_second: 200.0, waiting: 500 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// The object an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl From<&Value> for ObjectReference {
    fn from(object: &Value) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

impl From<&Object> for ObjectReference {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.gvk().api_version(),
            kind: object.gvk().kind.clone(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    about: ObjectReference,
    kind: EventType,
    reason: String,
    message: String,
    at: Timestamp,
}

/// What recorders share: how much may wait, and how fast it is written. Clones are the same desk.
#[derive(Clone)]
pub(crate) struct Desk {
    budget: EventBudget,
    waiting: Arc<AtomicUsize>,
    pace: Arc<Mutex<Pace>>,
}

impl Default for Desk {
    fn default() -> Self {
        Self::new(EventBudget::default())
    }
}

impl Desk {
    /// The common desk, or another one for a component with a budget of its own.
    pub(crate) fn with(&self, budget: EventBudget) -> Self {
        if self.budget == budget { self.clone() } else { Self::new(budget) }
    }

    fn new(budget: EventBudget) -> Self {
        let pace = Pace { tokens: budget.burst, at: Instant::now() };
        Self { budget, waiting: Arc::default(), pace: Arc::new(Mutex::new(pace)) }
    }

    /// Makes room for one more event, if there is any.
    fn admit(&self, kind: EventType) -> bool {
        let limit = match kind {
            EventType::Normal => self.budget.waiting,
            EventType::Warning => 2 * self.budget.waiting,
        };
        let one_more = |waiting| (waiting < limit).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Waits until it is this event's turn to be written.
    async fn turn(&self) {
        let pause = self.pace.lock().reserve(&self.budget, Instant::now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Records events without making anybody wait. Clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::UnboundedSender<Note>,
    desk: Desk,
    clock: Clock,
}

impl Recorder {
    /// Starts the task that writes the events of `component`.
    pub(crate) fn start(
        client: &Client,
        component: &str,
        desk: Desk,
        clock: Clock,
        shutdown: &Shutdown,
    ) -> Self {
        let (notes, inbox) = mpsc::unbounded_channel();
        let api = client.api(&Gvr::new("", "v1", "events"));
        let correlator = Correlator::new(component.to_owned());
        shutdown.spawn(write_all(api, correlator, desk.clone(), inbox, shutdown.clone()));
        Self { notes, desk, clock }
    }

    /// The message is spelled out only if the event is taken: `format_args!` costs nothing otherwise.
    pub fn normal(&self, about: impl Into<ObjectReference>, reason: &str, message: impl Display) {
        self.record(about, EventType::Normal, reason, message);
    }

    pub fn warning(&self, about: impl Into<ObjectReference>, reason: &str, message: impl Display) {
        self.record(about, EventType::Warning, reason, message);
    }

    fn record(
        &self,
        about: impl Into<ObjectReference>,
        kind: EventType,
        reason: &str,
        message: impl Display,
    ) {
        // Nobody waits for events: those that come faster than they can be written are dropped.
        if !self.desk.admit(kind) {
            debug!(reason, "an event was dropped");
            return;
        }
        let (about, mut message) = (about.into(), message.to_string());
        truncate(&mut message, MESSAGE_LIMIT);
        let note = Note { about, kind, reason: reason.to_owned(), message, at: self.clock.now() };
        // After the shutdown nobody writes them any more.
        if self.notes.send(note).is_err() {
            self.desk.leave();
        }
    }
}

fn truncate(text: &mut String, limit: usize) {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
}

async fn write_all(
    api: Api,
    mut correlator: Correlator,
    desk: Desk,
    mut inbox: mpsc::UnboundedReceiver<Note>,
    shutdown: Shutdown,
) {
    loop {
        let note = tokio::select! {
            // What was recorded before the shutdown is still written.
            biased;
            note = inbox.recv() => note,
            () = shutdown.triggered() => return,
        };
        let Some(note) = note else { return };
        let Some(plan) = correlator.plan(&note) else {
            desk.leave();
            continue;
        };
        tokio::select! {
            biased;
            // The end must not wait for what a flood left behind.
            () = shutdown.triggered() => {}
            () = desk.turn() => {}
        }
        desk.leave();
        let api = api.clone().namespaced(&plan.namespace);
        let stored = match plan.write {
            Write::Create => create(&api, plan.event).await,
            Write::Count(name, patch) => {
                let patch = Patch::Strategic(patch);
                match api.patch(&name, &patch, &PatchOptions::default()).await {
                    // It may have expired meanwhile.
                    Err(error) if error.is_not_found() => create(&api, plan.event).await,
                    other => other,
                }
            }
        };
        match stored {
            Ok(event) => correlator.stored(plan.key, event.name()),
            Err(error) => debug!(%error, reason = note.reason, "an event was not written"),
        }
    }
}

/// How fast a process may write.
struct Pace {
    tokens: f64,
    at: Instant,
}

impl Pace {
    /// Takes the next place and returns how far away it is.
    fn reserve(&mut self, budget: &EventBudget, now: Instant) -> Duration {
        let EventBudget { burst, per_second, .. } = *budget;
        let gained = now.duration_since(self.at).as_secs_f64() * per_second;
        self.tokens = (self.tokens + gained).min(burst) - 1.0;
        self.at = now;
        Duration::from_secs_f64((-self.tokens).max(0.0) / per_second)
    }
}

/// Creates an event. Its name is the moment it happened at, of which there may be several events;
/// on a paused clock there often are.
async fn create(api: &Api, mut event: Value) -> karmada_client::Result<Value> {
    const MOMENTS: i128 = 16;
    let named = event.name().to_owned();
    let moment = named
        .rsplit_once('.')
        .and_then(|(name, moment)| Some((name, i128::from_str_radix(moment, 16).ok()?)));
    let mut later = 0;
    loop {
        match (api.create(&event).await, moment) {
            (Err(error), Some((name, moment))) if error.is_already_exists() && later < MOMENTS => {
                later += 1;
                event.set(&["metadata", "name"], format!("{name}.{:x}", moment + later));
            }
            (result, _) => return result,
        }
    }
}

/// How to write an event down.
#[derive(Debug, PartialEq)]
struct Plan {
    key: Digest,
    namespace: String,
    event: Value,
    write: Write,
}

#[derive(Debug, PartialEq)]
enum Write {
    Create,
    Count(String, Value),
}

/// What an event, its kind or the object it is about is known by. The words themselves would take more memory
/// than the events.
type Digest = u64;

fn digest(words: impl Hash) -> Digest {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// The version changes with every event and does not make it another object.
fn digest_of(about: &ObjectReference) -> Digest {
    let ObjectReference { api_version, kind, namespace, name, uid, resource_version: _ } = about;
    digest((api_version, kind, namespace, name, uid))
}

struct Seen {
    count: u64,
    first: Timestamp,
    name: String,
}

struct Similar {
    messages: HashSet<Digest>,
    last: Timestamp,
}

struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

/// Remembers what was written and decides what to do with the next event.
struct Correlator {
    component: String,
    /// The same event happening again.
    seen: HashMap<Digest, Seen>,
    /// Events that differ in nothing but their messages.
    similar: HashMap<Digest, Similar>,
    /// By the object they are about.
    buckets: HashMap<Digest, Bucket>,
}

impl Correlator {
    fn new(component: String) -> Self {
        Self { component, seen: HashMap::new(), similar: HashMap::new(), buckets: HashMap::new() }
    }

    /// Returns what to write; nothing if there was too much about this object already.
    fn plan(&mut self, note: &Note) -> Option<Plan> {
        let about = digest_of(&note.about);
        let group = digest((about, note.kind, &note.reason));
        let (message, folded) = self.fold(group, note);
        if !self.allow(about, note.at) {
            return None;
        }
        bound(&mut self.seen);
        let key = digest((group, if folded { "" } else { message.as_str() }));
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            count: 0,
            first: note.at,
            name: String::new(),
        });
        seen.count += 1;
        let event = event(&self.component, note, &message, seen);
        let namespace = event.namespace().to_owned();
        let write = if seen.name.is_empty() {
            Write::Create
        } else {
            let patch = json!({
                "count": seen.count,
                "lastTimestamp": event["lastTimestamp"],
                "message": message,
            });
            Write::Count(seen.name.clone(), patch)
        };
        Some(Plan { key, namespace, event, write })
    }

    fn stored(&mut self, key: Digest, name: &str) {
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.name = name.to_owned();
        }
    }

    /// Gives many different messages of one reason a common one.
    fn fold(&mut self, group: Digest, note: &Note) -> (String, bool) {
        bound(&mut self.similar);
        let similar = self
            .similar
            .entry(group)
            .or_insert_with(|| Similar { messages: HashSet::new(), last: note.at });
        if note.at.duration_since(similar.last).unsigned_abs() > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = note.at;
        if similar.messages.len() < SIMILAR_LIMIT {
            similar.messages.insert(digest(&note.message));
        }
        if similar.messages.len() < SIMILAR_LIMIT {
            return (note.message.clone(), false);
        }
        (format!("(combined from similar events): {}", note.message), true)
    }

    fn allow(&mut self, about: Digest, now: Timestamp) -> bool {
        bound(&mut self.buckets);
        let bucket = self.buckets.entry(about).or_insert(Bucket { tokens: BURST, filled: now });
        let gone = now.duration_since(bucket.filled).unsigned_abs().as_secs_f64();
        bucket.filled = now;
        bucket.tokens = (bucket.tokens + gone * REFILL_PER_SECOND).min(BURST);
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

/// Starts over when there is too much to remember; the cost is an event written twice.
fn bound<K, V>(memory: &mut HashMap<K, V>) {
    if memory.len() >= MEMORY {
        memory.clear();
    }
}

fn event(component: &str, note: &Note, message: &str, seen: &Seen) -> Value {
    let ObjectReference { api_version, kind, namespace, name, uid, resource_version } = &note.about;
    let home = if namespace.is_empty() { "default" } else { namespace };
    let mut about = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "resourceVersion": resource_version});
    if !namespace.is_empty() {
        about["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{name}.{:x}", note.at.as_nanosecond()),
            "namespace": home,
        },
        "involvedObject": about,
        "reason": note.reason,
        "message": message,
        "type": format!("{:?}", note.kind),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": format_time(seen.first),
        "lastTimestamp": format_time(note.at),
        "count": seen.count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str, after: i64) -> Note {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        Note {
            about: ObjectReference { name: "a".into(), ..ObjectReference::default() },
            kind: EventType::Normal,
            reason: "Reason".into(),
            message: message.into(),
            at: start + jiff::SignedDuration::from_secs(after),
        }
    }

    /// What becomes of the note: its message and count, created or counted.
    fn write(correlator: &mut Correlator, note: &Note) -> Option<(String, u64, bool)> {
        let plan = correlator.plan(note)?;
        correlator.stored(plan.key, "stored");
        let message = plan.event["message"].as_str().unwrap().to_owned();
        let created = matches!(plan.write, Write::Create);
        Some((message, plan.event["count"].as_u64().unwrap(), created))
    }

    #[test]
    fn repetitions_are_counted() {
        let mut correlator = Correlator::new("test".into());
        assert_eq!(write(&mut correlator, &note("x", 0)), Some(("x".into(), 1, true)));
        assert_eq!(write(&mut correlator, &note("x", 1)), Some(("x".into(), 2, false)));
        assert_eq!(write(&mut correlator, &note("y", 2)), Some(("y".into(), 1, true)));
    }

    #[test]
    fn many_similar_events_become_one() {
        let mut correlator = Correlator::new("test".into());
        for number in 0..9 {
            let (_, count, created) =
                write(&mut correlator, &note(&number.to_string(), 0)).unwrap();
            assert_eq!((count, created), (1, true));
        }
        let folded = |message: &str, count, created| {
            Some((format!("(combined from similar events): {message}"), count, created))
        };
        assert_eq!(write(&mut correlator, &note("9", 1)), folded("9", 1, true));
        assert_eq!(write(&mut correlator, &note("10", 2)), folded("10", 2, false));
        assert_eq!(write(&mut correlator, &note("11", 700)), Some(("11".into(), 1, true)));
    }

    #[test]
    fn a_flood_about_one_object_is_cut_off() {
        let mut correlator = Correlator::new("test".into());
        let written = (0..40).filter(|_| write(&mut correlator, &note("x", 0)).is_some()).count();
        assert_eq!(written, 25);
        assert!(write(&mut correlator, &note("x", 299)).is_none());
        assert!(write(&mut correlator, &note("x", 600)).is_some());
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut text = "ä".repeat(600);
        truncate(&mut text, MESSAGE_LIMIT);
        assert_eq!(text.len(), 1024);
        let mut text = format!("a{text}");
        truncate(&mut text, MESSAGE_LIMIT);
        assert_eq!(text.len(), 1023);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_has_a_burst_and_then_a_rate() {
        let (began, desk) = (Instant::now(), Desk::default());
        let components = [(); 2].map(|()| desk.with(EventBudget::default()));
        for _ in 0..500 {
            for desk in &components {
                desk.turn().await;
            }
        }
        assert!(began.elapsed().is_zero());
        for _ in 0..200 {
            for desk in &components {
                desk.turn().await;
            }
        }
        let took = began.elapsed().as_millis();
        assert!((1990..2300).contains(&took), "{took} ms");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_written_does_not_pile_up_and_warnings_are_taken_for_longer() {
        let (notes, mut inbox) = mpsc::unbounded_channel();
        let budget = EventBudget::default();
        let recorder = Recorder { notes, desk: Desk::new(budget), clock: Clock::real() };
        for number in 0..budget.waiting + 500 {
            let about =
                ObjectReference { name: format!("o{number}"), ..ObjectReference::default() };
            recorder.normal(about, "Storm", "again");
        }
        recorder.warning(ObjectReference::default(), "Trouble", "this is told");
        let mut kept = 0;
        while inbox.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, budget.waiting + 1);
    }
}
