//! An API server for one resource, of a few lines, on the in-process transport: list with pages,
//! watch with and without initial events, history that can be forgotten, connections that break.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Body, Client};
use parking_lot::Mutex;

type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;
type Line = Result<Frame<Bytes>, Broken>;

#[derive(Debug, thiserror::Error)]
#[error("connection reset")]
pub(crate) struct Broken;

#[derive(Clone, Default)]
pub(crate) struct FakeServer {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// Everything that ever happened: type and object, by revision.
    log: Vec<(u64, &'static str, Value)>,
    revision: u64,
    compacted: u64,
    watches: Vec<mpsc::UnboundedSender<Line>>,
    refusals: usize,
    no_initial_events: bool,
    requests: HashMap<&'static str, usize>,
}

impl FakeServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        Client::in_process(tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                Ok::<_, Infallible>(server.answer(&parts.method, &parts.uri, &body))
            }
        }))
    }

    pub(crate) fn put(&self, name: &str, value: u64) {
        let mut state = self.state.lock();
        let revision = state.revision + 1;
        let uid = state.objects.get(name).map(|object| object.uid().to_owned());
        let object = json!({"apiVersion": "v1", "kind": "Thing", "value": value, "metadata": {
            "name": name, "uid": uid.clone().unwrap_or_else(|| format!("u{revision}"))}});
        state.write(if uid.is_some() { "MODIFIED" } else { "ADDED" }, object);
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(object) = state.objects.get(name).cloned() {
            state.write("DELETED", object);
        }
    }

    pub(crate) fn objects(&self) -> Vec<Value> {
        self.state.lock().objects.values().cloned().collect()
    }

    pub(crate) fn forget_history(&self) {
        let mut state = self.state.lock();
        state.compacted = state.revision;
    }

    /// Ends all watches, with half a line if `broken`.
    pub(crate) fn cut_watches(&self, broken: bool) {
        for watch in self.state.lock().watches.drain(..) {
            if broken {
                drop(watch.unbounded_send(Ok(Frame::data("{\"type\":\"ADD".into()))));
                drop(watch.unbounded_send(Err(Broken)));
            }
        }
    }

    /// Tells all watches that they are too old.
    pub(crate) fn expire_watches(&self) {
        let line = line("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}));
        for watch in self.state.lock().watches.drain(..) {
            drop(watch.unbounded_send(Ok(Frame::data(line.clone()))));
        }
    }

    pub(crate) fn bookmark(&self) {
        let mut state = self.state.lock();
        let bookmark = bookmark(state.revision, false);
        state.broadcast(&line("BOOKMARK", &bookmark));
    }

    /// Refuses the next requests.
    pub(crate) fn refuse(&self, requests: usize) {
        self.state.lock().refusals = requests;
    }

    pub(crate) fn without_initial_events(self) -> Self {
        self.state.lock().no_initial_events = true;
        self
    }

    pub(crate) fn requests(&self, kind: &str) -> usize {
        self.state.lock().requests.get(kind).copied().unwrap_or_default()
    }

    fn answer(&self, method: &Method, uri: &http::Uri, body: &Value) -> Answer {
        let mut state = self.state.lock();
        let query: HashMap<&str, &str> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let kind = match (method, query.contains_key("watch")) {
            (_, true) => "watch",
            (&Method::GET, _) => "list",
            _ => "write",
        };
        *state.requests.entry(kind).or_default() += 1;
        if state.refusals > 0 {
            state.refusals -= 1;
            return refusal(503, "ServiceUnavailable");
        }
        let name = uri.path().split("/things/").nth(1).unwrap_or_default();
        match *method {
            Method::GET if kind == "watch" => state.watch(&query),
            Method::GET if name.is_empty() => state.list(&query),
            Method::GET => match state.objects.get(name) {
                Some(object) => full(200, object),
                None => refusal(404, "NotFound"),
            },
            _ => state.store(body),
        }
    }
}

