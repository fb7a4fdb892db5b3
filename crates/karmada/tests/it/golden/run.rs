//! Performs the steps of a case.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use karmada_apimachinery::{Value, json};
use regex::Regex;
use serde::Serialize as _;
use serde_json::ser::Formatter;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::compare::{self, Difference};
use super::normalise;
use super::server::Server;
use super::transport::{self, Asked, Transport};

/// How often a step that waits for something asks again.
const RETRY: Duration = Duration::from_millis(50);

type Events = Arc<Mutex<Vec<Value>>>;

pub(super) struct Runner {
    transport: Transport,
    address: String,
    open: HashMap<String, (JoinHandle<()>, Events)>,
    /// The longest a step waits for something to come true.
    patience: Duration,
}

impl Runner {
    pub(super) fn new(server: &Server) -> Self {
        Self {
            transport: Transport::new(server),
            address: format!("127.0.0.1:{}", server.port),
            open: HashMap::new(),
            patience: Duration::ZERO,
        }
    }

    /// Performs a case and returns its first difference.
    pub(super) async fn replay(&mut self, case: &Value, patience: Duration) -> Option<Difference> {
        self.patience = patience;
        let mut raws = json!({"setup": [], "steps": []});
        for part in ["setup", "steps"] {
            for step in case[part].as_array().into_iter().flatten() {
                let answer = self.step(step, &raws).await;
                if let Some(list) = raws[part].as_array_mut() {
                    list.push(answer);
                }
            }
        }
        for step in case["teardown"].as_array().into_iter().flatten() {
            self.step(step, &raws).await;
        }
        for (_, (reader, _)) in self.open.drain() {
            reader.abort();
        }
        let steps = raws["steps"].as_array().cloned().unwrap_or_default();
        let answers = normalise::normalise(case, steps.to_vec(), &self.address);
        compare::compare(case, &answers)
    }

    async fn step(&mut self, step: &Value, raws: &Value) -> Value {
        if let Some(name) = step["collect"].as_str() {
            return self.collect(name, step).await;
        }
        if let Some(seconds) = step["sleep"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return json!({"code": 0, "headers": [], "body": null});
        }
        let Some(want) = step.get("until") else { return self.once(step, raws).await };
        // The recorded limit was that of the machine it was recorded on.
        let end = Instant::now() + self.patience;
        loop {
            let got = self.once(step, raws).await;
            if is_reached(want, &got) || Instant::now() > end {
                return got;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn collect(&self, name: &str, step: &Value) -> Value {
        let max = step["max"].as_u64().unwrap_or(99) as usize;
        let end = Instant::now() + self.patience;
        let Some((reader, events)) = self.open.get(name) else {
            return json!({"code": 0, "headers": []});
        };
        while !reader.is_finished() && events.lock().await.len() < max && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let got: Vec<Value> = events.lock().await.iter().take(max).cloned().collect();
        json!({"code": 200, "headers": [], "events": got})
    }

    async fn once(&mut self, step: &Value, raws: &Value) -> Value {
        let request = &step["request"];
        let path = resolve(&request["path"], raws).as_str().unwrap_or_default().to_owned();
        let asked = Asked {
            method: request["method"].as_str().unwrap_or("GET").to_owned(),
            path: if is_left_early(step) { open_for_long(&path) } else { path },
            headers: headers(&resolve(&request["headers"], raws)),
            body: encode(&resolve(&request["body"], raws)),
        };
        let anonymous = step["auth"] == "none";
        let Some(watch) = step.get("watch") else {
            let answer = self.transport.call(&asked, anonymous).await;
            let etag = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("etag"));
            let etag = etag.map(|(_, value)| value.clone()).unwrap_or_default();
            return json!({
                "code": answer.code,
                "headers": answer.headers,
                "body": decode(&answer.headers, &answer.body),
                "etag": etag,
            });
        };
        self.watch(watch, &asked, anonymous).await
    }

    async fn watch(&mut self, watch: &Value, asked: &Asked, anonymous: bool) -> Value {
        let (sender, response) = self.transport.stream(asked, anonymous).await;
        let (code, headers) = (response.status().as_u16(), transport::headers_of(&response));
        if code != 200 {
            let answer = transport::collect(response).await;
            let body = decode(&answer.headers, &answer.body);
            return json!({"code": code, "headers": headers, "body": body});
        }
        let max = watch["max"].as_u64().unwrap_or(99) as usize;
        let bookmarks = watch["bookmarks"] == true;
        let events = Events::default();
        let body = response.into_body();
        if let Some(name) = watch["open"].as_str() {
            let into = events.clone();
            let reader = tokio::spawn(async move {
                let _alive = sender;
                read_events(body, max, false, &into).await;
            });
            self.open.insert(name.to_owned(), (reader, events));
            return json!({"code": code, "headers": headers, "body": null});
        }
        // Every recorded watch has the server end it after some seconds.
        let reading = read_events(body, max, bookmarks, &events);
        let _ = tokio::time::timeout(self.patience, reading).await;
        drop(sender);
        let got = events.lock().await.clone();
        json!({"code": code, "headers": headers, "events": got})
    }
}

/// Whether a watch is read only until it has told what was recorded: it must not end before on a machine that takes
/// its time.
fn is_left_early(step: &Value) -> bool {
    let Some(watch) = step.get("watch") else { return false };
    let told = step["response"]["events"].as_array().map_or(0, |it| it.len()) as u64;
    watch["open"].is_string() || watch["max"].as_u64().is_some_and(|max| told >= max)
}

fn open_for_long(path: &str) -> String {
    static LIMIT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"timeoutSeconds=\d+").expect("a valid pattern"));
    LIMIT.replace(path, "timeoutSeconds=300").into_owned()
}

