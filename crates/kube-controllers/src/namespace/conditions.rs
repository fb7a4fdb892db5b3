//! The five conditions of a namespace that is being deleted.
//!
//! Compat: types, reasons and messages are those of Kubernetes; people and tools read them.

use jiff::Timestamp;
use karmada_apimachinery::gvk::{GroupResource, GroupVersion};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

use super::Counts;

/// How far the deletion of the content has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) failed_discovery: Vec<(GroupVersion, String)>,
    /// Resources that could not be emptied.
    pub(super) errors: Vec<String>,
    pub(super) remaining: Counts<GroupResource>,
    pub(super) finalizers: Counts<String>,
    /// Pods are left, so nothing else was looked at.
    pub(super) only_pods: bool,
}

/// Type, reason and message while nothing is wrong.
#[rustfmt::skip]
const FINE: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

impl Progress {
    pub(super) fn is_waiting(&self) -> bool {
        !self.remaining.is_empty()
    }

    pub(super) fn all_errors(&self) -> Vec<String> {
        let discovery =
            self.failed_discovery.iter().map(|(version, why)| format!("{version}: {why}"));
        discovery.chain(self.errors.iter().cloned()).collect()
    }

    /// Returns the namespace with its conditions brought up to date; nothing if they are.
    pub(super) fn update(&self, namespace: &Value, now: Timestamp) -> Option<Value> {
        let mut conditions = namespace.list_at(&["status", "conditions"]).to_vec();
        let before = conditions.clone();
        for (kind, fine_reason, fine_message) in FINE {
            let trouble = self.trouble(kind);
            let status = if trouble.is_some() { "True" } else { "False" };
            let (reason, message) =
                trouble.unwrap_or_else(|| (fine_reason, fine_message.to_owned()));
            let known = conditions.iter_mut().find(|known| known.str_at(&["type"]) == Some(kind));
            match known {
                Some(known) => {
                    if known.str_at(&["status"]) != Some(status) {
                        known.set(&["lastTransitionTime"], format_time(now));
                    }
                    known.set(&["status"], status);
                    known.set(&["reason"], reason);
                    known.set(&["message"], message);
                }
                None => conditions.push(json!({"type": kind, "status": status, "reason": reason,
                    "message": message, "lastTransitionTime": format_time(now)})),
            }
        }
        if conditions == before {
            return None;
        }
        let mut namespace = namespace.clone();
        namespace.set(&["status", "conditions"], conditions);
        Some(namespace)
    }

    /// Reason and message if something is wrong with what the condition is about.
    fn trouble(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            "NamespaceDeletionDiscoveryFailure" if !self.failed_discovery.is_empty() => {
                let failed: Vec<_> = self
                    .failed_discovery
                    .iter()
                    .map(|(version, why)| format!("{version}: {why}"))
                    .collect();
                let message = format!(
                    "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                    failed.len(),
                    failed.join(", ")
                );
                Some(("DiscoveryFailed", message))
            }
            "NamespaceDeletionContentFailure" if !self.errors.is_empty() => {
                let mut errors = self.errors.clone();
                errors.sort();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    errors.len(),
                    errors.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            // Compat: while pods are being waited for, the totals are not told.
            _ if self.only_pods => None,
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let mut parts: Vec<_> = self
                    .remaining
                    .iter()
                    .map(|(gr, count)| {
                        format!("{}.{} has {count} resource instances", gr.resource, gr.group)
                    })
                    .collect();
                parts.sort();
                Some((
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {}", parts.join(", ")),
                ))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let parts: Vec<_> = self
                    .finalizers
                    .iter()
                    .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
                    .collect();
                let message = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    parts.join(", ")
                );
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::time::parse_time;

    fn told(namespace: &Value) -> Vec<(String, String)> {
        let conditions = namespace.list_at(&["status", "conditions"]).iter();
        let pair = |condition: &Value| {
            let text = |field| condition.str_at(&[field]).unwrap().to_owned();
            (format!("{}={}", text("type"), text("status")), text("message"))
        };
        conditions.map(pair).collect()
    }

    #[test]
    fn conditions_tell_what_is_left_and_when_that_changed() {
        let early = parse_time("2026-01-01T00:00:00Z").unwrap();
        let late = parse_time("2026-01-01T01:00:00Z").unwrap();
        let mut progress = Progress::default();
        progress.remaining.insert(GroupResource::new("apps", "deployments"), 2);
        progress.remaining.insert(GroupResource::new("", "pods"), 1);
        progress.finalizers.insert("x.io/hold".into(), 3);
        progress.errors.push("no luck".into());
        let namespace = progress.update(&json!({"metadata": {"name": "a"}}), early).unwrap();
        let expected = [
            ("NamespaceDeletionDiscoveryFailure=False", "All resources successfully discovered"),
            (
                "NamespaceDeletionGroupVersionParsingFailure=False",
                "All legacy kube types successfully parsed",
            ),
            (
                "NamespaceDeletionContentFailure=True",
                "Failed to delete all resource types, 1 remaining: no luck",
            ),
            (
                "NamespaceContentRemaining=True",
                "Some resources are remaining: deployments.apps has 2 resource instances, pods. has 1 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining=True",
                "Some content in the namespace has finalizers remaining: x.io/hold in 3 resource instances",
            ),
        ];
        assert_eq!(told(&namespace), expected.map(|(kind, message)| (kind.into(), message.into())));
        assert!(progress.update(&namespace, late).is_none(), "nothing is written twice");
        let empty = Progress::default().update(&namespace, late).unwrap();
        let times: Vec<_> = empty
            .list_at(&["status", "conditions"])
            .iter()
            .map(|condition| condition["lastTransitionTime"] == "2026-01-01T01:00:00Z")
            .collect();
        assert_eq!(times, [false, false, true, true, true]);
    }
}
