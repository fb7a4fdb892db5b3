//! Asks one server for objects of one kind: as tables, or whole.

use http::{Request, header};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json, time};
use karmada_client::request::{Query, path};
use karmada_client::{Body, ListOptions};

use super::{Args, Looked, with_kind};
use crate::error::{Error, Result};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                     application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const CHUNK: u64 = 500;

/// What is asked of every server alike.
pub(super) struct Asked<'a> {
    /// Empty for all namespaces.
    pub(super) namespace: &'a str,
    pub(super) args: &'a Args,
}

impl Asked<'_> {
    pub(super) fn path(&self, one: &Looked<'_>, name: &str) -> String {
        let resource = &one.wanted.resource;
        let namespace = Some(self.namespace).filter(|ns| resource.namespaced && !ns.is_empty());
        path(&resource.gvr, namespace, name, "")
    }

    /// Sorting needs whole objects.
    pub(super) fn include(&self) -> &'static str {
        if self.args.sort_by.is_empty() { "Metadata" } else { "Object" }
    }
}

pub(super) fn table_request(path: &str) -> Result<Request<Body>> {
    Request::get(path)
        .header(header::ACCEPT, TABLE)
        .body(Body::empty())
        .map_err(|error| Error::Message(error.to_string()))
}

/// The table of the kind, with an error per object that was named and not found.
pub(super) async fn table(one: &Looked<'_>, asked: &Asked<'_>) -> (Value, Vec<Error>) {
    if one.wanted.names.is_empty() {
        return match list_table(one, asked).await {
            Ok(table) => (table, Vec::new()),
            Err(error) => (json!({}), vec![error]),
        };
    }
    let (mut whole, mut errors) = (json!({}), Vec::new());
    for name in &one.wanted.names {
        let mut query = Query::default();
        query.add("includeObject", asked.include());
        match answer(one, &query.append_to(asked.path(one, name))).await {
            Ok(table) => append(&mut whole, table),
            Err(error) if asked.args.ignore_not_found && error.is_not_found() => {}
            Err(error) => errors.push(error),
        }
    }
    (whole, errors)
}

async fn list_table(one: &Looked<'_>, asked: &Asked<'_>) -> Result<Value> {
    let mut whole = json!({});
    let mut token = String::new();
    loop {
        let mut query = Query::default();
        query
            .add("includeObject", asked.include())
            .add("labelSelector", &asked.args.labels)
            .number("limit", Some(CHUNK))
            .add("continue", &token);
        let page = answer(one, &query.append_to(asked.path(one, ""))).await?;
        token = page.str_at(&["metadata", "continue"]).unwrap_or_default().to_owned();
        append(&mut whole, page);
        if token.is_empty() {
            return Ok(whole);
        }
    }
}

async fn answer(one: &Looked<'_>, path: &str) -> Result<Value> {
    let answer = one.server.client.request_json(table_request(path)?).await?;
    Ok(if answer.kind() == "Table" { answer } else { plain_table(&answer) })
}

fn append(whole: &mut Value, page: Value) {
    if whole.get("rows").is_none() {
        *whole = page;
        return;
    }
    let mut rows = whole["rows"].take();
    if let (Some(rows), Some(more)) =
        (rows.as_array_mut(), page.get("rows").and_then(Value::as_array))
    {
        rows.extend(more.iter().cloned());
    }
    whole["rows"] = rows;
    whole["metadata"] = page.get("metadata").cloned().unwrap_or_default();
}

/// The table of a server that makes none: name and age.
fn plain_table(answer: &Value) -> Value {
    let items = match answer.get("items").and_then(Value::as_array) {
        Some(items) => items.clone(),
        None => vec![answer.clone()].into(),
    };
    let now = jiff::Timestamp::now();
    let age = |item: &Value| {
        let created = item.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse_time);
        created.map_or_else(
            || "<unknown>".to_owned(),
            |at| time::human_duration(now.duration_since(at)),
        )
    };
    let rows: Vec<Value> = items
        .iter()
        .map(|item| json!({"cells": [item.name(), age(item)], "object": item}))
        .collect();
    json!({
        "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
        "rows": rows,
        "metadata": answer.get("metadata"),
    })
}

/// Whole objects, with an error per object that was named and not found.
pub(super) async fn objects(one: &Looked<'_>, asked: &Asked<'_>) -> (Vec<Value>, Vec<Error>) {
    let resource = &one.wanted.resource;
    let api = one.server.client.api(&resource.gvr);
    let api = if resource.namespaced { api.namespaced(asked.namespace) } else { api };
    if one.wanted.names.is_empty() {
        let options =
            ListOptions { label_selector: asked.args.labels.clone(), ..ListOptions::default() };
        return match api.list_all(&options).await {
            Ok(list) => (
                list.items.iter().map(|item| with_kind(resource, item.value())).collect(),
                Vec::new(),
            ),
            Err(error) => (Vec::new(), vec![error.into()]),
        };
    }
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for name in &one.wanted.names {
        match api.get(name).await {
            Ok(object) => found.push(object),
            Err(error) if asked.args.ignore_not_found && error.is_not_found() => {}
            Err(error) => errors.push(error.into()),
        }
    }
    (found, errors)
}
