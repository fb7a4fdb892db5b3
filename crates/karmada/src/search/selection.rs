//! Which kinds are kept of which clusters: the registries, applied to the clusters there are.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::cluster::{ApiEnablementStatus, Cluster};
use karmada_api::search::{ResourceRegistry, ResourceSelector};
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};

/// The namespaces of which objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Namespaces {
    All,
    These(BTreeSet<String>),
}

impl Namespaces {
    fn of(selector: &ResourceSelector) -> Self {
        match selector.namespace.as_str() {
            "" => Self::All,
            namespace => Self::These([namespace.to_owned()].into()),
        }
    }

    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::These(own), Self::These(other)) => own.extend(other),
            _ => *self = Self::All,
        }
    }

    /// As informers name them: empty for all.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec![String::new()],
            Self::These(names) => names.iter().cloned().collect(),
        }
    }
}

/// What the registries ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Everything that is named by a registry, whether any cluster has it or not.
    pub(super) registered: BTreeMap<Gvr, Gvk>,
    pub(super) caches: BTreeMap<(String, Gvr), Cached>,
}

/// A kind that is kept of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) namespaces: Namespaces,
    /// Whether the cluster can be asked; what it said before it fell silent is not shown.
    pub(super) ready: bool,
}

/// Applies the registries to the clusters. `plane` names the resource that serves a kind in the control
/// plane, if any: clusters that have not been asked yet are taken to name it likewise.
pub(super) fn select(
    registries: &[impl AsRef<ResourceRegistry>],
    clusters: &[impl AsRef<Cluster>],
    plane: impl Fn(&Gvk) -> Option<String>,
) -> Wanted {
    let mut wanted = Wanted::default();
    for registry in registries {
        let spec = &registry.as_ref().spec;
        for selector in &spec.resource_selectors {
            let Some(version) = GroupVersion::parse(&selector.api_version) else { continue };
            let gvk = version.with_kind(selector.kind.as_str());
            let usual = plane(&gvk);
            if let Some(resource) = &usual {
                let gvr = Gvr::new(gvk.group.as_str(), gvk.version.as_str(), resource.as_str());
                wanted.registered.insert(gvr, gvk.clone());
            }
            for cluster in clusters.iter().map(AsRef::as_ref) {
                let Some(resource) = resource_of(cluster, selector, usual.as_deref()) else {
                    continue;
                };
                let gvr = Gvr::new(gvk.group.as_str(), gvk.version.as_str(), resource);
                wanted.registered.insert(gvr.clone(), gvk.clone());
                if !spec.target_cluster.matches(cluster) {
                    continue;
                }
                let namespaces = Namespaces::of(selector);
                wanted
                    .caches
                    .entry((cluster.metadata.name.clone(), gvr))
                    .and_modify(|cached| cached.namespaces.merge(namespaces.clone()))
                    .or_insert_with(|| Cached { namespaces, ready: cluster.is_ready() });
            }
        }
    }
    wanted
}

/// The resource of a kind in a cluster; nothing if the cluster does not serve it.
fn resource_of(
    cluster: &Cluster,
    selector: &ResourceSelector,
    usual: Option<&str>,
) -> Option<String> {
    let (version, kind) = (&selector.api_version, &selector.kind);
    let mut listed =
        cluster.status.api_enablements.iter().filter(|own| own.group_version == *version);
    let listed = listed.find_map(|own| {
        own.resources.iter().find(|own| own.kind == *kind && !own.name.contains('/'))
    });
    if let Some(resource) = listed {
        return Some(resource.name.clone());
    }
    // A cluster that could not tell everything may well have it.
    let may_have = cluster.api_enablement(version, kind) == ApiEnablementStatus::Unknown;
    usual.filter(|_| may_have && cluster.is_ready()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use karmada_apimachinery::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(karmada_apimachinery::from_value(value).unwrap())
    }

    fn cluster(
        name: &str,
        ready: &str,
        complete: &str,
        resources: &[(&str, &str)],
    ) -> Arc<Cluster> {
        let resources: Vec<Value> =
            resources.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        read(json!({
            "metadata": {"name": name},
            "spec": {"syncMode": "Push"},
            "status": {
                "apiEnablements": [{"groupVersion": "v1", "resources": resources}],
                "conditions": [
                    {"type": "Ready", "status": ready},
                    {"type": "CompleteAPIEnablements", "status": complete},
                ],
            },
        }))
    }

    fn registry(target: Value, selectors: Value) -> Arc<ResourceRegistry> {
        read(json!({
            "metadata": {"name": "r"},
            "spec": {"targetCluster": target, "resourceSelectors": selectors},
        }))
    }

    fn plane(gvk: &Gvk) -> Option<String> {
        (gvk.kind == "Pod").then(|| "pods".to_owned())
    }

    fn caches(wanted: &Wanted) -> Vec<String> {
        let show = |((cluster, gvr), cached): (&(String, Gvr), &Cached)| {
            let ready = if cached.ready { "" } else { " (silent)" };
            format!("{cluster} {} {:?}{ready}", gvr.resource, cached.namespaces.names())
        };
        wanted.caches.iter().map(show).collect()
    }

    #[test]
    fn clusters_give_what_they_serve_and_registries_ask_for() {
        let pod: &[_] = &[("pods", "Pod")];
        let clusters = [
            cluster("m1", "True", "True", pod),
            // Says that it has no pods.
            cluster("m2", "True", "True", &[]),
            // Could not say everything.
            cluster("m3", "True", "False", &[]),
            cluster("m4", "False", "True", pod),
            cluster("m5", "True", "True", &[("widgets", "Widget")]),
        ];
        let pods = json!([{"apiVersion": "v1", "kind": "Pod"}]);
        let everywhere = [registry(json!({}), pods.clone())];
        let wanted = select(&everywhere, &clusters, plane);
        assert_eq!(
            caches(&wanted),
            [r#"m1 pods [""]"#, r#"m3 pods [""]"#, r#"m4 pods [""] (silent)"#]
        );

        let named = [registry(json!({"clusterNames": ["m1", "m2"]}), pods)];
        assert_eq!(caches(&select(&named, &clusters, plane)), [r#"m1 pods [""]"#]);

        // The control plane need not know the kind.
        let widgets = json!([{"apiVersion": "v1", "kind": "Widget"}]);
        let wanted = select(&[registry(json!({}), widgets)], &clusters, plane);
        assert_eq!(caches(&wanted), [r#"m5 widgets [""]"#]);
        assert_eq!(wanted.registered.len(), 1);
    }

    #[test]
    fn what_several_registries_ask_for_is_kept_once() {
        let clusters = [cluster("m1", "True", "True", &[("pods", "Pod")])];
        let of = |namespace: &str| {
            let pods = json!([{"apiVersion": "v1", "kind": "Pod", "namespace": namespace}]);
            registry(json!({}), pods)
        };
        let wanted = select(&[of("a"), of("b"), of("a")], &clusters, plane);
        assert_eq!(caches(&wanted), [r#"m1 pods ["a", "b"]"#]);
        let wanted = select(&[of("a"), of("")], &clusters, plane);
        assert_eq!(caches(&wanted), [r#"m1 pods [""]"#]);
        assert_eq!(select(&[] as &[Arc<ResourceRegistry>], &clusters, plane), Wanted::default());
    }
}
