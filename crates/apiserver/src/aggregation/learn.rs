//! What another server says about itself: resources from its discovery, schemas from its OpenAPI
//! documents. Only what belongs to the group version is kept, and only as much as is reasonable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use karmada_apimachinery::{Value, json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::transport::{Fetched, PATIENCE, Question};
use crate::registry::{Learned, Remote};
use crate::state::State;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const MAX_DISCOVERY: usize = 8 << 20;
const MAX_INDEX: usize = 2 << 20;
const MAX_SWAGGER: usize = 32 << 20;
/// What is kept of an OpenAPI v2 document.
const MAX_KEPT: usize = 4 << 20;
const MAX_RESOURCES: usize = 2_000;
/// A whole OpenAPI document may take longer than an answer about health.
const DOCUMENT_PATIENCE: Duration = Duration::from_secs(20);

/// What need not be read again.
#[derive(Default)]
pub(super) struct Memory {
    tag: String,
    swagger: Option<Arc<Value>>,
}

/// Asks a server about a group version; the error says why that is not known.
pub(super) async fn learn(
    state: &State,
    remote: &Remote,
    memory: &mut Memory,
) -> Result<Learned, String> {
    let resources = resources(state, remote).await?;
    let document = document(state, remote).await;
    if let Err(why) = refresh_swagger(state, remote, memory).await {
        tracing::debug!(name = remote.name, why, "no OpenAPI v2 document of an API service");
    }
    Ok(Learned { resources, document, swagger: memory.swagger.clone() })
}

async fn ask(state: &State, remote: &Remote, question: Question<'_>) -> Result<Fetched, String> {
    state.aggregator.dialer.ask(&*state.objects, &remote.place, &question).await
}

/// Parses away from the threads that answer requests.
async fn parse<T: Send + 'static>(
    bytes: bytes::Bytes,
    read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error> + Send + 'static,
) -> Result<T, String> {
    let parsed = tokio::task::spawn_blocking(move || read(&bytes)).await;
    parsed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

async fn resources(state: &State, remote: &Remote) -> Result<Vec<Value>, String> {
    let question =
        |path, accept| Question { path, accept, tag: "", limit: MAX_DISCOVERY, patience: PATIENCE };
    let all = ask(state, remote, question("/apis", AGGREGATED)).await?;
    let is_aggregated = all.content_type().contains("as=APIGroupDiscoveryList");
    let own = (remote.group.clone(), remote.version.clone());
    let found = if all.status == StatusCode::OK && is_aggregated {
        parse(all.bytes, move |bytes| {
            serde_json::from_slice::<Groups>(bytes).map(|groups| groups.version(&own))
        })
        .await?
    } else {
        let path = format!("/apis/{}/{}", remote.group, remote.version);
        let answer = ask(state, remote, question(&path, "application/json")).await?;
        if answer.status != StatusCode::OK {
            let code = answer.status.as_u16();
            return Err(format!("failed to download legacy discovery for {path}: {code}"));
        }
        parse(answer.bytes, |bytes| serde_json::from_slice::<LegacyList>(bytes)).await?.convert()
    };
    if found.len() > MAX_RESOURCES {
        return Err(format!("{} resources are more than {MAX_RESOURCES}", found.len()));
    }
    Ok(found.into_iter().map(|resource| json!(resource)).collect())
}

/// The hash in the address of the OpenAPI v3 document.
async fn document(state: &State, remote: &Remote) -> Option<String> {
    let question = Question {
        path: "/openapi/v3",
        accept: "application/json",
        tag: "",
        limit: MAX_INDEX,
        patience: PATIENCE,
    };
    let index = ask(state, remote, question).await.ok()?;
    if index.status != StatusCode::OK {
        return None;
    }
    let key = format!("apis/{}/{}", remote.group, remote.version);
    let index = parse(index.bytes, |bytes| serde_json::from_slice::<Index>(bytes)).await.ok()?;
    let url = &index.paths.get(&key)?.server_relative_url;
    let hash = url.split_once("hash=").map_or("", |(_, hash)| hash);
    let hash = hash.split('&').next().unwrap_or_default();
    hash.chars().all(|c| c.is_ascii_alphanumeric()).then(|| hash.to_owned())
}

/// Reads the OpenAPI v2 document if it is another one than before.
async fn refresh_swagger(
    state: &State,
    remote: &Remote,
    memory: &mut Memory,
) -> Result<(), String> {
    let question = Question {
        path: "/openapi/v2",
        accept: "application/json",
        tag: &memory.tag,
        limit: MAX_SWAGGER,
        patience: DOCUMENT_PATIENCE,
    };
    let answer = ask(state, remote, question).await?;
    match answer.status {
        StatusCode::NOT_MODIFIED => return Ok(()),
        StatusCode::OK => {}
        other => return Err(format!("status {}", other.as_u16())),
    }
    let tag = answer.tag().to_owned();
    let prefix = format!("/apis/{}/{}/", remote.group, remote.version);
    let kept = parse(answer.bytes, move |bytes| filter_swagger(bytes, &prefix)).await?;
    memory.swagger = Some(Arc::new(kept));
    memory.tag = tag;
    Ok(())
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    paths: BTreeMap<String, IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    #[serde(default, rename = "serverRelativeURL")]
    server_relative_url: String,
}

/// An OpenAPI v2 document with its parts unread.
#[derive(Deserialize)]
struct Swagger<'a> {
    #[serde(borrow, default)]
    paths: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    definitions: BTreeMap<String, &'a RawValue>,
}

