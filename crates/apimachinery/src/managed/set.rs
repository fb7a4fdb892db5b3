//! Sets of field paths, kept as tries: the algebra ownership is computed with.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use crate::value::{Text, write_number, write_string};
use crate::{Map, Value};
use serde_json::Number;

use super::place::Place;
use crate::field::quote;

/// One step of a path. Keys and values are kept as canonical JSON text, which makes them comparable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Field(String),
    /// An element of a list with keys, by its key fields.
    Key(String),
    /// An element of a set, by itself.
    Value(String),
    Index(u64),
}

impl Step {
    /// The step of these key fields, which are in the order of their names.
    pub(super) fn key<'v>(fields: impl IntoIterator<Item = (&'v str, &'v Value)>) -> Self {
        let mut text = Vec::with_capacity(64);
        write_canonical_fields(fields, &mut text);
        Self::Key(written(text))
    }

    pub(super) fn value(value: &Value) -> Self {
        let mut text = Vec::with_capacity(64);
        write_canonical(value, &mut text);
        Self::Value(written(text))
    }
}

fn written(text: Vec<u8>) -> String {
    String::from_utf8(text).expect("JSON is text")
}

/// Writes JSON text in which whole numbers have one spelling.
fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.as_str(), value));
            write_canonical_fields(fields, out);
        }
        Value::Number(number) => match whole(number) {
            Some(whole) => write_number(&whole.into(), out),
            None => write_number(number, out),
        },
        other => other.write_text(out),
    }
}

fn write_canonical_fields<'v>(
    fields: impl IntoIterator<Item = (&'v str, &'v Value)>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (index, (name, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        write_canonical(value, out);
    }
    out.push(b'}');
}

fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scalar = |value: &Value| match value {
            Value::String(text) => quote(text),
            other => other.to_string(),
        };
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(text) => {
                let fields = parsed(text);
                let fields = fields.as_object().into_iter().flatten();
                let fields: Vec<String> =
                    fields.map(|(name, value)| format!("{name}={}", scalar(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(text) => write!(f, "[={}]", scalar(&parsed(text))),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A set of paths. A node that is neither owned nor has children is never kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSet(pub(super) BTreeMap<Step, Node>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    /// The path that ends here is in the set.
    pub(super) owned: bool,
    pub(super) children: FieldSet,
}

impl Node {
    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.children.is_empty()
    }

    fn encode(&self) -> Value {
        let mut fields = self.children.encode_fields();
        mark(&mut fields, self.owned);
        Value::Object(fields)
    }
}

impl FieldSet {
    /// A set of paths made of field names only.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let steps: Vec<Step> =
                path.iter().map(|name| Step::Field((*name).to_owned())).collect();
            set.insert(&steps);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, path: &[Step]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for step in parents {
            set = &mut set.node(step).children;
        }
        set.node(last).owned = true;
    }

    /// The node of a step, made where it is missing. Most steps are there already, so the step is
    /// copied only when it is not.
    fn node(&mut self, step: &Step) -> &mut Node {
        if !self.0.contains_key(step) {
            self.0.insert(step.clone(), Node::default());
        }
        self.0.get_mut(step).expect("was just made sure of")
    }

    pub fn contains(&self, path: &[Step]) -> bool {
        match path {
            [] => false,
            [last] => self.owns(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.contains(rest)),
        }
    }

    pub(super) fn owns(&self, step: &Step) -> bool {
        self.0.get(step).is_some_and(|node| node.owned)
    }

    /// The paths that begin with `step`, without it.
    pub(super) fn below(&self, step: &Step) -> Option<&Self> {
        self.0.get(step).map(|node| &node.children).filter(|set| !set.is_empty())
    }

    /// Adds a node found elsewhere; an empty one is dropped.
    pub(super) fn graft(&mut self, step: Step, node: Node) {
        if !node.is_empty() {
            self.0.insert(step, node);
        }
    }

    /// Adds a node to what is there.
    pub(super) fn join(&mut self, step: Step, node: Node) {
        match self.0.entry(step) {
            Entry::Vacant(place) => drop(place.insert(node)),
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                there.owned |= node.owned;
                there.children.absorb(node.children);
            }
        }
    }

    /// Adds all paths of another set.
    pub(super) fn absorb(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (step, node) in other.0 {
            self.join(step, node);
        }
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.absorb(other.clone());
        union
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |mine, theirs| Node {
            owned: mine.owned && theirs.owned,
            children: mine.children.intersection(&theirs.children),
        })
    }

    /// The paths that are not in `other`; children of a removed path stay.
    pub fn difference(&self, other: &Self) -> Self {
        self.subtract(other, |mine, theirs| Node {
            owned: mine.owned && !theirs.owned,
            children: mine.children.difference(&theirs.children),
        })
    }

    /// The paths that are neither in `other` nor below one that is.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.subtract(other, |mine, theirs| {
            if theirs.owned {
                return Node::default();
            }
            Node {
                owned: mine.owned,
                children: mine.children.recursive_difference(&theirs.children),
            }
        })
    }

    /// Removes the paths that are in `other`; children of a removed path stay.
    pub(super) fn take_away(&mut self, other: &Self) {
        for (step, theirs) in &other.0 {
            let Some(mine) = self.0.get_mut(step) else { continue };
            mine.owned &= !theirs.owned;
            mine.children.take_away(&theirs.children);
            if mine.is_empty() {
                self.0.remove(step);
            }
        }
    }

    /// Removes the paths that are in `other` or below one that is.
    #[cfg(test)]
    pub(super) fn take_away_below(&mut self, other: &Self) {
        if self.is_empty() {
            return;
        }
        for (step, theirs) in &other.0 {
            let Some(mine) = self.0.get_mut(step) else { continue };
            if theirs.owned {
                self.0.remove(step);
                continue;
            }
            mine.children.take_away_below(&theirs.children);
            if mine.is_empty() {
                self.0.remove(step);
            }
        }
    }

    fn zip(&self, other: &Self, join: impl Fn(&Node, &Node) -> Node) -> Self {
        let mut result = Self::default();
        for (step, mine) in &self.0 {
            if let Some(theirs) = other.0.get(step) {
                result.graft(step.clone(), join(mine, theirs));
            }
        }
        result
    }

    fn subtract(&self, other: &Self, reduce: impl Fn(&Node, &Node) -> Node) -> Self {
        let mut result = Self::default();
        for (step, mine) in &self.0 {
            let left = other.0.get(step).map_or_else(|| mine.clone(), |node| reduce(mine, node));
            result.graft(step.clone(), left);
        }
        result
    }

    /// Adds the declared fields on the way to each path, which the wire form leaves out.
    pub(super) fn with_declared_parents(&self, place: Place<'_>) -> Self {
        let mut result = Self::default();
        for (step, node) in &self.0 {
            let (below, declared) = match step {
                Step::Field(name) => place.static_field(name),
                Step::Key(_) => (place.static_items(), false),
                _ => (Place::Unknown, false),
            };
            let owned = node.owned || (declared && !node.children.is_empty());
            let children = node.children.with_declared_parents(below);
            result.graft(step.clone(), Node { owned, children });
        }
        result
    }

    /// Makes the set fit a schema that changed: below what is atomic by now, nothing is told apart.
    pub(super) fn reconciled(&self, place: Place<'_>) -> Self {
        let mut result = Self::default();
        for (step, node) in &self.0 {
            let below = match step {
                Step::Field(name) => place.static_field(name).0,
                Step::Key(_) | Step::Value(_) | Step::Index(_) => place.static_items(),
            };
            let node = if !node.children.is_empty() && below.is_declared_atomic() {
                Node { owned: true, ..Node::default() }
            } else {
                Node { owned: node.owned, children: node.children.reconciled(below) }
            };
            result.graft(step.clone(), node);
        }
        result
    }

    /// All paths as text; those of one level come before those of the next.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let owned = self.0.iter().filter(|(_, node)| node.owned);
        paths.extend(owned.map(|(step, _)| format!("{prefix}{step}")));
        for (step, node) in &self.0 {
            node.children.collect_paths(&format!("{prefix}{step}"), paths);
        }
    }
}

