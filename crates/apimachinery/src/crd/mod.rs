//! Custom resources: what a definition may say, and what its schema does to objects. The rules language of
//! `x-kubernetes-validations` is behind the trait [`Rules`].

mod accepts;
mod approval;
mod conditions;
mod conversion;
mod defaults;
mod definition;
mod formats;
mod lists;
mod number;
mod pattern;
mod ratchet;
mod resource;
mod schema_rules;
mod shape;
mod shaped;
mod structural;
mod validate;
mod version_parts;

pub use conditions::{Conflict, name_conditions};
pub use definition::{
    apply_defaults, prepare_create, prepare_update, validate_create, validate_status_update,
    validate_update,
};
pub use lists::validate_lists;
pub use ratchet::{correlated_item, is_unchanged};
pub use resource::{CustomResource, NoRules, Rules, ScalePaths, at_dotted};
pub use shape::{default, drop_nulls, prune, shape_stored, shape_written};
pub use validate::{validate, validate_change};

use crate::names;

/// What is wrong with a kind as a name: it may have upper-case letters, else it is a label.
fn coerced_name(kind: &str) -> Option<String> {
    let problems = names::dns1035_label(&kind.to_lowercase());
    (!problems.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", problems.join(",")))
}

#[cfg(test)]
mod tests;
