//! Kyverno: policies.

use karmada_apimachinery::{Map, Value};

use super::blocks::{last, merged_conditions, put_status};
use super::flux::is_ready;
use crate::error::Result;
use crate::fields::{count, flag};
use crate::rules::Members;

pub(super) const FIELDS: &[&str] = &["autogen", "conditions", "ready", "rulecount"];

pub(super) fn health(object: &Value) -> Result<bool> {
    match flag(object, &["status", "ready"])? {
        Some(ready) => Ok(ready),
        None => is_ready(object, &["Succeeded"]),
    }
}

pub(super) fn aggregate(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 {
        return Ok(());
    }
    let mut rules = Map::new();
    for kind in ["validate", "generate", "mutate", "verifyimages"] {
        let mut sum = 0i64;
        members.each(|_, status| {
            sum = sum.saturating_add(count(status, &["rulecount", kind])?);
            Ok(())
        })?;
        rules.insert(kind.to_owned(), sum.into());
    }
    let mut status = Map::new();
    status.insert("rulecount".to_owned(), rules.into());
    status.insert("conditions".to_owned(), merged_conditions(members)?.into());
    for field in ["autogen", "ready"] {
        status.insert(field.to_owned(), last(members, field).unwrap_or(Value::Null));
    }
    put_status(object, status)
}
