//! What a request can fail with, told apart by what the caller can do about it.

use std::fmt;
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error(transparent)]
    Api(#[from] Box<ApiError>),

    /// No answer, or one that broke off.
    #[error("{attempt}")]
    Transport { attempt: String, source: Box<dyn std::error::Error + Send + Sync> },

    /// An answer that is not what the API promises.
    #[error("understand the answer to {attempt}")]
    Decode { attempt: String, source: serde_json::Error },

    #[error("read the connection settings")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The `Status` a server answers a refused request with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiError {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// Seconds the server asks to wait before trying again.
    pub retry_after_seconds: Option<u64>,
    /// Reasons of the causes given in the details.
    pub causes: Vec<String>,
    /// The details as they were sent: which object, and each cause with field and message.
    pub details: Value,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "the server answered {}", self.code),
            message => f.write_str(message),
        }
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// Reads a `Status`; `code` is used where it names none.
    pub fn from_status(status: &Value, code: u16) -> Self {
        let stated = status.i64_at(&["code"]).and_then(|code| u16::try_from(code).ok());
        let cause = |cause: &Value| Some(cause.str_at(&["reason"])?.to_owned());
        Self {
            code: stated.filter(|code| *code != 0).unwrap_or(code),
            reason: status.str_at(&["reason"]).unwrap_or_default().to_owned(),
            message: status.str_at(&["message"]).unwrap_or_default().to_owned(),
            retry_after_seconds: status
                .at(&["details", "retryAfterSeconds"])
                .and_then(Value::as_u64),
            causes: status.list_at(&["details", "causes"]).iter().filter_map(cause).collect(),
            details: status.get("details").cloned().unwrap_or_default(),
        }
    }
}

impl Error {
    pub(crate) fn transport(
        attempt: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Transport { attempt: attempt.into(), source: source.into() }
    }

    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    fn has(&self, code: u16, reason: &str) -> bool {
        self.api().is_some_and(|error| error.code == code && error.reason == reason)
    }

    fn has_code(&self, code: u16) -> bool {
        self.api().is_some_and(|error| error.code == code)
    }

    /// The object, or the resource itself, is not there.
    pub fn is_not_found(&self) -> bool {
        self.has_code(404)
    }

    pub fn is_already_exists(&self) -> bool {
        self.has(409, "AlreadyExists")
    }

    /// Somebody else was faster; read again and decide anew.
    pub fn is_conflict(&self) -> bool {
        self.has(409, "Conflict")
    }

    /// The history asked for is gone; list again.
    pub fn is_expired(&self) -> bool {
        self.has_code(410)
    }

    pub fn is_invalid(&self) -> bool {
        self.has_code(422)
    }

    pub fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    pub fn is_method_not_allowed(&self) -> bool {
        self.has_code(405)
    }

    /// The namespace an object was to be made in is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        let cause =
            |error: &ApiError| error.causes.iter().any(|cause| cause == "NamespaceTerminating");
        self.is_forbidden() && self.api().is_some_and(cause)
    }

    /// Returns how long the server asks to wait, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        self.api()?.retry_after_seconds.map(Duration::from_secs)
    }
}
