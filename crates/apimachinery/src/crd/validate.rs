//! Values against the OpenAPI keywords of a schema, with the messages and the order of Kubernetes'
//! validator. On an update, what did not change is not held against the writer (ratcheting).

use std::cell::Cell;

use crate::{Map, Value};
use serde_json::Number;

use super::accepts::accepts;
use super::number::{Bound, is_whole, shown};
use super::ratchet::{correlated_item, is_unchanged};
use super::{formats, pattern};
use crate::field::{ErrorType, FieldError, Path, Shown, quote};
use crate::schema::{Additional, Schema, Type};

/// Deeper objects are refused before they come here.
pub(super) const MAX_DEPTH: usize = 200;

/// Checks `value` against `schema`; `root` is where the value stands in the object.
pub fn validate(value: &Value, schema: &Schema, root: &Path) -> Vec<FieldError> {
    if accepts(value, schema) { Vec::new() } else { check(value, schema, root) }
}

/// Checks an update: places whose value is unchanged are accepted as they are.
pub fn validate_change(
    value: &Value,
    old: &Value,
    schema: &Schema,
    root: &Path,
) -> Vec<FieldError> {
    if accepts(value, schema) { Vec::new() } else { check_change(value, old, schema, root) }
}

pub(super) fn check(value: &Value, schema: &Schema, root: &Path) -> Vec<FieldError> {
    let validator = Validator { root, ratchet: false, alternatives: Cell::new(0) };
    validator.check(value, None, schema, "", 0).errors
}

pub(super) fn check_change(
    value: &Value,
    old: &Value,
    schema: &Schema,
    root: &Path,
) -> Vec<FieldError> {
    let validator = Validator { root, ratchet: true, alternatives: Cell::new(0) };
    validator.check(value, Some(old), schema, "", 0).errors
}

/// Errors, and how many checks passed: the alternative that passed most explains a failed `anyOf`.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    passed: usize,
}

impl Outcome {
    fn failed(error: FieldError) -> Self {
        Self { errors: vec![error], passed: 0 }
    }

    fn passed() -> Self {
        Self { errors: Vec::new(), passed: 1 }
    }

    fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        other.errors.into_iter().for_each(|error| self.add(error));
    }
}

struct Validator<'a> {
    root: &'a Path,
    ratchet: bool,
    /// How deep inside alternatives it is; there it counts how many checks pass.
    alternatives: Cell<usize>,
}

