//! What a command can fail with, and how that reads on a terminal: in the words of kubectl.

use std::sync::Mutex;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{ApiError, Error as ClientError};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A sentence for the user.
    #[error("{0}")]
    Message(String),

    /// A sentence that is printed as it stands, without `error: ` in front.
    #[error("{0}")]
    Plain(String),

    /// The command line itself is wrong; the command is named for its help.
    #[error("{message}")]
    Usage { message: String, command: String },

    /// A request failed. `attempt` says what was tried, where the server's words alone would leave that open.
    #[error("{}", with_attempt(.attempt, &describe(.source)))]
    Request { attempt: String, source: ClientError },

    /// Several things failed, each on its own.
    #[error("{} errors", .0.len())]
    Many(Vec<Error>),

    #[error("write the output: {0}")]
    Print(#[from] std::io::Error),

    /// The end of a remote command: nothing to say, only its exit code to pass on.
    #[error("exit code {0}")]
    Exit(i32),
}

impl From<ClientError> for Error {
    fn from(source: ClientError) -> Self {
        Self::Request { attempt: String::new(), source }
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::Message(message.to_owned())
    }
}

/// Adds what was attempted to a refused request.
pub(crate) trait Attempt<T> {
    fn attempting(self, attempt: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempt<T> for karmada_client::Result<T> {
    fn attempting(self, attempt: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Request { attempt: attempt(), source })
    }
}

impl Error {
    /// One error for all that failed, or none.
    pub(crate) fn combine(mut errors: Vec<Self>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Many(errors)),
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Request { source, .. } if source.is_not_found())
    }

    /// The text for stderr, with its line end.
    pub(crate) fn render(&self) -> String {
        match self {
            Self::Message(text) => format!("error: {text}\n"),
            Self::Plain(text) => format!("{text}\n"),
            Self::Usage { message, command } => {
                format!("error: {message}\nSee '{command} --help' for usage.\n")
            }
            Self::Request { attempt, source } => render_request(attempt, source),
            // Compat: several errors stand one per line without a prefix.
            Self::Many(errors) => {
                errors.iter().map(|error| format!("{}\n", error.in_list())).collect()
            }
            Self::Print(error) => format!("error: write the output: {error}\n"),
            Self::Exit(code) => format!("command terminated with exit code {code}\n"),
        }
    }

    fn in_list(&self) -> String {
        match self {
            Self::Request { source: ClientError::Api(_), .. } => {
                self.render().trim_end().to_owned()
            }
            other => other.to_string(),
        }
    }
}

fn with_attempt(attempt: &str, text: &str) -> String {
    if attempt.is_empty() { text.to_owned() } else { format!("{attempt}: {text}") }
}

fn render_request(attempt: &str, error: &ClientError) -> String {
    let ClientError::Api(refusal) = error else {
        let text = describe(error);
        let known = ["The connection to the server", "Unable to connect", "Error in configuration"];
        return match known.iter().any(|start| text.starts_with(start)) {
            true => format!("{text}\n"),
            false => format!("error: {}\n", with_attempt(attempt, &text)),
        };
    };
    if refusal.code == 422 && refusal.reason == "Invalid" {
        return render_invalid(refusal);
    }
    let message = with_attempt(attempt, &refusal.to_string());
    match refusal.reason.as_str() {
        "Unauthorized" => format!("error: You must be logged in to the server ({message})\n"),
        "" => format!("Error from server: {message}\n"),
        reason => format!("Error from server ({reason}): {message}\n"),
    }
}

