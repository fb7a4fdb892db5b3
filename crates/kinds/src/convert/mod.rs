//! Conversion between the served versions of one kind: HorizontalPodAutoscaler v1 and v2, Event of
//! the core group and of `events.k8s.io`. All other kinds are served in one version.

mod autoscaler;
mod event;
mod ordered;

#[cfg(test)]
mod tests;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};

/// Rewrites the object into the given group and version; unknown pairs stay as they are.
pub fn convert(object: &mut Value, group: &str, version: &str) {
    let from = object.gvk();
    match (from.kind.as_str(), from.group.as_str(), from.version.as_str(), group, version) {
        ("HorizontalPodAutoscaler", "autoscaling", "v1", "autoscaling", "v2") => {
            autoscaler::to_v2(object);
        }
        ("HorizontalPodAutoscaler", "autoscaling", "v2", "autoscaling", "v1") => {
            autoscaler::to_v1(object);
        }
        ("Event", "", "v1", "events.k8s.io", "v1") => event::to_events(object),
        ("Event", "events.k8s.io", "v1", "", "v1") => event::to_core(object),
        _ => return,
    }
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    object.set(&["apiVersion"], api_version);
}
