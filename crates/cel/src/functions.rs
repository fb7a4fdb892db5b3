//! What functions and operators do. Arguments come with the receiver of a method in front.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::time::{format_go_duration, parse_go_duration};

use crate::eval::Error;
use crate::number::compare;
use crate::value::Value;
use crate::{formatting, library};

pub(crate) type Outcome = Result<Value, Error>;

/// What a call costs beside its arguments.
pub(crate) fn cost(name: &str, args: &[Value]) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, Value::weight);
    let tenth = |size: u64| size.div_ceil(10);
    match name {
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => tenth(size(0).min(size(1))).max(1),
        "_+_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            tenth(size(0) + size(1)).max(1)
        }
        "@in" if matches!(args.get(1), Some(Value::List(_))) => size(1).max(1),
        "contains" => (tenth(size(0)) * tenth(size(1))).max(1),
        "startsWith" | "endsWith" => tenth(size(1)).max(1),
        "matches" | "find" | "findAll" => (tenth(size(0)) * size(1).div_ceil(4)).max(1),
        "isSorted" | "sum" | "min" | "max" => size(0).max(1),
        "indexOf" | "lastIndexOf" if matches!(args.first(), Some(Value::List(_))) => size(0).max(1),
        "indexOf" | "lastIndexOf" => (tenth(size(0)) * tenth(size(1))).max(1),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => (size(0) * size(1)).max(1),
        "replace" | "join" | "split" | "format" | "string" | "bytes" | "url" | "quantity"
        | "lowerAscii" | "upperAscii" | "trim" | "substring" | "reverse" | "validate" => {
            tenth(size(0)).max(1)
        }
        _ => 1,
    }
}

/// Calls a function, operator or method.
pub(crate) fn call(name: &str, method: bool, args: Vec<Value>) -> Outcome {
    let found = match args.as_slice() {
        [a, b] => operator(name, a, b),
        [a] => unary(name, a),
        _ => None,
    };
    let found = found
        .or_else(|| text_function(name, &args))
        .or_else(|| convert(name, &args))
        .or_else(|| time_function(name, &args))
        .or_else(|| list_function(name, &args))
        .or_else(|| optional_function(name, &args))
        .or_else(|| library::call(name, method, &args));
    found.unwrap_or_else(|| Err(Error::no_overload()))
}

fn unary(name: &str, a: &Value) -> Option<Outcome> {
    Some(match (name, a) {
        ("!_", Value::Bool(v)) => Ok(Value::Bool(!v)),
        ("-_", Value::Int(v)) => v.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", Value::Double(v)) => Ok(Value::Double(-v)),
        ("size", Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(i64::try_from(a.weight()).unwrap_or(i64::MAX)))
        }
        ("dyn", a) => Ok(a.clone()),
        ("type", a) => Ok(Value::Type(a.type_name().into())),
        _ => return None,
    })
}

fn overflow() -> Error {
    Error::failed("integer overflow")
}

fn operator(name: &str, a: &Value, b: &Value) -> Option<Outcome> {
    let ordered = |wanted: fn(Ordering) -> bool| {
        Some(match order(a, b) {
            Some(found) => Ok(Value::Bool(wanted(found))),
            // Nothing is smaller or larger than what is not a number.
            None if matches!((a, b), (Value::Double(_), _) | (_, Value::Double(_))) => {
                Ok(Value::Bool(false))
            }
            None => Err(Error::no_overload()),
        })
    };
    match name {
        "_==_" => Some(Ok(Value::Bool(a == b))),
        "_!=_" => Some(Ok(Value::Bool(a != b))),
        "_<_" => ordered(Ordering::is_lt),
        "_<=_" => ordered(Ordering::is_le),
        "_>_" => ordered(Ordering::is_gt),
        "_>=_" => ordered(Ordering::is_ge),
        "@in" => Some(match b {
            Value::List(items) => Ok(Value::Bool(items.contains(a))),
            Value::Map(map) => {
                Ok(Value::Bool(a.to_key().is_some_and(|key| map.contains_key(&key))))
            }
            _ => Err(Error::no_overload()),
        }),
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" => Some(arithmetic(name, a, b)),
        _ => None,
    }
}

