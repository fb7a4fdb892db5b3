//! One file per kind (or per part that several kinds share), each with its defaults and its rules.

pub(crate) mod binding;
pub(crate) mod cron;
pub(crate) mod cron_federated_hpa;
pub(crate) mod customization;
pub(crate) mod deletion;
pub(crate) mod federated_hpa;
pub(crate) mod federated_quota;
pub(crate) mod ingress;
pub(crate) mod interpreter_webhook;
pub(crate) mod overrides;
pub(crate) mod placement;
pub(crate) mod propagation;
pub(crate) mod quota_enforcement;
pub(crate) mod resource_names;
pub(crate) mod service;
pub(crate) mod taint_policy;
pub(crate) mod work;

use karmada_apimachinery::field::{FieldError, Path};

/// One error per message, all about the same value.
pub(crate) fn each(path: &Path, value: &str, messages: Vec<String>) -> Vec<FieldError> {
    messages.into_iter().map(|message| FieldError::invalid(path, value, message)).collect()
}

/// The rule for names of clusters: short enough for the execution namespace.
pub(crate) fn cluster_name(name: &str) -> Vec<String> {
    const MAX: usize = 48;
    if name.is_empty() {
        return vec!["must be not empty".to_owned()];
    }
    if name.len() > MAX {
        return vec![format!("must be no more than {MAX} characters")];
    }
    karmada_apimachinery::names::dns1123_label(name)
}

/// The rule for names of clusters where one error holds all messages.
pub(crate) fn check_cluster_name(name: &str, path: &Path) -> Option<FieldError> {
    let messages = cluster_name(name);
    (!messages.is_empty()).then(|| FieldError::invalid(path, name, messages.join(",")))
}
