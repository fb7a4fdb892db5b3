//! A value together with its path, and the list of errors that checks add to. Reading never fails:
//! a missing or wrong-typed place reads as absent, as Go's zero values do.

use karmada_apimachinery::Map;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path, Shown};

static NULL: Value = Value::Null;

/// One place in an object.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    pub(crate) path: Path,
    pub(crate) value: &'a Value,
}

impl<'a> At<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { path: Path::root(), value }
    }

    pub(crate) fn new(path: Path, value: &'a Value) -> Self {
        Self { path, value }
    }

    pub(crate) fn field(&self, name: &str) -> At<'a> {
        At { path: self.path.child(name), value: self.value.get(name).unwrap_or(&NULL) }
    }

    /// Follows several fields.
    pub(crate) fn at(&self, names: &[&str]) -> At<'a> {
        names.iter().fold(self.clone(), |at, name| at.field(name))
    }

    /// The same value, reported under another field of this place: Kubernetes' paths do not always
    /// follow the JSON names.
    pub(crate) fn renamed(&self, field: &str, reported: &str) -> At<'a> {
        At { path: self.path.child(reported), value: self.field(field).value }
    }

    /// The same value under another path.
    pub(crate) fn reported_at(&self, path: Path) -> At<'a> {
        At { path, value: self.value }
    }

    pub(crate) fn index(&self, index: usize) -> At<'a> {
        At { path: self.path.index(index), value: self.value.get(index).unwrap_or(&NULL) }
    }

    /// The entry of a map, written `path[key]`.
    pub(crate) fn key(&self, key: &str) -> At<'a> {
        At { path: self.path.key(key), value: self.value.get(key).unwrap_or(&NULL) }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.value.as_array().map_or(&[] as &'a [Value], |list| list.as_slice());
        items.iter().enumerate().map(move |(i, value)| At { path: path.index(i), value })
    }

    /// The entries of a map in key order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let path = self.path.clone();
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), At { path: path.key(key), value }))
    }

    pub(crate) fn map(&self) -> Option<&'a Map> {
        self.value.as_object()
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The number, zero where there is none.
    pub(crate) fn int(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.value.as_bool()
    }

    pub(crate) fn is_true(&self) -> bool {
        self.flag() == Some(true)
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.items().map(|item| item.text())
    }

    pub(crate) fn has_text(&self, wanted: &str) -> bool {
        self.texts().any(|text| text == wanted)
    }

    pub(crate) fn shown(&self) -> Shown {
        Shown::Json(self.value.clone())
    }
}

/// What is wrong with an object, in the order found.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub(crate) Vec<FieldError>);

impl Errors {
    pub(crate) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn extend(&mut self, other: Errors) {
        self.0.extend(other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn required(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.push(FieldError::required(&at.path, detail));
    }

    pub(crate) fn invalid(
        &mut self,
        at: &At<'_>,
        shown: impl Into<Shown>,
        detail: impl Into<String>,
    ) {
        self.push(FieldError::invalid(&at.path, shown, detail));
    }

    /// Shows the value as it stands.
    pub(crate) fn invalid_value(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&at.path, at.shown(), detail));
    }

    /// Shows the value as text, empty where there is none.
    pub(crate) fn invalid_text(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&at.path, at.text(), detail));
    }

    pub(crate) fn invalid_int(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&at.path, at.int(), detail));
    }

    /// One error per message, each showing the text.
    pub(crate) fn messages<M: AsRef<str>>(&mut self, at: &At<'_>, messages: &[M]) {
        for message in messages {
            self.invalid_text(at, message.as_ref());
        }
    }

    pub(crate) fn messages_for<M: AsRef<str>>(&mut self, at: &At<'_>, shown: &str, messages: &[M]) {
        for message in messages {
            self.invalid(at, shown, message.as_ref());
        }
    }

    pub(crate) fn forbidden(&mut self, at: &At<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(&at.path, detail));
    }

    pub(crate) fn duplicate(&mut self, at: &At<'_>) {
        self.push(FieldError::duplicate(&at.path, at.shown()));
    }

    pub(crate) fn not_found(&mut self, at: &At<'_>) {
        self.push(FieldError::not_found(&at.path, at.text()));
    }

    pub(crate) fn unsupported(&mut self, at: &At<'_>, supported: &[&str]) {
        let shown = if at.is_set() { at.shown() } else { Shown::from("") };
        self.push(FieldError::not_supported(&at.path, shown, supported));
    }

    pub(crate) fn too_long(&mut self, at: &At<'_>, max_bytes: usize) {
        self.push(FieldError::too_long(&at.path, max_bytes));
    }

    pub(crate) fn too_many(&mut self, at: &At<'_>, max: usize) {
        self.push(FieldError::too_many(&at.path, at.len(), max));
    }

    /// A value of an enumeration; nothing is said where it is absent.
    pub(crate) fn one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if at.is_set() && !supported.contains(&at.text()) {
            self.unsupported(at, supported);
        }
    }

    /// A value of an enumeration that must be there.
    pub(crate) fn required_one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if at.is_empty() {
            self.required(at, "");
        } else {
            self.one_of(at, supported);
        }
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, at: &At<'_>) -> bool {
        if at.is_empty() {
            self.required(at, "");
        }
        !at.is_empty()
    }

    pub(crate) fn non_negative(&mut self, at: &At<'_>) {
        if at.int() < 0 {
            self.invalid_int(at, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn positive(&mut self, at: &At<'_>) {
        if at.int() <= 0 {
            self.invalid_int(at, "must be greater than zero");
        }
    }

    pub(crate) fn in_range(&mut self, at: &At<'_>, low: i64, high: i64) {
        if at.int() < low || at.int() > high {
            self.invalid_int(at, inclusive_range(low, high));
        }
    }

    /// A field that keeps the value it has.
    pub(crate) fn immutable(&mut self, new: &At<'_>, old: &At<'_>) {
        if !same(new.value, old.value) {
            self.invalid_value(new, FIELD_IMMUTABLE);
        }
    }

    pub(crate) fn immutable_shown(&mut self, new: &At<'_>, old: &At<'_>, shown: impl Into<Shown>) {
        if !same(new.value, old.value) {
            self.invalid(new, shown, FIELD_IMMUTABLE);
        }
    }
}

pub(crate) const FIELD_IMMUTABLE: &str = "field is immutable";

pub(crate) fn inclusive_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Equality that sees no difference between absent, null and empty lists or maps.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let covered = |x: &Map, y: &Map| {
                x.iter().all(|(key, value)| same(value, y.get(key).unwrap_or(&NULL)))
            };
            covered(a, b) && covered(b, a)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b || (is_nothing(a) && is_nothing(b)),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}
