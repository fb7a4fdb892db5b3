//! Label selectors inside objects.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Shown, go_json};
use karmada_apimachinery::selector::{LabelSelector, validate_label_selector};

use super::place::{At, Errors};

pub(crate) fn check(selector: &At<'_>, errs: &mut Errors) {
    if selector.is_set() {
        errs.0.extend(validate_label_selector(Some(selector.value), &selector.path));
    }
}

/// The selector in force: an absent one selects nothing, a malformed one gives `None`.
pub(crate) fn parse(selector: &At<'_>) -> Option<LabelSelector> {
    LabelSelector::from_object(selector.is_set().then_some(selector.value)).ok()
}

pub(crate) fn is_blank(selector: &At<'_>) -> bool {
    selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty()
}

/// Prints a selector with its fields in the order Kubernetes declares them.
pub(crate) fn shown(selector: &Value) -> Shown {
    let field = |of: &Value, name: &str| {
        let value = of.get(name)?;
        let empty = value.is_null()
            || value.as_object().is_some_and(|map| map.is_empty())
            || value.as_array().is_some_and(|list| list.is_empty());
        (!empty).then(|| format!("\"{name}\":{}", go_json(value)))
    };
    if selector.is_null() {
        return Shown::Json(Value::Null);
    }
    let expressions: Vec<String> = selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|expression| {
            let required = ["key", "operator"].map(|name| {
                let value = expression.get(name).cloned().unwrap_or_else(|| Value::from(""));
                format!("\"{name}\":{}", go_json(&value))
            });
            let parts: Vec<String> =
                required.into_iter().chain(field(expression, "values")).collect();
            format!("{{{}}}", parts.join(","))
        })
        .collect();
    let mut parts: Vec<String> = field(selector, "matchLabels").into_iter().collect();
    if !expressions.is_empty() {
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    Shown::Verbatim(format!("{{{}}}", parts.join(",")))
}

/// A pod template must carry the labels its owner selects.
pub(crate) fn check_template_labels(
    selector: &LabelSelector,
    template: &At<'_>,
    errs: &mut Errors,
) {
    let labels = template.at(&["metadata", "labels"]);
    if !selector.matches(Some(labels.value)) {
        errs.invalid_value(&labels, "`selector` does not match template `labels`");
    }
}
