//! Reads that are answered from the caches: one object, a list page by page, and the plain list of
//! `search/cache`.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use karmada_apimachinery::selector::{FieldSelector, FieldTerm, LabelSelector};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::http::body::Body;
use karmada_apiserver::http::query::Query;
use karmada_apiserver::http::respond;
use karmada_apiserver::registry::Served;
use karmada_client::Object;
use karmada_runtime::{Clock, ObjectKey};

use super::feed::{Feed, Found};
use super::path::ResourcePath;
use super::present::{Answered, Presenter};
use super::versions::{Place, Versions, mark_source};

/// A request for objects of a kind that is kept.
pub(super) struct Read {
    pub(super) feed: Arc<Feed>,
    pub(super) path: ResourcePath,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    /// How the control plane serves the kind, if it does.
    pub(super) served: Option<Arc<Served>>,
    pub(super) clock: Clock,
}

impl Read {
    pub(super) fn presenter(&self, answered: &Answered) -> Result<Presenter, Status> {
        let kind = (self.feed.gvk.clone(), self.served.clone());
        Presenter::new((&self.headers, &self.query), answered, kind, self.clock.clone())
    }

    pub(super) fn get(&self) -> Result<Response<Body>, Status> {
        let presenter = self.presenter(&Answered::Object)?;
        let (cluster, object) = find_one(&self.feed, &self.path)?;
        let versions = Versions::default().with(&cluster, object.resource_version());
        let mut value = object.value();
        mark_source(&mut value, &cluster, Some(&versions));
        let shown = presenter.object(value, true);
        Ok(respond::object(StatusCode::OK, &shown, presenter.form))
    }

    pub(super) fn list(&self) -> Result<Response<Body>, Status> {
        let presenter = self.presenter(&Answered::List)?;
        let selection = Selection::read(&self.query, &self.path, self.served.as_ref())?;
        let limit = match self.query.non_empty("limit") {
            Some(text) => text
                .parse()
                .map_err(|_| Status::bad_request(format!("limit {text:?} is not a number")))?,
            None => 0,
        };
        let from = match self.query.non_empty("continue") {
            Some(token) => {
                let why = "continue key is not valid: it was not given out by this endpoint";
                Some(Place::parse(token).ok_or_else(|| Status::bad_request(why))?)
            }
            None => None,
        };
        let page = page(&self.feed, &selection, limit, from);
        let mut metadata = json!({"resourceVersion": page.versions});
        if let Some(next) = page.next {
            metadata["continue"] = next.token().into();
        }
        let items = page.items.iter().map(|(cluster, object)| marked(cluster, object)).collect();
        let list = presenter.list(items, &metadata);
        Ok(respond::object(StatusCode::OK, &list, presenter.form))
    }

    /// Everything at once, in the form of `search/cache`.
    pub(super) fn everything(&self) -> Result<Value, Status> {
        let labels = parse_labels(&self.query)?;
        let found = match self.path.name.as_str() {
            "" => self.all(&labels),
            // Compat: whoever names an object gets it whatever its labels.
            name => self.feed.get(&ObjectKey::new(self.path.namespace.as_str(), name)),
        };
        let items: Vec<Value> =
            found.iter().map(|(cluster, object)| marked(cluster, object)).collect();
        Ok(json!({
            "kind": format!("{}List", self.feed.gvk.kind),
            "apiVersion": self.feed.gvk.api_version(),
            "metadata": {},
            "items": items,
        }))
    }

    fn all(&self, labels: &LabelSelector) -> Vec<Found> {
        let of_cluster = |cluster: Arc<str>| {
            let objects = self.feed.list(&cluster, &self.path.namespace).into_iter();
            objects.map(move |object| (cluster.clone(), object))
        };
        let found = self.feed.clusters().into_iter().flat_map(of_cluster);
        found.filter(|(_, object)| labels.matches_map(&object.meta().labels)).collect()
    }
}

fn marked(cluster: &str, object: &Object) -> Value {
    let mut value = object.value();
    mark_source(&mut value, cluster, None);
    value
}