impl State {
    fn write(&mut self, kind: &'static str, mut object: Value) -> Value {
        self.revision += 1;
        object.set(&["metadata", "resourceVersion"], self.revision.to_string());
        match kind {
            "DELETED" => drop(self.objects.remove(object.name())),
            _ => drop(self.objects.insert(object.name().to_owned(), object.clone())),
        }
        self.log.push((self.revision, kind, object.clone()));
        self.broadcast(&line(kind, &object));
        object
    }

    fn broadcast(&mut self, line: &Bytes) {
        self.watches.retain(|watch| watch.unbounded_send(Ok(Frame::data(line.clone()))).is_ok());
    }

    /// Creates, or replaces what has the resource version given.
    fn store(&mut self, object: &Value) -> Answer {
        let current = self.objects.get(object.name());
        let given = object.resource_version();
        match current {
            Some(_) if given.is_empty() => refusal(409, "AlreadyExists"),
            Some(current) if current.resource_version() != given => refusal(409, "Conflict"),
            None if !given.is_empty() => refusal(404, "NotFound"),
            Some(_) => full(200, &self.write("MODIFIED", object.clone())),
            None => full(201, &self.write("ADDED", object.clone())),
        }
    }

    /// Pages of two, all of the revision the first page was of.
    fn list(&self, query: &HashMap<&str, &str>) -> Answer {
        let (revision, after) = match query.get("continue") {
            None => (self.revision, ""),
            Some(token) => {
                let (revision, after) = token.split_once('.').unwrap();
                (revision.parse().unwrap(), after)
            }
        };
        if revision < self.compacted {
            return refusal(410, "Expired");
        }
        let mut at_revision: BTreeMap<&str, &Value> = BTreeMap::new();
        for (_, kind, object) in self.log.iter().take_while(|entry| entry.0 <= revision) {
            match *kind {
                "DELETED" => drop(at_revision.remove(object.name())),
                _ => drop(at_revision.insert(object.name(), object)),
            }
        }
        let rest: Vec<_> = at_revision.range(after..).filter(|entry| *entry.0 > after).collect();
        let page: Vec<_> = rest.iter().take(2).map(|entry| entry.1).collect();
        let more = rest.len() > page.len();
        let token = if more { format!("{revision}.{}", page[1].name()) } else { String::new() };
        let list = json!({"apiVersion": "v1", "kind": "ThingList", "items": page,
            "metadata": {"resourceVersion": revision.to_string(), "continue": token}});
        full(200, &list)
    }

    fn watch(&mut self, query: &HashMap<&str, &str>) -> Answer {
        let (sender, receiver) = mpsc::unbounded();
        let send = |line: Bytes| sender.unbounded_send(Ok(Frame::data(line))).unwrap();
        if query.contains_key("sendInitialEvents") {
            if self.no_initial_events {
                return refusal(422, "Invalid");
            }
            self.objects.values().for_each(|object| send(line("ADDED", object)));
            send(line("BOOKMARK", &bookmark(self.revision, true)));
        } else {
            let after: u64 = query.get("resourceVersion").unwrap().parse().unwrap();
            if after < self.compacted {
                return refusal(410, "Expired");
            }
            let missed = self.log.iter().filter(|entry| entry.0 > after);
            missed.for_each(|(_, kind, object)| send(line(kind, object)));
        }
        self.watches.push(sender);
        Response::new(StreamBody::new(receiver).boxed_unsync())
    }
}

fn bookmark(revision: u64, end: bool) -> Value {
    let mut bookmark = json!({"kind": "Thing", "apiVersion": "v1",
        "metadata": {"resourceVersion": revision.to_string()}});
    if end {
        bookmark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    bookmark
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}

fn full(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn refusal(code: u16, reason: &str) -> Answer {
    full(code, &json!({"kind": "Status", "code": code, "reason": reason, "message": reason}))
}