/// The order of two values of a kind that has one.
pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        _ => compare(a, b),
    }
}

fn arithmetic(name: &str, a: &Value, b: &Value) -> Outcome {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            let (a, b) = (*a, *b);
            let result = match name {
                "_+_" => a.checked_add(b),
                "_-_" => a.checked_sub(b),
                "_*_" => a.checked_mul(b),
                "_/_" if b == 0 => return Err(Error::failed("division by zero")),
                "_/_" => a.checked_div(b),
                _ if b == 0 => return Err(Error::failed("modulus by zero")),
                _ => a.checked_rem(b),
            };
            result.map(Value::Int).ok_or_else(overflow)
        }
        (Value::UInt(a), Value::UInt(b)) => {
            let (a, b) = (*a, *b);
            let result = match name {
                "_+_" => a.checked_add(b),
                "_-_" => a.checked_sub(b),
                "_*_" => a.checked_mul(b),
                "_/_" if b == 0 => return Err(Error::failed("division by zero")),
                "_/_" => a.checked_div(b),
                _ if b == 0 => return Err(Error::failed("modulus by zero")),
                _ => a.checked_rem(b),
            };
            result.map(Value::UInt).ok_or_else(|| Error::failed("unsigned integer overflow"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(match name {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return Err(Error::no_overload()),
        })),
        _ if name == "_+_" => add(a, b),
        _ if name == "_-_" => subtract(a, b),
        _ => Err(Error::no_overload()),
    }
}

fn add(a: &Value, b: &Value) -> Outcome {
    Ok(match (a, b) {
        (Value::String(a), Value::String(b)) => Value::String(format!("{a}{b}").into()),
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&**a, &**b].concat().into()),
        (Value::List(a), Value::List(b)) => Value::list(a.iter().chain(&**b).cloned().collect()),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_add(*b).ok_or_else(overflow)?)
        }
        (Value::Timestamp(t), Value::Duration(d)) | (Value::Duration(d), Value::Timestamp(t)) => {
            Value::Timestamp(t.checked_add(*d).map_err(|_| Error::failed("timestamp overflow"))?)
        }
        _ => return Err(Error::no_overload()),
    })
}

fn subtract(a: &Value, b: &Value) -> Outcome {
    Ok(match (a, b) {
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_sub(*b).ok_or_else(overflow)?)
        }
        (Value::Timestamp(t), Value::Duration(d)) => {
            Value::Timestamp(t.checked_sub(*d).map_err(|_| Error::failed("timestamp overflow"))?)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => Value::Duration(a.duration_since(*b)),
        _ => return Err(Error::no_overload()),
    })
}

fn text(text: impl Into<Arc<str>>) -> Outcome {
    Ok(Value::String(text.into()))
}

pub(crate) fn regex(pattern: &str) -> Result<regex::Regex, Error> {
    regex::RegexBuilder::new(pattern)
        .size_limit(10 << 20)
        .build()
        .map_err(|error| Error::failed(format!("error parsing regexp: {error}")))
}

