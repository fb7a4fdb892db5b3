//! A watch across clusters: what exists, then what changes, one JSON object per line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::http::body::{self, Body};
use karmada_apiserver::http::query::Query;
use karmada_client::Object;
use karmada_runtime::{Change, Shutdown};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::feed::{Event, Feed, Found};
use super::present::{Answered, Presenter, STREAM};
use super::read::{Read, Selection};
use super::versions::{Versions, mark_source};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts that names no time; upstream takes between this and twice as much.
const LASTS: Duration = Duration::from_secs(1800);

/// An open watch.
struct Follower {
    feed: Arc<Feed>,
    selection: Selection,
    presenter: Presenter,
    objects: std::vec::IntoIter<Found>,
    /// Tell that all that existed has been sent.
    marks_end: bool,
    missed: VecDeque<Arc<Event>>,
    events: Receiver<Arc<Event>>,
    versions: Versions,
    bookmarks: Option<Interval>,
    ends: Instant,
    shutdown: Shutdown,
    sent_any: bool,
}

pub(super) fn watch(read: &Read, shutdown: Shutdown) -> Result<Response<Body>, Status> {
    let presenter = read.presenter(&Answered::Events)?;
    let selection = Selection::read(&read.query, &read.path, read.served.as_ref())?;
    let lasts = lasts(&read.query)?;
    let wants_all = read.query.flag("sendInitialEvents") == Some(true);
    let asked = read.query.get("resourceVersion").unwrap_or_default();
    let from = if wants_all { Versions::default() } else { Versions::parse(asked) };
    let start = read
        .feed
        .watch(&from, &selection.namespace)
        .map_err(|_| Status::expired(format!("too old resource version: {asked}")))?;
    let bookmarks = (read.query.flag("allowWatchBookmarks") == Some(true)).then(|| {
        let mut every = tokio::time::interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every
    });
    let follower = Follower {
        feed: read.feed.clone(),
        selection,
        presenter,
        objects: start.objects.into_iter(),
        marks_end: wants_all,
        missed: start.missed.into(),
        events: start.events,
        versions: start.versions,
        bookmarks,
        ends: Instant::now() + lasts,
        shutdown,
        sent_any: false,
    };
    let mut response = Response::new(body::stream(lines(follower)));
    *response.status_mut() = StatusCode::OK;
    let content_type = HeaderValue::from_static(STREAM.media_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

fn lasts(query: &Query) -> Result<Duration, Status> {
    let Some(text) = query.non_empty("timeoutSeconds") else { return Ok(LASTS) };
    match text.parse() {
        Ok(0) => Ok(LASTS),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => Err(Status::bad_request(format!("timeoutSeconds {text:?} is not a number"))),
    }
}

fn lines(follower: Follower) -> impl Stream<Item = Bytes> {
    stream::unfold(follower, |mut follower| async move {
        let line = follower.next().await?;
        Some((line, follower))
    })
}

impl Follower {
    /// The next line; nothing once the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        while let Some((cluster, object)) = self.objects.next() {
            if self.selection.matches(&object) {
                return Some(self.line("ADDED", &cluster, &object, object.resource_version()));
            }
        }
        if std::mem::take(&mut self.marks_end) {
            return Some(self.bookmark(true));
        }
        loop {
            let event = match self.missed.pop_front() {
                Some(event) => event,
                None => match self.wait().await? {
                    Some(event) => event,
                    None => return Some(self.bookmark(false)),
                },
            };
            if let Some(line) = self.told(&event) {
                return Some(line);
            }
        }
    }

    /// Waits for an event, or for the time of a bookmark.
    #[allow(clippy::option_option, reason = "over, nothing new, an event")]
    async fn wait(&mut self) -> Option<Option<Arc<Event>>> {
        let Self { events, bookmarks, ends, shutdown, .. } = self;
        let due = async {
            match bookmarks {
                Some(every) => drop(every.tick().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.triggered() => None,
            event = events.recv() => event.map(Some),
            () = tokio::time::sleep_until(*ends) => None,
            () = due => Some(self.catch_up()),
        }
    }

    /// Takes what has been told before how far the clusters are now; then that can be said.
    fn catch_up(&mut self) -> Option<Arc<Event>> {
        let reached = self.feed.versions();
        while let Ok(event) = self.events.try_recv() {
            self.missed.push_back(event);
        }
        match self.missed.pop_front() {
            Some(event) => Some(event),
            None => {
                self.versions = reached;
                None
            }
        }
    }

    /// What an event is to those who see only what they selected.
    fn told(&mut self, event: &Event) -> Option<Bytes> {
        let matches = |object: &Object| self.selection.matches(object);
        let (kind, object, version) = match &event.change {
            Change::Applied { old, new } => {
                let before = old.as_ref().filter(|old| matches(old));
                match (before, matches(new)) {
                    (None, true) => ("ADDED", new, new.resource_version()),
                    (Some(_), true) => ("MODIFIED", new, new.resource_version()),
                    (Some(old), false) => ("DELETED", old, new.resource_version()),
                    (None, false) => return None,
                }
            }
            Change::Deleted(object) if matches(object) => {
                ("DELETED", object, object.resource_version())
            }
            Change::Deleted(_) => return None,
        };
        let line = self.line(kind, &event.cluster, object, version);
        self.versions.advance(&event.cluster, version);
        Some(line)
    }

    fn line(&mut self, kind: &str, cluster: &str, object: &Object, version: &str) -> Bytes {
        let mut value = object.value();
        mark_source(&mut value, cluster, Some(&self.versions.with(cluster, version)));
        let first = !std::mem::replace(&mut self.sent_any, true);
        encode(kind, self.presenter.object(value, first))
    }

    fn bookmark(&self, ends_first_events: bool) -> Bytes {
        encode("BOOKMARK", self.presenter.bookmark(&self.versions.to_string(), ends_first_events))
    }
}

fn encode(kind: &str, object: Value) -> Bytes {
    body::encode_line(&json!({"type": kind, "object": object}))
}
