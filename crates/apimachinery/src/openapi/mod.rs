//! The OpenAPI documents a server publishes, made from a neutral description of its resources. Hashes,
//! caching and content negotiation are the server's business.

mod components;
mod gnostic;
mod merge;
mod metadata;
mod operations;
mod parameters;

use crate::{Map, Value, json};

pub use gnostic::encode_v2;
pub use merge::merge_v2;

use crate::gvk::{GroupVersion, Gvk};
use crate::schema::{Definitions, Schema};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// A served resource.
#[derive(Debug, Clone)]
pub struct ResourceDoc<'a> {
    pub gvk: Gvk,
    pub plural: &'a str,
    pub namespaced: bool,
    pub verbs: Vec<&'a str>,
    pub subresources: Vec<SubresourceDoc<'a>>,
    pub schema: SchemaDoc<'a>,
}

/// A served subresource such as `status` or `scale`.
#[derive(Debug, Clone)]
pub struct SubresourceDoc<'a> {
    pub name: &'a str,
    /// The kind that is read or written, which may be of another group.
    pub gvk: Gvk,
    pub verbs: Vec<&'a str>,
    /// The definition of that kind; the parent's own when absent.
    pub definition: Option<&'a str>,
}

/// What objects of a resource look like.
#[derive(Debug, Clone, Copy)]
pub enum SchemaDoc<'a> {
    /// A definition of the built-in API.
    Definition(&'a str),
    /// The schema of a custom resource; strategic merge and protobuf are not offered.
    Custom(&'a Schema),
}

/// Which generation of OpenAPI is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edition {
    V2,
    V3,
}

impl Edition {
    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }

    fn reference(self, name: &str) -> Value {
        json!({ "$ref": format!("{}{name}", self.prefix()) })
    }
}

/// The `/openapi/v3` index: paths such as `apis/apps/v1` and the hash of the document behind each.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map = documents
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path.to_owned(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The v3 document of one group and version.
pub fn document_v3(
    group_version: &GroupVersion,
    resources: &[ResourceDoc<'_>],
    definitions: &Definitions,
) -> Value {
    let mut paths = operations::paths(resources, definitions, Edition::V3);
    let base = operations::base_path(group_version);
    paths.insert(format!("{base}/"), operations::discovery(group_version, Edition::V3));
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {
            "schemas": components::schemas(resources, definitions, Edition::V3),
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"},
            },
        },
    })
}

/// A v3 document for paths without resources, such as `/apis/` or `/version/`.
pub fn document_v3_without_resources(path: &str, definitions: &Definitions) -> Value {
    let operation = operations::plain_get(path, Edition::V3);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {path: operation},
        "components": {"schemas": components::schemas(&[], definitions, Edition::V3)},
    })
}

/// The v2 document of all resources.
pub fn document_v2(
    resources: &[ResourceDoc<'_>],
    definitions: &Definitions,
    version: &str,
) -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": operations::paths(resources, definitions, Edition::V2),
        "definitions": components::schemas(resources, definitions, Edition::V2),
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"},
        },
        "security": [{"BearerToken": []}],
    })
}

/// The name under which a custom kind is published: the group's labels reversed, then version and kind.
pub fn custom_definition_name(gvk: &Gvk) -> String {
    let mut labels: Vec<&str> = gvk.group.split('.').collect();
    labels.reverse();
    format!("{}.{}.{}", labels.join("."), gvk.version, gvk.kind)
}

impl ResourceDoc<'_> {
    fn definition(&self) -> String {
        match self.schema {
            SchemaDoc::Definition(name) => name.to_owned(),
            SchemaDoc::Custom(_) => custom_definition_name(&self.gvk),
        }
    }

    fn is_custom(&self) -> bool {
        matches!(self.schema, SchemaDoc::Custom(_))
    }

    fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

#[cfg(test)]
mod tests;
