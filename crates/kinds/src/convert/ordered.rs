//! JSON text with fields in a given order, for annotations whose text clients compare.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::go_json;

/// An object under construction: fields appear in the order they are added.
#[derive(Default)]
pub(super) struct Ordered(Vec<String>);

impl Ordered {
    /// Adds a field whose value is already text.
    pub(super) fn text(mut self, key: &str, value: &str) -> Self {
        self.0.push(format!("\"{key}\":{value}"));
        self
    }

    /// Adds a field, `null` where there is no value.
    pub(super) fn always(self, key: &str, value: Option<&Value>) -> Self {
        self.text(key, &go_json(value.unwrap_or(&Value::Null)))
    }

    /// Adds a field only where there is a value.
    pub(super) fn present(self, key: &str, value: Option<&Value>) -> Self {
        match value.filter(|value| !value.is_null()) {
            Some(value) => self.text(key, &go_json(value)),
            None => self,
        }
    }

    pub(super) fn write(self) -> String {
        format!("{{{}}}", self.0.join(","))
    }
}

pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
