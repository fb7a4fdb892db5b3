//! One request on its way to its handler: who asks, for what, and what to tell them beside the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::USER_AGENT;
use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::value::Text;
use parking_lot::Mutex;

use crate::audit::Record;
use crate::auth::{Attributes, Identity};
use crate::conversions::Conversions;
use crate::http::negotiate::{self, Offer, Representation, Transforms};
use crate::http::query::Query;
use crate::registry::{Served, Source, Storage};
use crate::routes::Target;
use crate::state::State;

/// The body of a request.
pub(crate) enum Sent {
    Text(Bytes),
    /// From a client of the same process. Whoever reads it last takes it, since copies are expensive.
    Tree(Mutex<Arc<Value>>),
}

impl Clone for Sent {
    fn clone(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.clone()),
            Self::Tree(tree) => Self::tree(tree.lock().clone()),
        }
    }
}

impl Sent {
    pub(crate) fn tree(tree: Arc<Value>) -> Self {
        Self::Tree(Mutex::new(tree))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    pub(crate) fn text(&self) -> Bytes {
        match self {
            Self::Text(text) => text.clone(),
            Self::Tree(tree) => Bytes::from(tree.lock().to_string()),
        }
    }
}

pub(crate) struct Call {
    pub(crate) state: Arc<State>,
    pub(crate) target: Arc<Target>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) user: Arc<Identity>,
    pub(crate) served: Arc<Served>,
    pub(crate) body: Sent,
    /// Whether the answer may be a tree for a reader of the same process.
    pub(crate) hands_over: bool,
    /// What a webhook says of the objects of this request.
    pub(crate) conversions: Conversions,
    warnings: Mutex<Vec<String>>,
    record: Option<Arc<Record>>,
}

impl Call {
    pub(crate) fn new(
        state: Arc<State>,
        (target, query, headers): (Arc<Target>, Query, HeaderMap),
        (user, record): (Arc<Identity>, Option<Arc<Record>>),
        served: Arc<Served>,
        (body, hands_over): (Sent, bool),
    ) -> Self {
        Self {
            state,
            target,
            query,
            headers,
            user,
            served,
            body,
            hands_over,
            conversions: Conversions::default(),
            warnings: Mutex::default(),
            record,
        }
    }

    /// The same request, about another resource of the same namespace.
    pub(crate) fn on(&self, served: Arc<Served>) -> Self {
        Self {
            state: self.state.clone(),
            target: self.target.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            user: self.user.clone(),
            served,
            body: self.body.clone(),
            hands_over: false,
            conversions: Conversions::default(),
            warnings: Mutex::default(),
            record: self.record.clone(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.state.clock)()
    }

    /// The namespace objects of this request live in; empty for cluster-scoped resources.
    pub(crate) fn namespace(&self) -> &str {
        if self.served.namespaced { &self.target.namespace } else { "" }
    }

    pub(crate) fn name(&self) -> &str {
        &self.target.name
    }

    pub(crate) fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The name a write is recorded under where the client gives none.
    pub(crate) fn agent(&self) -> String {
        let name = self.header(USER_AGENT).split('/').next().unwrap_or_default();
        // A header that reads as text is ASCII and has no other control character.
        let mut name = name.replace('\t', "");
        name.truncate(128);
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    pub(crate) fn storage(&self) -> Result<&Arc<Storage>, Status> {
        self.served.storage.as_ref().ok_or_else(Status::method_not_allowed)
    }

    pub(crate) fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Leaves a note for the audit log.
    pub(crate) fn annotate(&self, key: &str, value: String) {
        if let Some(record) = &self.record {
            record.annotate(key, value);
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }

    pub(crate) fn formats(&self) -> &'static [negotiate::Format] {
        if self.served.source == Source::BuiltIn { negotiate::BUILT_IN } else { negotiate::CUSTOM }
    }

    /// Chooses the form of the answer.
    pub(crate) fn negotiate(&self, transforms: Transforms) -> Result<Representation, Status> {
        let offer = Offer { formats: self.formats(), transforms };
        let chosen = negotiate::negotiate(&self.headers, &self.query, offer);
        chosen.map_err(|refusal| match negotiate::asked_metadata(&self.headers) {
            Some("PartialObjectMetadataList") if transforms == Transforms::Object => {
                let kind = self.served.native_name();
                Status::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
                ))
            }
            Some("PartialObjectMetadata") if transforms == Transforms::List => {
                let kind = self.served.native_name();
                Status::not_acceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({kind}List)"
                ))
            }
            _ => refusal,
        })
    }

    /// What authorization is asked about this request; callers adjust what differs.
    pub(crate) fn attributes(&self) -> Attributes {
        attributes(&self.target, self.user.clone())
    }
}

pub(crate) fn attributes(target: &Target, user: Arc<Identity>) -> Attributes {
    Attributes {
        user,
        verb: Text::new_static(target.verb),
        group: target.group.clone(),
        version: target.version.clone(),
        resource: target.resource.clone(),
        subresource: target.subresource.clone(),
        name: target.name.clone(),
        namespace: target.namespace.clone(),
        path: target.path.clone(),
        is_resource: target.is_resource,
    }
}
