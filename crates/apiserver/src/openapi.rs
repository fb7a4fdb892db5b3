//! OpenAPI documents over HTTP: the index, one document per group version, and the old single one.
//! Documents are made when first asked for and kept until what they describe changes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION,
    VARY,
};
use http::{Response, StatusCode};
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::openapi::{self, ResourceDoc, SchemaDoc, SubresourceDoc};
use karmada_kinds::schema;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha512};

use crate::endpoints;
use crate::http::body::{self, Body};
use crate::http::query::Query;
use crate::registry::{Served, Snapshot};
use crate::state::State;

const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Compat: clients ask by this name, which is no media type, and are answered with the other one.
const PROTOBUF_V2_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A hash and the resources it was made of.
type Hashed = (Vec<Arc<Served>>, String);

/// Documents by path and hash.
#[derive(Default)]
pub(crate) struct Documents {
    made: Mutex<HashMap<String, (String, Bytes)>>,
    /// Hashes of group versions, and of which resources they are.
    hashes: Mutex<HashMap<String, Hashed>>,
}

/// `/openapi/v3` and below.
pub(crate) fn v3(
    state: &State,
    rest: &[&str],
    query: &Query,
    headers: &HeaderMap,
) -> Response<Body> {
    let snapshot = state.registry.snapshot();
    if rest.is_empty() {
        return index(state, &snapshot);
    }
    let path = rest.join("/");
    if plain_paths(&snapshot).contains(&path) {
        let hash = hash_text(&path);
        let bytes = state.documents.get(&path, &hash, || {
            openapi::document_v3_without_resources(&format!("/{path}/"), schema::definitions())
        });
        return cacheable(bytes, &hash, headers);
    }
    let Some(version) = group_version(&snapshot, rest) else {
        let mut missing = Response::new(body::empty());
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return missing;
    };
    let hash = state.documents.hash_of(&snapshot, &version);
    if let Some(asked) = query.non_empty("hash")
        && asked != hash
    {
        let mut moved = body::answer(StatusCode::MOVED_PERMANENTLY, "application/json", "");
        let target = format!("/openapi/v3/{path}?hash={hash}");
        if let Ok(target) = HeaderValue::from_str(&target) {
            moved.headers_mut().insert(LOCATION, target);
        }
        return moved;
    }
    let bytes = state.documents.get(&path, &hash, || {
        let resources = snapshot.resources(&version.group, &version.version);
        let described: Vec<ResourceDoc<'_>> =
            resources.iter().filter_map(|s| describe(s)).collect();
        openapi::document_v3(&version, &described, schema::definitions())
    });
    let mut response = cacheable(bytes, &hash, headers);
    let caching =
        if query.non_empty("hash").is_some() { "public, immutable" } else { "no-cache, private" };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

/// `/openapi/v2`, as JSON or in the protobuf form that older kubectl insists on.
pub(crate) fn v2(state: &State, headers: &HeaderMap) -> Response<Body> {
    let snapshot = state.registry.snapshot();
    let make = || {
        let is_own = |served: &&Arc<Served>| {
            snapshot.remote(&served.gvk.group, &served.gvk.version).is_none()
        };
        let resources: Vec<&Arc<Served>> = snapshot.all().filter(is_own).collect();
        let described: Vec<ResourceDoc<'_>> =
            resources.iter().filter_map(|s| describe(s)).collect();
        let version = endpoints::version();
        let version = version["gitVersion"].as_str().unwrap_or_default();
        let mut document = openapi::document_v2(&described, schema::definitions(), version);
        let learned = snapshot.remotes().filter_map(|remote| remote.learned.as_ref());
        for swagger in learned.filter_map(|learned| learned.swagger.as_ref()) {
            openapi::merge_v2(&mut document, swagger);
        }
        document
    };
    if wants_protobuf(headers) {
        let hash = hash_text(&format!("v2 protobuf {}", snapshot.generation));
        let encode = || openapi::encode_v2(&make());
        let bytes = state.documents.get_encoded("v2 protobuf", &hash, encode);
        return cacheable_as(PROTOBUF_V2, bytes, &hash, headers);
    }
    let hash = hash_text(&format!("v2 {}", snapshot.generation));
    cacheable(state.documents.get("v2", &hash, make), &hash, headers)
}

/// Whether the first format asked for that exists is the protobuf one.
fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted =
        accepted.flat_map(|value| value.split(',')).filter_map(|clause| {
            match clause.split(';').next().unwrap_or_default().trim() {
                PROTOBUF_V2 | PROTOBUF_V2_OLD => Some(true),
                "application/json" | "application/*" | "*/*" => Some(false),
                _ => None,
            }
        });
    accepted.next().unwrap_or(false)
}

impl Documents {
    /// The hash of a group version. Working it out takes time with the size of schemas, so it is kept as
    /// long as the resources are the same.
    fn hash_of(&self, snapshot: &Snapshot, version: &GroupVersion) -> String {
        let resources = snapshot.resources(&version.group, &version.version);
        let is_same = |known: &[Arc<Served>]| {
            known.len() == resources.len()
                && known.iter().zip(&resources).all(|(known, now)| Arc::ptr_eq(known, now))
        };
        let key = version.to_string();
        if let Some((known, hash)) = self.hashes.lock().get(&key)
            && is_same(known)
        {
            return hash.clone();
        }
        let hash = hash_of(&resources, version);
        let resources = resources.into_iter().cloned().collect();
        self.hashes.lock().insert(key, (resources, hash.clone()));
        hash
    }