/// An object that breaks its rules: one line per field.
fn render_invalid(refusal: &ApiError) -> String {
    let details = &refusal.details;
    let (kind, name) = (
        details.str_at(&["kind"]).unwrap_or_default(),
        details.str_at(&["name"]).unwrap_or_default(),
    );
    let head = match (kind, name) {
        ("", "") => "The request is invalid".to_owned(),
        _ => format!("The {kind} {name:?} is invalid"),
    };
    let cause = |cause: &karmada_apimachinery::Value| {
        let message = cause.str_at(&["message"]).unwrap_or_default();
        match cause.str_at(&["field"]).unwrap_or_default() {
            "" => message.to_owned(),
            field => format!("{field}: {message}"),
        }
    };
    let causes: Vec<String> = details.list_at(&["causes"]).iter().map(cause).collect();
    match causes.as_slice() {
        [] if kind.is_empty() => format!("{head}: {refusal}\n"),
        [] => format!("{head}\n"),
        [one] => format!("{head}: {one}\n"),
        many => {
            let lines: String = many.iter().map(|line| format!("* {line}\n")).collect();
            format!("{head}: \n{lines}")
        }
    }
}

/// The error with its causes; failed connections in kubectl's words.
pub(crate) fn describe(error: &ClientError) -> String {
    match error {
        ClientError::Api(refusal) => refusal.to_string(),
        ClientError::Transport { source, .. } => describe_transport(source.as_ref()),
        ClientError::Config(source) => chain(source.as_ref()),
        other => chain(other),
    }
}

/// The server that is being asked, for errors that are about reaching it.
static SERVER: Mutex<String> = Mutex::new(String::new());

/// Remembers which server is asked from now on.
pub(crate) fn note_server(url: &http::Uri) {
    if let (Ok(mut server), Some(authority)) = (SERVER.lock(), url.authority()) {
        *server = authority.to_string();
    }
}

fn describe_transport(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let text = chain(error);
    if text.contains("refused") {
        let server = SERVER.lock().map(|server| server.clone()).unwrap_or_default();
        let server = if server.is_empty() { server } else { format!("{server} ") };
        return format!(
            "The connection to the server {server}was refused - did you specify the right host or port?"
        );
    }
    format!("Unable to connect to the server: {text}")
}

/// The messages of an error and its causes, without those that repeat what the one before said.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let message = next.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};

    fn refused(status: Value) -> Error {
        let code = u16::try_from(status["code"].as_u64().unwrap()).unwrap();
        Error::from(ClientError::Api(Box::new(ApiError::from_status(&status, code))))
    }

    #[test]
    fn errors_read_as_kubectl_writes_them() {
        let missing = json!({"code": 404, "reason": "NotFound", "message": "pods \"x\" not found"});
        let denied = json!({"code": 403, "reason": "Forbidden", "message": "no"});
        let login = json!({"code": 401, "reason": "Unauthorized", "message": "Unauthorized"});
        let one = json!({"code": 422, "reason": "Invalid", "message": "m", "details": {
            "kind": "Cluster", "name": "a", "causes": [{"field": "spec.x", "message": "Required value"}]}});
        let two = json!({"code": 422, "reason": "Invalid", "message": "m", "details": {
            "kind": "Cluster", "name": "a", "causes": [
                {"field": "spec.x", "message": "Required value"}, {"field": "spec.y", "message": "bad"}]}});
        let denied = match refused(denied) {
            Error::Request { source, .. } => {
                Error::Request { attempt: "error when creating \"a.yaml\"".into(), source }
            }
            other => other,
        };
        let cases = [
            (Error::from("cluster name is required"), "error: cluster name is required\n"),
            (refused(missing), "Error from server (NotFound): pods \"x\" not found\n"),
            (denied, "Error from server (Forbidden): error when creating \"a.yaml\": no\n"),
            (refused(login), "error: You must be logged in to the server (Unauthorized)\n"),
            (refused(one), "The Cluster \"a\" is invalid: spec.x: Required value\n"),
            (
                refused(two),
                "The Cluster \"a\" is invalid: \n* spec.x: Required value\n* spec.y: bad\n",
            ),
            (
                Error::Many(vec!["cluster(a): x".into(), "cluster(b): y".into()]),
                "cluster(a): x\ncluster(b): y\n",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.render(), expected);
        }
    }

    #[test]
    fn one_error_is_not_wrapped() {
        assert!(Error::combine(vec![]).is_ok());
        let one = Error::combine(vec!["x".into()]).unwrap_err();
        assert_eq!(one.render(), "error: x\n");
    }
}
