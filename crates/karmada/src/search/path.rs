//! Paths of a Kubernetes API as they stand behind `cache/` and `proxy/`.

use http::Method;
use karmada_apimachinery::gvk::Gvr;
use karmada_apiserver::http::query::{Query, decode_percent};

/// A path to resources of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) gvr: Gvr,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
    /// Whether anything follows the subresource.
    pub(super) goes_on: bool,
}

impl ResourcePath {
    /// Reads `/api/v1/nodes` and the like; nothing for paths that are about no resource.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(decode_percent).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, parts) = match parts.as_slice() {
            ["api", version, parts @ ..] => ("", *version, parts),
            ["apis", group, version, parts @ ..] => (*group, *version, parts),
            _ => return None,
        };
        // Below a namespace only these are its own.
        let (namespace, parts) = match parts {
            ["namespaces", namespace] => (*namespace, parts),
            ["namespaces", namespace, "status" | "finalize", ..] => (*namespace, parts),
            ["namespaces", namespace, parts @ ..] => (*namespace, parts),
            parts => ("", parts),
        };
        let (resource, rest) = parts.split_first()?;
        let part = |at: usize| rest.get(at).map(|part| (*part).to_owned()).unwrap_or_default();
        Some(Self {
            gvr: Gvr::new(group, version, *resource),
            namespace: if *resource == "namespaces" { String::new() } else { namespace.to_owned() },
            name: part(0),
            subresource: part(1),
            goes_on: rest.len() > 2,
        })
    }

    /// Whether a request reads objects themselves, which caches can answer.
    pub(super) fn is_read(&self, method: &Method) -> bool {
        *method == Method::GET && self.subresource.is_empty()
    }

    pub(super) fn is_watch(&self, query: &Query) -> bool {
        self.name.is_empty() && query.flag("watch") == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let cases = [
            ("/version", None),
            ("/api/v1", None),
            ("/apis/apps/v1", None),
            ("/api/v1/nodes", Some(["", "nodes", "", "", ""])),
            ("/api/v1/namespaces", Some(["", "namespaces", "", "", ""])),
            ("/api/v1/namespaces/a", Some(["", "namespaces", "", "a", ""])),
            ("/api/v1/namespaces/a/status", Some(["", "namespaces", "", "a", "status"])),
            ("/api/v1/namespaces/a/pods/", Some(["", "pods", "a", "", ""])),
            ("/api/v1/namespaces/a/pods/b/log", Some(["", "pods", "a", "b", "log"])),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                Some(["rbac.authorization.k8s.io", "clusterroles", "", "system:node", ""]),
            ),
        ];
        for (path, expected) in cases {
            let found = ResourcePath::parse(path).map(|path| {
                [path.gvr.group, path.gvr.resource, path.namespace, path.name, path.subresource]
            });
            assert_eq!(found, expected.map(|parts| parts.map(str::to_owned)), "{path}");
        }
    }
}
