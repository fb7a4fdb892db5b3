//! Schemas of objects as OpenAPI v3 describes them: the nodes, the named definitions they refer to, and
//! a cursor that walks both as one tree. Meaning (pruning, defaulting, validation) lives elsewhere.

mod cursor;
mod definitions;
mod parse;
mod special;
mod write;

use std::collections::BTreeMap;

use crate::Value;
use crate::value::List;

pub use cursor::{Cursor, ListType, MapType, PatchStrategy};
pub use definitions::{Definitions, Reference};
pub use parse::ParseError;
pub(crate) use special::Special;

/// The JSON type a node demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    /// No `type` is given.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// A type name OpenAPI does not know; it accepts nothing.
    Unknown,
}

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Self::Any | Self::Unknown => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// When a field of a built-in kind is written to JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// Left out when empty; structures are never empty.
    #[default]
    OmitEmpty,
    /// Written when set, also to an empty value.
    Pointer,
    /// Always written.
    Always,
    /// Always written, as `null` when not set.
    Nullable,
    /// Left out when the whole value is zero.
    OmitZero,
}

/// What `additionalProperties` says about keys that `properties` does not name.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Additional {
    #[default]
    Unspecified,
    Allowed,
    Forbidden,
    Schema(Box<Schema>),
}

/// One node of a schema. Rare keywords sit behind boxes, so a node of a built-in kind stays small.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// The name of the definition this node stands for; its own keywords then describe the place only.
    pub reference: Option<Reference>,
    pub kind: Type,
    pub nullable: bool,
    pub format: Option<Box<str>>,
    pub properties: BTreeMap<Box<str>, Schema>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub required: Vec<Box<str>>,
    pub default: Option<Box<Value>>,
    pub presence: Presence,
    pub extensions: Extensions,
    pub limits: Option<Box<Limits>>,
    pub description: Option<Box<str>>,
}

/// The `x-kubernetes-*` keywords.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extensions {
    pub preserve_unknown_fields: bool,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<Box<str>>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<Box<str>>,
    pub patch_strategy: Option<Box<str>>,
    pub patch_merge_key: Option<Box<str>>,
    /// `x-kubernetes-group-version-kind` as published.
    pub kinds: Option<Box<Value>>,
    /// `x-kubernetes-validations` as published.
    pub rules: Option<Box<Value>>,
    /// `x-kubernetes-unions` as published.
    pub unions: Option<Box<Value>>,
}

/// Keywords that bound a value without shaping it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    pub maximum: Option<f64>,
    pub minimum: Option<f64>,
    pub exclusive_maximum: bool,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<u64>,
    pub min_length: Option<u64>,
    pub pattern: Option<Box<str>>,
    pub max_items: Option<u64>,
    pub min_items: Option<u64>,
    pub unique_items: bool,
    pub max_properties: Option<u64>,
    pub min_properties: Option<u64>,
    pub enumeration: Option<List>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub title: Option<Box<str>>,
    pub external_docs: Option<Box<Value>>,
    pub example: Option<Box<Value>>,
}

static NO_LIMITS: Limits = Limits {
    maximum: None,
    minimum: None,
    exclusive_maximum: false,
    exclusive_minimum: false,
    multiple_of: None,
    max_length: None,
    min_length: None,
    pattern: None,
    max_items: None,
    min_items: None,
    unique_items: false,
    max_properties: None,
    min_properties: None,
    enumeration: None,
    all_of: Vec::new(),
    any_of: Vec::new(),
    one_of: Vec::new(),
    not: None,
    title: None,
    external_docs: None,
    example: None,
};

impl Schema {
    /// A node that only refers to a definition.
    pub fn reference_to(name: &str) -> Self {
        Self { reference: Some(name.into()), ..Self::default() }
    }

    /// The schema of a custom resource with the fields every object has: `apiVersion`, `kind`, and `metadata`
    /// as a reference to the built-in definition.
    pub fn with_object_fields(&self) -> Self {
        let mut whole = self.clone();
        let text = |description: &str| Self {
            kind: Type::String,
            description: Some(description.into()),
            ..Self::default()
        };
        let mut metadata = Self::reference_to("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        // Compat: tools look for the first words of these.
        metadata.description = Some("Standard object's metadata.".into());
        for (name, node) in [
            (
                "apiVersion",
                text("APIVersion defines the group and version of this object's schema."),
            ),
            ("kind", text("Kind is the kind of this object.")),
            ("metadata", metadata),
        ] {
            whole.properties.insert(name.into(), node);
        }
        whole
    }

    /// The bounds of this node; all absent where none are written.
    pub fn limits(&self) -> &Limits {
        self.limits.as_deref().unwrap_or(&NO_LIMITS)
    }

    /// Whether values are integers or strings, by extension or by the format built-ins use.
    pub fn is_int_or_string(&self) -> bool {
        self.extensions.int_or_string || self.format.as_deref() == Some("int-or-string")
    }
}

#[cfg(test)]
mod tests;
