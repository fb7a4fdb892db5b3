//! Requests about the objects of one resource, as JSON trees.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::{Method, Request, header};
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::value::Text;
use karmada_apimachinery::{Value, json};
use karmada_handover::{Asked, Content, TakesEvents, Watched};
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

    fn accept(&self) -> &'static str {
        if self.metadata_only { METADATA } else { JSON }
    }

    /// A request about the resource, one object of it, or a subresource.
    fn asked(&self, method: Method, name: &str, subresource: &str) -> Asked {
        Asked {
            method,
            group: self.gvr.group.as_str().into(),
            version: self.gvr.version.as_str().into(),
            resource: self.gvr.resource.as_str().into(),
            namespace: self.namespace.as_deref().map(Text::from).unwrap_or_default(),
            name: name.into(),
            subresource: subresource.into(),
            query: Vec::new(),
            accept: self.accept(),
            content: None,
            agent: None,
        }
    }

    fn path(&self, name: &str, subresource: &str) -> String {
        path(&self.gvr, self.namespace.as_deref(), name, subresource)
    }

    async fn send(&self, asked: Asked) -> Result<Value> {
        let (method, name, below) =
            (asked.method.clone(), asked.name.clone(), asked.subresource.clone());
        let attempt = || format!("{method} {}", self.path(&name, &below));
        let text = match self.client.ask(asked, attempt).await? {
            Content::Tree(value) => return Ok(value),
            Content::Text(text) => text,
        };
        let read = if self.slim { slim::parse(&text) } else { serde_json::from_slice(&text) };
        read.map_err(|source| Error::Decode { attempt: attempt(), source })
    }

    /// Sends a request with a body.
    async fn send_with(
        &self,
        asked: Asked,
        media_type: &'static str,
        content: Content,
    ) -> Result<Value> {
        self.send(Asked { content: Some((media_type, content)), ..asked }).await
    }

    pub async fn get(&self, name: &str) -> Result<Value> {
        self.send(self.asked(Method::GET, name, "")).await
    }

    /// Reads a subresource such as `scale`.
    pub async fn get_subresource(&self, name: &str, subresource: &str) -> Result<Value> {
        self.send(self.asked(Method::GET, name, subresource)).await
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
        self.create_owned(object.clone()).await
    }

    /// Creates an object that the caller has no more use for.
    pub async fn create_owned(&self, object: Value) -> Result<Value> {
        self.send_with(self.asked(Method::POST, "", ""), JSON, Content::Tree(object)).await
    }

    /// Creates an object that is text already.
    pub async fn create_text(&self, object: Bytes) -> Result<Value> {
        self.send_with(self.asked(Method::POST, "", ""), JSON, Content::Text(object)).await
    }

    /// Posts to a subresource such as `token` or `eviction`.
    pub async fn create_subresource(
        &self,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value> {
        let asked = self.asked(Method::POST, name, subresource);
        self.send_with(asked, JSON, Content::Tree(object.clone())).await
    }

    /// Replaces the object; a resource version in it makes sure nothing else is overwritten.
    pub async fn update(&self, object: &Value) -> Result<Value> {
        self.update_subresource(object, "").await
    }

    pub async fn update_subresource(&self, object: &Value, subresource: &str) -> Result<Value> {
        let asked = self.asked(Method::PUT, object.name(), subresource);
        self.send_with(asked, JSON, Content::Tree(object.clone())).await
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
        let (media_type, value) = match patch {
            Patch::Json(value) => (JSON_PATCH, value),
            Patch::Merge(value) => (MERGE_PATCH, value),
            Patch::Strategic(value) => ("application/strategic-merge-patch+json", value),
            Patch::Apply(value) => ("application/apply-patch+yaml", value),
        };
        let mut asked = self.asked(Method::PATCH, name, subresource);
        asked.query = given([
            ("fieldManager", &options.field_manager),
            ("force", if options.force { "true" } else { "" }),
            ("dryRun", if options.dry_run { "All" } else { "" }),
            ("fieldValidation", options.field_validation),
        ]);
        self.send_with(asked, media_type, Content::Tree(value.clone())).await
    }

    pub async fn merge_patch(&self, name: &str, patch: Value) -> Result<Value> {
        let asked = self.asked(Method::PATCH, name, "");
        self.send_with(asked, MERGE_PATCH, Content::Tree(patch)).await
    }

    /// Changes the status by the operations of a JSON patch.
    pub async fn json_patch_status(&self, name: &str, operations: Value) -> Result<Value> {
        let asked = self.asked(Method::PATCH, name, "status");
        self.send_with(asked, JSON_PATCH, Content::Tree(operations)).await
    }

    pub async fn merge_patch_status(&self, name: &str, patch: Value) -> Result<Value> {
        let asked = self.asked(Method::PATCH, name, "status");
        self.send_with(asked, MERGE_PATCH, Content::Tree(patch)).await
    }

    /// Makes the fields of `object` those of `manager`, taking them from others if need be.
    pub async fn apply(&self, object: &Value, manager: &str) -> Result<Value> {
        let options =
            PatchOptions { field_manager: manager.to_owned(), force: true, ..Default::default() };
        self.patch(object.name(), &Patch::Apply(object.clone()), &options).await
    }

    /// Deletes an object. The answer is the object while it is being deleted, else a `Status`.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Value> {
        let asked = self.asked(Method::DELETE, name, "");
        self.send_with(asked, JSON, Content::Tree(options.to_value())).await
    }

    pub async fn delete_collection(
        &self,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Value> {
        let asked = Asked { query: list.query(), ..self.asked(Method::DELETE, "", "") };
        self.send_with(asked, JSON, Content::Tree(options.to_value())).await
    }

    /// Reads one page.
    pub async fn list(&self, options: &ListOptions) -> Result<List> {
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        let asked = Asked { query: options.query(), accept, ..self.asked(Method::GET, "", "") };
        let attempt = || format!("GET {}", self.path("", ""));
        let text = match self.client.ask(asked, attempt).await? {
            Content::Tree(value) => Bytes::from(value.to_text()),
            Content::Text(text) => text,
        };
        parse_list(&text, self.slim).map_err(|source| {
            let query = options.query();
            let query = Query::of(query.iter().map(|(key, value)| (*key, value.as_str())));
            let attempt = format!("GET {}", query.append_to(self.path("", "")));
            Error::Decode { attempt, source }
        })
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
            request.extensions_mut().insert(TakesEvents);
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

/// The parameters that have a value.
fn given<const N: usize>(parameters: [(&'static str, &str); N]) -> Vec<(&'static str, String)> {
    let given = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(key, value)| (key, value.to_owned())).collect()
}

impl ListOptions {
    fn query(&self) -> Vec<(&'static str, String)> {
        given([
            ("labelSelector", &self.label_selector),
            ("fieldSelector", &self.field_selector),
            ("limit", &self.limit.map(|limit| limit.to_string()).unwrap_or_default()),
            ("continue", &self.continue_token),
            ("resourceVersion", &self.resource_version),
            ("resourceVersionMatch", &self.resource_version_match),
        ])
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
