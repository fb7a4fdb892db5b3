//! Replaces what differs from run to run by names: uids, versions, times, generated names. The same
//! rules were applied to the recordings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use karmada_apimachinery::{Map, Value, json};
use regex::{Captures, Regex};

const KEPT: &[&str] =
    &["content-type", "warning", "retry-after", "location", "content-encoding", "allow"];
const AGE_COLUMNS: &[&str] =
    &["age", "last seen", "first seen", "duration", "last schedule", "created at"];
const COMPONENTS: &[&str] = &["kube-apiserver", "kube-controller-manager"];
const TWO_DAYS: i64 = 2 * 86400;

struct Patterns {
    uuid: Regex,
    stamp: Regex,
    jwt: Regex,
    address: Regex,
    age: Regex,
    ago: Regex,
    node_port: Regex,
    etag: Regex,
    fixed: Vec<(Regex, &'static str)>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(Patterns::new);
static GENERATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"generateName\\*": *\\*"([^"\\]+)"#).expect("a valid pattern"));

impl Patterns {
    fn new() -> Self {
        let pattern = |text: &str| Regex::new(text).expect("a valid pattern");
        let fixed = [
            (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<suffix>"),
            (r"(?i)(too old resource version: \d+ \()\d+(\))", "${1}<rv>${2}"),
            (r"(?i)(too large resource version: \d+, current: )\d+", "${1}<rv>"),
            (r"(?i)(Expected: )\d+(, found: )\d+", "${1}<rv>${2}<rv>"),
            (
                r"(the ResourceVersion in the precondition \()\d+(\) does not match the ResourceVersion in record \()\d+",
                "${1}<rv>${2}<rv>",
            ),
            (r"\?hash=[0-9A-F]{20,}", "?hash=<hash>"),
            (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<fingerprint>"),
            (r#"(resourceVersion: ")\d+"#, "${1}<rv>"),
            (r#"(resourceVersion\\*":\\*")\d+"#, "${1}<rv>"),
            (r"(/apis?[\w./-]*): dial tcp [^ ]+", "${1}: dial tcp <address>"),
        ];
        Self {
            uuid: pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            stamp: pattern(
                r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)? [+-]\d{4} \w+(?: m=[+-][\d.]+)?",
            ),
            jwt: pattern(r"^eyJ[\w-]+\.[\w-]+\.[\w-]+$"),
            address: pattern(r"\b10\.(?:9[6-9]|10\d|11[01])\.\d{1,3}\.\d{1,3}\b"),
            age: pattern(r"^(\d+[ydhms])+$"),
            ago: pattern(r" \((\d+[ydhms])+ ago\)"),
            node_port: pattern(r":(3[0-2]\d{3})/"),
            etag: pattern(r#""[0-9A-Fa-f]{32,}""#),
            fixed: fixed.into_iter().map(|(text, by)| (pattern(text), by)).collect(),
        }
    }
}

struct Normaliser {
    patterns: &'static Patterns,
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
    generated: BTreeMap<String, String>,
    prefixes: Vec<Regex>,
    columns: Option<Value>,
    /// Everything the case sends: what it asked for by name stays.
    sent: String,
    address: String,
    now: Timestamp,
}

/// The normalised answers of a case.
pub(super) fn normalise(case: &Value, mut raws: Vec<Value>, address: &str) -> Vec<Value> {
    let steps = case["steps"].as_array().cloned().unwrap_or_default();
    for (step, raw) in steps.iter().zip(&mut raws) {
        if step["managedFields"] == false {
            strip_managed(raw);
        }
    }
    let mut normaliser = Normaliser::new(case, address);
    normaliser.learn(&raws);
    steps.iter().zip(&raws).map(|(step, raw)| normaliser.answer(step, raw)).collect()
}

fn strip_managed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("managedFields");
            map.values_mut().for_each(strip_managed);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_managed),
        _ => {}
    }
}

fn is_list(value: &Map) -> bool {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    value.contains_key("items") || kind.ends_with("List") || kind == "Table"
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text != "0" && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Normaliser {
    fn new(case: &Value, address: &str) -> Self {
        let requests: Vec<&Value> = ["setup", "steps"]
            .iter()
            .flat_map(|part| case[*part].as_array().into_iter().flatten())
            .map(|step| &step["request"])
            .collect();
        let sent = json!(requests).to_string();
        let prefixes: BTreeSet<String> = GENERATED
            .captures_iter(&sent)
            .map(|found| found[1].chars().take(58).collect())
            .collect();
        let suffixed = |prefix: String| {
            let text = format!("{}[bcdfghjklmnpqrstvwxz2456789]{{5}}", regex::escape(&prefix));
            Regex::new(&text).expect("a valid pattern")
        };
        Self {
            patterns: &PATTERNS,
            uids: HashMap::new(),
            versions: HashMap::new(),
            generated: BTreeMap::new(),
            prefixes: prefixes.into_iter().map(suffixed).collect(),
            columns: None,
            sent,
            address: address.to_owned(),
            now: Timestamp::now(),
        }
    }

    /// Ranks all versions of the case and learns generated names.
    fn learn(&mut self, raws: &[Value]) {
        let mut found = BTreeSet::new();
        for raw in raws {
            for event in raw["events"].as_array().into_iter().flatten() {
                if event["type"] != "BOOKMARK" {
                    self.scan(&event["object"], &mut found);
                }
            }
            self.scan(&raw["body"], &mut found);
        }
        let ranked = found.into_iter().enumerate();
        self.versions = ranked
            .map(|(rank, version)| (version.to_string(), format!("<rv:{}>", rank + 1)))
            .collect();
    }

    fn scan(&mut self, value: &Value, found: &mut BTreeSet<u64>) {
        match value {
            Value::Object(map) => {
                let version =
                    map.get("metadata").and_then(|metadata| metadata["resourceVersion"].as_str());
                if let Some(version) =
                    version.filter(|version| !is_list(map) && is_version(version))
                {
                    found.extend(version.parse::<u64>().ok());
                }
                if let (Some(prefix), Some(name)) = (
                    map.get("generateName").and_then(Value::as_str),
                    map.get("name").and_then(Value::as_str),
                ) {
                    let prefix: String = prefix.chars().take(58).collect();
                    if !prefix.is_empty()
                        && name.starts_with(&prefix)
                        && name.len() == prefix.len() + 5
                    {
                        self.generated
                            .entry(name.to_owned())
                            .or_insert_with(|| format!("{prefix}<suffix>"));
                    }
                }
                map.values().for_each(|value| self.scan(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| self.scan(value, found)),
            _ => {}
        }
    }

    fn answer(&mut self, step: &Value, raw: &Value) -> Value {
        let mut one = json!({"code": raw["code"], "headers": self.headers(step, raw)});
        if let Some(events) = raw.get("events").and_then(Value::as_array) {
            self.columns = None;
            let events: Vec<Value> = events.iter().map(|event| self.event(event)).collect();
            one["events"] = events.into();
            return one;
        }
        if step["ignore"] == "body" {
            return one;
        }
        one["body"] = self.walk(&raw["body"], false);
        if let Some(key) = step["keys"].as_str() {
            let names = raw["body"][key].as_object().into_iter().flat_map(|map| map.keys());
            one["keys"] = names.filter(|name| !name.contains("example.com")).cloned().collect();
        }
        if let Some(paths) = step["select"].as_array()
            && one["body"].is_object()
        {
            let body = one["body"].take();
            let picked = paths.iter().filter_map(Value::as_str).filter_map(|path| {
                let value = pick(&body, path);
                (!value.is_null()).then(|| (path.to_owned(), value))
            });
            one["body"] = Value::Object(picked.collect());
        }
        one
    }

    fn event(&mut self, event: &Value) -> Value {
        match event.get("object") {
            Some(object) => {
                let bookmark = event["type"] == "BOOKMARK";
                json!({"type": event["type"], "object": self.walk(object, bookmark)})
            }
            None => self.walk(event, false),
        }
    }

    fn headers(&mut self, step: &Value, raw: &Value) -> Value {
        let more: Vec<String> = step["keep_headers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_lowercase))
            .collect();
        let mut headers = Map::new();
        let mut warnings: Vec<Value> = Vec::new();
        for pair in raw["headers"].as_array().into_iter().flatten() {
            let name = pair[0].as_str().unwrap_or_default().to_lowercase();
            if !KEPT.contains(&name.as_str()) && !more.contains(&name) {
                continue;
            }
            let mut value = self.text(pair[1].as_str().unwrap_or_default());
            if name == "etag"
                && let Some(text) = value.as_str()
            {
                value = self.patterns.etag.replace_all(text, "\"<hash>\"").into_owned().into();
            }
            if name == "warning" {
                warnings.push(value);
            } else {
                headers.insert(capitalised(&name), value);
            }
        }
        if !warnings.is_empty() {
            warnings.sort_by_key(ToString::to_string);
            headers.insert("Warning", warnings.into());
        }
        Value::Object(headers)
    }

    fn text(&mut self, text: &str) -> Value {
        if text.len() > 60 && self.patterns.jwt.is_match(text) {
            return self.token(text);
        }
        let mut text = text.to_owned();
        for (raw, name) in &self.generated {
            text = text.replace(raw.as_str(), name);
        }
        for prefix in &self.prefixes {
            let replaced = prefix.replace_all(&text, |found: &Captures<'_>| {
                format!("{}<suffix>", &found[0][..found[0].len() - 5])
            });
            text = replaced.into_owned();
        }
        if text.contains('-') {
            let uids = &mut self.uids;
            let replaced = self.patterns.uuid.replace_all(&text, |found: &Captures<'_>| {
                let next = format!("<uid:{}>", uids.len() + 1);
                uids.entry(found[0].to_owned()).or_insert(next).clone()
            });
            text = replaced.into_owned();
            let now = self.now;
            let replaced =
                self.patterns.stamp.replace_all(&text, |found: &Captures<'_>| stamp(found, now));
            text = replaced.into_owned();
        }
        text = text.replace(&self.address, "<server>");
        if text.starts_with("LS0tLS1CRUdJTi") || text.starts_with("-----BEGIN ") {
            let head: String = text.chars().take(80).collect();
            if !self.sent.contains(&head) {
                return "<certificate>".into();
            }
        }
        let sent = &self.sent;
        let replaced = self.patterns.address.replace_all(&text, |found: &Captures<'_>| {
            if sent.contains(&found[0]) { found[0].to_owned() } else { "<clusterIP>".to_owned() }
        });
        text = replaced.into_owned();
        for (pattern, by) in &self.patterns.fixed {
            text = pattern.replace_all(&text, *by).into_owned();
        }
        text.into()
    }

    /// A token, decoded.
    fn token(&mut self, text: &str) -> Value {
        let mut parts = text.split('.').map(|part| {
            let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).unwrap_or_default();
            serde_json::from_slice::<Value>(&bytes).unwrap_or_default()
        });
        let (mut header, mut claims) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if header.get("kid").is_some() {
            header["kid"] = "<kid>".into();
        }
        hide_clock(&mut claims);
        json!({"$jwt": {"header": header, "claims": self.walk(&claims, false)}})
    }

    fn continuation(&mut self, text: &str) -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default();
        let Ok(mut token) = serde_json::from_slice::<Value>(&bytes) else { return text.into() };
        if token["rv"].as_i64().is_some_and(|version| version > 0) {
            token["rv"] = "<rv:list>".into();
        }
        json!({"$continue": self.walk(&token, false)})
    }

    fn table(&mut self, table: &mut Value) {
        if table["columnDefinitions"].is_array() {
            self.columns = Some(table["columnDefinitions"].clone());
            for column in table["columnDefinitions"].as_array_mut().into_iter().flatten() {
                if column["description"].as_str().is_some_and(|text| !text.is_empty()) {
                    column["description"] = "<text>".into();
                }
            }
        }
        let columns = self.columns.clone().unwrap_or_default();
        for row in table["rows"].as_array_mut().into_iter().flatten() {
            for (index, cell) in row["cells"].as_array_mut().into_iter().flatten().enumerate() {
                let (Some(text), Some(column)) = (cell.as_str(), columns.get(index)) else {
                    continue;
                };
                let name = column["name"].as_str().unwrap_or_default().to_lowercase();
                let tells_age = AGE_COLUMNS.contains(&name.as_str()) || column["type"] == "date";
                *cell = if tells_age && self.patterns.age.is_match(text) {
                    "<age>".into()
                } else {
                    self.cell(text).into()
                };
            }
        }
    }

    fn cell(&self, text: &str) -> String {
        let text = self.patterns.ago.replace_all(text, " (<age> ago)");
        let ported = self.patterns.node_port.replace_all(&text, |found: &Captures<'_>| {
            if self.sent.contains(&found[1]) {
                found[0].to_owned()
            } else {
                ":<nodePort>/".to_owned()
            }
        });
        ported.into_owned()
    }