    fn get(
        &self,
        path: &str,
        hash: &str,
        make: impl FnOnce() -> karmada_apimachinery::Value,
    ) -> Bytes {
        self.get_encoded(path, hash, || make().to_string().into_bytes())
    }

    fn get_encoded(&self, path: &str, hash: &str, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some((known, bytes)) = self.made.lock().get(path)
            && known == hash
        {
            return bytes.clone();
        }
        let bytes = Bytes::from(make());
        self.made.lock().insert(path.to_owned(), (hash.to_owned(), bytes.clone()));
        bytes
    }
}

fn cacheable(bytes: Bytes, hash: &str, headers: &HeaderMap) -> Response<Body> {
    cacheable_as("application/json", bytes, hash, headers)
}

fn cacheable_as(
    content_type: &'static str,
    bytes: Bytes,
    hash: &str,
    headers: &HeaderMap,
) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let known =
        headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()) == Some(etag.as_str());
    let mut response = if known {
        let mut response = Response::new(body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        body::answer(StatusCode::OK, content_type, bytes)
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn group_versions(snapshot: &Snapshot) -> Vec<(String, GroupVersion)> {
    let mut all = Vec::new();
    for group in snapshot.groups() {
        for version in snapshot.versions(group) {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            all.push((path, GroupVersion::new(group, version.as_str())));
        }
    }
    all
}

/// Described paths that serve no resources.
fn plain_paths(snapshot: &Snapshot) -> Vec<String> {
    let fixed = [".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];
    let groups = snapshot.groups().filter(|group| !group.is_empty());
    let groups =
        groups.filter(|group| karmada_kinds::resources().iter().any(|r| r.group == *group));
    fixed
        .iter()
        .map(|path| (*path).to_owned())
        .chain(groups.map(|group| format!("apis/{group}")))
        .collect()
}

fn group_version(snapshot: &Snapshot, path: &[&str]) -> Option<GroupVersion> {
    let (group, version) = match path {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    snapshot.has_version(group, version).then(|| GroupVersion::new(group, version))
}

fn index(state: &State, snapshot: &Snapshot) -> Response<Body> {
    let plain = plain_paths(snapshot).into_iter().map(|path| {
        let hash = hash_text(&path);
        (path, hash)
    });
    let hashes: Vec<(String, String)> = group_versions(snapshot)
        .into_iter()
        .filter_map(|(path, version)| match snapshot.remote(&version.group, &version.version) {
            Some(remote) => Some((path, remote.learned.as_ref()?.document.clone()?)),
            None => Some((path, state.documents.hash_of(snapshot, &version))),
        })
        .chain(plain)
        .collect();
    let document = openapi::index(hashes.iter().map(|(path, hash)| (path.as_str(), hash.as_str())));
    let mut response = body::json(StatusCode::OK, &document);
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A hash that changes whenever the document does: of what it is made from.
fn hash_of(resources: &[&Arc<Served>], version: &GroupVersion) -> String {
    let mut basis = format!("{} {version}", env!("CARGO_PKG_VERSION"));
    for served in resources {
        basis
            .push_str(&format!(" {} {} {:?}", served.plural, served.gvk.kind, served.subresources));
        if let Some(digest) = served.strategy.schema_digest() {
            basis.push_str(digest);
        } else if let Some(schema) = served.strategy.custom_schema() {
            basis.push_str(&format!("{schema:?}"));
        }
    }
    hash_text(&basis)
}

fn hash_text(text: &str) -> String {
    Sha512::digest(text).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn describe(served: &Arc<Served>) -> Option<ResourceDoc<'_>> {
    let gvk = &served.gvk;
    let doc = match served.strategy.custom_schema() {
        Some(schema) => SchemaDoc::Custom(schema),
        None => SchemaDoc::Definition(schema::definition_of(&gvk.group, &gvk.version, &gvk.kind)?),
    };
    let subresources = served.subresources.iter().map(|sub| {
        let own = !sub.version.is_empty();
        let (group, version) =
            if own { (&sub.group, &sub.version) } else { (&gvk.group, &gvk.version) };
        let parents = sub.kind == gvk.kind;
        SubresourceDoc {
            name: &sub.name,
            gvk: Gvk::new(group.as_str(), version.as_str(), sub.kind.as_str()),
            verbs: sub.verbs.iter().map(String::as_str).collect(),
            definition: (!parents)
                .then(|| schema::definition_of(group, version, &sub.kind))
                .flatten(),
        }
    });
    Some(ResourceDoc {
        gvk: gvk.clone(),
        plural: &served.plural,
        namespaced: served.namespaced,
        verbs: served.verbs.iter().map(String::as_str).collect(),
        subresources: subresources.collect(),
        schema: doc,
    })
}