/// Text that is no set of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl FieldSet {
    /// The `fieldsV1` form.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_fields())
    }

    fn encode_fields(&self) -> Map {
        self.0.iter().map(|(step, node)| (encode_step(step), node.encode())).collect()
    }

    /// Whether some path of this set is in the encoded one too.
    pub(super) fn meets(&self, encoded: &Map) -> bool {
        self.meets_by(encoded, &mut String::new())
    }

    fn meets_by(&self, encoded: &Map, name: &mut String) -> bool {
        self.0.iter().any(|(step, node)| {
            encoded_at(encoded, step, name).is_some_and(|inner| {
                (node.owned && is_owned(inner)) || node.children.meets_by(inner, name)
            })
        })
    }

    /// Whether every path of this set is in the encoded one too.
    pub(super) fn is_within(&self, encoded: &Map) -> bool {
        self.is_within_by(encoded, &mut String::new())
    }

    fn is_within_by(&self, encoded: &Map, name: &mut String) -> bool {
        self.0.iter().all(|(step, node)| {
            encoded_at(encoded, step, name).is_some_and(|inner| {
                (!node.owned || is_owned(inner)) && node.children.is_within_by(inner, name)
            })
        })
    }

    /// Adds all paths of this set to an encoded one.
    pub(super) fn add_to(&self, encoded: &mut Map) {
        self.add_by(encoded, &mut String::new());
    }

    fn add_by(&self, encoded: &mut Map, name: &mut String) {
        for (step, node) in &self.0 {
            name.clear();
            write_step(step, name);
            let Some(Value::Object(inner)) = encoded.get_mut(&*name) else {
                encoded.insert(name.as_str(), node.encode());
                continue;
            };
            let was_owned = is_owned(inner);
            node.children.add_by(inner, name);
            mark(inner, was_owned || node.owned);
        }
    }

    /// Removes the paths of this set from an encoded one; children of a removed path stay.
    pub(super) fn take_from(&self, encoded: &mut Map) {
        self.take_by(encoded, &mut String::new());
    }

    fn take_by(&self, encoded: &mut Map, name: &mut String) {
        for (step, node) in &self.0 {
            name.clear();
            write_step(step, name);
            let Some(Value::Object(inner)) = encoded.get_mut(&*name) else { continue };
            let was_owned = is_owned(inner);
            inner.remove(ITSELF);
            node.children.take_by(inner, name);
            let stays = was_owned && !node.owned;
            if inner.is_empty() && !stays {
                name.clear();
                write_step(step, name);
                encoded.remove(&*name);
            } else {
                mark(inner, stays);
            }
        }
    }

    /// Reads the `fieldsV1` form.
    pub fn decode(fields: &Value) -> Result<Self, DecodeError> {
        let Value::Object(fields) = fields else {
            return Err(DecodeError("fields must be a map".to_owned()));
        };
        let mut set = Self::default();
        for (key, value) in fields.iter().filter(|(key, _)| *key != ".") {
            let step = decode_step(key)?;
            let children = Self::decode(value)?;
            let owned = children.is_empty() || value.get(".").is_some();
            set.graft(step, Node { owned, children });
        }
        Ok(set)
    }
}

/// The name of what says that a path is in a set together with longer ones. It sorts before the names of all steps.
pub(super) const ITSELF: &str = ".";

/// Marks an encoded part as owned where its fields alone do not say so.
fn mark(fields: &mut Map, owned: bool) {
    if owned && !fields.is_empty() && !fields.contains_key(ITSELF) {
        fields.insert(Text::new_static(ITSELF), Value::Object(Map::new()));
    }
    // Alone, the mark says no more than nothing does.
    if fields.len() == 1 && fields.contains_key(ITSELF) {
        fields.clear();
    }
}

fn encode_step(step: &Step) -> String {
    let mut name = String::new();
    write_step(step, &mut name);
    name
}

pub(super) fn write_step(step: &Step, name: &mut String) {
    let (kind, text) = match step {
        Step::Field(name) => ("f:", name),
        Step::Key(text) => ("k:", text),
        Step::Value(text) => ("v:", text),
        Step::Index(index) => ("i:", &index.to_string()),
    };
    name.reserve_exact(kind.len() + text.len());
    name.push_str(kind);
    name.push_str(text);
}

/// What an encoded set holds behind a step; `name` is room to write the step in.
fn encoded_at<'e>(encoded: &'e Map, step: &Step, name: &mut String) -> Option<&'e Map> {
    name.clear();
    write_step(step, name);
    encoded.get(&*name)?.as_object()
}

/// Whether the path that leads to this part of an encoded set is in the set.
fn is_owned(encoded: &Map) -> bool {
    encoded.is_empty() || encoded.contains_key(ITSELF)
}

fn decode_step(text: &str) -> Result<Step, DecodeError> {
    let wrong = |why: &str| DecodeError(format!("{why}: {}", quote(text)));
    let (kind, rest) = text.split_once(':').ok_or_else(|| wrong("missing colon in key"))?;
    let parsed = || {
        serde_json::from_str::<Value>(rest).map_err(|_| wrong("unable to parse the value in key"))
    };
    match kind {
        "f" => Ok(Step::Field(rest.to_owned())),
        "k" => match parsed()? {
            Value::Object(fields) => {
                Ok(Step::key(fields.iter().map(|(name, value)| (name.as_str(), value))))
            }
            _ => Err(wrong("no map in key")),
        },
        "v" => parsed().map(|value| Step::value(&value)),
        "i" => rest.parse().map(Step::Index).map_err(|_| wrong("no number in key")),
        _ => Err(wrong("unsupported type of key")),
    }
}
