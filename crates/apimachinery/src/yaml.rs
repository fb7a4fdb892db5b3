//! Writes trees as YAML in the layout Kubernetes' serializer uses: sorted keys, lists level with
//! their key, strings quoted only where they would read as something else.

use crate::Value;

/// Returns the YAML text of a tree.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, value, 0),
        Value::Array(list) if !list.is_empty() => write_list(&mut out, value, 0),
        scalar => {
            write_scalar(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn write_map(out: &mut String, value: &Value, depth: usize) {
    let Some(map) = value.as_object() else { return };
    for (index, (key, value)) in map.iter().enumerate() {
        // The first key of a map inside a list stands behind the dash.
        if index > 0 || !out.ends_with("- ") {
            indent(out, depth);
        }
        write_text(out, key, depth, Place::Key);
        out.push(':');
        write_below(out, value, depth);
    }
}

fn write_below(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            write_map(out, value, depth + 1);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            write_list(out, value, depth);
        }
        scalar => {
            out.push(' ');
            write_scalar(out, scalar, depth);
            out.push('\n');
        }
    }
}

fn write_list(out: &mut String, value: &Value, depth: usize) {
    let Some(list) = value.as_array() else { return };
    for (index, item) in list.iter().enumerate() {
        if index > 0 || !out.ends_with("- ") {
            indent(out, depth);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(out, item, depth + 1),
            Value::Array(inner) if !inner.is_empty() => write_list(out, item, depth + 1),
            scalar => {
                write_scalar(out, scalar, depth);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(text) => write_text(out, text, depth, Place::Value),
        other => out.push_str(&other.to_string()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Value,
}

fn write_text(out: &mut String, text: &str, depth: usize, place: Place) {
    let has_controls = text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{feff}');
    if text.is_empty() || reads_as_other(text) || has_controls {
        write_quoted(out, text);
    } else if text.contains('\n') {
        if place == Place::Value && !text.starts_with([' ', '\n']) {
            write_block(out, text, depth);
        } else {
            write_quoted(out, text);
        }
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn write_block(out: &mut String, text: &str, depth: usize) {
    let trailing = text.len() - text.trim_end_matches('\n').len();
    out.push_str(match trailing {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let body = text.strip_suffix('\n').unwrap_or(text);
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, depth + 1);
            out.push_str(line);
        }
    }
}

fn write_quoted(out: &mut String, text: &str) {
    out.push_str(&crate::field::quote(text));
}

/// Whether a plain spelling would be read as a boolean, number, null or date.
fn reads_as_other(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off",
        "OFF", "true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "~",
        "<<", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "-.inf", "=",
    ];
    if WORDS.contains(&text) {
        return true;
    }
    let number = text.replace('_', "");
    let unsigned = number.trim_start_matches(['+', '-']);
    if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        let radix = |prefix: &str, radix| {
            unsigned
                .strip_prefix(prefix)
                .is_some_and(|digits| i64::from_str_radix(digits, radix).is_ok())
        };
        if unsigned.parse::<f64>().is_ok() || radix("0x", 16) || radix("0b", 2) || radix("0o", 8) {
            return true;
        }
        if is_date(text) || is_sexagesimal(unsigned) {
            return true;
        }
    }
    false
}

/// `2001-12-14` and what may follow it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let digits = |part: Option<&str>, max: usize| {
        part.is_some_and(|p| {
            !p.is_empty() && p.len() <= max && p.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let year = parts.next();
    year.is_some_and(|y| y.len() == 4)
        && digits(year, 4)
        && digits(parts.next(), 2)
        && parts.next().is_some_and(|rest| {
            let day = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (1..=2).contains(&day)
                && (day == rest.len() || rest[day..].starts_with(['T', 't', ' ']))
        })
}

/// `190:20:30`, which old YAML reads as a number.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let first =
        parts.next().is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()) && !p.is_empty());
    let rest: Vec<&str> = parts.collect();
    first
        && !rest.is_empty()
        && rest.iter().all(|p| p.len() <= 2 && p.parse::<u8>().is_ok_and(|minutes| minutes < 60))
}

fn is_plain(text: &str) -> bool {
    let first_refused = text.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@',
        '`', ' ',
    ]);
    let dash_word = (text.starts_with('-') || text.starts_with('?') || text.starts_with(':'))
        && text.chars().nth(1).is_some_and(|c| c != ' ');
    (!first_refused || dash_word)
        && !text.ends_with(' ')
        && !text.ends_with(':')
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn trees_are_laid_out_as_kubernetes_does() {
        let value = json!({
            "a": {"b": [1, {"c": "x", "d": []}, [2]], "empty": {}},
            "t": "2026-01-01T00:00:00Z", "yes": "yes", "n": "12", "s": "a: b", "m": "l1\nl2\n",
            "k:{\"type\":\"x\"}": ".", "v": "v1",
        });
        let expected = "a:\n  b:\n  - 1\n  - c: x\n    d: []\n  - - 2\n  empty: {}\n\
            k:{\"type\":\"x\"}: .\nm: |\n  l1\n  l2\n\"n\": \"12\"\ns: 'a: b'\n\
            t: \"2026-01-01T00:00:00Z\"\nv: v1\n\"yes\": \"yes\"\n";
        assert_eq!(to_string(&value), expected);
    }
}