fn text_function(name: &str, args: &[Value]) -> Option<Outcome> {
    let Some(Value::String(own)) = args.first() else { return None };
    let arg = |index: usize| args.get(index).and_then(Value::as_str);
    let number = |index: usize| match args.get(index) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    Some(match (name, args.len()) {
        ("contains", 2) => Ok(Value::Bool(own.contains(arg(1)?))),
        ("startsWith", 2) => Ok(Value::Bool(own.starts_with(arg(1)?))),
        ("endsWith", 2) => Ok(Value::Bool(own.ends_with(arg(1)?))),
        ("matches", 2) => regex(arg(1)?).map(|r| Value::Bool(r.is_match(own))),
        ("find", 2) => {
            regex(arg(1)?).map(|r| r.find(own).map_or(Value::from(""), |m| m.as_str().into()))
        }
        ("findAll", 2 | 3) => {
            let limit = number(2).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
            regex(arg(1)?).map(|r| {
                Value::list(r.find_iter(own).take(limit).map(|m| m.as_str().into()).collect())
            })
        }
        ("charAt", 2) => char_at(own, number(1)?),
        ("indexOf", 2 | 3) => index_of(own, arg(1)?, number(2), false),
        ("lastIndexOf", 2 | 3) => index_of(own, arg(1)?, number(2), true),
        ("lowerAscii", 1) => text(own.to_ascii_lowercase()),
        ("upperAscii", 1) => text(own.to_ascii_uppercase()),
        ("trim", 1) => text(own.trim()),
        ("reverse", 1) => text(own.chars().rev().collect::<String>()),
        ("replace", 3) => text(own.replace(arg(1)?, arg(2)?)),
        ("replace", 4) => match usize::try_from(number(3)?) {
            Ok(times) => text(own.replacen(arg(1)?, arg(2)?, times)),
            Err(_) => text(own.replace(arg(1)?, arg(2)?)),
        },
        ("split", 2 | 3) => Ok(split(own, arg(1)?, number(2))),
        ("substring", 2 | 3) => substring(own, number(1)?, number(2)),
        ("format", 2) => match &args[1] {
            Value::List(values) => formatting::format(own, values),
            _ => Err(Error::no_overload()),
        },
        ("strings.quote", 1) => text(karmada_apimachinery::field::quote(own)),
        ("jsonpatch.escapeKey", 1) => text(own.replace('~', "~0").replace('/', "~1")),
        _ => return None,
    })
}

fn out_of_range(index: i64) -> Error {
    Error::failed(format!("index out of range: {index}"))
}

fn char_at(own: &str, index: i64) -> Outcome {
    let length = own.chars().count();
    let at = usize::try_from(index).ok().filter(|at| *at <= length);
    let at = at.ok_or_else(|| out_of_range(index))?;
    text(own.chars().nth(at).map(String::from).unwrap_or_default())
}

fn index_of(own: &str, wanted: &str, offset: Option<i64>, last: bool) -> Outcome {
    let own: Vec<char> = own.chars().collect();
    let wanted: Vec<char> = wanted.chars().collect();
    let default = if last { own.len() } else { 0 };
    let offset = match offset {
        None => default,
        Some(offset) => usize::try_from(offset)
            .ok()
            .filter(|at| *at <= own.len())
            .ok_or_else(|| out_of_range(offset))?,
    };
    let end = own.len().saturating_sub(wanted.len());
    let fits = |at: &usize| wanted.len() <= own.len() && own[*at..].starts_with(&wanted);
    let found =
        if last { (0..=end.min(offset)).rev().find(fits) } else { (offset..=end).find(fits) };
    Ok(Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)))
}

fn split(own: &str, by: &str, limit: Option<i64>) -> Value {
    let parts: Vec<String> = if by.is_empty() {
        own.chars().map(String::from).collect()
    } else {
        own.split(by).map(str::to_owned).collect()
    };
    let joined = match limit.map(usize::try_from) {
        Some(Ok(0)) => Vec::new(),
        Some(Ok(limit)) if limit < parts.len() => {
            let mut kept = parts[..limit - 1].to_vec();
            kept.push(parts[limit - 1..].join(by));
            kept
        }
        _ => parts,
    };
    Value::list(joined.iter().map(|part| part.as_str().into()).collect())
}

fn substring(own: &str, from: i64, to: Option<i64>) -> Outcome {
    let chars: Vec<char> = own.chars().collect();
    let index = |at: i64| {
        usize::try_from(at).ok().filter(|at| *at <= chars.len()).ok_or_else(|| out_of_range(at))
    };
    let start = index(from)?;
    let end = to.map_or(Ok(chars.len()), index)?;
    if start > end {
        let why = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Error::failed(why));
    }
    text(chars[start..end].iter().collect::<String>())
}

