//! Regular expressions from schemas, compiled once and kept.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;

/// A schema that is not in use any more should not hold memory for ever; past this all are dropped.
const MAX_KEPT: usize = 2000;

type Compiled = Result<Arc<Regex>, String>;

static KEPT: LazyLock<Mutex<HashMap<Box<str>, Compiled>>> = LazyLock::new(Mutex::default);

/// Compiles a pattern, or says why it is none.
pub(super) fn compile(pattern: &str) -> Compiled {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = kept.get(pattern) {
        return compiled.clone();
    }
    let compiled = Regex::new(&as_ours(pattern)).map(Arc::new).map_err(|error| {
        let reason = error.to_string();
        let line = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("error parsing regexp: {line}: `{pattern}`")
    });
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(pattern.into(), compiled.clone());
    compiled
}

/// A pattern of Go for our engine, which takes more characters of a class for signs: a class inside a class, and the
/// signs of set operations.
fn as_ours(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('[') {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    // How far into a class: not at all, before anything of it was read, or behind that.
    let (mut in_class, mut at_start) = (false, false);
    while let Some(character) = rest.next() {
        let is_first = std::mem::take(&mut at_start);
        match character {
            '\\' => {
                out.push(character);
                out.extend(rest.next());
                continue;
            }
            '[' if !in_class => {
                (in_class, at_start) = (true, true);
                out.push(character);
                if let Some(not) = rest.next_if_eq(&'^') {
                    out.push(not);
                }
                continue;
            }
            '[' if rest.peek() == Some(&':') => {
                // A named class, such as `[:alpha:]`.
                out.push(character);
                for inner in rest.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
                continue;
            }
            ']' if in_class && is_first => out.push('\\'),
            ']' => in_class = false,
            '[' | '&' | '~' if in_class => out.push('\\'),
            _ => {}
        }
        out.push(character);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_go_reads_them() {
        for (pattern, fits, fails) in [
            ("^[^][ ()]+$", "a.b", "a[b"),
            ("^[][]+$", "[]][", "a"),
            ("^[a&&b]+$", "a&b", "c"),
            ("^[[:alpha:]_-]+$", "a_-", "1"),
            (r"^[\]\[x]+$", "[x]", "a"),
            ("^[~~]$", "~", "a"),
            ("^a[.]b$", "a.b", "axb"),
        ] {
            let compiled = compile(pattern).unwrap_or_else(|error| panic!("{error}"));
            assert!(compiled.is_match(fits), "{pattern} does not fit {fits}");
            assert!(!compiled.is_match(fails), "{pattern} fits {fails}");
        }
        assert!(compile("[a").is_err());
    }
}
