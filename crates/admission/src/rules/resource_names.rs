//! Names of compute resources: which ones quotas and containers know, which ones are counted in whole units.

use karmada_api::core::Quantity;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names;

use super::each;
use crate::show::shown;

const QUOTA: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTED_HUGE_PAGES: &str = "requests.hugepages-";

fn is_huge_page_quota(name: &str) -> bool {
    name.starts_with(HUGE_PAGES) || name.starts_with(REQUESTED_HUGE_PAGES)
}

fn is_quota(name: &str) -> bool {
    QUOTA.contains(&name) || is_huge_page_quota(name)
}

/// A resource of Kubernetes itself: without a domain, or in the domain kubernetes.io.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource some vendor added.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether schedulers count the resource beyond CPU, memory and pods.
pub(crate) fn is_scalar(name: &str) -> bool {
    is_extended(name)
        || name.starts_with(HUGE_PAGES)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

fn check_name(name: &str, path: &Path) -> Vec<FieldError> {
    let errors = each(path, name, names::qualified_name(name));
    if !errors.is_empty() || name.contains('/') || is_quota(name) || name == "storage" {
        return errors;
    }
    let message = "must be a standard resource type or fully qualified";
    vec![FieldError::invalid(path, name, message)]
}

/// Checks a name in a quota.
pub(crate) fn check_quota_name(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = check_name(name, path);
    if !name.contains('/') && !is_quota(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource for quota"));
    }
    errors
}

/// Checks a name of something a container uses.
pub(crate) fn check_container_name(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = check_name(name, path);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !name.starts_with(HUGE_PAGES) {
            let message = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, name, message));
        }
    } else if !is_native(name) && !is_extended(name) {
        let message = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, name, message));
    }
    errors
}

/// Checks an amount: never negative, and whole where the resource is counted.
pub(crate) fn check_amount(name: &str, amount: &Quantity, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if amount.signum() < 0 {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, amount.to_string(), message));
    }
    if (WHOLE.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, shown(amount), "must be an integer"));
    }
    errors
}