async fn read_events(mut body: Incoming, max: usize, bookmarks: bool, into: &Events) {
    let mut buffer = Vec::new();
    while into.lock().await.len() < max {
        let Some(Ok(frame)) = body.frame().await else { return };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let by_the_clock = line.starts_with(b"{\"type\":\"BOOKMARK\"")
                && !String::from_utf8_lossy(&line).contains("initial-events-end")
                && !bookmarks;
            if by_the_clock || into.lock().await.len() >= max {
                continue;
            }
            if let Ok(event) = serde_json::from_slice(&line) {
                into.lock().await.push(event);
            }
        }
    }
}

fn is_reached(want: &Value, got: &Value) -> bool {
    let warns = |text: &str| {
        got["headers"].as_array().into_iter().flatten().any(|pair| {
            pair[0].as_str().is_some_and(|name| name.eq_ignore_ascii_case("warning"))
                && pair[1].as_str().is_some_and(|value| value.contains(text))
        })
    };
    want.get("code").is_none_or(|code| *code == got["code"])
        && want.get("body").is_none_or(|body| contains(&got["body"], body))
        && want.get("warning").and_then(Value::as_str).is_none_or(warns)
}

/// Whether `want` is part of `have`: maps by key, lists by any element.
fn contains(have: &Value, want: &Value) -> bool {
    match want {
        Value::Object(want) => {
            want.iter().all(|(key, want)| have.get(key).is_some_and(|have| contains(have, want)))
        }
        Value::Array(want) => have.as_array().is_some_and(|have| {
            want.iter().all(|want| have.iter().any(|have| contains(have, want)))
        }),
        want => have == want,
    }
}

static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{((?:steps|setup)\.[^}]+)\}").expect("a valid pattern"));

/// Replaces `${steps.0.body.metadata.uid}` by the value of an earlier answer.
fn resolve(value: &Value, raws: &Value) -> Value {
    resolve_with(&REFERENCE, value, raws)
}

