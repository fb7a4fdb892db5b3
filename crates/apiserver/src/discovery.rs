//! What is served, told to clients: legacy documents per group version, and the aggregated ones.

use http::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Response, StatusCode};
use karmada_apimachinery::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::http::body::{self, Body};
use crate::http::negotiate::{self, Offer, Transforms};
use crate::http::query::Query;
use crate::http::respond;
use crate::registry::{Remote, Served, ServedSubresource, Snapshot, Source};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`: the legacy document or the aggregated one, as asked.
pub(crate) fn core(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    query: &Query,
    address: &str,
) -> Response<Body> {
    if wants_aggregated(headers) {
        return aggregated(snapshot, headers, 0, &[""]);
    }
    let document = json!({
        "kind": "APIVersions",
        "versions": snapshot.versions(""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    });
    legacy(&document, headers, query)
}

/// `/apis`.
pub(crate) fn groups(snapshot: &Snapshot, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let groups: Vec<&str> = snapshot.groups().filter(|group| !group.is_empty()).collect();
    if wants_aggregated(headers) {
        return aggregated(snapshot, headers, 1, &groups);
    }
    let groups: Vec<Value> = groups.iter().map(|group| group_document(snapshot, group)).collect();
    let document = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    legacy(&document, headers, query)
}

/// `/apis/{group}`.
pub(crate) fn group(
    snapshot: &Snapshot,
    name: &str,
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    let mut document = group_document(snapshot, name);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    legacy(&document, headers, query)
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn resources(
    snapshot: &Snapshot,
    (group, version): (&str, &str),
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    let mut rows = Vec::new();
    for served in snapshot.resources(group, version) {
        rows.push(resource_row(served));
        rows.extend(served.subresources.iter().map(|sub| subresource_row(served, sub)));
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut document =
        json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": rows});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    legacy(&document, headers, query)
}

fn legacy(document: &Value, headers: &HeaderMap, query: &Query) -> Response<Body> {
    let offer = Offer { formats: negotiate::BUILT_IN, transforms: Transforms::None };
    match negotiate::negotiate(headers, query, offer) {
        Ok(form) => respond::object(StatusCode::OK, document, form),
        Err(status) => body::refusal(&status),
    }
}

fn group_document(snapshot: &Snapshot, group: &str) -> Value {
    let versions: Vec<Value> = snapshot
        .versions(group)
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

fn resource_row(served: &Served) -> Value {
    let mut row = json!({
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.gvk.kind,
        "verbs": served.verbs,
    });
    set_lists(&mut row, served);
    if let Some(hash) = &served.storage_version_hash {
        row["storageVersionHash"] = hash.as_str().into();
    }
    row
}

fn set_lists(row: &mut Value, served: &Served) {
    if !served.short_names.is_empty() {
        row["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        row["categories"] = json!(served.categories);
    }
}

fn subresource_row(served: &Served, sub: &ServedSubresource) -> Value {
    let mut row = json!({
        "name": format!("{}/{}", served.plural, sub.name),
        "singularName": "",
        "namespaced": served.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if !sub.version.is_empty() {
        row["group"] = sub.group.as_str().into();
        row["version"] = sub.version.as_str().into();
    }
    row
}

/// Whether some clause of `Accept` asks for the aggregated form in a version served, before any plain one.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(http::header::ACCEPT);
    for clause in accepts.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','))
    {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let has = |key, value| parameters.contains(&(key, value));
        let is_json = matches!(media_type, "application/json" | "*/*" | "application/*");
        if is_json
            && has("g", "apidiscovery.k8s.io")
            && has("v", "v2")
            && has("as", "APIGroupDiscoveryList")
        {
            return true;
        }
        if !parameters.iter().any(|(key, _)| *key == "as") {
            return false;
        }
    }
    false
}

/// Renders the aggregated form once per table; `place` tells the core group from the others.
fn aggregated(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    place: usize,
    groups: &[&str],
) -> Response<Body> {
    let (bytes, etag) = snapshot.discovery[place].get_or_init(|| {
        let items: Vec<Value> =
            groups.iter().map(|group| aggregated_group(snapshot, group)).collect();
        let document = json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        });
        let bytes = body::encode_line(&document);
        let digest = Sha512::digest(&bytes);
        let hash: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        (bytes, format!("\"{hash}\""))
    });
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known == Some(etag.as_str()) {
        let mut response = Response::new(body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        body::answer(StatusCode::OK, AGGREGATED, bytes.clone())
    };
    let answer_headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        answer_headers.insert(ETAG, etag);
    }
    answer_headers.insert(VARY, HeaderValue::from_static("Accept"));
    answer_headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn aggregated_group(snapshot: &Snapshot, group: &str) -> Value {
    let versions: Vec<Value> = snapshot
        .versions(group)
        .iter()
        .map(|version| {
            if let Some(remote) = snapshot.remote(group, version) {
                return remote_version(remote);
            }
            let resources: Vec<Value> = snapshot
                .resources(group, version)
                .into_iter()
                .map(|r| aggregated_resource(r))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut item = json!({"metadata": {}, "versions": versions});
    if !group.is_empty() {
        item["metadata"]["name"] = group.into();
    }
    item
}

/// What another server told; empty and marked while it cannot be asked.
fn remote_version(remote: &Remote) -> Value {
    let freshness = if remote.learned.is_some() { "Current" } else { "Stale" };
    let resources = remote.learned.as_ref().map(|learned| learned.resources.as_slice());
    let mut row = json!({"version": remote.version, "freshness": freshness});
    if let Some(resources) = resources.filter(|resources| !resources.is_empty()) {
        row["resources"] = json!(resources);
    }
    row
}

fn aggregated_resource(served: &Served) -> Value {
    // Compat: built-in kinds leave out the group and version they share with their resource.
    let (group, version) = match served.source {
        Source::BuiltIn => ("", ""),
        _ => (served.gvk.group.as_str(), served.gvk.version.as_str()),
    };
    let mut row = json!({
        "resource": served.plural,
        "responseKind": {"group": group, "version": version, "kind": served.gvk.kind},
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": served.singular,
        "verbs": served.verbs,
    });
    set_lists(&mut row, served);
    if !served.subresources.is_empty() {
        let subresources = served.subresources.iter().map(|sub| {
            let own = !sub.version.is_empty();
            let group = if own { sub.group.as_str() } else { group };
            let version = if own { sub.version.as_str() } else { version };
            json!({
                "subresource": sub.name,
                "responseKind": {"group": group, "version": version, "kind": sub.kind},
                "verbs": sub.verbs,
            })
        });
        row["subresources"] = subresources.collect();
    }
    row
}
