//! Objects against the rules of their schema.

use std::collections::BTreeMap;

use karmada_apimachinery::Value as Json;
use karmada_apimachinery::crd::{correlated_item, is_unchanged};
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::schema::{Additional, Schema, Type as Kind};

use super::{Node, Place, Rule, convert};
use crate::eval::{Budget, Error};
use crate::value::Value;

/// What one evaluation may cost, and all of one object together.
const PER_CALL: u64 = 1_000_000;
const PER_OBJECT: u64 = 10_000_000;

pub(super) fn check(
    node: &Node,
    schema: &Schema,
    object: &Json,
    old: Option<&Json>,
) -> Vec<FieldError> {
    let mut walk = Walk { forgiven: false, budget: PER_OBJECT, ended: false, errors: Vec::new() };
    walk.visit((node, schema, Place::Root), object, old, &Path::root());
    walk.errors
}

/// What rules say about places that did not change and are accepted for that.
pub(super) fn forgiven(node: &Node, schema: &Schema, object: &Json, old: &Json) -> Vec<FieldError> {
    let mut walk = Walk { forgiven: true, budget: PER_OBJECT, ended: false, errors: Vec::new() };
    walk.visit((node, schema, Place::Root), object, Some(old), &Path::root());
    walk.errors
}

struct Walk {
    /// Only what is accepted because it did not change is looked at.
    forgiven: bool,
    budget: u64,
    /// The budget is used up: no more rules are run.
    ended: bool,
    errors: Vec<FieldError>,
}

impl Walk {
    fn visit(
        &mut self,
        (node, schema, place): (&Node, &Schema, Place),
        json: &Json,
        old: Option<&Json>,
        path: &Path,
    ) {
        if self.ended || (json.is_null() && schema.nullable) {
            return;
        }
        if !node.rules.is_empty() {
            self.run_rules((node, schema, place), json, old, path);
        }
        match json {
            Json::Object(fields) => {
                for (name, field) in fields {
                    let earlier = old.and_then(|old| old.get(name));
                    if let (Some(inner), Some(property)) =
                        (node.properties.get(name.as_str()), schema.properties.get(name.as_str()))
                    {
                        let at = path.child(name);
                        self.visit((inner, property, Place::Inside), field, earlier, &at);
                    } else if let (Some(inner), Additional::Schema(values)) =
                        (&node.values, &schema.additional)
                    {
                        let at = path.key(name);
                        self.visit((inner, values, Place::Inside), field, earlier, &at);
                    }
                }
            }
            Json::Array(items) => {
                let (Some(inner), Some(element)) = (&node.items, schema.items.as_deref()) else {
                    return;
                };
                for (index, item) in items.iter().enumerate() {
                    let earlier = old.and_then(|old| correlated_item(item, old, schema));
                    let at = path.index(index);
                    self.visit((inner, element, Place::Inside), item, earlier, &at);
                }
            }
            _ => {}
        }
    }

    fn run_rules(
        &mut self,
        (node, schema, place): (&Node, &Schema, Place),
        json: &Json,
        old: Option<&Json>,
        path: &Path,
    ) {
        let unchanged = old.is_some_and(|old| is_unchanged(json, old, schema));
        let own = convert::value(json, schema, place);
        let before = old.filter(|old| !old.is_null());
        let before = before.map(|old| convert::value(old, schema, place));
        for rule in &node.rules {
            if self.ended {
                return;
            }
            if rule.uses_old && before.is_none() && !rule.text.optional_old {
                continue;
            }
            // What a writer left as it was is not held against them.
            if (unchanged && !rule.uses_old) != self.forgiven {
                continue;
            }
            let old_self = match (&before, rule.text.optional_old) {
                (before, true) => Some(Value::Optional(before.clone().map(Into::into))),
                (before, false) => before.clone(),
            };
            let mut bindings = BTreeMap::from([("self".to_owned(), own.clone())]);
            bindings.extend(old_self.map(|value| ("oldSelf".to_owned(), value)));
            self.run(rule, &bindings, (json, schema), path);
        }
    }