fn resolve_with(pattern: &Regex, value: &Value, raws: &Value) -> Value {
    match value {
        Value::String(text) => {
            if let Some(found) = pattern.captures(text)
                && found[0].len() == text.len()
            {
                return lookup(raws, &found[1]);
            }
            let replaced = pattern.replace_all(text, |found: &regex::Captures<'_>| {
                match lookup(raws, &found[1]) {
                    Value::String(text) => text,
                    other => other.to_string().into(),
                }
            });
            replaced.into_owned().into()
        }
        Value::Array(list) => list.iter().map(|item| resolve_with(pattern, item, raws)).collect(),
        Value::Object(map) => {
            let resolved = map.iter().map(|(key, item)| {
                let key = resolve_with(pattern, &json!(key), raws);
                (key.as_str().unwrap_or_default().to_owned(), resolve_with(pattern, item, raws))
            });
            Value::Object(resolved.collect())
        }
        other => other.clone(),
    }
}

fn lookup(raws: &Value, path: &str) -> Value {
    let (mut value, mut rest) = (raws, path);
    while !rest.is_empty() {
        let (next, left) = match value {
            Value::Array(list) => {
                let (index, left) = rest.split_once('.').unwrap_or((rest, ""));
                (index.parse::<usize>().ok().and_then(|index| list.get(index)), left)
            }
            // Keys may contain dots: the longest that exists wins.
            Value::Object(map) => {
                let fits = |key: &&karmada_apimachinery::value::Text| {
                    rest == key.as_str() || rest.starts_with(&format!("{key}."))
                };
                let key = map.keys().filter(fits).max_by_key(|key| key.len());
                let left = key.map_or("", |key| rest.get(key.len() + 1..).unwrap_or(""));
                (key.and_then(|key| map.get(key)), left)
            }
            _ => (None, ""),
        };
        let Some(next) = next else { return Value::Null };
        (value, rest) = (next, left);
    }
    value.clone()
}

fn headers(value: &Value) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Array(values) => {
                for value in values {
                    headers.push((name.to_string(), value.as_str().unwrap_or_default().to_owned()));
                }
            }
            value => {
                headers.push((name.to_string(), value.as_str().unwrap_or_default().to_owned()))
            }
        }
    }
    headers
}

fn encode(body: &Value) -> Option<Vec<u8>> {
    match body {
        Value::Null => None,
        Value::String(text) => Some(text.as_bytes().to_vec()),
        body => {
            if let Some(parts) = body.get("$repeat").and_then(Value::as_array) {
                let text =
                    |index: usize| parts.get(index).and_then(Value::as_str).unwrap_or_default();
                let times = parts.get(2).and_then(Value::as_u64).unwrap_or_default() as usize;
                return Some(
                    format!("{}{}{}", text(0), text(1).repeat(times), text(3)).into_bytes(),
                );
            }
            if let Some(encoded) = body.get("$base64").and_then(Value::as_str) {
                return STANDARD.decode(encoded).ok();
            }
            Some(spaced(body))
        }
    }
}

/// JSON with blanks after commas and colons, as the recorded client sent it: some refusals quote it.
fn spaced(value: &Value) -> Vec<u8> {
    struct Spaced;
    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
            to.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
    value.serialize(&mut serializer).expect("a tree can be written");
    out
}

fn decode(headers: &[(String, String)], data: &[u8]) -> Value {
    use std::io::Read as _;
    let header = |wanted: &str| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map_or("", |(_, v)| v)
    };
    let mut data = data.to_vec();
    if header("content-encoding") == "gzip" {
        let mut plain = Vec::new();
        if GzDecoder::new(data.as_slice()).read_to_end(&mut plain).is_ok() {
            data = plain;
        }
    }
    if (header("content-type").contains("json") || data.first() == Some(&b'{'))
        && let Ok(value) = serde_json::from_slice(&data)
    {
        return value;
    }
    String::from_utf8_lossy(&data).into_owned().into()
}
