//! Groups of the Kubernetes community are protected: definitions there name their approval.

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::object::ObjectExt;

const APPROVAL: &str = "api-approved.kubernetes.io";

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Approved,
    Invalid,
}

fn approval(definition: &Value) -> Approval {
    match definition.annotation(APPROVAL).unwrap_or_default() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Approved,
        url if url.contains("://") && !url.contains(' ') => Approval::Approved,
        _ => Approval::Invalid,
    }
}

/// Groups of the Kubernetes community may only be used with a reference to their approval.
pub(super) fn validate_approval(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = new.str_at(&["spec", "group"]).unwrap_or_default();
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let state = approval(new);
    if !is_protected || old.is_some_and(|old| approval(old) == state) {
        return None;
    }
    let place = Path::from("metadata.annotations").key(APPROVAL);
    match state {
        Approval::Approved => None,
        Approval::Missing => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\", see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            Some(FieldError::required(&place, detail))
        }
        Approval::Invalid => {
            let value = new.annotation(APPROVAL).unwrap_or_default();
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a \
                 reason starting with \"unapproved\", see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            Some(FieldError::invalid(&place, value, detail))
        }
    }
}