    fn run(
        &mut self,
        rule: &Rule,
        bindings: &BTreeMap<String, Value>,
        (json, schema): (&Json, &Schema),
        path: &Path,
    ) {
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                let detail = format!("rule compile error: {why}");
                self.errors.push(FieldError::invalid(path, schema.kind.name(), detail));
                return;
            }
        };
        let granted = self.budget.min(PER_CALL);
        let mut budget = Budget::new(granted);
        let verdict = program.run(bindings, &mut budget);
        self.budget -= granted - budget.left;
        let kind = schema.kind.name();
        match verdict {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let detail = self.message(rule, bindings);
                self.errors.push(refusal(rule, path, (json, schema), detail));
            }
            Err(Error::TooExpensive) => {
                self.ended = true;
                let detail = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    Error::TooExpensive,
                    named(rule)
                );
                self.errors.push(FieldError::invalid(path, kind, detail));
            }
            Err(Error::Failed(why)) if why.starts_with("no such overload") => {
                let detail = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro \
                     signature for rule: {}",
                    named(rule)
                );
                self.errors.push(FieldError::invalid(path, kind, detail));
            }
            Err(Error::Failed(why)) => {
                let detail = format!("{why} evaluating rule: {}", named(rule));
                self.errors.push(FieldError::invalid(path, kind, detail));
            }
        }
        if self.budget == 0 && !self.ended {
            self.ended = true;
            let detail = "validation failed due to running out of cost budget, no further \
                          validation rules will be run";
            self.errors.push(FieldError::invalid(path, kind, detail));
        }
    }

    /// What a broken rule says: its computed message, its written one, or itself.
    fn message(&mut self, rule: &Rule, bindings: &BTreeMap<String, Value>) -> String {
        if let Some(program) = &rule.message {
            let granted = self.budget.min(PER_CALL);
            let mut budget = Budget::new(granted);
            let said = program.run(bindings, &mut budget);
            self.budget -= granted - budget.left;
            if let Ok(Value::String(text)) = said
                && is_usable(&text)
            {
                return text.trim().to_owned();
            }
        }
        if rule.text.message.is_empty() {
            return format!("failed rule: {}", rule.text.rule);
        }
        rule.text.message.clone()
    }
}

/// Whether a computed message can be shown.
pub(crate) fn is_usable(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\n') && text.len() <= 5 * 1024
}

/// A rule as errors name it.
fn named(rule: &Rule) -> &str {
    if rule.text.message.is_empty() { &rule.text.rule } else { &rule.text.message }
}

fn refusal(
    rule: &Rule,
    path: &Path,
    (json, schema): (&Json, &Schema),
    detail: String,
) -> FieldError {
    let path = below(path, &rule.text.field_path);
    let shown = match schema.kind {
        Kind::Object | Kind::Array => Shown::Omitted,
        _ => Shown::Json(json.clone()),
    };
    match rule.text.reason.as_str() {
        "FieldValueForbidden" => FieldError::forbidden(&path, detail),
        "FieldValueRequired" => FieldError::required(&path, detail),
        "FieldValueDuplicate" => FieldError::duplicate(&path, shown),
        _ => FieldError::invalid(&path, shown, detail),
    }
}

/// The place a `fieldPath` such as `.a['b.c'].d` names, seen from a path.
fn below(path: &Path, text: &str) -> Path {
    let mut at = path.clone();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            at = at.child(&after[..end]);
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').unwrap_or(after.len());
            let key = after[..end].trim_matches(['\'', '"']);
            at = match key.parse::<usize>() {
                Ok(index) => at.index(index),
                Err(_) => at.child(key),
            };
            rest = after.get(end + 1..).unwrap_or_default();
        } else {
            return at;
        }
    }
    at
}
