//! One object on its way into a table row, and the spellings cells share.

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::{human_duration, parse_time};

pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl Row<'_> {
    pub(super) fn name(&self) -> Value {
        self.object.name().into()
    }

    pub(super) fn age(&self) -> Value {
        self.since(self.object.at(&["metadata", "creationTimestamp"])).into()
    }

    /// How long ago a time was.
    pub(super) fn since(&self, time: Option<&Value>) -> String {
        match time.and_then(Value::as_str).and_then(parse_time) {
            Some(time) => human_duration(self.now.duration_since(time)),
            None => "<unknown>".to_owned(),
        }
    }

    pub(super) fn str(&self, path: &[&str]) -> &str {
        self.object.str_at(path).unwrap_or_default()
    }

    pub(super) fn text(&self, path: &[&str]) -> Value {
        self.str(path).into()
    }

    /// The text at a place, or a stand-in where the field is missing.
    pub(super) fn text_or(&self, path: &[&str], default: &str) -> Value {
        self.object.str_at(path).unwrap_or(default).into()
    }

    pub(super) fn int(&self, path: &[&str]) -> i64 {
        self.object.i64_at(path).unwrap_or_default()
    }

    pub(super) fn number(&self, path: &[&str]) -> Value {
        self.int(path).into()
    }

    pub(super) fn flag(&self, path: &[&str], default: bool) -> Value {
        self.object.bool_at(path).unwrap_or(default).into()
    }

    /// Number of entries of a list or map.
    pub(super) fn count(&self, path: &[&str]) -> usize {
        match self.object.at(path) {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.object.list_at(&["status", "conditions"]);
        conditions.iter().find(|condition| condition.str_at(&["type"]) == Some(kind))
    }

    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.str_at(&["status"]) == Some("True"))
    }

    /// Container names and images of a pod template.
    pub(super) fn containers(&self, containers: &[&str]) -> [Value; 2] {
        ["name", "image"].map(|field| {
            let values = self.object.list_at(containers).iter();
            let values = values.map(|container| container.str_at(&[field]).unwrap_or_default());
            values.collect::<Vec<_>>().join(",").into()
        })
    }

    /// A structured selector; selecting everything or nothing reads the same.
    pub(super) fn selector(&self, path: &[&str]) -> Value {
        match LabelSelector::from_object(self.object.at(path)) {
            Ok(selector) => or_none(&selector.to_string()).into(),
            Err(_) => "<error>".into(),
        }
    }

    /// A plain map of labels.
    pub(super) fn labels(&self, path: &[&str]) -> Value {
        let labels = self.object.map_at(path).into_iter().flatten();
        let pairs =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        or_none(&pairs.collect::<Vec<_>>().join(",")).into()
    }

    /// The texts of a list.
    pub(super) fn texts(&self, path: &[&str]) -> Vec<&str> {
        self.object.list_at(path).iter().filter_map(Value::as_str).collect()
    }
}

pub(super) fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// An amount as Kubernetes prints it; none is zero.
pub(super) fn amount(value: Option<&Value>) -> String {
    let parsed = value.and_then(|value| Quantity::from_value(value).ok());
    parsed.map_or_else(|| "0".to_owned(), |amount| amount.to_string())
}

/// The first three of a list, and how many more there are.
pub(super) fn first_three(list: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = list[..list.len().min(SHOWN)].join(",");
    if list.len() > SHOWN { format!("{shown} + {} more...", list.len() - SHOWN) } else { shown }
}