    fn walk(&mut self, value: &Value, bookmark: bool) -> Value {
        match value {
            Value::Object(_) => {
                let mut value = value.clone();
                if value["kind"] == "Table" {
                    self.table(&mut value);
                }
                drop_foreign_groups(&mut value);
                let map = value.as_object().cloned().unwrap_or_default();
                let list = is_list(&map);
                let mut out = Map::new();
                for (key, value) in &map {
                    let (key, value) = self.field(key, value, list, bookmark);
                    out.insert(key, value);
                }
                Value::Object(out)
            }
            Value::Array(list) => list.iter().map(|item| self.walk(item, false)).collect(),
            Value::String(text) => self.text(text),
            other => other.clone(),
        }
    }

    fn field(&mut self, key: &str, value: &Value, list: bool, bookmark: bool) -> (String, Value) {
        let own = key.to_owned();
        match (key, value) {
            ("managedFields", Value::Array(entries)) => (own, self.managers(entries)),
            ("metadata", Value::Object(metadata)) => (own, self.metadata(metadata, list, bookmark)),
            ("resourceVersion", Value::String(version)) => {
                let named = self
                    .versions
                    .get(version.as_str())
                    .map_or(version.as_str(), String::as_str)
                    .into();
                (own, named)
            }
            ("nodePort" | "healthCheckNodePort", Value::Number(port))
                if port.as_i64() != Some(0) && !self.sent.contains(&port.to_string()) =>
            {
                (own, "<nodePort>".into())
            }
            ("serverAddress", _) => (own, "<address>".into()),
            ("causes", Value::Array(causes))
                if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") =>
            {
                let mut causes: Vec<Value> =
                    causes.iter().map(|cause| self.walk(cause, false)).collect();
                causes.sort_by_key(|cause| cause["field"].as_str().unwrap_or("None").to_owned());
                (own, causes.into())
            }
            _ => {
                let named = if key.contains('-') { self.text(key) } else { key.into() };
                let named = named.as_str().unwrap_or(key).to_owned();
                (named, self.walk(value, false))
            }
        }
    }

