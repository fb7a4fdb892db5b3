//! Paths and their operations.

use crate::{Map, Value, json};

use super::{Edition, META, ResourceDoc, SubresourceDoc, parameters};
use crate::gvk::{GroupVersion, Gvk};
use crate::schema::Definitions;

const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const TEXT_TYPES: &[&str] = &["application/json", "application/yaml"];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One verb: how it appears in a document.
struct Verb {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// The first word of operation ids.
    word: &'static str,
    parameters: &'static [&'static str],
    codes: &'static [(&'static str, &'static str)],
}

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

const OF_OBJECT: &[Verb] = &[
    Verb { verb: "get", method: "get", action: "get", word: "read", parameters: &[], codes: &[OK] },
    Verb {
        verb: "update",
        method: "put",
        action: "put",
        word: "replace",
        parameters: parameters::WRITE,
        codes: &[OK, CREATED],
    },
    Verb {
        verb: "patch",
        method: "patch",
        action: "patch",
        word: "patch",
        parameters: parameters::PATCH,
        codes: &[OK, CREATED],
    },
    Verb {
        verb: "delete",
        method: "delete",
        action: "delete",
        word: "delete",
        parameters: parameters::DELETE,
        codes: &[OK, ACCEPTED],
    },
    // Subresources such as `eviction` are created below an object.
    Verb {
        verb: "create",
        method: "post",
        action: "post",
        word: "create",
        parameters: parameters::WRITE,
        codes: &[OK, CREATED, ACCEPTED],
    },
];

const OF_COLLECTION: &[Verb] = &[
    Verb {
        verb: "list",
        method: "get",
        action: "list",
        word: "list",
        parameters: parameters::LIST,
        codes: &[OK],
    },
    Verb {
        verb: "create",
        method: "post",
        action: "post",
        word: "create",
        parameters: parameters::WRITE,
        codes: &[OK, CREATED, ACCEPTED],
    },
    Verb {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        word: "deleteCollection",
        parameters: parameters::DELETE_COLLECTION,
        codes: &[OK],
    },
];

/// What the operations of one path have in common.
struct Site<'a> {
    gvk: &'a Gvk,
    /// The group and version of the path, which a subresource's kind may not share.
    tag: String,
    /// What follows the verb in operation ids.
    id: String,
    object: String,
    list: String,
    custom: bool,
    edition: Edition,
}

pub(super) fn base_path(group_version: &GroupVersion) -> String {
    match group_version.group.as_str() {
        "" => format!("/api/{}", group_version.version),
        group => format!("/apis/{group}/{}", group_version.version),
    }
}

