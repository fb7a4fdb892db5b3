//! A place in a schema: references are already followed, and what is written beside a reference is kept.

use std::sync::LazyLock;

use super::definitions::Definition;
use super::{Additional, Definitions, Schema, Special, Type};

static NO_DEFINITIONS: LazyLock<Definitions> = LazyLock::new(Definitions::default);

/// How apply and validation treat a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType<'a> {
    Atomic,
    Set,
    /// Elements are identified by these fields.
    Map(&'a [String]),
}

/// How apply treats a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    Granular,
    Atomic,
}

/// What a strategic merge patch does with a field; `retain_keys` may come with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    pub merge: bool,
    pub retain_keys: bool,
}

/// A place in a schema.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    definitions: &'a Definitions,
    /// The node at this place, maybe only a reference.
    site: &'a Schema,
    /// The node that says what the value looks like.
    target: &'a Schema,
    definition: Option<&'a Definition>,
}

impl<'a> Cursor<'a> {
    /// A cursor at `schema`, whose references lead into `definitions`.
    pub fn new(definitions: &'a Definitions, schema: &'a Schema) -> Self {
        let mut cursor = Self { definitions, site: schema, target: schema, definition: None };
        // A definition may itself be a reference; a ring of them ends after a few steps.
        for _ in 0..8 {
            let Some(reference) = &cursor.target.reference else { break };
            let Some(definition) = definitions.resolve(reference) else { break };
            cursor.definition = Some(definition);
            cursor.target = &definition.schema;
        }
        cursor
    }

    /// A cursor into a schema that has no references, such as that of a custom resource.
    pub fn alone(schema: &'a Schema) -> Self {
        Self::new(&NO_DEFINITIONS, schema)
    }

    pub(super) fn named(definitions: &'a Definitions, definition: &'a Definition) -> Self {
        Self { definition: Some(definition), ..Self::new(definitions, &definition.schema) }
    }

    /// The node that describes the value here.
    pub fn schema(self) -> &'a Schema {
        self.target
    }

    /// The node written at this place, which may be a bare reference.
    pub fn site(self) -> &'a Schema {
        self.site
    }

    pub fn definitions(self) -> &'a Definitions {
        self.definitions
    }

    /// The name of the definition this place refers to.
    pub fn definition(self) -> Option<&'a str> {
        self.definition.map(|definition| &*definition.name)
    }

    /// Set where values are no structs in JSON although a definition describes them.
    pub(crate) fn special(self) -> Option<Special> {
        self.definition?.special
    }

    /// The properties that are written although nothing was given for them, if that is known.
    pub(crate) fn persistent(self) -> Option<&'a [Box<str>]> {
        // A definition that is a reference says nothing of its own.
        let definition = self.definition.filter(|own| std::ptr::eq(&own.schema, self.target))?;
        Some(definition.persistent(self.definitions))
    }

    /// The value under `name`: a property, else what additional properties look like.
    pub fn field(self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| self.values())
    }

    /// A declared property.
    pub fn property(self, name: &str) -> Option<Self> {
        self.target.properties.get(name).map(|node| Self::new(self.definitions, node))
    }

    /// The declared properties, by name.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, Self)> {
        let definitions = self.definitions;
        self.target
            .properties
            .iter()
            .map(move |(name, node)| (&**name, Self::new(definitions, node)))
    }

    /// The values of a map.
    pub fn values(self) -> Option<Self> {
        match &self.target.additional {
            Additional::Schema(node) => Some(Self::new(self.definitions, node)),
            _ => None,
        }
    }

    /// The elements of a list.
    pub fn items(self) -> Option<Self> {
        self.target.items.as_deref().map(|node| Self::new(self.definitions, node))
    }

    pub fn list_type(self) -> ListType<'a> {
        let written = |node: &'a Schema| node.extensions.list_type.as_deref();
        match written(self.site).or_else(|| written(self.target)) {
            Some("set") => ListType::Set,
            Some("map") => {
                let at_site = &self.site.extensions.list_map_keys;
                let keys = if at_site.is_empty() {
                    &self.target.extensions.list_map_keys
                } else {
                    at_site
                };
                ListType::Map(keys)
            }
            _ => ListType::Atomic,
        }
    }

    pub fn map_type(self) -> MapType {
        let written = |node: &'a Schema| node.extensions.map_type.as_deref();
        match written(self.site).or_else(|| written(self.target)) {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        }
    }

    pub fn patch_strategy(self) -> PatchStrategy {
        let mut strategy = PatchStrategy::default();
        for word in self.site.extensions.patch_strategy.as_deref().unwrap_or_default().split(',') {
            match word {
                "merge" => strategy.merge = true,
                "retainKeys" => strategy.retain_keys = true,
                _ => {}
            }
        }
        strategy
    }

    pub fn patch_merge_key(self) -> Option<&'a str> {
        self.site.extensions.patch_merge_key.as_deref()
    }

    /// Whether any value may stand here: nothing is declared about its inside.
    pub fn is_opaque(self) -> bool {
        let node = self.target;
        node.extensions.preserve_unknown_fields
            || (matches!(node.kind, Type::Any | Type::Object)
                && node.properties.is_empty()
                && matches!(node.additional, Additional::Unspecified | Additional::Allowed))
    }
}
