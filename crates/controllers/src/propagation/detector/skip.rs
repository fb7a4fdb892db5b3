//! What is never propagated: APIs of Karmada itself, APIs and namespaces an operator has excluded.

use karmada_api::names;
use karmada_apimachinery::gvk::GroupVersion;
use karmada_client::ApiResource;
use regex::Regex;

/// Groups that describe propagation and are not subject to it.
const OWN_GROUPS: [&str; 9] = [
    "cluster.karmada.io",
    "policy.karmada.io",
    "work.karmada.io",
    "config.karmada.io",
    "networking.karmada.io",
    "autoscaling.karmada.io",
    "remedy.karmada.io",
    "apps.karmada.io",
    "events.k8s.io",
];

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} names no API: group, group/version or group/version/Kind,Kind is expected")]
pub struct NotAnApi(String);

/// The APIs that are left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedApis {
    groups: Vec<String>,
    versions: Vec<GroupVersion>,
    /// Kinds by group version, in lower case: flags spell them as people do.
    kinds: Vec<(GroupVersion, String)>,
}

impl Default for SkippedApis {
    fn default() -> Self {
        Self {
            groups: OWN_GROUPS.map(str::to_owned).to_vec(),
            versions: vec![GroupVersion::new("coordination.k8s.io", "v1")],
            kinds: vec![(GroupVersion::new("", "v1"), "event".to_owned())],
        }
    }
}

impl SkippedApis {
    /// Reads the text of `--skipped-propagating-apis`; what is always skipped is added.
    pub fn parse(text: &str) -> Result<Self, NotAnApi> {
        let mut skipped = Self::default();
        for token in text.split(';').map(str::trim).filter(|token| !token.is_empty()) {
            let parts: Vec<&str> = token.split('/').collect();
            match parts.as_slice() {
                [group] => skipped.groups.push((*group).to_owned()),
                // Compat: the core group has no name, so its version stands first.
                ["v1", kinds] => skipped.add_kinds(GroupVersion::new("", "v1"), kinds),
                [group, version] => skipped.versions.push(GroupVersion::new(*group, *version)),
                [group, version, kinds] => {
                    skipped.add_kinds(GroupVersion::new(*group, *version), kinds);
                }
                _ => return Err(NotAnApi(token.to_owned())),
            }
        }
        Ok(skipped)
    }

    fn add_kinds(&mut self, version: GroupVersion, kinds: &str) {
        let kinds = kinds.split(',').map(|kind| (version.clone(), kind.trim().to_lowercase()));
        self.kinds.extend(kinds);
    }

    pub fn skips(&self, resource: &ApiResource) -> bool {
        let version = resource.gvr.group_version();
        self.versions.contains(&version)
            || self.groups.contains(&version.group)
            || self.kinds.contains(&(version, resource.kind.to_lowercase()))
    }
}

/// The namespaces that are left alone.
#[derive(Debug, Clone)]
pub struct SkippedNamespaces(Vec<Regex>);

impl Default for SkippedNamespaces {
    fn default() -> Self {
        Self::parse("kube-.*").expect("the pattern is one")
    }
}

impl SkippedNamespaces {
    /// Takes one pattern of `--skipped-propagating-namespaces`, which must cover the whole name. An empty one
    /// would mean all that is in no namespace, and is nobody's wish.
    pub fn parse(pattern: &str) -> Result<Self, regex::Error> {
        let patterns = Some(pattern).filter(|pattern| !pattern.is_empty()).into_iter();
        patterns
            .map(|pattern| Regex::new(&format!("^(?:{pattern})$")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn joined(all: impl IntoIterator<Item = Self>) -> Self {
        Self(all.into_iter().flat_map(|one| one.0).collect())
    }

    /// Whether the objects in a namespace stay at home; cluster-scoped ones are in the empty one.
    pub fn skips(&self, namespace: &str) -> bool {
        names::is_reserved_namespace(namespace)
            || self.0.iter().any(|pattern| pattern.is_match(namespace))
    }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::gvk::Gvr;

    use super::*;

    fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
        ApiResource {
            gvr: Gvr::new(group, version, format!("{}s", kind.to_lowercase())),
            kind: kind.to_owned(),
            namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
        }
    }

    #[test]
    fn karmadas_own_apis_and_those_named_are_skipped() {
        let skipped = SkippedApis::parse(
            "apps.example.io; batch/v1;v1/pod,Node;rbac.authorization.k8s.io/v1/clusterRole",
        );
        let skipped = skipped.unwrap();
        let cases = [
            ("policy.karmada.io", "v1alpha1", "PropagationPolicy", true),
            ("search.karmada.io", "v1alpha1", "ResourceRegistry", false),
            ("coordination.k8s.io", "v1", "Lease", true),
            ("", "v1", "Event", true),
            ("", "v1", "ConfigMap", false),
            ("apps.example.io", "v2", "Thing", true),
            ("batch", "v1", "Job", true),
            ("apps", "v1", "Deployment", false),
            // Quirk 2: the original compares kinds by case although it documents otherwise.
            ("", "v1", "Pod", true),
            ("", "v1", "Node", true),
            ("rbac.authorization.k8s.io", "v1", "ClusterRole", true),
            ("rbac.authorization.k8s.io", "v1", "Role", false),
        ];
        for (group, version, kind, expected) in cases {
            assert_eq!(skipped.skips(&resource(group, version, kind)), expected, "{group} {kind}");
        }
        assert_eq!(SkippedApis::parse("a/b/c/d"), Err(NotAnApi("a/b/c/d".to_owned())));
    }

    #[test]
    fn namespaces_are_matched_as_a_whole() {
        let skipped = ["kube-.*", ""].map(|pattern| SkippedNamespaces::parse(pattern).unwrap());
        let skipped = SkippedNamespaces::joined(skipped);
        for (namespace, expected) in [
            ("kube-system", true),
            ("my-kube-thing", false),
            ("karmada-system", true),
            ("karmada-es-m1", true),
            ("default", false),
            ("", false),
        ] {
            assert_eq!(skipped.skips(namespace), expected, "{namespace}");
        }
    }
}
