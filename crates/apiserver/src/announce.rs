//! APIService objects for the groups of custom resources: they come and go with their definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;

use crate::http::query::encode_percent;
use crate::internal;
use crate::registry::Source;
use crate::state::{CachedObjects, State};

const COLLECTION: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Keeps the objects true until the server stops.
pub(crate) async fn run(state: Arc<State>) {
    let mut changes = state.registry.changes();
    loop {
        changes.get();
        sync(&state).await;
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return,
            () = changes.moved() => {}
        }
    }
}

async fn sync(state: &Arc<State>) {
    let wanted = custom_versions(state);
    let resource = GroupResource::new("apiregistration.k8s.io", "apiservices");
    let present = CachedObjects(state.registry.clone()).all(&resource, None);
    for (group, version) in &wanted {
        let name = format!("{version}.{group}");
        if present.iter().any(|service| service.name() == name) {
            continue;
        }
        let (group_priority, version_priority) = state.registry.priorities(group, version);
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name, "labels": {MANAGED: "true"}},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": group_priority,
                "versionPriority": version_priority,
            },
        });
        let (code, answer) = internal::send(state, Method::POST, COLLECTION, Some(&service)).await;
        if code != 201 && code != 409 {
            tracing::warn!(name, code, %answer, "announce a group of custom resources");
        }
    }
    for service in present.iter().filter(|service| service.label(MANAGED) == Some("true")) {
        let service = service.to_value();
        let text = |key: &str| service.str_at(&["spec", key]).unwrap_or_default().to_owned();
        if !wanted.contains(&(text("group"), text("version"))) {
            let path = format!("{COLLECTION}/{}", encode_percent(service.name()));
            internal::send(state, Method::DELETE, &path, None).await;
        }
    }
}

/// The group versions that consist of custom resources only.
fn custom_versions(state: &State) -> BTreeSet<(String, String)> {
    let snapshot = state.registry.snapshot();
    let mut found = BTreeSet::new();
    for group in snapshot.groups() {
        for version in snapshot.versions(group) {
            let resources = snapshot.resources(group, version);
            let is_local = snapshot.remote(group, version).is_none();
            if is_local && resources.iter().all(|served| served.source == Source::Custom) {
                found.insert((group.to_owned(), version.clone()));
            }
        }
    }
    found
}
