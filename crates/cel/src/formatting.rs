//! Values as text: what `string()` gives, and the clauses of `format()`.

use crate::eval::Error;
use crate::functions::{Outcome, duration_text};
use crate::value::Value;

/// A value as text, as conversions and `%s` write it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Double(v) => v.to_string(),
        Value::String(v) => v.to_string(),
        Value::Bytes(v) => String::from_utf8_lossy(v).into_owned(),
        Value::Timestamp(v) => v.to_string(),
        Value::Duration(v) => duration_text(*v),
        Value::Type(name) => name.to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |(key, value): (&crate::value::Key, &Value)| {
                format!("{}: {}", key.shown(), plain(value))
            };
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => match other.to_json() {
            karmada_apimachinery::Value::String(text) => text.to_string(),
            json => json.to_string(),
        },
    }
}

/// Fills the clauses of a pattern.
pub(crate) fn format(pattern: &str, values: &[Value]) -> Outcome {
    let mut out = String::new();
    let mut values = values.iter();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok();
        }
        let clause = chars.next().ok_or_else(|| Error::failed("unexpected end of string"))?;
        if clause == '%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or_else(|| Error::failed("index 0 out of range"))?;
        out.push_str(&clause_text(clause, precision, value)?);
    }
    Ok(Value::String(out.into()))
}

fn clause_text(clause: char, precision: Option<usize>, value: &Value) -> Result<String, Error> {
    let wrong = || {
        Error::failed(format!(
            "error during formatting: {clause} clause can not be used on {}",
            value.type_name()
        ))
    };
    let double = match value {
        Value::Double(v) => Some(*v),
        Value::Int(v) => Some(*v as f64),
        Value::UInt(v) => Some(*v as f64),
        _ => None,
    };
    Ok(match (clause, value) {
        ('s', value) => plain(value),
        ('d', Value::Int(_) | Value::UInt(_)) => plain(value),
        ('b', Value::Int(v)) => format!("{}{:b}", if *v < 0 { "-" } else { "" }, v.unsigned_abs()),
        ('b', Value::UInt(v)) => format!("{v:b}"),
        ('b', Value::Bool(v)) => u8::from(*v).to_string(),
        ('o', Value::Int(v)) => format!("{}{:o}", if *v < 0 { "-" } else { "" }, v.unsigned_abs()),
        ('o', Value::UInt(v)) => format!("{v:o}"),
        ('x', Value::Int(v)) => format!("{}{:x}", if *v < 0 { "-" } else { "" }, v.unsigned_abs()),
        ('X', Value::Int(v)) => format!("{}{:X}", if *v < 0 { "-" } else { "" }, v.unsigned_abs()),
        ('x', Value::UInt(v)) => format!("{v:x}"),
        ('X', Value::UInt(v)) => format!("{v:X}"),
        ('x', Value::String(v)) => v.bytes().map(|b| format!("{b:02x}")).collect(),
        ('X', Value::String(v)) => v.bytes().map(|b| format!("{b:02X}")).collect(),
        ('x', Value::Bytes(v)) => v.iter().map(|b| format!("{b:02x}")).collect(),
        ('X', Value::Bytes(v)) => v.iter().map(|b| format!("{b:02X}")).collect(),
        ('f', _) => format!("{:.*}", precision.unwrap_or(6), double.ok_or_else(wrong)?),
        ('e', _) => scientific(double.ok_or_else(wrong)?, precision.unwrap_or(6)),
        _ => return Err(wrong()),
    })
}

/// A number with an exponent of at least two digits and a sign.
fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}
