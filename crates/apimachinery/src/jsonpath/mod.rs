//! The JSONPath dialect of Kubernetes: printer columns, selectable fields, `-o jsonpath` templates.
//!
//! A template is text with actions in braces; an action is a chain of steps, and
//! `{range …}…{end}` repeats what it encloses.

mod eval;
mod parse;

use std::borrow::Cow;

use crate::Value;

/// What is wrong with a template or its evaluation, in the words of kubectl.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    nodes: Vec<Node>,
    allow_missing: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Action(Vec<Step>),
    Range { over: Vec<Step>, body: Vec<Node> },
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Filter {
        left: Vec<Step>,
        operator: String,
        right: Vec<Step>,
    },
    /// Text or a number that stands for itself.
    Literal(Value),
    /// A bare word; only `range` and `end` mean something.
    Word(String),
}

/// `[start:end:step]`; a plain index has an end that follows from its start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    plain_index: bool,
}

/// The values one node of a template leads to.
pub type Found<'v> = Vec<Cow<'v, Value>>;

impl Template {
    /// Parses a template such as `{.metadata.name}{"\n"}`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { nodes: parse::template(text)?, allow_missing: false })
    }

    /// Parses a bare path such as `.spec.replicas`, as printer columns give it. Missing fields lead
    /// to no value.
    pub fn parse_path(path: &str) -> Result<Self, Error> {
        Self::parse(&format!("{{{path}}}")).map(Self::allowing_missing)
    }

    /// Makes missing fields lead to no value instead of an error.
    pub fn allowing_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// The values each node leads to, in order; text leads to itself.
    pub fn find<'v>(&self, data: &'v Value) -> Result<Vec<Found<'v>>, Error> {
        eval::Evaluation { allow_missing: self.allow_missing }.nodes(&self.nodes, data)
    }

    /// The values the first action leads to: all of them for a bare path.
    pub fn find_first<'v>(&self, data: &'v Value) -> Result<Found<'v>, Error> {
        Ok(self.find(data)?.into_iter().next().unwrap_or_default())
    }

    /// The text of the template: the values of each node are separated by blanks.
    pub fn render(&self, data: &Value) -> Result<String, Error> {
        let rendered = self.find(data)?.iter().map(|found| render_found(found)).collect();
        Ok(rendered)
    }
}

/// Prints the values of one node: scalars plainly, the rest as JSON.
pub fn render_found(found: &[Cow<'_, Value>]) -> String {
    let texts: Vec<String> = found
        .iter()
        .map(|value| match &**value {
            Value::String(text) => text.to_string(),
            container @ (Value::Array(_) | Value::Object(_)) => crate::field::go_json(container),
            scalar => scalar.to_string(),
        })
        .collect();
    texts.join(" ")
}

/// Completes the short forms kubectl accepts (`a.b`, `.a.b`, `{a.b}`) to `{.a.b}`.
pub fn complete_path(text: &str) -> Result<String, Error> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let wrong = || {
        Error::new(format!(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or '{{.name1.name2}}': got {text:?}"
        ))
    };
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(wrong)?,
        None => text,
    };
    let inner = inner.strip_prefix('.').unwrap_or(inner);
    if inner.is_empty() || inner.contains(['{', '}']) {
        return Err(wrong());
    }
    Ok(format!("{{.{inner}}}"))
}

#[cfg(test)]
mod tests;
