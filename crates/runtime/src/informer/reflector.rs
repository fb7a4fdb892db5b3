//! Keeps the cache of an informer equal to the server: reads everything once, follows the changes,
//! resumes where it was when the connection breaks, and reads everything again when the server has
//! forgotten how far that was.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_client::{
    Api, Client, Error, ListOptions, Object, Result, WatchEvent, WatchOptions, WatchStream,
};
use tokio::time::Instant;
use tracing::{Instrument, debug, debug_span, warn};

use super::{Informer, InformerSpec};
use crate::{Backoff, ObjectKey};

/// Pages of the first list, as kube-rs and client-go ask for them.
const PAGE: u64 = 500;

/// The pauses of client-go's reflector.
const PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that was away for longer may have been restored from a backup, with other objects under
/// the versions known: everything is read again.
const TRUSTED_GAP: Duration = Duration::from_secs(30);

/// How a watch came to its end.
enum End {
    /// It can be resumed at the version reached.
    Resume,
    /// What lies between is no longer known; everything has to be read again.
    Relist,
}

struct Reflector {
    api: Api,
    informer: Arc<Informer>,
    backoff: Backoff,
    /// Whether the server sends what exists through the watch itself.
    streams_lists: bool,
    version: String,
    /// Whether a watch that the server ends casts doubt on all it told.
    wary: bool,
}

/// Follows the objects until the future is dropped.
pub(super) async fn run(client: Client, informer: Arc<Informer>, wary: bool) {
    let spec = informer.spec.clone();
    let span = debug_span!("informer", resource = %spec.gvr.group_resource());
    let mut api = client.api(&spec.gvr).namespaced(&spec.namespace);
    if spec.metadata_only {
        api = api.metadata_only();
    }
    if spec.slim {
        api = api.slim();
    }
    let name = format!("{} {}", spec.gvr, spec.namespace);
    let backoff = Backoff::new(PAUSE, LONGEST_PAUSE, &name);
    let reflector =
        Reflector { api, informer, backoff, streams_lists: true, version: String::new(), wary };
    reflector.follow().instrument(span).await;
}

impl Reflector {
    async fn follow(mut self) {
        loop {
            let mut watch = match self.start().await {
                Ok(watch) => watch,
                Err(error) => {
                    self.pause(&error).await;
                    continue;
                }
            };
            loop {
                match self.consume(watch).await {
                    End::Relist => break,
                    End::Resume => {}
                }
                watch = match self.resume().await {
                    Some(watch) => watch,
                    None => break,
                };
            }
        }
    }

    async fn pause(&mut self, error: &Error) {
        let pause = self.backoff.next_delay();
        let again_ms = pause.as_millis();
        if error.is_not_found() {
            // Kinds come and go with their definitions.
            debug!(again_ms, "the resource is not served");
        } else {
            warn!(%error, again_ms, "objects could not be followed");
        }
        tokio::time::sleep(pause).await;
    }

    /// Reads everything and returns the watch behind it.
    async fn start(&mut self) -> Result<WatchStream> {
        if self.streams_lists {
            match self.stream_list().await {
                Ok(watch) => return Ok(watch),
                Err(error) if error.is_invalid() || is_bad_request(&error) => {
                    debug!(%error, "the server does not stream lists");
                    self.streams_lists = false;
                }
                Err(error) => return Err(error),
            }
        }
        let list = self.api.list_all(&list_options(&self.informer.spec)).await?;
        if list.items.is_empty() {
            self.doubt_emptiness().await?;
        }
        self.version = list.resource_version;
        self.informer.replace(list.items, &self.version);
        self.backoff.reset();
        self.watch().await
    }