/// The object of a name, if exactly one cluster has one.
pub(super) fn find_one(feed: &Feed, path: &ResourcePath) -> Result<Found, Status> {
    let key = ObjectKey::new(path.namespace.as_str(), path.name.as_str());
    let mut found = feed.get(&key);
    let resource = feed.gvr.group_resource();
    match found.len() {
        0 => Err(Status::not_found(&resource, &path.name)),
        1 => Ok(found.remove(0)),
        _ => {
            let clusters: Vec<&str> = found.iter().map(|(cluster, _)| &**cluster).collect();
            let why = format!("ambiguous objects in clusters [{}]", clusters.join(", "));
            Err(Status::conflict(&resource, &path.name, why))
        }
    }
}

/// Which objects a list or watch is about.
pub(super) struct Selection {
    pub(super) namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
    served: Option<Arc<Served>>,
}

impl Selection {
    pub(super) fn read(
        query: &Query,
        path: &ResourcePath,
        served: Option<&Arc<Served>>,
    ) -> Result<Self, Status> {
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields.try_map(|term: FieldTerm| {
            let field = match served {
                Some(served) => served.strategy.canonical_field(&term.field)?,
                None if is_metadata(&term.field) => term.field.clone(),
                None => return Err(format!("field label not supported: {}", term.field)),
            };
            Ok(FieldTerm { field, ..term })
        });
        Ok(Self {
            namespace: path.namespace.clone(),
            labels: parse_labels(query)?,
            fields: fields.map_err(|why: String| Status::bad_request(why))?,
            served: served.cloned(),
        })
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.namespace())
            && self.labels.matches_map(&object.meta().labels)
            && self.matches_fields(object)
    }

    fn matches_fields(&self, object: &Object) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let by_metadata = self.fields.terms().iter().all(|term| is_metadata(&term.field));
        let others = match &self.served {
            Some(served) if !by_metadata => served.strategy.fields(&object.value()),
            _ => Vec::new(),
        };
        self.fields.matches_with(|field| match field {
            "metadata.name" => Some(object.name().to_owned()),
            "metadata.namespace" => Some(object.namespace().to_owned()),
            field => {
                others.iter().find(|(name, _)| &**name == field).map(|(_, value)| value.clone())
            }
        })
    }
}

fn is_metadata(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

fn parse_labels(query: &Query) -> Result<LabelSelector, Status> {
    LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
        .map_err(|error| Status::bad_request(error.to_string()))
}

struct Page {
    items: Vec<Found>,
    versions: String,
    next: Option<Place>,
}

/// Goes through the clusters in the order of their names until the page is full; 0 is no limit.
fn page(feed: &Feed, selection: &Selection, limit: usize, from: Option<Place>) -> Page {
    // Read before the objects: whatever happens meanwhile is told by the watch behind the list.
    let versions = match &from {
        Some(place) => place.rv.clone(),
        None => feed.versions().to_string(),
    };
    let from = from.unwrap_or_default();
    let mut items = Vec::new();
    for cluster in feed.clusters().into_iter().filter(|cluster| **cluster >= *from.cluster) {
        let after = if *cluster == *from.cluster { from.after.as_str() } else { "" };
        for object in feed.list(&cluster, &selection.namespace) {
            let key = ObjectKey::of(&object);
            if (!after.is_empty() && !is_behind(&key, after)) || !selection.matches(&object) {
                continue;
            }
            if limit > 0 && items.len() == limit {
                return Page { next: place_behind(&items, &versions), items, versions };
            }
            items.push((cluster.clone(), object));
        }
    }
    Page { items, versions, next: None }
}

fn place_behind(items: &[Found], versions: &str) -> Option<Place> {
    let (cluster, object) = items.last()?;
    let after = format!("{}/{}", object.namespace(), object.name());
    Some(Place { rv: versions.to_owned(), cluster: cluster.to_string(), after })
}

fn is_behind(key: &ObjectKey, after: &str) -> bool {
    let (namespace, name) = after.split_once('/').unwrap_or(("", after));
    (key.namespace.as_str(), key.name.as_str()) > (namespace, name)
}
