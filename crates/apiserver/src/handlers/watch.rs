//! GET of a collection with `watch=true`: a stream of events, one JSON object per line.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior};

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
    let follower = Follower {
        call: call.clone(),
        form,
        selection,
        columns_sent: false,
        bookmarks: call.query.flag("allowWatchBookmarks") == Some(true),
        ends: Instant::now() + timeout,
    };
    let mut response = http::Response::new(body::stream(events(follower, start)));
    *response.status_mut() = StatusCode::OK;
    let content_type = HeaderValue::from_static(Format::Json.media_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
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
    form: Representation,
    selection: Selection,
    columns_sent: bool,
    bookmarks: bool,
    ends: Instant,
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

enum Phase {
    Begin(Start),
    List(Listing),
    Follow(Watcher, Interval),
    End,
}

/// The lines of a watch. Each item holds everything that is ready, so that a busy watch writes few, large chunks.
fn events(follower: Follower, start: Start) -> impl Stream<Item = Bytes> + Send + 'static {
    let counted = Counted::new(follower.call.clone());
    futures::stream::unfold(
        (follower, Phase::Begin(start), counted),
        |(mut follower, phase, counted)| async move {
            let (chunk, phase) = match phase {
                Phase::Begin(start) => follower.begin(start).await,
                Phase::List(listing) => follower.list(listing).await,
                Phase::Follow(watcher, clock) => follower.follow(watcher, clock).await,
                Phase::End => return None,
            };
            Some((chunk, (follower, phase, counted)))
        },
    )
}

impl Follower {
    async fn begin(&mut self, start: Start) -> (Bytes, Phase) {
        match start {
            Start::Failed(status) => (error_event(&status), Phase::End),
            Start::Changes(watcher) => (Bytes::new(), self.following(watcher)),
            Start::List(listing) => self.list(listing).await,
        }
    }

    async fn list(&mut self, mut listing: Listing) -> (Bytes, Phase) {
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
        let lines = match self.lines(seen).await {
            Ok(lines) => lines,
            Err(status) => return (error_event(&status), Phase::End),
        };
        if listing.objects.len() > 0 {
            return (lines, Phase::List(listing));
        }
        let mut lines = Vec::from(lines);
        if listing.end_marker {
            lines.extend_from_slice(&self.bookmark(listing.revision, true));
        }
        (lines.into(), self.following(listing.watcher))
    }

    fn following(&self, watcher: Watcher) -> Phase {
        let mut clock = tokio::time::interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Phase::Follow(watcher, clock)
    }

    async fn follow(&mut self, mut watcher: Watcher, mut clock: Interval) -> (Bytes, Phase) {
        let stop = self.call.state.stop.clone();
        let before_end = self.ends.checked_sub(BEFORE_END).unwrap_or(self.ends);
        loop {
            let progress = self.call.state.caches.progress();
            tokio::select! {
                biased;
                () = stop.cancelled() => return (Bytes::new(), Phase::End),
                next = watcher.next() => match next {
                    Next::Changes(changes) => match self.lines(self.seen(&changes)).await {
                        Ok(lines) if lines.is_empty() => {}
                        Ok(lines) => return (lines, Phase::Follow(watcher, clock)),
                        Err(status) => return (error_event(&status), Phase::End),
                    },
                    Next::Lagged { since } => {
                        let status = too_old(since, since);
                        return (error_event(&status), Phase::End);
                    }
                    Next::Closed => return (Bytes::new(), Phase::End),
                },
                _ = clock.tick(), if self.bookmarks => {
                    return (self.bookmark(progress, false), Phase::Follow(watcher, clock));
                }
                () = tokio::time::sleep_until(before_end), if self.bookmarks && Instant::now() < before_end => {
                    return (self.bookmark(progress, false), Phase::Follow(watcher, clock));
                }
                () = tokio::time::sleep_until(self.ends) => return (Bytes::new(), Phase::End),
            }
        }
    }

    /// What changes are to this watch.
    fn seen(&self, changes: &[Arc<Change>]) -> Vec<Seen> {
        let mut seen = Vec::new();
        for change in changes {
            if let Some((kind, object)) = change.seen_by(|object| self.selection.matches(object)) {
                seen.push((kind, object));
            }
        }
        seen
    }

    /// The events as lines; what can be sent as it is stored is not parsed.
    async fn lines(&mut self, seen: Vec<Seen>) -> Result<Bytes, Status> {
        let mut out = Vec::with_capacity(seen.iter().map(|(_, object)| object.size() + 40).sum());
        let shape = self.form.shape;
        if self.call.served.serves_stored_bytes() && !matches!(shape, Shape::Table(_)) {
            for (kind, object) in seen {
                encode_event(&mut out, kind.as_str(), |out| match shape {
                    Shape::PartialMetadata(version) => write_partial(out, &object, version),
                    _ => object.write_to(out),
                });
            }
            return Ok(out.into());
        }
        let mut values: Vec<Value> = seen.iter().map(|(_, object)| object.to_value()).collect();
        self.call.served.all_from_storage(&mut values).await?;
        for ((kind, _), value) in seen.iter().zip(values) {
            let shown = self.shaped(value).to_string();
            encode_event(&mut out, kind.as_str(), |out| out.extend_from_slice(shown.as_bytes()));
        }
        Ok(out.into())
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

    fn bookmark(&mut self, revision: i64, initial_end: bool) -> Bytes {
        let mut object = self.call.served.strategy.empty(&self.call.served.gvk);
        object["metadata"] = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = self.shaped(object);
        encode("BOOKMARK", &shown)
    }
}

fn error_event(status: &Status) -> Bytes {
    encode("ERROR", &status.to_value())
}

fn encode(kind: &str, object: &Value) -> Bytes {
    let (mut out, text) = (Vec::new(), object.to_string());
    encode_event(&mut out, kind, |out| out.extend_from_slice(text.as_bytes()));
    out.into()
}

/// What [`present::partial`] makes of an object, without parsing it.
fn write_partial(out: &mut Vec<u8>, object: &StoredObject, version: &str) {
    let head =
        format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",");
    out.extend_from_slice(head.as_bytes());
    object.write_metadata_to(out);
    out.push(b'}');
}
