//! Logs: what a container would say about its life, up to now and further on.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::time::{format_micro_time, parse_time};
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::{self, Body};
use karmada_apiserver::http::query::Query;
use karmada_runtime::ObjectKey;

use super::Kubelets;

/// A container says that it lives this often.
const EVERY: Duration = Duration::from_secs(10);
/// Old lines are forgotten, as by rotation.
const KEPT: i64 = 1000;

pub(super) struct Line {
    at: Timestamp,
    text: String,
}

pub(super) async fn answer(
    kubelets: Kubelets,
    connection: Connection,
) -> Result<Response<Body>, Status> {
    let query = connection.query();
    let pod = connection.object.clone().unwrap_or_default();
    let previous = query.flag("previous") == Some(true);
    let (since, until) = run_of(&pod, &connection.container, previous)?;
    let now = kubelets.clock.now();
    let all = lines(&pod, &connection.container, since, until.unwrap_or(now));
    let text = chosen(&query, all, now);
    if query.flag("follow") != Some(true) || until.is_some() {
        return Ok(body::text(StatusCode::OK, text));
    }
    let timestamps = query.flag("timestamps") == Some(true);
    let key = ObjectKey::new(connection.namespace, connection.name);
    let more = follow(kubelets, (key, pod.uid().to_owned()), since, timestamps);
    let first = stream::once(async move { Bytes::from(text) });
    let mut response = Response::new(body::stream(futures::StreamExt::chain(first, more)));
    let plain = http::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    Ok(response)
}

/// When the container began and, if it did, ended.
fn run_of(
    pod: &Value,
    container: &str,
    previous: bool,
) -> Result<(Timestamp, Option<Timestamp>), Status> {
    let main = pod.list_at(&["status", "containerStatuses"]).iter();
    let mut all = main.chain(pod.list_at(&["status", "initContainerStatuses"]));
    let status = all.find(|status| status["name"] == container);
    let wait = |reason: &str| {
        Status::bad_request(format!(
            "container \"{container}\" in pod \"{}\" is waiting to start: {reason}",
            pod.name()
        ))
    };
    let Some(status) = status else { return Err(wait("ContainerCreating")) };
    let span = |place: &str, state: &str| {
        let begun = status.str_at(&[place, state, "startedAt"]).and_then(parse_time)?;
        Some((begun, status.str_at(&[place, state, "finishedAt"]).and_then(parse_time)))
    };
    if previous {
        return span("lastState", "terminated").ok_or_else(|| {
            Status::bad_request(format!(
                "previous terminated container \"{container}\" in pod \"{}\" not found",
                pod.name()
            ))
        });
    }
    let found = span("state", "running").or_else(|| span("state", "terminated"));
    found.or_else(|| span("lastState", "terminated")).ok_or_else(|| {
        let reason = status.str_at(&["state", "waiting", "reason"]);
        let message = status.str_at(&["state", "waiting", "message"]);
        wait(message.or(reason).unwrap_or("ContainerCreating"))
    })
}

pub(super) fn lines(pod: &Value, container: &str, since: Timestamp, until: Timestamp) -> Vec<Line> {
    let containers = pod.list_at(&["spec", "containers"]).iter();
    let mut containers = containers.chain(pod.list_at(&["spec", "initContainers"]));
    let image = containers.find(|found| found["name"] == container);
    let image = image.and_then(|found| found.str_at(&["image"])).unwrap_or_default();
    let mut lines = vec![
        Line { at: since, text: format!("Starting {container} from {image}") },
        Line { at: since, text: "Paused: nothing really runs here".to_owned() },
    ];
    let age = until.duration_since(since).as_secs();
    let every = i64::try_from(EVERY.as_secs()).unwrap_or(1);
    let beats = age / every;
    for beat in (beats - KEPT).max(0) + 1..=beats {
        lines.push(beat_line(since, beat * every));
    }
    lines
}

fn beat_line(since: Timestamp, age: i64) -> Line {
    let at = since.checked_add(SignedDuration::from_secs(age)).unwrap_or(since);
    Line { at, text: format!("Alive for {age}s") }
}

fn render(line: &Line, timestamps: bool) -> String {
    if timestamps {
        format!("{} {}\n", format_micro_time(line.at), line.text)
    } else {
        format!("{}\n", line.text)
    }
}

/// The lines a request asks for.
fn chosen(query: &Query, mut lines: Vec<Line>, now: Timestamp) -> String {
    let number = |name: &str| query.non_empty(name).and_then(|text| text.parse::<i64>().ok());
    let from = match number("sinceSeconds") {
        Some(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
        None => query.non_empty("sinceTime").and_then(parse_time),
    };
    if let Some(from) = from {
        lines.retain(|line| line.at >= from);
    }
    if let Some(tail) = number("tailLines") {
        let surplus = lines.len().saturating_sub(usize::try_from(tail).unwrap_or_default());
        lines.drain(..surplus);
    }
    let timestamps = query.flag("timestamps") == Some(true);
    let mut text: String = lines.iter().map(|line| render(line, timestamps)).collect();
    if let Some(limit) = number("limitBytes").and_then(|limit| usize::try_from(limit).ok())
        && limit < text.len()
    {
        text.truncate((0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
    }
    text
}

/// Further lines for as long as the pod lives.
pub(super) fn follow(
    kubelets: Kubelets,
    (key, uid): (ObjectKey, String),
    since: Timestamp,
    timestamps: bool,
) -> impl futures::Stream<Item = Bytes> + Send + 'static {
    stream::unfold((), move |()| {
        let (kubelets, key, uid) = (kubelets.clone(), key.clone(), uid.clone());
        async move {
            let every = i64::try_from(EVERY.as_secs()).unwrap_or(1);
            let now = kubelets.clock.now();
            let next = (now.duration_since(since).as_secs() / every + 1) * every;
            let line = beat_line(since, next);
            // Short naps, so that the end of the pod is noticed.
            while kubelets.clock.until(line.at) > Duration::ZERO {
                let pod = kubelets.pods.cache().get(&key);
                if pod.is_none_or(|pod| pod.uid() != uid || pod.is_being_deleted()) {
                    return None;
                }
                let nap = kubelets.clock.until(line.at).min(Duration::from_secs(1));
                tokio::time::sleep(nap.max(Duration::from_millis(1))).await;
            }
            Some((Bytes::from(render(&line, timestamps)), ()))
        }
    })
}

/// When the container that runs now began.
pub(super) fn running_since(pod: &Value, container: &str) -> Result<Timestamp, Status> {
    run_of(pod, container, false).map(|(since, _)| since)
}

/// Everything said so far.
pub(super) fn so_far(pod: &Value, container: &str, since: Timestamp, now: Timestamp) -> String {
    lines(pod, container, since, now).iter().map(|line| render(line, false)).collect()
}
