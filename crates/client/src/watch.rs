//! Watches: one JSON document per line, for as long as the server keeps the answer open.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvk;
use karmada_handover::{Event, Shown};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{ApiError, Error, Result};
use crate::object::Object;
use crate::slim;

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// No object is nearly as large; more than this without a line end is no watch.
const LINE_LIMIT: usize = 64 << 20;

#[derive(Debug, Clone)]
pub enum WatchEvent {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    /// Carries the last state of the object.
    Deleted(Arc<Object>),
    Bookmark {
        resource_version: String,
        /// Whether everything that existed when the watch began has been delivered.
        initial_events_end: bool,
    },
}

/// The events of one watch. It ends when the server ends it, and after its first error.
pub type WatchStream = BoxStream<'static, Result<WatchEvent>>;

/// The events a server of the same process hands over.
pub(crate) fn handed_events(
    handed: BoxStream<'static, Vec<Event>>,
    attempt: String,
) -> WatchStream {
    let events = handed.flat_map(stream::iter).map(move |event| {
        let read = |shown: &Arc<dyn Shown>| {
            Object::shared(shown)
                .map_err(|source| Error::Decode { attempt: attempt.clone(), source })
        };
        Ok(match event {
            Event::Added(shown) => WatchEvent::Added(read(&shown)?),
            Event::Modified(shown) => WatchEvent::Modified(read(&shown)?),
            Event::Deleted(shown) => WatchEvent::Deleted(read(&shown)?),
            Event::Bookmark { revision, initial_events_end } => {
                WatchEvent::Bookmark { resource_version: revision.to_string(), initial_events_end }
            }
            Event::Failed(status) => {
                return Err(Error::Api(Box::new(ApiError::from_status(&status, 500))));
            }
        })
    });
    until_error(events)
}

/// An error ends the stream, so that nobody goes on behind a gap.
fn until_error(events: impl Stream<Item = Result<WatchEvent>> + Send + 'static) -> WatchStream {
    let ended = events.scan(false, |failed, event| {
        let next = if *failed { None } else { Some(event) };
        *failed = next.as_ref().is_some_and(Result::is_err);
        futures::future::ready(next)
    });
    ended.boxed()
}

/// The events of a body; `slim` leaves the record of who wrote which field out of objects.
pub(crate) fn events(body: Body, attempt: String, slim: bool) -> WatchStream {
    let broken = attempt.clone();
    let chunks = body
        .into_data_stream()
        .map_err(move |error| Error::transport(format!("{broken}: read events"), error));
    let lines = lines(chunks, attempt.clone());
    until_error(lines.map(move |line| line.and_then(|line| parse(&line, &attempt, slim))))
}

fn lines(
    chunks: impl Stream<Item = Result<Bytes>> + Send + 'static,
    attempt: String,
) -> impl Stream<Item = Result<Bytes>> + Send {
    let start = (chunks.boxed(), BytesMut::new(), attempt);
    stream::try_unfold(start, |(mut chunks, mut buffer, attempt)| async move {
        let mut searched = 0;
        loop {
            if let Some(end) = buffer.iter().skip(searched).position(|byte| *byte == b'\n') {
                let line = buffer.split_to(searched + end + 1).freeze();
                return Ok(Some((line, (chunks, buffer, attempt))));
            }
            searched = buffer.len();
            if searched > LINE_LIMIT {
                return Err(Error::transport(attempt, "an event is too long"));
            }
            match chunks.try_next().await? {
                Some(chunk) => buffer.extend_from_slice(&chunk),
                // A line that was cut off is no event.
                None => return Ok(None),
            }
        }
    })
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn parse(line: &Bytes, attempt: &str, slim: bool) -> Result<WatchEvent> {
    let failed = |source| Error::Decode { attempt: attempt.to_owned(), source };
    let Line { r#type, object } = serde_json::from_slice(line).map_err(failed)?;
    let text = object.get().as_bytes();
    if r#type == "ERROR" {
        let status: Value = serde_json::from_slice(text).map_err(failed)?;
        return Err(Error::Api(Box::new(ApiError::from_status(&status, 500))));
    }
    let text = if slim { slim::cut(text) } else { text.into() };
    let object = Arc::new(Object::from_text(&text, &Gvk::default()).map_err(failed)?);
    Ok(match r#type {
        "ADDED" => WatchEvent::Added(object),
        "MODIFIED" => WatchEvent::Modified(object),
        "DELETED" => WatchEvent::Deleted(object),
        "BOOKMARK" => WatchEvent::Bookmark {
            resource_version: object.resource_version().to_owned(),
            initial_events_end: object
                .meta()
                .annotations
                .get(INITIAL_EVENTS_END)
                .is_some_and(|value| value == "true"),
        },
        other => {
            let unknown = serde::de::Error::custom(format_args!("unknown watch event {other:?}"));
            return Err(failed(unknown));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collect(chunks: &[&str]) -> Vec<String> {
        let chunks = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk.as_bytes())));
        let chunks: Vec<Result<Bytes>> = chunks.collect();
        let lines = lines(stream::iter(chunks), "watch".into());
        let text = |line: Result<Bytes>| match line.and_then(|line| parse(&line, "watch", true)) {
            Ok(WatchEvent::Added(object)) => format!("added {}", object.name()),
            Ok(WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                format!("bookmark {resource_version} {initial_events_end}")
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("error {error}"),
        };
        lines.map(text).collect().await
    }

    #[tokio::test]
    async fn events_are_found_however_the_lines_are_cut() {
        let added = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#
            .replace('\n', " ");
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        let all = format!("{added}\n{bookmark}\n{gone}\n{{\"type\":\"ADD");
        let expected = ["added a", "bookmark 7 true", "error too old"];
        assert_eq!(collect(&[&all]).await, expected);
        for cut in [1, 20, added.len(), added.len() + 1] {
            let (first, second) = all.split_at(cut);
            assert_eq!(collect(&[first, second]).await, expected, "cut at {cut}");
        }
    }
}
