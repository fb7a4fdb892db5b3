//! GET of a collection with `watch=true`: a stream of events, one JSON object per line.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_handover::{Event, Watched};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::options::refuse;
use super::present::{self, Columns};
use super::select::Selection;
use super::write::{store_error, too_large_version};
use super::{Answer, list};
use crate::cache::{Change, EventType, Next, StoredObject, Watcher, encode_event};
use crate::call::Call;
use crate::chance::Chance;
use crate::http::body;
use crate::http::negotiate::{self, Format, Offer, Representation, Shape, Transforms};
use crate::http::query::Query;
use crate::produce::{Outlet, produce};
use crate::registry::Source;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A bookmark is also sent this long before a watch ends.
const BEFORE_END: Duration = Duration::from_secs(2);
/// How many bytes of a first list are encoded at a time.
const LISTED_AT_ONCE: usize = 128 << 10;
/// How long a list-and-watch waits for the version it names.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) async fn watch(call: &Arc<Call>) -> Answer {
    let built_in = call.served.source == Source::BuiltIn;
    let formats = if built_in { negotiate::WATCHED } else { negotiate::WATCHED_CUSTOM };
    let offer = Offer { formats, transforms: Transforms::Object };
    let form = negotiate::negotiate(&call.headers, &call.query, offer)?;
    // Streams go out as JSON; every known client that prefers protobuf reads it too.
    let form = Representation { format: Format::Json, ..form };
    check_options(&call.query)?;
    let selection = Selection::read(call)?;
    let timeout = timeout(&call.query, &call.state.config.chance)?;
    let start = start(call, &selection).await?;
    let mut follower = Follower {
        call: call.clone(),
        selection,
        bookmarks: call.query.flag("allowWatchBookmarks") == Some(true),
        ends: Instant::now() + timeout,
        shares: false,
    };
    let stored = call.served.serves_stored_bytes() && !matches!(form.shape, Shape::Table(_));
    let encoder = Encoder { call: call.clone(), form, stored, columns_sent: false };
    let hands_over = call.hands_over && stored;
    follower.shares = !hands_over && stored && matches!(form.shape, Shape::Object);
    let mut response = if hands_over {
        let events = told(follower, start).map(|told| told.into_iter().flat_map(handed).collect());
        let mut response = http::Response::new(body::empty());
        response.extensions_mut().insert(Watched::new(events.boxed()));
        response
    } else {
        http::Response::new(body::stream(lines(encoder, told(follower, start))))
    };
    *response.status_mut() = StatusCode::OK;
    let content_type = HeaderValue::from_static(Format::Json.media_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response.into())
}

fn check_options(query: &Query) -> Result<(), Status> {
    let path = Path::new("resourceVersionMatch");
    let wanted = query.non_empty("resourceVersionMatch");
    let mut errors = Vec::new();
    if query.non_empty("continue").is_some() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(&path, why));
    }
    match (query.flag("sendInitialEvents"), wanted) {
        (Some(_), None) => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, why));
        }
        (Some(_), Some(other)) if other != "NotOlderThan" => {
            errors.push(FieldError::not_supported(&path, other, &["NotOlderThan"]));
        }
        (None, Some(_)) => {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        _ => {}
    }
    refuse("ListOptions", &errors)
}

fn timeout(query: &Query, chance: &Chance) -> Result<Duration, Status> {
    let seconds = match query.non_empty("timeoutSeconds") {
        Some(text) => text.parse::<u64>().map_err(|_| {
            let quoted = karmada_apimachinery::field::quote(text);
            Status::bad_request(format!("strconv.ParseInt: parsing {quoted}: invalid syntax"))
        })?,
        None => 0,
    };
    Ok(match seconds {
        0 => Duration::from_secs(chance.below(1800..3600)),
        seconds => Duration::from_secs(seconds),
    })
}

/// The objects a watch begins with. They are encoded a few at a time: together they may be many.
struct Listing {
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    revision: i64,
    watcher: Watcher,
    end_marker: bool,
}

/// How a watch begins.
enum Start {
    /// With the objects as they are, then what changes.
    List(Listing),
    Changes(Watcher),
    /// With an error that ends it.
    Failed(Status),
}