    /// Takes the first part of a watch for the list; the rest of it is the watch.
    async fn stream_list(&mut self) -> Result<WatchStream> {
        let options = WatchOptions { initial_events: true, ..watch_options(&self.informer.spec) };
        let mut watch = self.api.watch(&options).await?;
        let mut objects: HashMap<ObjectKey, Arc<Object>> = HashMap::new();
        loop {
            match watch.next().await {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    objects.insert(ObjectKey::of(&object), object);
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    objects.remove(&ObjectKey::of(&object));
                }
                Some(Ok(WatchEvent::Bookmark { resource_version, initial_events_end })) => {
                    if initial_events_end {
                        self.version = resource_version;
                        break;
                    }
                }
                Some(Err(error)) => return Err(error),
                None => return Err(cut_off()),
            }
        }
        if objects.is_empty() {
            self.doubt_emptiness().await?;
        }
        let mut objects: Vec<_> = objects.into_values().collect();
        objects.sort_by_cached_key(|object| ObjectKey::of(object));
        self.informer.replace(objects, &self.version);
        self.backoff.reset();
        Ok(watch)
    }

    /// Fails if an answer without objects cannot be true: one that was known is asked for, and is there.
    async fn doubt_emptiness(&self) -> Result<()> {
        let known = self.informer.cache().keys().into_iter().next();
        let Some(known) = known.filter(|_| self.wary) else { return Ok(()) };
        let api = self.api.clone().namespaced(&known.namespace);
        let Some(object) = api.find(&known.name).await? else { return Ok(()) };
        let spec = &self.informer.spec;
        let selector = LabelSelector::parse(&spec.label_selector);
        let is_listed = selector.is_ok_and(|selector| selector.matches_object(&object))
            && spec.field_selector.is_empty();
        if is_listed { Err(untrue(&known)) } else { Ok(()) }
    }

    async fn watch(&self) -> Result<WatchStream> {
        let options = WatchOptions {
            resource_version: self.version.clone(),
            ..watch_options(&self.informer.spec)
        };
        self.api.watch(&options).await
    }

    /// Opens the watch again where it broke off; nothing if that place is gone.
    async fn resume(&mut self) -> Option<WatchStream> {
        let broke_off = Instant::now();
        loop {
            match self.watch().await {
                Ok(_) if broke_off.elapsed() > TRUSTED_GAP => return None,
                Ok(watch) => return Some(watch),
                Err(error) if error.is_expired() => return None,
                // The resource may be gone for good, or be another one when it comes back.
                Err(error) if error.is_not_found() => {
                    self.pause(&error).await;
                    return None;
                }
                Err(error) => self.pause(&error).await,
            }
        }
    }

    async fn consume(&mut self, mut watch: WatchStream) -> End {
        let mut received = false;
        while let Some(event) = watch.next().await {
            match event {
                Ok(event) => {
                    received = true;
                    self.backoff.reset();
                    if self.goes_back(&event) {
                        debug!("versions go back, reading everything again");
                        return End::Relist;
                    }
                    self.accept(event);
                }
                Err(error) if error.is_expired() => return End::Relist,
                Err(error) => {
                    self.pause(&error).await;
                    return self.broken_off();
                }
            }
        }
        if !received {
            // A server that ends watches at once must not be asked without pause.
            tokio::time::sleep(self.backoff.next_delay()).await;
        }
        self.broken_off()
    }

    /// One who may have been told too little before does not build on it.
    fn broken_off(&self) -> End {
        if self.wary { End::Relist } else { End::Resume }
    }

    /// Whether the server tells of a version before the one it told of last, as after it was
    /// restored from a backup.
    fn goes_back(&self, event: &WatchEvent) -> bool {
        let version = match event {
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => object.resource_version(),
            // They may lag behind the events a little.
            WatchEvent::Bookmark { .. } => return false,
        };
        let number = |text: &str| text.parse::<u64>().ok();
        matches!((number(version), number(&self.version)), (Some(now), Some(last)) if now < last)
    }

    fn accept(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version = object.resource_version().to_owned();
                self.informer.apply(object);
            }
            WatchEvent::Deleted(object) => {
                self.version = object.resource_version().to_owned();
                self.informer.delete(&ObjectKey::of(&object), Some(object));
            }
            WatchEvent::Bookmark { resource_version, .. } => self.version = resource_version,
        }
        self.informer.reached(&self.version);
    }
}

fn is_bad_request(error: &Error) -> bool {
    error.api().is_some_and(|error| error.code == 400)
}

fn cut_off() -> Error {
    let source = "the watch ended before everything was sent".into();
    Error::Transport { attempt: "read the list".to_owned(), source }
}

fn untrue(known: &ObjectKey) -> Error {
    let source = format!("the list is empty, but there is {known}").into();
    Error::Transport { attempt: "read the list".to_owned(), source }
}

fn list_options(spec: &InformerSpec) -> ListOptions {
    ListOptions {
        label_selector: spec.label_selector.clone(),
        field_selector: spec.field_selector.clone(),
        limit: Some(PAGE),
        ..ListOptions::default()
    }
}

fn watch_options(spec: &InformerSpec) -> WatchOptions {
    WatchOptions {
        label_selector: spec.label_selector.clone(),
        field_selector: spec.field_selector.clone(),
        ..WatchOptions::default()
    }
}
