//! The functions templates call.

use std::cmp::Ordering;

use base64::Engine as _;
use karmada_apimachinery::Value;

const KNOWN: &[&str] = &[
    "and",
    "base64decode",
    "eq",
    "exists",
    "ge",
    "gt",
    "html",
    "index",
    "js",
    "le",
    "len",
    "lt",
    "ne",
    "not",
    "or",
    "print",
    "printf",
    "println",
    "slice",
    "urlquery",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// The outcome of `and` and `or` once it is certain.
pub(super) fn decide(name: &str, arguments: &[Value]) -> Option<Value> {
    let last = arguments.last()?;
    match name {
        "and" if !is_true(last) => Some(last.clone()),
        "or" if is_true(last) => Some(last.clone()),
        _ => None,
    }
}

pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let one = || arguments.first().ok_or_else(|| "not enough arguments".to_owned());
    let two = || match arguments {
        [a, b] => Ok((a, b)),
        _ => Err(format!("wants 2 arguments, got {}", arguments.len())),
    };
    Ok(match name {
        "and" | "or" => match decide(name, arguments) {
            Some(decided) => decided,
            None => one().and(Ok(arguments.last().cloned().unwrap_or_default()))?,
        },
        "not" => (!is_true(one()?)).into(),
        "len" => match one()? {
            Value::String(text) => text.len().into(),
            Value::Array(list) => list.len().into(),
            Value::Object(map) => map.len().into(),
            other => return Err(format!("len of type {}", show(other))),
        },
        "index" => index(one()?, &arguments[1..])?,
        "exists" => exists(one()?, &arguments[1..]).into(),
        "slice" => slice(one()?, &arguments[1..])?,
        "eq" => match arguments.split_first() {
            Some((first, others)) if !others.is_empty() => {
                others.iter().any(|other| compare(first, other) == Some(Ordering::Equal)).into()
            }
            _ => return Err("missing argument for comparison".to_owned()),
        },
        "ne" => two().map(|(a, b)| compare(a, b) != Some(Ordering::Equal))?.into(),
        "lt" | "le" | "gt" | "ge" => {
            let (a, b) = two()?;
            let order = compare(a, b).ok_or("incompatible types for comparison")?;
            match name {
                "lt" => order.is_lt(),
                "le" => order.is_le(),
                "gt" => order.is_gt(),
                _ => order.is_ge(),
            }
            .into()
        }
        "print" => print(arguments).into(),
        "println" => {
            let words: Vec<String> = arguments.iter().map(show).collect();
            format!("{}\n", words.join(" ")).into()
        }
        "printf" => format(one()?.as_str().unwrap_or_default(), &arguments[1..]).into(),
        "base64decode" => {
            let text = one()?.as_str().unwrap_or_default().to_owned();
            let bytes = base64::engine::general_purpose::STANDARD.decode(&text);
            let bytes = bytes.map_err(|error| error.to_string())?;
            String::from_utf8_lossy(&bytes).into_owned().into()
        }
        "html" => escape_html(&print(arguments)).into(),
        "js" => {
            let quoted = Value::from(print(arguments)).to_string();
            quoted.trim_matches('"').replace('<', "\\u003C").replace('>', "\\u003E").into()
        }
        "urlquery" => escape_query(&print(arguments)).into(),
        other => return Err(format!("function {other:?} not defined")),
    })
}

/// Go's idea of truth: anything but nothing, zero and emptiness.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A value as Go's `%v` prints it.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(show_inner).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", show_inner(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

fn show_inner(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { show(value) }
}

/// Blanks stand between operands of which neither is a string.
fn print(arguments: &[Value]) -> String {
    let mut text = String::new();
    for (place, argument) in arguments.iter().enumerate() {
        if place > 0 && !argument.is_string() && !arguments[place - 1].is_string() {
            text.push(' ');
        }
        text.push_str(&show(argument));
    }
    text
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => (a == b).then_some(Ordering::Equal),
    }
}