impl Validator<'_> {
    fn check(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        depth: usize,
    ) -> Outcome {
        if depth > MAX_DEPTH {
            return Outcome::failed(self.plain("exceeded max depth".into()));
        }
        let is_unchanged = || old.is_some_and(|old| is_unchanged(value, old, schema));
        if self.ratchet && self.alternatives.get() == 0 && old == Some(value) && is_unchanged() {
            return Outcome::default();
        }
        let mut outcome = self.check_all(value, old, schema, path, depth);
        if self.ratchet && !outcome.errors.is_empty() && is_unchanged() {
            outcome.errors.clear();
        }
        outcome
    }

    fn check_all(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        depth: usize,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            outcome.merge(self.check_type(value, schema, path));
            outcome.merge(self.check_enum(value, schema, path));
            return outcome;
        }
        let step = |outcome: &mut Outcome, part: Outcome| {
            outcome.merge(part);
            outcome.passed += 1;
        };
        if !types(schema).is_empty() || supported_format(schema).is_some() {
            step(&mut outcome, self.check_type(value, schema, path));
        }
        step(&mut outcome, self.check_combinations(value, old, schema, path, depth));
        match value {
            Value::String(text) => {
                step(&mut outcome, self.check_string(text, schema, path));
                if let Some(fits) = supported_format(schema).and_then(|f| formats::fits(f, text)) {
                    step(&mut outcome, self.check_format(text, schema, path, fits));
                }
            }
            Value::Number(number) => step(&mut outcome, self.check_number(number, schema, path)),
            Value::Array(items) => {
                step(&mut outcome, self.check_list(items, old, schema, path, depth));
            }
            _ => {}
        }
        step(&mut outcome, self.check_enum(value, schema, path));
        if let Value::Object(fields) = value {
            step(&mut outcome, self.check_object(fields, old, schema, path, depth));
        }
        outcome.passed += 1;
        outcome
    }

    fn at(&self, path: &str) -> Path {
        let relative = path.trim_start_matches('.');
        if relative.is_empty() { self.root.clone() } else { self.root.child(relative) }
    }

    /// An error Kubernetes gives no place for.
    fn plain(&self, message: String) -> FieldError {
        FieldError::invalid(self.root, "", message)
    }

    fn invalid(&self, path: &str, value: impl Into<Shown>, rule: &str) -> FieldError {
        FieldError::invalid(&self.at(path), value, format!("{path} in body {rule}"))
    }

    fn wrong_type(&self, path: &str, wanted: &str, found: &str) -> FieldError {
        let detail = format!("{path} in body must be of type {wanted}: {}", quote(found));
        FieldError::type_invalid(&self.at(path), found, detail)
    }

    fn check_type(&self, value: &Value, schema: &Schema, path: &str) -> Outcome {
        let types = types(schema);
        let names = || types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
        let (found, found_format) = match value {
            Value::Null => {
                if types.is_empty() || schema.nullable {
                    return Outcome::passed();
                }
                return Outcome::failed(self.wrong_type(path, &names(), "null"));
            }
            Value::Bool(_) => (Type::Boolean, ""),
            Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
            Value::Number(_) => (Type::Number, "float64"),
            Value::String(_) => (Type::String, ""),
            Value::Array(_) => (Type::Array, ""),
            Value::Object(_) => (Type::Object, ""),
        };
        let is_whole_float = found == Type::Number
            && types.contains(&Type::Integer)
            && value.as_f64().is_some_and(is_whole);
        let is_number = found == Type::Integer && types.contains(&Type::Number);
        let fits = types.contains(&found) || is_whole_float || is_number;
        let is_text_or_list = matches!(found, Type::String | Type::Array);
        if let Some(format) = supported_format(schema) {
            if !is_text_or_list && !fits && found_format != format {
                return Outcome::failed(self.wrong_type(path, format, found_format));
            }
            let is_numeric = types.contains(&Type::Number) || types.contains(&Type::Integer);
            if !is_numeric && is_text_or_list {
                return Outcome::passed();
            }
        }
        if fits {
            return Outcome::passed();
        }
        Outcome::failed(self.wrong_type(path, &names(), found.name()))
    }

    fn check_enum(&self, value: &Value, schema: &Schema, path: &str) -> Outcome {
        let Some(allowed) = schema.limits().enumeration.as_ref().filter(|list| !list.is_empty())
        else {
            return Outcome::default();
        };
        let same = |other: &Value| match (value, other) {
            // Compat: beside a whole number a fraction is cut off before comparing.
            (Value::Number(a), Value::Number(b)) if b.is_i64() => {
                a.as_f64().map(f64::trunc) == b.as_f64()
            }
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            _ => value == other,
        };
        if allowed.iter().any(same) {
            return Outcome::default();
        }
        let names: Vec<String> = allowed
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let value = match value {
            Value::Number(number) => shown(number),
            other => Shown::Json(other.clone()),
        };
        Outcome::failed(FieldError::not_supported(&self.at(path), value, &names))
    }

    fn check_string(&self, text: &str, schema: &Schema, path: &str) -> Outcome {
        let limits = schema.limits();
        let length = text.chars().count() as u64;
        if let Some(max) = limits.max_length.filter(|max| length > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            return Outcome::failed(FieldError::too_long(&self.at(path), max));
        }
        if let Some(min) = limits.min_length.filter(|min| length < *min) {
            let rule = format!("should be at least {min} chars long");
            return Outcome::failed(self.invalid(path, text, &rule));
        }
        let Some(wanted) = &limits.pattern else { return Outcome::default() };
        let rule = match pattern::compile(wanted) {
            Ok(compiled) if compiled.is_match(text) => return Outcome::default(),
            Ok(_) => format!("should match '{wanted}'"),
            Err(reason) => format!("should match '{wanted}, but pattern is invalid: {reason}'"),
        };
        Outcome::failed(self.invalid(path, text, &rule))
    }

    fn check_format(&self, text: &str, schema: &Schema, path: &str, fits: bool) -> Outcome {
        match schema.format.as_deref() {
            Some(format) if !fits => Outcome::failed(self.wrong_type(path, format, text)),
            _ => Outcome::default(),
        }
    }

    fn check_number(&self, number: &Number, schema: &Schema, path: &str) -> Outcome {
        let limits = schema.limits();
        let mut outcome = Outcome::passed();
        let value = number.as_f64().unwrap_or_default();
        if !in_range(number.as_i64(), value, schema) {
            outcome.add(self.out_of_range("Checked", schema, path));
        }
        let mut bound = |what: &str, written: f64| {
            let fits = in_range(None, written, schema);
            if !fits {
                outcome.add(self.out_of_range(what, schema, path));
            }
            Bound::new(number, written, fits)
        };
        let factor = limits.multiple_of.map(|factor| bound("MultipleOf", factor));
        let min = limits.minimum.map(|min| bound("Minimum boundary", min));
        let max = limits.maximum.map(|max| bound("Maximum boundary", max));
        if let Some(factor) = factor {
            if factor.value <= 0.0 {
                let text =
                    format!("factor MultipleOf declared for {path} must be positive: {factor}");
                outcome.add(FieldError::invalid(&self.at(path), shown(number), text));
            } else if !factor.divides(number) {
                let rule = format!("should be a multiple of {factor}");
                outcome.add(self.invalid(path, shown(number), &rule));
            }
        }
        if let Some(min) = min {
            let exclusive = limits.exclusive_minimum;
            if value < min.value || (exclusive && value <= min.value) {
                let words = if exclusive { "greater than" } else { "greater than or equal to" };
                outcome.add(self.invalid(path, shown(number), &format!("should be {words} {min}")));
            }
        }
        if let Some(max) = max {
            let exclusive = limits.exclusive_maximum;
            if value > max.value || (exclusive && value >= max.value) {
                let words = if exclusive { "less than" } else { "less than or equal to" };
                outcome.add(self.invalid(path, shown(number), &format!("should be {words} {max}")));
            }
        }
        outcome
    }

    fn out_of_range(&self, what: &str, schema: &Schema, path: &str) -> FieldError {
        let kind = schema.kind.name();
        let format = match supported_format(schema) {
            Some(format) => format!("with format {format}"),
            None => "(default format)".to_owned(),
        };
        self.plain(format!("{what} value must be of type {kind} {format} in {path}"))
    }

    fn check_list(
        &self,
        items: &[Value],
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        depth: usize,
    ) -> Outcome {
        let limits = schema.limits();
        let mut outcome = Outcome::passed();
        if let Some(element) = schema.items.as_deref() {
            for (index, item) in items.iter().enumerate() {
                let old = old.and_then(|old| correlated_item(item, old, schema));
                let path = joined(path, ["[", &index.to_string(), "]"]);
                outcome.merge(self.check(item, old, element, &path, depth + 1));
            }
        }
        let size = items.len() as u64;
        if let Some(min) = limits.min_items.filter(|min| size < *min) {
            outcome.add(self.invalid(path, size, &format!("should have at least {min} items")));
        }
        if let Some(max) = limits.max_items.filter(|max| size > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            outcome.add(FieldError::too_many(&self.at(path), items.len(), max));
        }
        let has_twins = |items: &[Value]| {
            items.iter().enumerate().any(|(index, item)| items[..index].contains(item))
        };
        if limits.unique_items && has_twins(items) {
            outcome.add(self.invalid(path, "", "shouldn't contain duplicates"));
        }
        outcome
    }

    fn check_object(
        &self,
        fields: &Map,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        depth: usize,
    ) -> Outcome {
        let limits = schema.limits();
        let mut outcome = Outcome::default();
        let size = fields.len() as u64;
        if let Some(min) = limits.min_properties.filter(|min| size < *min) {
            outcome.add(self.invalid(
                path,
                size,
                &format!("should have at least {min} properties"),
            ));
        }
        if let Some(max) = limits.max_properties.filter(|max| size > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            outcome.add(FieldError::too_many(&self.at(path), fields.len(), max));
        }
        let old_field = |key: &str| old?.get(key);
        for (key, value) in
            fields.iter().filter(|(key, _)| !schema.properties.contains_key(key.as_str()))
        {
            match &schema.additional {
                Additional::Forbidden => {
                    let detail = format!("{path}.{key} in body is a forbidden property");
                    outcome.add(FieldError::invalid(&self.at(path), key.as_str(), detail));
                }
                Additional::Schema(values) => {
                    let path = joined(path, [".", key, ""]);
                    outcome.merge(self.check(value, old_field(key), values, &path, depth + 1));
                }
                Additional::Unspecified | Additional::Allowed => {}
            }
        }
        for (key, property) in &schema.properties {
            if let Some(value) = fields.get(&**key) {
                let dot = if path.is_empty() { "" } else { "." };
                let path = joined(path, [dot, key, ""]);
                outcome.merge(self.check(value, old_field(key), property, &path, depth + 1));
            }
        }
        for key in schema.required.iter().filter(|key| !fields.contains_key(&***key)) {
            outcome.add(FieldError::required(&self.at(&format!("{path}.{key}")), ""));
        }
        outcome
    }

    fn check_combinations(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        depth: usize,
    ) -> Outcome {
        let limits = schema.limits();
        let mut outcome = Outcome::passed();
        let run = |schema: &Schema| {
            self.alternatives.update(|inside| inside + 1);
            let outcome = self.check_all(value, old, schema, path, depth + 1);
            self.alternatives.update(|inside| inside - 1);
            outcome
        };
        if depth > MAX_DEPTH {
            return outcome;
        }
        // Said of few values, so not made for all of them.
        let name = || quote(path);
        if !limits.any_of.is_empty() {
            let tried = try_until(&limits.any_of, &run, true);
            if tried.valid == 0 {
                outcome.add(
                    self.plain(format!("{} must validate at least one schema (anyOf)", name())),
                );
            }
            outcome.merge(tried.kept);
        }
        if !limits.one_of.is_empty() {
            let tried = try_until(&limits.one_of, &run, false);
            if tried.valid != 1 {
                let found = match tried.valid {
                    0 => "Found none valid".to_owned(),
                    many => format!("Found {many} valid alternatives"),
                };
                outcome.add(self.plain(format!(
                    "{} must validate one and only one schema (oneOf). {found}",
                    name()
                )));
            }
            if tried.valid < 2 {
                outcome.merge(tried.kept);
            }
        }
        if !limits.all_of.is_empty() {
            let mut valid = 0;
            for part in limits.all_of.iter().map(run) {
                valid += usize::from(part.errors.is_empty());
                outcome.merge(part);
            }
            if valid != limits.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(
                    self.plain(format!("{} must validate all the schemas (allOf){none}", name())),
                );
            }
        }
        if limits.not.as_deref().is_some_and(|not| run(not).errors.is_empty()) {
            outcome.add(self.plain(format!("{} must not validate the schema (not)", name())));
        }
        outcome
    }
}

