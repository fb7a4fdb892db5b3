//! Requests about the objects of one resource, as JSON trees.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::{Method, Request, header};
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_handover::{Sent, Watched};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connect::Client;
use crate::error::{ApiError, Error, Result};
use crate::object::Object;
use crate::request::{Query, path};
use crate::slim;
use crate::watch::{WatchStream, events, handed_events};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Asks for metadata alone; servers that cannot answer with it send the whole object.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: Option<u64>,
    pub continue_token: String,
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`.
    pub resource_version_match: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WatchOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    /// Begins with the objects that exist and a bookmark behind the last of them.
    pub initial_events: bool,
    pub timeout_seconds: Option<u64>,
}

/// What becomes of the objects an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub grace_period_seconds: Option<u64>,
}

impl DeleteOptions {
    fn to_value(&self) -> Value {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = format!("{propagation:?}").into();
        }
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(uid) = &self.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &self.resource_version {
            options["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        options
    }
}

/// A change to an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    /// Server-side apply: the fields this manager wants.
    Apply(Value),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchOptions {
    pub field_manager: String,
    pub force: bool,
    pub dry_run: bool,
    /// `Strict`, `Warn` or `Ignore`; empty leaves it to the server.
    pub field_validation: &'static str,
}

/// What a request carries. A server of the same process takes trees as they are, so those that nobody
/// else needs are not copied.
enum Content<'a> {
    Tree(Cow<'a, Value>),
    Text(Bytes),
}

impl<'a> From<&'a Value> for Content<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Tree(Cow::Borrowed(value))
    }
}

impl From<Value> for Content<'_> {
    fn from(value: Value) -> Self {
        Self::Tree(Cow::Owned(value))
    }
}

/// A page of objects.
#[derive(Debug, Clone, Default)]
pub struct List {
    pub items: Vec<Arc<Object>>,
    pub resource_version: String,
    /// Empty on the last page.
    pub continue_token: String,
}

/// Requests about one resource, in one namespace or in all.
#[derive(Clone)]
pub struct Api {
    client: Client,
    gvr: Gvr,
    namespace: Option<String>,
    metadata_only: bool,
    slim: bool,
}

impl Api {
    pub(crate) fn new(client: Client, gvr: Gvr) -> Self {
        Self { client, gvr, namespace: None, metadata_only: false, slim: false }
    }

    /// Leaves the record of who wrote which field out of answers that come as text.
    pub fn slim(mut self) -> Self {
        self.slim = true;
        self
    }

    /// Narrows the requests to a namespace; the empty one stands for none.
    pub fn namespaced(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Reads nothing but metadata from now on.
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    pub fn gvr(&self) -> &Gvr {
        &self.gvr
    }

    fn path(&self, name: &str, subresource: &str) -> String {
        path(&self.gvr, self.namespace.as_deref(), name, subresource)
    }

    fn accept(&self) -> &'static str {
        if self.metadata_only { METADATA } else { JSON }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: Option<(&str, Content<'_>)>,
    ) -> Result<Value> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::ACCEPT, self.accept());
        let mut sent = Sent::default();
        let mut body = Body::empty();
        let beside = self.client.is_beside();
        if let Some((content_type, content)) = content {
            request = request.header(header::CONTENT_TYPE, content_type);
            match content {
                Content::Tree(value) if beside => sent.body = Some(Arc::new(value.into_owned())),
                Content::Tree(value) => body = Body::from(value.to_string().into_bytes()),
                Content::Text(text) => body = Body::from(text),
            }
        }
        let request = if beside { request.extension(sent) } else { request }.body(body);
        let request = request.map_err(|error| Error::transport(path, error))?;
        match self.slim {
            true => self.client.request_slim(request).await,
            false => self.client.request_json(request).await,
        }
    }

    pub async fn get(&self, name: &str) -> Result<Value> {
        self.send(Method::GET, &self.path(name, ""), None).await
    }

    /// Reads a subresource such as `scale`.
    pub async fn get_subresource(&self, name: &str, subresource: &str) -> Result<Value> {
        self.send(Method::GET, &self.path(name, subresource), None).await
    }

    /// Returns the object, or nothing if there is none.
    pub async fn find(&self, name: &str) -> Result<Option<Value>> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, object: &Value) -> Result<Value> {
        self.send(Method::POST, &self.path("", ""), Some((JSON, object.into()))).await
    }

    /// Creates an object that the caller has no more use for.
    pub async fn create_owned(&self, object: Value) -> Result<Value> {
        self.send(Method::POST, &self.path("", ""), Some((JSON, object.into()))).await
    }

    /// Creates an object that is text already.
    pub async fn create_text(&self, object: Bytes) -> Result<Value> {
        let content = Content::Text(object);
        self.send(Method::POST, &self.path("", ""), Some((JSON, content))).await
    }

    /// Posts to a subresource such as `token` or `eviction`.
    pub async fn create_subresource(
        &self,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value> {
        self.send(Method::POST, &self.path(name, subresource), Some((JSON, object.into()))).await
    }

    /// Replaces the object; a resource version in it makes sure nothing else is overwritten.
    pub async fn update(&self, object: &Value) -> Result<Value> {
        self.update_subresource(object, "").await
    }

    pub async fn update_subresource(&self, object: &Value, subresource: &str) -> Result<Value> {
        let path = self.path(object.name(), subresource);
        self.send(Method::PUT, &path, Some((JSON, object.into()))).await
    }

    pub async fn patch(&self, name: &str, patch: &Patch, options: &PatchOptions) -> Result<Value> {
        self.patch_subresource(name, "", patch, options).await
    }

    pub async fn patch_subresource(
        &self,
        name: &str,
        subresource: &str,
        patch: &Patch,
        options: &PatchOptions,
    ) -> Result<Value> {
        let (content_type, value) = match patch {
            Patch::Json(value) => (JSON_PATCH, value),
            Patch::Merge(value) => (MERGE_PATCH, value),
            Patch::Strategic(value) => ("application/strategic-merge-patch+json", value),
            Patch::Apply(value) => ("application/apply-patch+yaml", value),
        };
        let mut query = Query::default();
        query.add("fieldManager", &options.field_manager).flag("force", options.force);
        query.add("dryRun", if options.dry_run { "All" } else { "" });
        query.add("fieldValidation", options.field_validation);
        let path = query.append_to(self.path(name, subresource));
        self.send(Method::PATCH, &path, Some((content_type, value.into()))).await
    }

    pub async fn merge_patch(&self, name: &str, patch: Value) -> Result<Value> {
        self.send(Method::PATCH, &self.path(name, ""), Some((MERGE_PATCH, patch.into()))).await
    }

    /// Changes the status by the operations of a JSON patch.
    pub async fn json_patch_status(&self, name: &str, operations: Value) -> Result<Value> {
        let path = self.path(name, "status");
        self.send(Method::PATCH, &path, Some((JSON_PATCH, operations.into()))).await
    }

    pub async fn merge_patch_status(&self, name: &str, patch: Value) -> Result<Value> {
        let path = self.path(name, "status");
        self.send(Method::PATCH, &path, Some((MERGE_PATCH, patch.into()))).await
    }

    /// Makes the fields of `object` those of `manager`, taking them from others if need be.
    pub async fn apply(&self, object: &Value, manager: &str) -> Result<Value> {
        let options =
            PatchOptions { field_manager: manager.to_owned(), force: true, ..Default::default() };
        self.patch(object.name(), &Patch::Apply(object.clone()), &options).await
    }

    /// Deletes an object. The answer is the object while it is being deleted, else a `Status`.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Value> {
        self.send(Method::DELETE, &self.path(name, ""), Some((JSON, options.to_value().into())))
            .await
    }

    pub async fn delete_collection(
        &self,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Value> {
        let path = list.query().append_to(self.path("", ""));
        self.send(Method::DELETE, &path, Some((JSON, options.to_value().into()))).await
    }

    /// Reads one page.
    pub async fn list(&self, options: &ListOptions) -> Result<List> {
        let path = options.query().append_to(self.path("", ""));
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        let request = Request::get(&path).header(header::ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|error| Error::transport(path.as_str(), error))?;
        let bytes = self.client.request_bytes(request).await?;
        parse_list(&bytes, self.slim)
            .map_err(|source| Error::Decode { attempt: format!("GET {path}"), source })
    }

    /// Reads all pages.
    pub async fn list_all(&self, options: &ListOptions) -> Result<List> {
        let mut options = ListOptions { limit: options.limit.or(Some(500)), ..options.clone() };
        let mut all = List::default();
        loop {
            let page = self.list(&options).await?;
            all.items.extend(page.items);
            all.resource_version = page.resource_version;
            if page.continue_token.is_empty() {
                return Ok(all);
            }
            options.continue_token = page.continue_token;
            // The token carries them.
            options.resource_version.clear();
            options.resource_version_match.clear();
        }
    }

    pub async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        let path = options.query().append_to(self.path("", ""));
        let request = Request::get(&path)
            .header(header::ACCEPT, self.accept())
            // Servers that compress each event on its own are not understood by all decoders.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Body::empty());
        let mut request = request.map_err(|error| Error::transport(path.as_str(), error))?;
        if self.client.is_beside() {
            request.extensions_mut().insert(Sent::default());
        }
        let mut response = self.client.send(request).await?;
        let attempt = format!("watch {path}");
        let watched = response.extensions_mut().remove::<Watched>();
        let events = match watched.and_then(|watched| watched.take()) {
            Some(handed) => handed_events(handed, attempt),
            None => events(response.into_body(), attempt, self.slim),
        };
        Ok(match self.client.warden() {
            Some(warden) => until(events, warden.watch_end()),
            None => events,
        })
    }
}

/// Events until something ends them; what they missed by then has to be read again.
fn until(events: WatchStream, end: BoxFuture<'static, ()>) -> WatchStream {
    stream::unfold(Some((events, end)), async |state| {
        let (mut events, mut end) = state?;
        tokio::select! {
            biased;
            () = &mut end => {
                let message = "the connection was lost for a while".to_owned();
                let reason = "Expired".to_owned();
                let gone = ApiError { code: 410, reason, message, ..ApiError::default() };
                Some((Err(Error::Api(Box::new(gone))), None))
            }
            event = events.next() => Some((event?, Some((events, end)))),
        }
    })
    .boxed()
}

impl ListOptions {
    fn query(&self) -> Query {
        let mut query = Query::default();
        query
            .add("labelSelector", &self.label_selector)
            .add("fieldSelector", &self.field_selector)
            .number("limit", self.limit)
            .add("continue", &self.continue_token)
            .add("resourceVersion", &self.resource_version)
            .add("resourceVersionMatch", &self.resource_version_match);
        query
    }
}

impl WatchOptions {
    fn query(&self) -> Query {
        let mut query = Query::default();
        query
            .flag("watch", true)
            .flag("allowWatchBookmarks", true)
            .add("labelSelector", &self.label_selector)
            .add("fieldSelector", &self.field_selector)
            .add("resourceVersion", &self.resource_version)
            .number("timeoutSeconds", self.timeout_seconds);
        if self.initial_events {
            query.flag("sendInitialEvents", true).add("resourceVersionMatch", "NotOlderThan");
        }
        query
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    r#continue: String,
}

fn parse_list(bytes: &Bytes, slim: bool) -> serde_json::Result<List> {
    let page: Page<'_> = serde_json::from_slice(bytes)?;
    // Items of a list leave out their kind; it is the kind of the list without the last word.
    let kind = page.kind.strip_suffix("List").unwrap_or(&page.kind);
    let gvk: Gvk = GroupVersion::parse(&page.api_version).unwrap_or_default().with_kind(kind);
    let items = page.items.unwrap_or_default().into_iter();
    let item = |raw: &RawValue| {
        let text = raw.get().as_bytes();
        let text = if slim { slim::cut(text) } else { text.into() };
        Object::from_text(&text, &gvk).map(Arc::new)
    };
    Ok(List {
        items: items.map(item).collect::<serde_json::Result<_>>()?,
        resource_version: page.metadata.resource_version,
        continue_token: page.metadata.r#continue,
    })
}
