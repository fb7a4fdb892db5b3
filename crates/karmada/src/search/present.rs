//! The forms in which objects of several clusters are answered: themselves, as a Table, or their
//! metadata alone. Columns are those the control plane shows for the kind, if it knows it.

use std::sync::Arc;

use http::HeaderMap;
use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::http::negotiate::{self, Format, Offer, Representation, Shape, Transforms};
use karmada_apiserver::http::query::Query;
use karmada_apiserver::registry::{Column, Served};
use karmada_runtime::Clock;

/// What a request wants its answer to look like.
pub(super) struct Presenter {
    pub(super) form: Representation,
    gvk: Gvk,
    served: Option<Arc<Served>>,
    include: Include,
    clock: Clock,
}

enum Include {
    Nothing,
    Metadata,
    Object,
}

/// What is answered with.
pub(super) enum Answered {
    Object,
    List,
    Events,
}

impl Presenter {
    pub(super) fn new(
        (headers, query): (&HeaderMap, &Query),
        answered: &Answered,
        (gvk, served): (Gvk, Option<Arc<Served>>),
        clock: Clock,
    ) -> Result<Self, Status> {
        let offer = match answered {
            Answered::Object => {
                Offer { formats: negotiate::CUSTOM, transforms: Transforms::Object }
            }
            Answered::List => Offer { formats: negotiate::CUSTOM, transforms: Transforms::List },
            Answered::Events => {
                Offer { formats: negotiate::WATCHED_CUSTOM, transforms: Transforms::Object }
            }
        };
        let form = negotiate::negotiate(headers, query, offer)?;
        let include = match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::Nothing,
            "Object" => Include::Object,
            other => {
                let why = format!("unrecognized includeObject value: {other:?}");
                return Err(Status::bad_request(why));
            }
        };
        Ok(Self { form, gvk, served, include, clock })
    }

    /// An object by itself or in an event; `first` events of a Table bring its columns.
    pub(super) fn object(&self, object: Value, first: bool) -> Value {
        match self.form.shape {
            Shape::Object => object,
            Shape::PartialMetadata(version) => partial(&object, version),
            Shape::Table(version) => {
                let metadata = json!({"resourceVersion": object.resource_version()});
                let columns = if first { self.columns() } else { Value::Null };
                self.table(&[object], &metadata, version, columns)
            }
        }
    }

    /// The end of the objects that existed, and how far they reach.
    pub(super) fn bookmark(&self, version: &str, ends_first_events: bool) -> Value {
        let mut metadata = json!({"resourceVersion": version});
        if ends_first_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.form.shape {
            Shape::Object => {
                json!({"apiVersion": self.gvk.api_version(), "kind": self.gvk.kind, "metadata": metadata})
            }
            Shape::PartialMetadata(version) => partial(&json!({"metadata": metadata}), version),
            Shape::Table(version) => self.table(&[], &metadata, version, Value::Null),
        }
    }

    pub(super) fn list(&self, items: Vec<Value>, metadata: &Value) -> Value {
        let (api_version, kind) = match self.form.shape {
            Shape::Object => (self.gvk.api_version(), format!("{}List", self.gvk.kind)),
            Shape::PartialMetadata(version) => {
                (format!("meta.k8s.io/{version}"), "PartialObjectMetadataList".to_owned())
            }
            Shape::Table(version) => return self.table(&items, metadata, version, self.columns()),
        };
        let items: Vec<Value> = match self.form.shape {
            Shape::PartialMetadata(version) => {
                items.iter().map(|item| partial(item, version)).collect()
            }
            _ => items,
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
    }

    fn table(&self, objects: &[Value], metadata: &Value, version: &str, columns: Value) -> Value {
        let row = |object: &Value| {
            let shown = match self.include {
                Include::Nothing => Value::Null,
                Include::Metadata => partial(object, version),
                Include::Object => object.clone(),
            };
            json!({"cells": self.cells(object), "object": shown})
        };
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": objects.iter().map(row).collect::<Value>(),
        })
    }

    fn columns(&self) -> Value {
        let Some(served) = &self.served else {
            return json!([
                {"name": "Name", "type": "string", "format": "name", "description": "Name of the object, unique in its cluster and namespace.", "priority": 0},
                {"name": "Created At", "type": "date", "format": "", "description": "When its cluster created the object.", "priority": 0},
            ]);
        };
        served.strategy.columns().into_iter().map(Column::definition).collect()
    }

    fn cells(&self, object: &Value) -> Value {
        match &self.served {
            Some(served) => json!(served.strategy.cells(object, self.clock.now())),
            None => {
                let created = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
                json!([object.name(), created])
            }
        }
    }
}

fn partial(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Streams are JSON whatever was negotiated.
pub(super) const STREAM: Format = Format::Json;