    fn metadata(&mut self, metadata: &Map, list: bool, bookmark: bool) -> Value {
        let mut rest = metadata.clone();
        let (version, token) = (rest.remove("resourceVersion"), rest.remove("continue"));
        let mut out = self.walk(&Value::Object(rest), false);
        if let Some(version) = version {
            let named = match version.as_str().filter(|version| is_version(version)) {
                Some(_) if list => "<rv:list>".into(),
                Some(_) if bookmark => "<rv:bookmark>".into(),
                Some(text) => self.versions.get(text).map_or("<rv>", String::as_str).into(),
                None => version,
            };
            out["resourceVersion"] = named;
        }
        if let Some(token) = token {
            out["continue"] = match token.as_str().filter(|token| !token.is_empty()) {
                Some(text) => self.continuation(text),
                None => token,
            };
        }
        out
    }

    fn managers(&mut self, entries: &[Value]) -> Value {
        let mut entries: Vec<Value> = entries.iter().map(|entry| self.walk(entry, false)).collect();
        for entry in &mut entries {
            if entry["manager"].as_str().is_some_and(|name| COMPONENTS.contains(&name)) {
                entry["manager"] = "<component>".into();
            }
        }
        let rank = |entry: &Value| {
            let parts = ["operation", "manager", "subresource", "apiVersion", "fieldsV1"];
            parts.map(|part| entry.get(part).map_or("null".to_owned(), ToString::to_string))
        };
        entries.sort_by_key(rank);
        entries.into()
    }
}

