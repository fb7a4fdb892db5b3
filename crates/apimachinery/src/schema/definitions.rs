//! Named schemas, and references to them that need not be looked up every time.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Cursor, Presence, Schema, Special};

/// Named schemas that nodes refer to.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    list: Vec<Definition>,
    /// Where each of them lies in the list.
    places: HashMap<Box<str>, u32>,
}

/// A schema with a name.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: Box<str>,
    pub(super) schema: Schema,
    /// Set where values are no structs in JSON.
    pub(super) special: Option<Special>,
    /// The properties that are written although nothing was given for them.
    persistent: OnceLock<Box<[Box<str>]>>,
}

impl Definition {
    pub(super) fn persistent(&self, definitions: &Definitions) -> &[Box<str>] {
        self.persistent.get_or_init(|| {
            let persists = |node: &Schema| match node.presence {
                Presence::Always | Presence::Nullable => true,
                Presence::OmitEmpty => Cursor::new(definitions, node).definition().is_some(),
                Presence::Pointer | Presence::OmitZero => false,
            };
            let properties = self.schema.properties.iter();
            properties.filter(|(_, node)| persists(node)).map(|(name, _)| name.clone()).collect()
        })
    }
}

impl Definitions {
    pub fn get(&self, name: &str) -> Option<&Schema> {
        self.find(name).map(|definition| &definition.schema)
    }

    fn find(&self, name: &str) -> Option<&Definition> {
        self.list.get(*self.places.get(name)? as usize)
    }

    pub fn insert(&mut self, name: &str, schema: Schema) {
        let special = Special::of(name);
        let definition =
            Definition { name: name.into(), schema, special, persistent: OnceLock::new() };
        match self.places.get(name) {
            Some(place) => self.list[*place as usize] = definition,
            None => {
                let place = u32::try_from(self.list.len()).expect("nobody defines that much");
                self.places.insert(name.into(), place);
                self.list.push(definition);
            }
        }
    }

    /// The names in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|definition| &*definition.name)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A cursor at the definition called `name`.
    pub fn cursor(&self, name: &str) -> Option<Cursor<'_>> {
        self.find(name).map(|definition| Cursor::named(self, definition))
    }

    /// The definition a node refers to. Where it was found last time it is most likely still.
    pub(super) fn resolve(&self, reference: &Reference) -> Option<&Definition> {
        let known = self.list.get(reference.place.load(Ordering::Relaxed) as usize);
        if let Some(known) = known.filter(|known| known.name == reference.name) {
            return Some(known);
        }
        let place = *self.places.get(&reference.name)?;
        reference.place.store(place, Ordering::Relaxed);
        self.list.get(place as usize)
    }
}

/// The name of a definition.
#[derive(Debug, Default)]
pub struct Reference {
    name: Box<str>,
    /// Where it was found last.
    place: AtomicU32,
}

impl From<&str> for Reference {
    fn from(name: &str) -> Self {
        Self { name: name.into(), place: AtomicU32::default() }
    }
}

impl Deref for Reference {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl Clone for Reference {
    fn clone(&self) -> Self {
        let place = AtomicU32::new(self.place.load(Ordering::Relaxed));
        Self { name: self.name.clone(), place }
    }
}

impl PartialEq for Reference {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