fn convert(name: &str, args: &[Value]) -> Option<Outcome> {
    let [value] = args else { return None };
    let range = || Error::failed("range error");
    Some(match (name, value) {
        ("int", Value::Int(_))
        | ("uint", Value::UInt(_))
        | ("double", Value::Double(_))
        | ("bool", Value::Bool(_))
        | ("string", Value::String(_))
        | ("bytes", Value::Bytes(_))
        | ("timestamp", Value::Timestamp(_))
        | ("duration", Value::Duration(_)) => Ok(value.clone()),
        ("int", Value::UInt(v)) => i64::try_from(*v).map(Value::Int).map_err(|_| overflow()),
        ("int", Value::Double(v)) if v.abs() < 9.2e18 => Ok(Value::Int(*v as i64)),
        ("int", Value::Double(_)) => Err(overflow()),
        ("int", Value::String(v)) => v.parse().map(Value::Int).map_err(|_| misread("int")),
        ("int", Value::Timestamp(v)) => Ok(Value::Int(v.as_second())),
        ("int", Value::Duration(v)) => {
            i64::try_from(v.as_nanos()).map(Value::Int).map_err(|_| overflow())
        }
        ("uint", Value::Int(v)) => u64::try_from(*v).map(Value::UInt).map_err(|_| range()),
        ("uint", Value::Double(v)) if (0.0..1.8e19).contains(v) => Ok(Value::UInt(*v as u64)),
        ("uint", Value::Double(_)) => Err(range()),
        ("uint", Value::String(v)) => v.parse().map(Value::UInt).map_err(|_| misread("uint")),
        ("double", Value::Int(v)) => Ok(Value::Double(*v as f64)),
        ("double", Value::UInt(v)) => Ok(Value::Double(*v as f64)),
        ("double", Value::String(v)) => v.parse().map(Value::Double).map_err(|_| misread("double")),
        ("bool", Value::String(v)) => match &**v {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(misread("bool")),
        },
        ("bytes", Value::String(v)) => Ok(Value::Bytes(v.as_bytes().into())),
        ("string", Value::Bytes(v)) => String::from_utf8(v.to_vec())
            .map(|v| Value::String(v.into()))
            .map_err(|_| Error::failed("invalid UTF-8 in bytes, cannot convert to string")),
        (
            "string",
            Value::Bool(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Double(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
            | Value::Quantity(_)
            | Value::Ip(_)
            | Value::Cidr(..),
        ) => text(formatting::plain(value)),
        ("timestamp", Value::Int(v)) => {
            Timestamp::from_second(*v).map(Value::Timestamp).map_err(|_| range())
        }
        ("timestamp", Value::String(v)) => v
            .parse::<Timestamp>()
            .map(Value::Timestamp)
            .map_err(|_| misread("google.protobuf.Timestamp")),
        ("duration", Value::String(v)) => parse_go_duration(v)
            .map(Value::Duration)
            .map_err(|_| misread("google.protobuf.Duration")),
        _ => return None,
    })
}

/// A text that does not say what it should.
fn misread(to: &str) -> Error {
    Error::failed(format!("type conversion error from 'string' to '{to}'"))
}

fn time_function(name: &str, args: &[Value]) -> Option<Outcome> {
    let number = |n: i64| Some(Ok(Value::Int(n)));
    match args {
        [Value::Duration(own)] => match name {
            "getHours" => number(own.as_hours()),
            "getMinutes" => number(own.as_mins()),
            "getSeconds" => number(own.as_secs()),
            "getMilliseconds" => number(own.as_millis() as i64),
            _ => None,
        },
        [Value::Timestamp(time)] => field_of_time(name, *time, &TimeZone::UTC),
        [Value::Timestamp(time), Value::String(zone)] => {
            let zone = match time_zone(zone) {
                Some(zone) => zone,
                None => return Some(Err(Error::failed(format!("unknown time zone {zone}")))),
            };
            field_of_time(name, *time, &zone)
        }
        _ => None,
    }
}

/// A zone by its distance from UTC; names would need a database of zones.
fn time_zone(text: &str) -> Option<TimeZone> {
    if text == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(sign * seconds).ok()?))
}

