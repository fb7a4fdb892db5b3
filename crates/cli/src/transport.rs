//! What every request of the command line goes through: a word about slow answers, and the server's warnings.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, header};
use karmada_client::{Body, Warden};

use crate::{output, progress};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Watches over the connection to one server.
pub(crate) struct Attendant {
    /// Who is being waited for, in words.
    server: String,
    /// Warnings that were passed on; once is enough.
    told: Mutex<BTreeSet<String>>,
}

impl Attendant {
    pub(crate) fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), told: Mutex::default() }
    }

    fn pass_on(&self, headers: &HeaderMap) {
        for value in headers.get_all(header::WARNING) {
            let Some(text) = value.to_str().ok().and_then(warning_text) else { continue };
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.insert(text.clone()) {
                output::note(&format!("Warning: {text}"));
            }
        }
    }
}

impl Warden for Attendant {
    fn send<'a>(
        &'a self,
        request: Request<Body>,
        connection: &'a kube::Client,
    ) -> BoxFuture<'a, Result<Response<Body>, BoxError>> {
        Box::pin(async move {
            let waiting = progress::wait_for(format!("an answer of {}", self.server));
            let response = connection.send(request).await?;
            drop(waiting);
            self.pass_on(response.headers());
            Ok(response)
        })
    }

    fn watch_end(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The text of `299 - "text" "date"`.
fn warning_text(header: &str) -> Option<String> {
    let rest = header.strip_prefix("299 ")?;
    let (_, quoted) = rest.split_once('"')?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(text),
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_from_their_header() {
        for (header, expected) in [
            ("299 - \"unknown field \\\"spec.x\\\"\"", Some("unknown field \"spec.x\"")),
            ("299 agent \"old\" \"Wed, 21 Oct 2026 07:28:00 GMT\"", Some("old")),
            ("199 - \"other\"", None),
            ("299 - \"open", None),
        ] {
            assert_eq!(warning_text(header).as_deref(), expected, "{header}");
        }
    }
}
