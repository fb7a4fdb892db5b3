//! How precisely a resource selector picks an object.

use std::borrow::Cow;

use karmada_api::meta::Labels;
use karmada_api::policy::ResourceSelector;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::Labelled;

/// How an object was picked; the more precise, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// By kind alone.
    Kind,
    /// By labels.
    Labels,
    /// By name.
    Name,
}

impl Precision {
    /// Completes `selected …` in explanations.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Kind => "by kind",
            Self::Labels => "by labels",
            Self::Name => "by name",
        }
    }
}

/// What selectors look at. Caches know it of every object without reading the rest.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    pub api_version: Cow<'a, str>,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: &'a dyn Labelled,
}

impl<'a> Head<'a> {
    pub fn of(object: &'a Value) -> Self {
        Self {
            api_version: Cow::Borrowed(object.api_version()),
            kind: object.kind(),
            namespace: object.namespace(),
            name: object.name(),
            labels: match object.map_at(&["metadata", "labels"]) {
                Some(labels) => labels,
                None => &(),
            },
        }
    }
}

/// Returns how the selector picks the object, if it does. A name makes labels irrelevant.
pub fn picks(selector: &ResourceSelector, object: &Head<'_>) -> Option<Precision> {
    let same_place = selector.api_version == object.api_version
        && selector.kind == object.kind
        && (selector.namespace.is_empty() || selector.namespace == object.namespace);
    if !same_place {
        return None;
    }
    if !selector.name.is_empty() {
        return (selector.name == object.name).then_some(Precision::Name);
    }
    let Some(labels) = &selector.label_selector else { return Some(Precision::Kind) };
    labels.matches(object.labels).then_some(Precision::Labels)
}

/// Returns the most precise way in which any of the selectors picks the object.
pub fn best_pick(selectors: &[ResourceSelector], object: &Head<'_>) -> Option<Precision> {
    selectors.iter().filter_map(|selector| picks(selector, object)).max()
}

/// The labels of an object; values that are no strings are left out.
pub fn labels_of(object: &Value) -> Labels {
    let labels = object.map_at(&["metadata", "labels"]).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    #[test]
    fn selectors_pick_by_kind_labels_or_name() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                            "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}}});
        let cases = [
            (json!({}), Some(Precision::Kind)),
            (json!({"namespace": "ns"}), Some(Precision::Kind)),
            (json!({"namespace": "other"}), None),
            (json!({"name": "web"}), Some(Precision::Name)),
            (json!({"name": "api"}), None),
            (json!({"labelSelector": {"matchLabels": {"app": "web"}}}), Some(Precision::Labels)),
            (json!({"labelSelector": {"matchLabels": {"app": "api"}}}), None),
            (
                json!({"name": "web", "labelSelector": {"matchLabels": {"app": "api"}}}),
                Some(Precision::Name),
            ),
            (json!({"labelSelector": {}}), Some(Precision::Labels)),
            (json!({"kind": "StatefulSet"}), None),
        ];
        for (fields, expected) in cases {
            let mut selector = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            for (key, value) in fields.as_object().unwrap() {
                selector[key] = value.clone();
            }
            let selector: ResourceSelector = karmada_apimachinery::from_value(selector).unwrap();
            assert_eq!(picks(&selector, &Head::of(&object)), expected, "{fields}");
        }
    }
}