fn field_of_time(name: &str, time: Timestamp, zone: &TimeZone) -> Option<Outcome> {
    let local = zone.to_datetime(time);
    let number = match name {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.subsec_nanosecond() / 1_000_000),
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}

fn list_function(name: &str, args: &[Value]) -> Option<Outcome> {
    let Some(Value::List(own)) = args.first() else { return None };
    let position = |found: Option<usize>| {
        Ok(Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)))
    };
    Some(match (name, &args[1..]) {
        ("isSorted", []) => {
            let sorted =
                own.windows(2).all(|pair| order(&pair[0], &pair[1]).is_some_and(Ordering::is_le));
            Ok(Value::Bool(sorted))
        }
        ("sum", []) => sum(own),
        ("min", []) => extreme(own, "min", Ordering::Less),
        ("max", []) => extreme(own, "max", Ordering::Greater),
        ("indexOf", [wanted]) => position(own.iter().position(|item| item == wanted)),
        ("lastIndexOf", [wanted]) => position(own.iter().rposition(|item| item == wanted)),
        ("join", rest) => {
            let by = rest.first().and_then(Value::as_str).unwrap_or_default();
            let parts: Option<Vec<&str>> = own.iter().map(Value::as_str).collect();
            match parts {
                Some(parts) => text(parts.join(by)),
                None => Err(Error::no_overload()),
            }
        }
        ("sets.contains", [Value::List(other)]) => {
            Ok(Value::Bool(other.iter().all(|item| own.contains(item))))
        }
        ("sets.intersects", [Value::List(other)]) => {
            Ok(Value::Bool(other.iter().any(|item| own.contains(item))))
        }
        ("sets.equivalent", [Value::List(other)]) => Ok(Value::Bool(
            other.iter().all(|item| own.contains(item))
                && own.iter().all(|item| other.contains(item)),
        )),
        _ => return None,
    })
}

fn sum(items: &[Value]) -> Outcome {
    let zero = match items.first() {
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::UInt(_)) => Value::UInt(0),
        Some(Value::Duration(_)) => Value::Duration(SignedDuration::ZERO),
        _ => Value::Int(0),
    };
    items.iter().try_fold(zero, |total, item| arithmetic("_+_", &total, item))
}

fn extreme(items: &[Value], name: &str, wanted: Ordering) -> Outcome {
    let mut best =
        items.first().ok_or_else(|| Error::failed(format!("{name} called on empty list")))?;
    for item in items {
        if order(item, best).ok_or_else(Error::no_overload)? == wanted {
            best = item;
        }
    }
    Ok(best.clone())
}

fn optional_function(name: &str, args: &[Value]) -> Option<Outcome> {
    let some = |value: &Value| Value::Optional(Some(Arc::new(value.clone())));
    Some(match (name, args) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(some(value)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if value.is_zero() { Value::Optional(None) } else { some(value) })
        }
        ("hasValue", [Value::Optional(own)]) => Ok(Value::Bool(own.is_some())),
        ("value", [Value::Optional(own)]) => match own {
            Some(value) => Ok((**value).clone()),
            None => Err(Error::failed("optional.none() dereference")),
        },
        ("or", [Value::Optional(Some(_)), _]) => Ok(args[0].clone()),
        ("or", [Value::Optional(None), other]) => Ok(other.clone()),
        ("orValue", [Value::Optional(Some(own)), _]) => Ok((**own).clone()),
        ("orValue", [Value::Optional(None), other]) => Ok(other.clone()),
        _ => return None,
    })
}

/// A duration as text converts it.
pub(crate) fn duration_text(duration: SignedDuration) -> String {
    format_go_duration(duration)
}
