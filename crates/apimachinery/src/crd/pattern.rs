//! Regular expressions from schemas, compiled once and kept.

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
    let compiled = Regex::new(pattern).map(Arc::new).map_err(|error| {
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