fn index(value: &Value, keys: &[Value]) -> Result<Value, String> {
    let mut found = value.clone();
    for key in keys {
        found = match (&found, key) {
            (Value::Array(list), Value::Number(place)) => {
                let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
                let item = place.and_then(|place| list.get(place));
                item.cloned().ok_or_else(|| format!("index out of range: {key}"))?
            }
            (Value::Object(map), Value::String(key)) => map.get(key).cloned().unwrap_or_default(),
            (Value::Null, _) => return Err("index of untyped nil".to_owned()),
            _ => return Err(format!("can't index item with {}", show(key))),
        };
    }
    Ok(found)
}

fn exists(value: &Value, keys: &[Value]) -> bool {
    let mut found = value;
    for key in keys {
        let next = match (found, key) {
            (Value::Array(list), Value::Number(place)) => {
                place.as_u64().and_then(|place| list.get(usize::try_from(place).ok()?))
            }
            (Value::Object(map), Value::String(key)) => map.get(key),
            _ => None,
        };
        let Some(next) = next else { return false };
        found = next;
    }
    true
}

fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let bound = |place: usize, default: usize| {
        bounds
            .get(place)
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default)
    };
    let outside = || "slice index out of range".to_owned();
    match value {
        Value::String(text) => {
            let part = text.get(bound(0, 0)..bound(1, text.len())).ok_or_else(outside)?;
            Ok(part.into())
        }
        Value::Array(list) => {
            let part = list.get(bound(0, 0)..bound(1, list.len())).ok_or_else(outside)?;
            Ok(part.to_vec().into())
        }
        other => Err(format!("can't slice item of type {}", show(other))),
    }
}

/// `printf` with the verbs that make sense for JSON.
fn format(pattern: &str, arguments: &[Value]) -> String {
    let mut out = String::new();
    let mut given = arguments.iter();
    let mut rest = pattern;
    while let Some(place) = rest.find('%') {
        out.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let flags_end = rest.find(|c: char| !"-+# 0".contains(c)).unwrap_or(rest.len());
        let width_end = rest[flags_end..]
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .map_or(rest.len(), |end| flags_end + end);
        let Some(verb) = rest[width_end..].chars().next() else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        let (flags, width) = (&rest[..flags_end], &rest[flags_end..width_end]);
        rest = &rest[width_end + verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = given.next() else {
            out.push_str(&format!("%!{verb}(MISSING)"));
            continue;
        };
        out.push_str(&pad(&one_verb(verb, width, value), flags, width));
    }
    out.push_str(rest);
    out
}

fn one_verb(verb: char, width: &str, value: &Value) -> String {
    let precision = width.split_once('.').and_then(|(_, digits)| digits.parse::<usize>().ok());
    match (verb, value) {
        ('v' | 's' | 'd' | 't', _) => match (value, precision) {
            (Value::String(text), Some(most)) => text.chars().take(most).collect(),
            _ => show(value),
        },
        ('q', _) => Value::from(show(value)).to_string(),
        ('f', Value::Number(number)) => {
            format!("{:.*}", precision.unwrap_or(6), number.as_f64().unwrap_or_default())
        }
        ('x', Value::Number(number)) => format!("{:x}", number.as_i64().unwrap_or_default()),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        _ => format!("%!{verb}({})", show(value)),
    }
}

fn pad(text: &str, flags: &str, width: &str) -> String {
    let width: usize =
        width.split('.').next().and_then(|width| width.parse().ok()).unwrap_or_default();
    let missing = width.saturating_sub(text.chars().count());
    if flags.contains('-') {
        return format!("{text}{}", " ".repeat(missing));
    }
    match (flags.contains('0'), text.strip_prefix('-')) {
        (true, Some(number)) => format!("-{}{number}", "0".repeat(missing)),
        (true, None) => format!("{}{text}", "0".repeat(missing)),
        (false, _) => format!("{}{text}", " ".repeat(missing)),
    }
}

fn escape_html(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn escape_query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
