//! Selecting objects by labels or fields: parsing, printing, matching, with Kubernetes' wording of
//! what cannot be parsed.

mod fields;
mod label_parser;
mod labels;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Labelled, Operator, Requirement, validate_label_selector};

/// Text that is no selector; the message is Kubernetes'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

#[cfg(test)]
mod tests;
