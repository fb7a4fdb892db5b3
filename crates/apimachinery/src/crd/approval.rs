//! Groups of the Kubernetes community are protected: definitions there name their approval.

use crate::Value;

use crate::field::{FieldError, Path};
use crate::object::ObjectExt;

const APPROVAL: &str = "api-approved.kubernetes.io";

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Approved,
    /// It says itself that there is none.
    Bypassed,
    Invalid,
}

fn approval(definition: &Value) -> Approval {
    match definition.annotation(APPROVAL).unwrap_or_default() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        url if url.contains("://") && !url.contains(' ') => Approval::Approved,
        _ => Approval::Invalid,
    }
}

fn is_protected(definition: &Value) -> bool {
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

fn missing() -> String {
    format!(
        "protected groups must have approval annotation \"{APPROVAL}\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    )
}

fn invalid() -> String {
    format!(
        "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a \
         reason starting with \"unapproved\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    )
}

/// The condition of a definition in a protected group: status, reason and message.
pub(super) fn approval_condition(
    definition: &Value,
) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(definition) {
        return None;
    }
    let text = definition.annotation(APPROVAL).unwrap_or_default();
    Some(match approval(definition) {
        Approval::Missing => ("False", "MissingAnnotation", missing()),
        Approval::Invalid => ("False", "InvalidAnnotation", invalid()),
        Approval::Bypassed => ("False", "UnapprovedAnnotation", format!("not approved: {text:?}")),
        Approval::Approved => ("True", "ApprovedAnnotation", format!("approved in {text}")),
    })
}

/// Groups of the Kubernetes community may only be used with a reference to their approval.
pub(super) fn validate_approval(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    let state = approval(new);
    if !is_protected(new) || old.is_some_and(|old| approval(old) == state) {
        return None;
    }
    let place = Path::from("metadata.annotations").key(APPROVAL);
    match state {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(FieldError::required(&place, missing())),
        Approval::Invalid => {
            let value = new.annotation(APPROVAL).unwrap_or_default();
            Some(FieldError::invalid(&place, value, invalid()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_definition_in_a_protected_group_says_who_approved_it() {
        let of = |group: &str, text: &str| {
            let annotations = json!({APPROVAL: text});
            approval_condition(
                &json!({"metadata": {"annotations": annotations}, "spec": {"group": group}}),
            )
        };
        assert_eq!(of("example.com", ""), None);
        let condition = |status, reason, message: &str| Some((status, reason, message.to_owned()));
        assert_eq!(
            of("policy.networking.k8s.io", "https://example.com/1"),
            condition("True", "ApprovedAnnotation", "approved in https://example.com/1")
        );
        assert_eq!(
            of("x.kubernetes.io", "unapproved, a try"),
            condition("False", "UnapprovedAnnotation", "not approved: \"unapproved, a try\"")
        );
        assert_eq!(of("k8s.io", "").unwrap().1, "MissingAnnotation");
        assert_eq!(of("k8s.io", "soon").unwrap().1, "InvalidAnnotation");
    }
}