struct Tried {
    valid: usize,
    /// The first success, else the failure that passed most checks.
    kept: Outcome,
}

fn try_until(
    alternatives: &[Schema],
    run: &impl Fn(&Schema) -> Outcome,
    stop_at_success: bool,
) -> Tried {
    let mut valid = 0;
    let mut kept: Option<Outcome> = None;
    for outcome in alternatives.iter().map(run) {
        let is_valid = outcome.errors.is_empty();
        let is_better = match &kept {
            None => true,
            Some(best) if is_valid => !best.errors.is_empty(),
            Some(best) => !best.errors.is_empty() && outcome.passed > best.passed,
        };
        if is_better {
            kept = Some(outcome);
        }
        if is_valid {
            valid += 1;
            if stop_at_success {
                break;
            }
        }
    }
    Tried { valid, kept: kept.unwrap_or_default() }
}

/// A longer path. One is made for every value, so it is put together plainly.
fn joined(path: &str, parts: [&str; 3]) -> String {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut joined = String::with_capacity(path.len() + length);
    joined.push_str(path);
    parts.iter().for_each(|part| joined.push_str(part));
    joined
}

pub(super) fn types(schema: &Schema) -> &'static [Type] {
    if schema.extensions.int_or_string {
        return &[Type::Integer, Type::String];
    }
    match schema.kind {
        Type::Any => &[],
        Type::Object => &[Type::Object],
        Type::Array => &[Type::Array],
        Type::String => &[Type::String],
        Type::Integer => &[Type::Integer],
        Type::Number => &[Type::Number],
        Type::Boolean => &[Type::Boolean],
        Type::Unknown => &[Type::Unknown],
    }
}

/// The format, where it means something for the type.
fn supported_format(schema: &Schema) -> Option<&str> {
    let format = schema.format.as_deref()?;
    let is_supported = match types(schema) {
        [] | [Type::String] => formats::fits(format, "").is_some(),
        [Type::Integer] => matches!(format, "int32" | "int64"),
        [Type::Number] => matches!(format, "float" | "double"),
        _ => false,
    };
    is_supported.then_some(format)
}

fn in_range(whole: Option<i64>, value: f64, schema: &Schema) -> bool {
    match (types(schema), supported_format(schema)) {
        ([Type::Integer], Some("int32")) => {
            value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
        }
        ([Type::Integer], _) => {
            let fits = (i64::MIN as f64..-(i64::MIN as f64)).contains(&value);
            whole.is_some() || (value.fract() == 0.0 && fits)
        }
        ([Type::Number], Some("float")) => value.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// Whether an error keeps the rules of a schema from being evaluated.
pub(super) fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}