pub(super) fn paths(
    resources: &[ResourceDoc<'_>],
    definitions: &Definitions,
    edition: Edition,
) -> Map {
    let mut paths = Map::new();
    for resource in resources {
        add_resource(&mut paths, resource, definitions, edition);
    }
    paths
}

fn add_resource(
    paths: &mut Map,
    resource: &ResourceDoc<'_>,
    definitions: &Definitions,
    edition: Edition,
) {
    let base = base_path(&resource.gvk.group_version());
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{scope}/{}", resource.plural);
    let object = resource.definition();
    let list = format!("{object}List");
    let list = if resource.is_custom() || definitions.get(&list).is_some() {
        list
    } else {
        object.clone()
    };
    let scope_word = if resource.namespaced { "Namespaced" } else { "" };
    let prefix = camel_group_version(&resource.gvk.group_version());
    let site = Site {
        gvk: &resource.gvk,
        tag: tag(&resource.gvk.group_version()),
        id: format!("{prefix}{scope_word}{}", resource.gvk.kind),
        object,
        list,
        custom: resource.is_custom(),
        edition,
    };
    let namespace = resource.namespaced.then_some("namespace");
    add_path(
        paths,
        collection.clone(),
        &site,
        OF_COLLECTION,
        &resource.verbs,
        namespace.as_slice(),
    );
    if resource.namespaced && resource.has_verb("list") {
        let id = format!("{prefix}{}ForAllNamespaces", resource.gvk.kind);
        let site = Site {
            id,
            object: site.object.clone(),
            list: site.list.clone(),
            tag: site.tag.clone(),
            ..site
        };
        let everywhere = format!("{base}/{}", resource.plural);
        add_path(paths, everywhere, &site, OF_COLLECTION, &["list"], &[]);
    }
    let mut below: Vec<&str> = vec!["name"];
    below.extend(namespace);
    let single: Vec<&str> =
        resource.verbs.iter().copied().filter(|verb| *verb != "create").collect();
    add_path(paths, format!("{collection}/{{name}}"), &site, OF_OBJECT, &single, &below);
    for subresource in &resource.subresources {
        add_subresource(paths, &collection, resource, subresource, &site, &below);
    }
}

fn add_subresource(
    paths: &mut Map,
    collection: &str,
    resource: &ResourceDoc<'_>,
    subresource: &SubresourceDoc<'_>,
    parent: &Site<'_>,
    below: &[&str],
) {
    let mut word = subresource.name.to_owned();
    if let Some(first) = word.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    let object = subresource.definition.map_or_else(|| resource.definition(), str::to_owned);
    let site = Site {
        gvk: &subresource.gvk,
        tag: parent.tag.clone(),
        id: format!("{}{word}", parent.id),
        list: object.clone(),
        object,
        custom: parent.custom,
        edition: parent.edition,
    };
    let path = format!("{collection}/{{name}}/{}", subresource.name);
    add_path(paths, path, &site, OF_OBJECT, &subresource.verbs, below);
}

fn add_path(
    paths: &mut Map,
    path: String,
    site: &Site<'_>,
    table: &[Verb],
    verbs: &[&str],
    path_parameters: &[&str],
) {
    let mut item = Map::new();
    for verb in table.iter().filter(|verb| verbs.contains(&verb.verb)) {
        item.insert(verb.method.to_owned(), operation(verb, site));
    }
    if item.is_empty() {
        return;
    }
    let mut common: Vec<Value> = path_parameters
        .iter()
        .map(|name| {
            let description = match *name {
                "name" => format!("name of the {}", site.gvk.kind),
                _ => "the namespace of the object".to_owned(),
            };
            parameters::path(name, &description, site.edition)
        })
        .collect();
    common.push(parameters::query("pretty", site.edition));
    item.insert("parameters", common.into());
    paths.insert(path, item.into());
}

fn operation(verb: &Verb, site: &Site<'_>) -> Value {
    let mut parameters: Vec<Value> =
        verb.parameters.iter().map(|name| parameters::query(name, site.edition)).collect();
    let answer = match verb.verb {
        "list" => site.list.clone(),
        "delete" | "deletecollection" => format!("{META}Status"),
        _ => site.object.clone(),
    };
    let mut types: Vec<&str> = TEXT_TYPES.to_vec();
    if !site.custom {
        types.push(PROTOBUF);
    }
    let id = match verb.word {
        "deleteCollection" => {
            format!("delete{}", site.id.replacen("Namespaced", "CollectionNamespaced", 1))
        }
        word => format!("{word}{}", site.id),
    };
    let mut operation = json!({
        "description": format!("{} {}", verb.action, site.gvk.kind),
        "operationId": id,
        "tags": [site.tag],
        "responses": responses(verb, &answer, &types, site.edition),
        "x-kubernetes-action": verb.action,
        "x-kubernetes-group-version-kind": {
            "group": site.gvk.group, "version": site.gvk.version, "kind": site.gvk.kind,
        },
    });
    let (body_types, body) = request_body(verb, site);
    if let Some(body) = body {
        let schema = site.edition.reference(&body);
        match site.edition {
            Edition::V2 => {
                let required = verb.method != "delete";
                parameters.push(
                    json!({"name": "body", "in": "body", "required": required, "schema": schema}),
                );
                operation["consumes"] = body_types.into();
            }
            Edition::V3 => {
                let content: Map = body_types
                    .into_iter()
                    .map(|kind| (kind.to_owned(), json!({ "schema": schema })))
                    .collect();
                operation["requestBody"] =
                    json!({"content": content, "required": verb.method != "delete"});
            }
        }
    } else if site.edition == Edition::V2 {
        operation["consumes"] = json!(["*/*"]);
    }
    if site.edition == Edition::V2 {
        operation["produces"] = types.into();
        operation["schemes"] = json!(["https"]);
    }
    operation["parameters"] = parameters.into();
    operation
}

/// The content types and the definition of what is sent.
fn request_body(verb: &Verb, site: &Site<'_>) -> (Vec<&'static str>, Option<String>) {
    match verb.verb {
        "patch" => {
            let mut types = PATCH_TYPES.to_vec();
            if !site.custom {
                types.push(STRATEGIC);
            }
            (types, Some(format!("{META}Patch")))
        }
        "create" | "update" => (vec!["*/*"], Some(site.object.clone())),
        "delete" | "deletecollection" => (vec!["*/*"], Some(format!("{META}DeleteOptions"))),
        _ => (Vec::new(), None),
    }
}

fn responses(verb: &Verb, answer: &str, types: &[&str], edition: Edition) -> Value {
    let mut responses = Map::new();
    for (code, description) in verb.codes {
        let response = match edition {
            Edition::V2 => json!({"description": description, "schema": edition.reference(answer)}),
            Edition::V3 => {
                let content: Map = types
                    .iter()
                    .map(|kind| ((*kind).to_owned(), json!({"schema": edition.reference(answer)})))
                    .collect();
                json!({"description": description, "content": content})
            }
        };
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401", json!({"description": "Unauthorized"}));
    responses.into()
}

/// The discovery document of a group and version.
pub(super) fn discovery(group_version: &GroupVersion, edition: Edition) -> Value {
    let answer = edition.reference(&format!("{META}APIResourceList"));
    let content: Map =
        TEXT_TYPES.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": answer }))).collect();
    json!({"get": {
        "description": "get available resources",
        "operationId": format!("get{}APIResources", camel_group_version(group_version)),
        "tags": [tag(group_version)],
        "responses": {
            "200": {"description": "OK", "content": content},
            "401": {"description": "Unauthorized"},
        },
    }})
}

/// An operation whose answer is not described further.
pub(super) fn plain_get(path: &str, _edition: Edition) -> Value {
    let word: String = path.chars().filter(char::is_ascii_alphanumeric).collect();
    json!({"get": {
        "description": "get this document",
        "operationId": format!("get{word}"),
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
    }})
}

/// `AppsV1`, `CoreV1`, `RbacAuthorizationV1`, `ExampleComV1`.
fn camel_group_version(group_version: &GroupVersion) -> String {
    format!(
        "{}{}",
        camel(&group_labels(&group_version.group), true),
        camel(&[&group_version.version], true)
    )
}

/// `apps_v1`, `core_v1`, `rbacAuthorization_v1`.
fn tag(group_version: &GroupVersion) -> String {
    format!("{}_{}", camel(&group_labels(&group_version.group), false), group_version.version)
}

fn group_labels(group: &str) -> Vec<&str> {
    match group {
        "" => vec!["core"],
        group => group.strip_suffix(".k8s.io").unwrap_or(group).split('.').collect(),
    }
}

fn camel(labels: &[&str], upper: bool) -> String {
    let mut out = String::new();
    for label in labels {
        let mut letters = label.chars();
        match letters.next() {
            Some(first) if upper || !out.is_empty() => out.push(first.to_ascii_uppercase()),
            Some(first) => out.push(first),
            None => {}
        }
        out.extend(letters.filter(char::is_ascii_alphanumeric));
    }
    out
}