async fn start(call: &Call, selection: &Selection) -> Result<Start, Status> {
    let storage = call.storage()?;
    let asked = call.query.get("resourceVersion").unwrap_or_default();
    let version = if asked.is_empty() {
        0
    } else {
        list::parse_version(asked).map_err(Status::unexplained)?
    };
    let initial = call.query.flag("sendInitialEvents");
    if initial == Some(true) || (initial.is_none() && version == 0) {
        if asked.is_empty() {
            let (version, reached) = call.state.caches.catch_up().await.map_err(store_error)?;
            if !reached {
                let current = call.state.caches.progress();
                return Ok(Start::Failed(too_large_version(version, current)));
            }
        } else if version > 0 && !call.state.caches.reach(version, PATIENCE).await {
            let current = call.state.caches.progress();
            return Ok(Start::Failed(too_large_version(version, current)));
        }
        let progress = call.state.caches.progress();
        let (objects, cached, watcher) = storage.cache.watch_with_list(&selection.prefix);
        let end_marker = call.query.flag("allowWatchBookmarks") == Some(true);
        let (objects, revision) = (objects.into_iter(), progress.max(cached));
        return Ok(Start::List(Listing { objects, revision, watcher, end_marker }));
    }
    if version == 0 {
        let (_, _, watcher) = storage.cache.watch_with_list(&selection.prefix);
        return Ok(Start::Changes(watcher));
    }
    Ok(match storage.cache.watch_after(version) {
        Ok(watcher) => Start::Changes(watcher),
        Err(since) => Start::Failed(too_old(version, since)),
    })
}

fn too_old(version: i64, since: i64) -> Status {
    Status::expired(format!("too old resource version: {version} ({since})"))
}

/// One open watch.
struct Follower {
    call: Arc<Call>,
    selection: Selection,
    bookmarks: bool,
    ends: Instant,
    /// Whether what it tells may be text that others are told too.
    shares: bool,
}

/// Counts a watch as open for as long as it lives.
struct Counted(Arc<Call>);

impl Counted {
    fn new(call: Arc<Call>) -> Self {
        call.state.metrics.watching.fetch_add(1, Ordering::Relaxed);
        Self(call)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state.metrics.watching.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An event of a watch: what happened to which object.
type Seen = (EventType, Arc<StoredObject>);

/// What a watch waits for beside changes, kept from one change to the next.
struct Waits {
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    due: Pin<Box<Sleep>>,
}

/// What a watch has to tell.
enum Told {
    Seen(Vec<Seen>),
    /// A change as text, for watches that share it.
    Line(Bytes),
    Bookmark {
        revision: i64,
        initial_end: bool,
    },
    Failed(Box<Status>),
}

/// What a watch tells, step by step: each item holds everything that is ready.
fn told(follower: Follower, start: Start) -> impl Stream<Item = Vec<Told>> + Send + 'static {
    let counted = Counted::new(follower.call.clone());
    produce(|out| async move {
        let _counted = counted;
        let watcher = match start {
            Start::Failed(status) => return out.give(vec![Told::Failed(status.into())]).await,
            Start::Changes(watcher) => watcher,
            Start::List(mut listing) => {
                while let Some(told) = follower.list(&mut listing) {
                    out.give(told).await;
                }
                listing.watcher
            }
        };
        follower.follow(watcher, out).await;
    })
}

/// A watch as lines of text: few, large chunks where it is busy.
fn lines(
    mut encoder: Encoder,
    told: impl Stream<Item = Vec<Told>> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    produce(|out| async move {
        let mut told = std::pin::pin!(told);
        while let Some(told) = told.next().await {
            if let [Told::Line(line)] = &told[..] {
                out.give(line.clone()).await;
                continue;
            }
            let mut text = Vec::new();
            for one in told {
                if let Err(status) = encoder.write(&mut text, one).await {
                    encode(&mut text, "ERROR", &status.to_value());
                    return out.give(text.into()).await;
                }
            }
            // Clients take empty frames for an attack, after a hundred of them on one connection.
            if !text.is_empty() {
                out.give(text.into()).await;
            }
        }
    })
}

/// What a watch tells, for a reader of the same process.
fn handed(told: Told) -> Vec<Event> {
    match told {
        Told::Seen(seen) => seen
            .into_iter()
            .map(|(kind, object)| match kind {
                EventType::Added => Event::Added(object),
                EventType::Modified => Event::Modified(object),
                EventType::Deleted => Event::Deleted(object),
            })
            .collect(),
        // Told to readers of text only.
        Told::Line(_) => Vec::new(),
        Told::Bookmark { revision, initial_end } => {
            vec![Event::Bookmark { revision, initial_events_end: initial_end }]
        }
        Told::Failed(status) => vec![Event::Failed(status.to_value())],
    }
}

impl Follower {
    /// The next objects of a list, until all of them and its end are told.
    fn list(&self, listing: &mut Listing) -> Option<Vec<Told>> {
        let mut seen = Vec::new();
        let mut size = 0;
        while size < LISTED_AT_ONCE
            && let Some(object) = listing.objects.next()
        {
            if self.selection.matches(&object) {
                size += object.size();
                seen.push((EventType::Added, object));
            }
        }
        let mut told = Vec::new();
        if !seen.is_empty() {
            told.push(Told::Seen(seen));
        }
        if listing.objects.len() == 0 && std::mem::take(&mut listing.end_marker) {
            told.push(Told::Bookmark { revision: listing.revision, initial_end: true });
        }
        (!told.is_empty()).then_some(told)
    }

    /// When the next bookmark is due, or the end.
    fn next_due(&self, now: Instant) -> Instant {
        let before_end = self.ends.checked_sub(BEFORE_END).unwrap_or(self.ends);
        if self.bookmarks && now < before_end {
            before_end.min(now + BOOKMARK_EVERY)
        } else {
            self.ends
        }
    }

