//! What can go wrong when an object is interpreted; every error about a field names its path.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvk;

use crate::Operation;
use crate::lua::ScriptError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: expected {expected}, found {found}")]
    FieldType { path: String, expected: &'static str, found: &'static str },
    #[error("{path}: required")]
    FieldMissing { path: String },
    #[error("{path}: {problem}")]
    FieldInvalid { path: String, problem: String },
    #[error("status reported by cluster {cluster}: {source}")]
    Member { cluster: String, source: Box<Error> },
    #[error("dependency {index}: {problem}")]
    Dependency { index: usize, problem: String },
    /// Compat: the original ends in these words when nobody knows the pod templates of a kind.
    #[error("interface {} not implemented yet", .0.function())]
    NotImplemented(Operation),
    #[error("default interpreter for operation {operation} not found: {gvk}")]
    NoInterpreter { operation: Operation, gvk: Gvk },
    /// Compat: the name of the customization is not part of the words; events show them.
    #[error("{source}")]
    Script { customization: String, source: ScriptError },
    #[error("webhook {hook}: {problem}")]
    Webhook { hook: String, problem: String },
}

impl Error {
    pub(crate) fn wrong_type(path: &[&str], expected: &'static str, found: &Value) -> Self {
        Self::FieldType { path: path.join("."), expected, found: type_name(found) }
    }

    pub(crate) fn invalid(path: &[&str], problem: impl ToString) -> Self {
        Self::FieldInvalid { path: path.join("."), problem: problem.to_string() }
    }

    pub(crate) fn missing(path: &[&str]) -> Self {
        Self::FieldMissing { path: path.join(".") }
    }

    /// Puts the path of a surrounding field before the path of the error.
    pub(crate) fn under(self, prefix: &str) -> Self {
        let join = |path: String| {
            if path.is_empty() { prefix.to_owned() } else { format!("{prefix}.{path}") }
        };
        match self {
            Self::FieldType { path, expected, found } => {
                Self::FieldType { path: join(path), expected, found }
            }
            Self::FieldMissing { path } => Self::FieldMissing { path: join(path) },
            Self::FieldInvalid { path, problem } => {
                Self::FieldInvalid { path: join(path), problem }
            }
            other => other,
        }
    }
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
