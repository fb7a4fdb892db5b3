//! From request bodies to object trees: JSON and YAML text with the strict checks of `fieldValidation`, and
//! the shape Go gives to an object of a built-in kind by reading it into structs and writing it again.

mod json;
mod mismatch;
mod normalise;
mod scalar;
mod strict;
mod yaml;

use crate::Value;

use crate::field::quote;

pub use json::{json, json_untyped};
pub use mismatch::Mismatch;
pub use normalise::{
    carry_empty_lists, drop_empty_lists, empty_lists, is_normal, normalise, normalise_in_place,
};
pub use strict::unknown_fields;
pub use yaml::{yaml, yaml_untyped};

/// Kubernetes reports no more strict problems than this.
const MAX_PROBLEMS: usize = 100;

/// A decoded body and what `fieldValidation` has to say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub problems: Problems,
}

/// Unknown and duplicate fields, in the order in which they were met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    pub fn unknown(&mut self, path: &str) {
        self.add(format!("unknown field {}", quote(path)));
    }

    pub fn duplicate(&mut self, path: &str) {
        self.add(format!("duplicate field {}", quote(path)));
    }

    /// Adds a problem in its final wording; repeats and a flood of them are dropped.
    pub fn add(&mut self, text: String) {
        if self.0.len() < MAX_PROBLEMS && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|text| self.add(text));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One line per problem, as warnings carry them.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// The text that refuses the body under `fieldValidation=Strict`.
    pub fn strict_error(&self) -> String {
        format!("strict decoding error: {}", self.0.join(", "))
    }
}

/// Text that is no JSON or YAML at all; worded as Go's parsers word it where clients may look.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub String);

/// A place inside a document while it is read.
#[derive(Debug, Default)]
struct Trail(Vec<Step>);

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

impl Trail {
    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.0 {
            match step {
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    fn path_to(&self, key: &str) -> String {
        let path = self.path();
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    }
}

#[cfg(test)]
mod tests;
