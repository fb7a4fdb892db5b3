//! The record of one request, written a line at each stage the policy wants.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_micro_time;
use karmada_apimachinery::{Value, decode, json};
use parking_lot::Mutex;
use serde::Serialize;

use super::Audit;
use super::policy::{Level, Stage, Wanted};
use crate::auth::{Clock, Identity};
use crate::http::body::{self, Body};
use crate::http::listener::PeerAddress;
use crate::routes::Target;

/// An event as it is written, fields in the order Kubernetes writes them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: &'static str,
    user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// What the request is about.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// A request on its way. One that is dropped before it was answered is recorded as well.
pub(crate) struct Record {
    audit: Arc<Audit>,
    wanted: Wanted,
    clock: Clock,
    event: Mutex<Event>,
}

impl Record {
    pub(super) fn new(
        audit: Arc<Audit>,
        wanted: Wanted,
        (parts, audit_id): (&Parts, &str),
        target: &Target,
        clock: &Clock,
    ) -> Self {
        let agent = parts.headers.get(USER_AGENT).map(|agent| agent.as_bytes());
        let uri = parts.uri.path_and_query().map(ToString::to_string);
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: wanted.level,
            audit_id: audit_id.to_owned(),
            stage: Stage::RequestReceived,
            request_uri: uri.unwrap_or_else(|| parts.uri.path().to_owned()),
            verb: target.verb,
            user: json!({}),
            impersonated_user: None,
            source_ips: source_addresses(parts),
            user_agent: String::from_utf8_lossy(agent.unwrap_or_default()).into_owned(),
            object_ref: target.is_resource.then(|| ObjectRef {
                resource: target.resource.to_string(),
                namespace: target.namespace.to_string(),
                name: target.name.to_string(),
                api_group: target.group.to_string(),
                api_version: target.version.to_string(),
                subresource: target.subresource.to_string(),
                ..ObjectRef::default()
            }),
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: format_micro_time(clock()),
            stage_timestamp: String::new(),
            annotations: BTreeMap::new(),
        };
        Self { audit, wanted, clock: clock.clone(), event: Mutex::new(event) }
    }

    pub(super) fn is_from(&self, user: &Identity) {
        self.event.lock().user = user_info(user);
    }

    pub(crate) fn acts_as(&self, user: &Identity) {
        self.event.lock().impersonated_user = Some(user_info(user));
    }

    pub(crate) fn annotate(&self, key: &str, value: String) {
        self.event.lock().annotations.insert(key.to_owned(), value);
    }

    pub(super) fn received(&self) {
        self.write(Stage::RequestReceived);
    }

    /// The answer to somebody unknown is a refusal, and logged as it starts.
    pub(super) fn turned_away(&self) {
        self.event.lock().response_status = Some(json!({
            "metadata": {}, "status": "Failure", "reason": "Unauthorized", "code": 401,
            "message": "Authentication failed"
        }));
        self.write(Stage::ResponseStarted);
        self.event.lock().stage = Stage::ResponseComplete;
    }

    /// Takes what the policy wants of the request's body.
    pub(crate) fn request(&self, headers: &HeaderMap, bytes: &Bytes) {
        let nameless = self.event.lock().object_ref.as_ref().is_some_and(|o| o.name.is_empty());
        let wants_object = self.wanted.level >= Level::Request;
        if bytes.is_empty() || !(wants_object || nameless) {
            return;
        }
        let Some(object) = read(headers, bytes) else { return };
        let mut event = self.event.lock();
        if let Some(about) = event.object_ref.as_mut().filter(|about| about.name.is_empty()) {
            about.name = object.name().to_owned();
            let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
            about.uid = text(&["metadata", "uid"]);
            about.resource_version = text(&["metadata", "resourceVersion"]);
        }
        if wants_object {
            event.request_object = Some(self.shown(object));
        }
    }

    /// Records the answer; one that goes on for long is complete when its last byte is sent.
    pub(crate) async fn answered(
        self: Arc<Self>,
        response: Response<Body>,
        long_running: bool,
    ) -> Response<Body> {
        let code = response.status().as_u16();
        self.event.lock().response_status = Some(json!({"metadata": {}, "code": code}));
        if response.body().size_hint().exact().is_none() {
            if long_running {
                self.write(Stage::ResponseStarted);
            }
            return response.map(|body| Told { body, record: self }.boxed_unsync());
        }
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        self.look_at(&parts.headers, code, &bytes);
        self.write(Stage::ResponseComplete);
        Response::from_parts(parts, body::full(bytes))
    }

    fn look_at(&self, headers: &HeaderMap, code: u16, bytes: &Bytes) {
        let wants_object = self.wanted.level == Level::RequestResponse;
        if !(wants_object || code >= 400) {
            return;
        }
        let Some(object) = read(headers, bytes) else { return };
        let mut event = self.event.lock();
        if object.kind() == "Status" && code >= 400 {
            let mut status = object.clone();
            if let Some(fields) = status.as_object_mut() {
                fields.retain(|key, _| key != "kind" && key != "apiVersion");
            }
            event.response_status = Some(status);
        }
        if wants_object {
            event.response_object = Some(self.shown(object));
        }
    }

    fn shown(&self, mut object: Value) -> Value {
        if self.wanted.omit_managed_fields {
            drop_managed_fields(&mut object);
            if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
                items.iter_mut().for_each(drop_managed_fields);
            }
        }
        object
    }

    fn write(&self, stage: Stage) {
        let mut event = self.event.lock();
        event.stage = stage;
        if !self.wanted.includes(stage) {
            return;
        }
        let now = (self.clock)();
        event.stage_timestamp = format_micro_time(now);
        let written = serde_json::to_vec(&*event).map_err(std::io::Error::other);
        let written = written.and_then(|mut line| {
            line.push(b'\n');
            self.audit.log.write(&line, now)
        });
        if let Err(error) = written {
            tracing::error!(%error, id = event.audit_id, "an audit event was not written");
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.event.lock().stage == Stage::ResponseComplete {
            return;
        }
        if std::thread::panicking() {
            self.event.lock().response_status = Some(json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            }));
            self.write(Stage::Panic);
        } else {
            // The client went away, before the answer or in the middle of it.
            self.write(Stage::ResponseComplete);
        }
    }
}

/// An answer without an end in sight; its record ends with it.
struct Told {
    body: Body,
    record: Arc<Record>,
}

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.record.write(Stage::ResponseComplete);
    }
}

fn user_info(user: &Identity) -> Value {
    let mut info = json!({"username": user.user});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Where the request says it comes from, then where it does come from.
fn source_addresses(parts: &Parts) -> Vec<String> {
    let forwarded = parts.headers.get_all("x-forwarded-for").iter();
    let mut addresses: Vec<String> = forwarded
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|part| part.trim().parse::<std::net::IpAddr>().ok())
        .map(|address| address.to_string())
        .collect();
    if let Some(PeerAddress(peer)) = parts.extensions.get() {
        let peer = peer.ip().to_canonical().to_string();
        if addresses.last() != Some(&peer) {
            addresses.push(peer);
        }
    }
    addresses
}

/// A body as a tree, whatever it is written in; nothing if it cannot be read.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Option<Value> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim() {
        "application/vnd.kubernetes.protobuf" => karmada_kinds::schema::decode_protobuf(bytes).ok(),
        "application/yaml" | "application/apply-patch+yaml" => {
            decode::yaml_untyped(bytes).ok().map(|decoded| decoded.value)
        }
        _ => serde_json::from_slice(bytes).ok(),
    }
}

fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