fn hide_clock(value: &mut Value) {
    for (key, value) in value.as_object_mut().into_iter().flatten() {
        if matches!(key.as_str(), "exp" | "iat" | "nbf" | "warnafter") {
            *value = "<unix>".into();
        } else {
            hide_clock(value);
        }
    }
}

/// Removes groups that other cases brought.
fn drop_foreign_groups(value: &mut Value) {
    let key = match value["kind"].as_str() {
        Some("APIGroupList") => "groups",
        Some("APIGroupDiscoveryList") => "items",
        _ => return,
    };
    if let Some(groups) = value[key].as_array_mut() {
        groups.retain(|group| {
            let name = group["name"].as_str().or_else(|| group["metadata"]["name"].as_str());
            !name.unwrap_or_default().ends_with("example.com")
        });
    }
}

fn stamp(found: &Captures<'_>, now: Timestamp) -> String {
    let long = found.get(3);
    let text = found.get(1).or(long).map_or("", |part| part.as_str()).replace(' ', "T");
    let Ok(time) = format!("{text}Z").parse::<Timestamp>() else { return found[0].to_owned() };
    if (now.as_second() - time.as_second()).abs() > TWO_DAYS {
        return found[0].to_owned();
    }
    let name = match (long.is_some(), found.get(2).is_some()) {
        (true, _) => "<time:long>",
        (false, true) => "<time:micro>",
        (false, false) => "<time>",
    };
    name.to_owned()
}

fn capitalised(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

/// `a.b[*].c`: only that part of an answer.
fn pick(value: &Value, path: &str) -> Value {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(key) = step.strip_suffix("[*]") {
        let items = value[key].as_array().into_iter().flatten();
        return items
            .map(|item| if rest.is_empty() { item.clone() } else { pick(item, rest) })
            .collect();
    }
    let next = match value {
        Value::Array(list) => step.parse::<usize>().ok().and_then(|index| list.get(index)),
        value => value.get(step),
    };
    match next {
        None => Value::Null,
        Some(next) if rest.is_empty() => next.clone(),
        Some(next) => pick(next, rest),
    }
}