    async fn follow(&self, mut watcher: Watcher, out: Outlet<Vec<Told>>) {
        let mut waits = Waits {
            stop: Box::pin(self.call.state.stop.clone().cancelled_owned()),
            due: Box::pin(tokio::time::sleep_until(self.next_due(Instant::now()))),
        };
        let caches = &self.call.state.caches;
        loop {
            let progress = caches.progress();
            tokio::select! {
                biased;
                next = watcher.next() => match next {
                    Next::Changes(changes) => {
                        if let Some(told) = self.seen(&changes, &watcher) {
                            out.give(vec![told]).await;
                        }
                    }
                    Next::Lagged { since } => {
                        let told = Told::Failed(too_old(since, since).into());
                        return out.give(vec![told]).await;
                    }
                    Next::Closed => return,
                },
                () = &mut waits.stop => return,
                () = &mut waits.due => {
                    let now = Instant::now();
                    if now >= self.ends {
                        return;
                    }
                    waits.due.as_mut().reset(self.next_due(now));
                    out.give(vec![Told::Bookmark { revision: progress, initial_end: false }]).await;
                }
            }
        }
    }

    /// What changes are to this watch.
    fn seen(&self, changes: &[Arc<Change>], watcher: &Watcher) -> Option<Told> {
        let seen_of = |change: &Change| change.seen_by(|object| self.selection.matches(object));
        if let [change] = changes
            && self.shares
            && watcher.has_company()
        {
            return seen_of(change).map(|(kind, object)| Told::Line(change.line(kind, &object)));
        }
        let seen: Vec<Seen> = changes.iter().filter_map(|change| seen_of(change)).collect();
        (!seen.is_empty()).then_some(Told::Seen(seen))
    }
}

/// Writes what a watch tells in the form that was asked for.
struct Encoder {
    call: Arc<Call>,
    form: Representation,
    /// Whether objects go out as they are stored, or a part of them does.
    stored: bool,
    columns_sent: bool,
}

impl Encoder {
    async fn write(&mut self, out: &mut Vec<u8>, told: Told) -> Result<(), Status> {
        match told {
            Told::Seen(seen) => return self.write_seen(out, seen).await,
            Told::Line(line) => out.extend_from_slice(&line),
            Told::Bookmark { revision, initial_end } => {
                let bookmark = self.bookmark(revision, initial_end);
                encode(out, "BOOKMARK", &bookmark);
            }
            Told::Failed(status) => encode(out, "ERROR", &status.to_value()),
        }
        Ok(())
    }

    /// The events as lines; what can be sent as it is stored is not parsed.
    async fn write_seen(&mut self, out: &mut Vec<u8>, seen: Vec<Seen>) -> Result<(), Status> {
        out.reserve(seen.iter().map(|(_, object)| object.size() + 40).sum());
        let shape = self.form.shape;
        if self.stored {
            for (kind, object) in seen {
                encode_event(out, kind.as_str(), |out| match shape {
                    Shape::PartialMetadata(version) => write_partial(out, &object, version),
                    _ => object.write_to(out),
                });
            }
            return Ok(());
        }
        let mut values: Vec<Value> = seen.iter().map(|(_, object)| object.to_value()).collect();
        self.call.served.all_from_storage(&mut values).await?;
        for ((kind, _), value) in seen.iter().zip(values) {
            let shown = self.shaped(value);
            encode(out, kind.as_str(), &shown);
        }
        Ok(())
    }

    fn shaped(&mut self, object: Value) -> Value {
        match self.form.shape {
            Shape::Object => object,
            Shape::PartialMetadata(version) => present::partial(&object, version),
            Shape::Table(version) => {
                let columns = if self.columns_sent { Columns::Omitted } else { Columns::Shown };
                self.columns_sent = true;
                let version_of = object.pointer("/metadata/resourceVersion").cloned();
                let metadata = json!({"resourceVersion": version_of});
                let objects = std::slice::from_ref(&object);
                present::table(&self.call, objects, &metadata, version, columns)
                    .unwrap_or_else(|status| status.to_value())
            }
        }
    }

    fn bookmark(&mut self, revision: i64, initial_end: bool) -> Value {
        let mut object = self.call.served.strategy.empty(&self.call.served.gvk);
        object["metadata"] = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.shaped(object)
    }
}

fn encode(out: &mut Vec<u8>, kind: &str, object: &Value) {
    let text = object.to_string();
    encode_event(out, kind, |out| out.extend_from_slice(text.as_bytes()));
}

/// What [`present::partial`] makes of an object, without parsing it.
fn write_partial(out: &mut Vec<u8>, object: &StoredObject, version: &str) {
    let head =
        format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",");
    out.extend_from_slice(head.as_bytes());
    object.write_metadata_to(out);
    out.push(b'}');
}
