//! Lists of dependencies: what makes an entry valid, and the order they are given in.

use karmada_api::config::DependentObjectReference;
use karmada_apimachinery::selector::LabelSelector;

use crate::error::{Error, Result};

/// Every entry needs a kind and either a name or a well-formed selector.
pub(crate) fn validate(references: &[DependentObjectReference]) -> Result<()> {
    for (index, reference) in references.iter().enumerate() {
        check(reference).map_err(|problem| Error::Dependency { index, problem })?;
    }
    Ok(())
}

fn check(reference: &DependentObjectReference) -> std::result::Result<(), String> {
    if reference.api_version.is_empty() {
        return Err("missing required apiVersion".to_owned());
    }
    if reference.kind.is_empty() {
        return Err("missing required kind".to_owned());
    }
    if !reference.name.is_empty() {
        return Ok(());
    }
    let Some(selector) = &reference.label_selector else {
        return Err("dependency can not leave name and labelSelector all empty".to_owned());
    };
    let selector = karmada_apimachinery::to_value(selector).map_err(|e| e.to_string())?;
    LabelSelector::from_object(Some(&selector)).map(drop).map_err(|e| e.to_string())
}

/// Sorts by apiVersion, kind, namespace, name and selector, so that equal input gives equal output.
pub(crate) fn sort(references: &mut [DependentObjectReference]) {
    references.sort_by_cached_key(|reference| {
        let selector = reference
            .label_selector
            .as_ref()
            .and_then(|selector| serde_json::to_string(selector).ok());
        (
            reference.api_version.clone(),
            reference.kind.clone(),
            reference.namespace.clone(),
            reference.name.clone(),
            selector,
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn references_need_a_kind_and_a_name_or_a_selector() {
        let cases = [
            (json!({"apiVersion": "v1", "kind": "Secret", "name": "a"}), true),
            (json!({"apiVersion": "v1", "kind": "Secret"}), false),
            (json!({"apiVersion": "v1", "name": "a"}), false),
            (json!({"kind": "Secret", "name": "a"}), false),
            (
                json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchLabels": {"a": "b"}}}),
                true,
            ),
            (
                json!({"apiVersion": "v1", "kind": "Secret",
                       "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
                false,
            ),
        ];
        for (reference, valid) in cases {
            let reference = karmada_apimachinery::from_value(reference).unwrap();
            assert_eq!(validate(&[reference]).is_ok(), valid);
        }
    }
}