/// The paths below a prefix and the definitions they need.
fn filter_swagger(bytes: &[u8], prefix: &str) -> Result<Value, serde_json::Error> {
    let document: Swagger<'_> = serde_json::from_slice(bytes)?;
    let mut left = MAX_KEPT;
    let mut read = |raw: &RawValue| -> Result<Option<Value>, serde_json::Error> {
        match left.checked_sub(raw.get().len()) {
            Some(rest) => {
                left = rest;
                serde_json::from_str(raw.get()).map(Some)
            }
            None => Ok(None),
        }
    };
    let (mut paths, mut definitions) =
        (karmada_apimachinery::Map::new(), karmada_apimachinery::Map::new());
    let mut wanted = BTreeSet::new();
    for (path, raw) in document.paths.iter().filter(|(path, _)| path.starts_with(prefix)) {
        let Some(value) = read(raw)? else { continue };
        collect_references(&value, &mut wanted);
        paths.insert(path.clone(), value);
    }
    while let Some(name) = wanted.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        let Some(raw) = document.definitions.get(&name) else { continue };
        let Some(value) = read(raw)? else { continue };
        collect_references(&value, &mut wanted);
        definitions.insert(name, value);
    }
    Ok(json!({"paths": paths, "definitions": definitions}))
}

pub(super) const REFERENCE: &str = "#/definitions/";

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|text| text.strip_prefix(REFERENCE)) {
                    Some(name) if key == "$ref" => {
                        into.insert(name.to_owned());
                    }
                    _ => collect_references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

/// A resource as aggregated discovery lists it; what else a server says is not passed on.
#[derive(Debug, Serialize, Deserialize, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: String,
    response_kind: Kind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Debug, Serialize, Deserialize, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Subresource {
    subresource: String,
    response_kind: Kind,
    verbs: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, Default, PartialEq)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

impl Groups {
    /// The resources of one group version.
    fn version(self, (group, version): &(String, String)) -> Vec<Resource> {
        let groups = self.items.into_iter().filter(|own| own.metadata.name == *group);
        let mut versions = groups.flat_map(|group| group.versions);
        versions.find(|own| own.version == *version).map(|own| own.resources).unwrap_or_default()
    }
}

/// The older form: subresources stand beside their resource.
#[derive(Deserialize)]
struct LegacyList {
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LegacyResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

impl LegacyList {
    fn convert(self) -> Vec<Resource> {
        let mut found: Vec<Resource> = Vec::new();
        let (below, whole): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|own| own.name.contains('/'));
        for own in whole {
            found.push(Resource {
                resource: own.name,
                response_kind: Kind { group: own.group, version: own.version, kind: own.kind },
                scope: if own.namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
                singular_resource: own.singular_name,
                verbs: own.verbs,
                short_names: own.short_names,
                categories: own.categories,
                subresources: Vec::new(),
            });
        }
        for own in below {
            let Some((parent, name)) = own.name.split_once('/') else { continue };
            let Some(parent) = found.iter_mut().find(|one| one.resource == parent) else {
                continue;
            };
            parent.subresources.push(Subresource {
                subresource: name.to_owned(),
                response_kind: Kind { group: own.group, version: own.version, kind: own.kind },
                verbs: own.verbs,
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: AGG-3
    #[test]
    fn both_forms_of_discovery_say_the_same() {
        let aggregated = json!({"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v2", "resources": [{"resource": "other"}]},
            {"version": "v1", "freshness": "Current", "resources": [{
                "resource": "things", "scope": "Namespaced", "singularResource": "thing",
                "responseKind": {"kind": "Thing"}, "verbs": ["get"], "shortNames": ["th"],
                "unheardOf": {"a": 1},
                "subresources": [{"subresource": "status", "responseKind": {"kind": "Thing"}, "verbs": ["get"]}],
            }]},
        ]}]});
        let legacy = json!({"kind": "APIResourceList", "resources": [
            {"name": "things/status", "kind": "Thing", "namespaced": true, "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
             "verbs": ["get"], "shortNames": ["th"]},
        ]});
        let groups: Groups = karmada_apimachinery::from_value(aggregated).unwrap();
        let one = groups.version(&("g".into(), "v1".into()));
        let legacy: LegacyList = karmada_apimachinery::from_value(legacy).unwrap();
        assert_eq!(one, legacy.convert());
        assert_eq!(one.len(), 1);
    }

    #[test]
    fn only_the_own_part_of_a_document_is_kept() {
        let document = json!({
            "paths": {
                "/apis/g/v1/things": {"get": {"schema": {"$ref": "#/definitions/A"}}},
                "/apis/g/v2/things": {"get": {"schema": {"$ref": "#/definitions/C"}}},
            },
            "definitions": {
                "A": {"properties": {"b": {"$ref": "#/definitions/B"}}},
                "B": {"properties": {"a": {"$ref": "#/definitions/A"}}},
                "C": {},
            },
        });
        let kept = filter_swagger(document.to_string().as_bytes(), "/apis/g/v1/").unwrap();
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().unwrap().keys().map(ToString::to_string).collect()
        };
        assert_eq!(keys(&kept["paths"]), ["/apis/g/v1/things"]);
        assert_eq!(keys(&kept["definitions"]), ["A", "B"]);
    }
}
