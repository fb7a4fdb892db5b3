//! The forms of an answer: the object itself, a Table, or its metadata only.

use bytes::Bytes;
use http::{Response, StatusCode};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Map, Value, json};

use super::{Answer, Reply};
use crate::cache::StoredObject;
use crate::call::Call;
use crate::http::body::{self, Body};
use crate::http::negotiate::{Format, Representation, Shape};
use crate::http::respond;
use crate::registry::{Column, Served, Source};

/// Answers with a stored object, sending the stored bytes where that is possible.
pub(crate) async fn stored(
    call: &Call,
    code: StatusCode,
    object: &StoredObject,
    form: Representation,
) -> Answer {
    let as_it_is = form.shape == Shape::Object
        && form.format == Format::Json
        && !form.pretty
        && call.served.serves_stored_bytes();
    if as_it_is {
        let mut bytes = Vec::with_capacity(object.size() + 1);
        object.write_to(&mut bytes);
        bytes.push(b'\n');
        return Ok(respond::answer(code, bytes, Format::Json).into());
    }
    let mut value = object.to_value();
    call.served.from_storage(&mut value).await?;
    self::object(call, code, value, form)
}

/// Answers with an object in the version served.
pub(crate) fn object(call: &Call, code: StatusCode, object: Value, form: Representation) -> Answer {
    let value = match form.shape {
        Shape::Object => object,
        Shape::Table(version) => {
            let metadata = json!({"resourceVersion": object.resource_version()});
            table(call, std::slice::from_ref(&object), &metadata, version, Columns::Shown)?
        }
        Shape::PartialMetadata(version) => partial(&object, version),
    };
    if call.hands_over {
        return Ok(Reply::Tree(code, value));
    }
    encoded(code, &value, form)
}

/// Answers with a tree that is in its final form.
pub(crate) fn encoded(code: StatusCode, value: &Value, form: Representation) -> Answer {
    if form.format == Format::Protobuf
        && form.shape == Shape::Object
        && let Some(bytes) = crate::codec::encode_protobuf(value)
    {
        return Ok(respond::answer(code, bytes, Format::Protobuf).into());
    }
    Ok(respond::object(code, value, form).into())
}

/// The object's metadata alone.
pub(crate) fn partial(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    Shown,
    /// Later events of a watch repeat no columns.
    Omitted,
}

/// A Table of objects in the version served.
pub(crate) fn table(
    call: &Call,
    objects: &[Value],
    metadata: &Value,
    version: &str,
    columns: Columns,
) -> Result<Value, Status> {
    let definitions = match columns {
        Columns::Shown => column_definitions(&call.served),
        Columns::Omitted => Value::Null,
    };
    let (strategy, now) = (&call.served.strategy, call.now());
    let cells = |object: &Value| json!(strategy.cells(object, now));
    table_of(call, objects, (metadata, version), (definitions, &cells))
}

/// A Table with columns of the caller's.
pub(crate) fn table_of(
    call: &Call,
    objects: &[Value],
    (metadata, version): (&Value, &str),
    (definitions, cells): (Value, &dyn Fn(&Value) -> Value),
) -> Result<Value, Status> {
    let include = include_object(call)?;
    let row = |object: &Value| {
        let shown = match include {
            Include::None => Value::Null,
            Include::Metadata => row_metadata(object, version),
            Include::Object => object.clone(),
        };
        let mut row = json!({"cells": cells(object), "object": shown});
        if let Some(condition) = ended(object) {
            row["conditions"] = json!([condition]);
        }
        row
    };
    Ok(json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": objects.iter().map(row).collect::<Value>(),
    }))
}

/// The metadata a row carries: those of the object itself, without what its version adds to them.
fn row_metadata(object: &Value, version: &str) -> Value {
    let mut metadata = partial(object, version);
    let annotations = metadata.map_at_mut(&["metadata", "annotations"]);
    if object.kind() == "DaemonSet" {
        annotations.remove("deprecated.daemonset.template.generation");
    }
    if annotations.is_empty() {
        metadata.remove_at(&["metadata", "annotations"]);
    }
    metadata
}

/// What a row of a pod that has run to its end says beside its cells.
fn ended(object: &Value) -> Option<Value> {
    let (reason, message) = match (object.kind(), object.str_at(&["status", "phase"])?) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn column_definitions(served: &Served) -> Value {
    served.strategy.columns().into_iter().map(Column::definition).collect()
}

enum Include {
    None,
    Metadata,
    Object,
}

fn include_object(call: &Call) -> Result<Include, Status> {
    match call.query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        other => Err(Status::bad_request(format!(
            "unrecognized includeObject value: {}",
            karmada_apimachinery::field::quote(other)
        ))),
    }
}

/// What a list says about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: i64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<i64>,
}

impl ListMeta {
    pub(crate) fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", self.resource_version.to_string().into());
        if let Some(token) = &self.continue_token {
            metadata.insert("continue", token.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount", remaining.into());
        }
        Value::Object(metadata)
    }
}

/// Answers with a list of stored objects.
pub(crate) async fn list(
    call: &Call,
    objects: &[std::sync::Arc<StoredObject>],
    metadata: &ListMeta,
    form: Representation,
) -> Answer {
    if form.shape == Shape::Object
        && form.format == Format::Json
        && !form.pretty
        && call.served.serves_stored_bytes()
    {
        return Ok(list_of_bytes(&call.served, objects, metadata).into());
    }
    let mut items: Vec<Value> = objects.iter().map(|object| object.to_value()).collect();
    call.served.all_from_storage(&mut items).await?;
    let metadata = match form.shape {
        Shape::Object => list_metadata(&call.served, metadata),
        _ => metadata.to_value(),
    };
    let value = match form.shape {
        Shape::Object => {
            if call.served.source == Source::BuiltIn {
                items.iter_mut().for_each(strip_type);
            }
            list_value(&call.served, items, metadata)
        }
        Shape::Table(version) => table(call, &items, &metadata, version, Columns::Shown)?,
        Shape::PartialMetadata(version) => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": metadata,
            "items": items.iter().map(|item| partial(item, version)).collect::<Value>(),
        }),
    };
    encoded(StatusCode::OK, &value, form)
}

/// Lists of custom resources say that they are complete.
fn list_metadata(served: &Served, metadata: &ListMeta) -> Value {
    let mut value = metadata.to_value();
    if served.source != Source::BuiltIn && metadata.continue_token.is_none() {
        value["continue"] = "".into();
    }
    value
}

/// A list as a tree.
pub(crate) fn list_value(served: &Served, items: Vec<Value>, metadata: Value) -> Value {
    json!({
        "kind": served.list_kind,
        "apiVersion": served.api_version(),
        "metadata": metadata,
        "items": items,
    })
}

/// Items of built-in lists do not repeat what the list says.
pub(crate) fn strip_type(item: &mut Value) {
    item.remove_at(&["kind"]);
    item.remove_at(&["apiVersion"]);
}

fn list_of_bytes(
    served: &Served,
    objects: &[std::sync::Arc<StoredObject>],
    metadata: &ListMeta,
) -> Response<Body> {
    let bare = served.source == Source::BuiltIn;
    let size: usize = objects.iter().map(|object| object.size() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        served.list_kind,
        served.api_version(),
        list_metadata(served, metadata)
    );
    out.extend_from_slice(head.as_bytes());
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if bare {
            out.push(b'{');
            object.write_bare_to(&mut out);
        } else {
            object.write_to(&mut out);
        }
    }
    out.extend_from_slice(b"]}\n");
    body::answer(StatusCode::OK, Format::Json.media_type(), Bytes::from(out))
}
