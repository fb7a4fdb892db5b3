//! Names that Karmada derives from other names, byte for byte as the original derives them, so that objects
//! written by either are found by the other.

/// Components and leader election; reserved.
pub const NAMESPACE_SYSTEM: &str = "karmada-system";
/// Credentials and leases of clusters; reserved.
pub const NAMESPACE_CLUSTER: &str = "karmada-cluster";
pub const EXECUTION_SPACE_PREFIX: &str = "karmada-es-";
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
pub const DEFAULT_ESTIMATOR_PREFIX: &str = "karmada-scheduler-estimator";
/// ServiceAccount, ClusterRole and ClusterRoleBinding that may impersonate in a member.
pub const IMPERSONATOR: &str = "karmada-impersonator";

/// Names of the components, as in their Deployments and flags.
pub mod component {
    pub const AGENT: &str = "karmada-agent";
    pub const AGGREGATED_APISERVER: &str = "karmada-aggregated-apiserver";
    pub const APISERVER: &str = "karmada-apiserver";
    pub const CONTROLLER_MANAGER: &str = "karmada-controller-manager";
    pub const DESCHEDULER: &str = "karmada-descheduler";
    pub const ETCD: &str = "karmada-etcd";
    pub const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";
    pub const METRICS_ADAPTER: &str = "karmada-metrics-adapter";
    pub const SCHEDULER: &str = "karmada-scheduler";
    pub const SCHEDULER_ESTIMATOR: &str = "karmada-scheduler-estimator";
    pub const SEARCH: &str = "karmada-search";
    pub const WEBHOOK: &str = "karmada-webhook";
}

/// The namespace that holds the Works of a cluster.
pub fn execution_space(cluster: &str) -> String {
    format!("{EXECUTION_SPACE_PREFIX}{cluster}")
}

/// The cluster an execution namespace belongs to.
pub fn cluster_of_execution_space(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_SPACE_PREFIX)
}

/// Whether objects of the namespace are never propagated.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == NAMESPACE_SYSTEM
        || namespace == NAMESPACE_CLUSTER
        || namespace.starts_with(EXECUTION_SPACE_PREFIX)
}

/// The binding of a template.
pub fn binding(kind: &str, name: &str) -> String {
    lower(&format!("{}-{kind}", without_colons(name)))
}

/// The Work of an object; `namespace` is empty for cluster scope.
pub fn work(kind: &str, name: &str, namespace: &str) -> String {
    let name = lower(&without_colons(name));
    let key = if namespace.is_empty() {
        format!("{name}-{kind}")
    } else {
        format!("{namespace}-{name}-{kind}")
    };
    format!("{name}-{}", hash(&lower(&key)))
}

/// Short key of a binding, used in label keys; `namespace` is empty for cluster scope.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    hash(&namespaced_key(namespace, name))
}

/// Label key that ties the binding of a dependency to the binding that needs it.
pub fn depended_by_label(namespace: &str, name: &str) -> String {
    format!("{}{}", crate::labels::DEPENDED_BY_PREFIX, binding_reference_key(namespace, name))
}

/// The policy that the command line makes for an object; `gvk` reads `apps/v1, Kind=Deployment`.
pub fn policy(namespace: &str, name: &str, gvk: &str) -> String {
    lower(&format!("{}-{}", without_colons(name), hash(&format!("{namespace}{gvk}"))))
}

/// The Service that stands for a ServiceImport.
pub fn derived_service(service_import: &str) -> String {
    format!("derived-{service_import}")
}

/// An EndpointSlice collected from a member for a ServiceImport.
pub fn imported_endpoint_slice(cluster: &str, slice: &str) -> String {
    format!("imported-{cluster}-{slice}")
}

/// An EndpointSlice of a provider cluster in a consumer cluster of a MultiClusterService.
pub fn dispatched_endpoint_slice(provider_cluster: &str, slice: &str) -> String {
    format!("{provider_cluster}-{slice}")
}

/// The Work that brings such a slice to a consumer cluster. The original calls it like the Work the slice was collected
/// into, which is the same name for equally named slices of two providers.
pub fn dispatched_endpoint_slice_work(
    provider_cluster: &str,
    slice: &str,
    namespace: &str,
) -> String {
    work("EndpointSlice", &dispatched_endpoint_slice(provider_cluster, slice), namespace)
}

pub fn estimator_service(prefix: &str, cluster: &str) -> String {
    format!("{prefix}-{cluster}")
}

pub fn estimator_deployment(cluster: &str) -> String {
    format!("{DEFAULT_ESTIMATOR_PREFIX}-{cluster}")
}

/// The ServiceAccount in a member that the control plane uses.
pub fn service_account(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// ClusterRole and ClusterRoleBinding of a member ServiceAccount.
pub fn cluster_role(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// The Secret with the impersonator token of a cluster.
pub fn impersonation_secret(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// The user an agent is authenticated as.
pub fn agent_user(cluster: &str) -> String {
    format!("system:karmada:agent:{cluster}")
}

/// The group all agents are in.
pub const AGENT_GROUP: &str = "system:karmada:agents";

/// The Lease by which the replicas of an agent elect a leader.
pub fn agent_lease(cluster: &str) -> String {
    format!("karmada-agent-{cluster}")
}

/// `namespace/name`, or the name alone for cluster scope.
pub fn namespaced_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

// Compat: names may hold colons (RBAC), which names of custom resources may not.
fn without_colons(name: &str) -> String {
    name.replace(':', ".")
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}

/// FNV-1a (32 bit) as decimal digits, each replaced by a letter or digit that spells no word.
pub fn hash(text: &str) -> String {
    const ALPHABET: [char; 10] = ['4', '5', '6', '7', '8', '9', 'b', 'c', 'd', 'f'];
    let sum = text
        .bytes()
        .fold(2_166_136_261_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619));
    sum.to_string().bytes().map(|digit| ALPHABET[usize::from(digit - b'0')]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_equal_those_of_the_original() {
        let cases = [
            (execution_space("member1"), "karmada-es-member1"),
            (binding("Pods", "pod"), "pod-pods"),
            (binding("Role", "system:controller:tom"), "system.controller.tom-role"),
            (work("Deployment", "nginx", "default"), "nginx-687f7fb96f"),
            (work("Guestbook", "guestbook-sample", "default"), "guestbook-sample-6849fdbd59"),
            (work("Namespace", "test", ""), "test-69fd499b4c"),
            (binding_reference_key("test", "test-binding"), "5dbb6dc9c8"),
            (binding_reference_key("default", "nginx-deployment"), "5bdc5c4dcf"),
            (
                depended_by_label("test", "test-binding"),
                "resourcebinding.karmada.io/depended-by-5dbb6dc9c8",
            ),
            (policy("default", "nginx", "apps/v1, Kind=Deployment"), "nginx-6d7f8d5f5b"),
            (derived_service("web"), "derived-web"),
            (imported_endpoint_slice("m1", "web-x"), "imported-m1-web-x"),
            (dispatched_endpoint_slice("m1", "web-x"), "m1-web-x"),
            (service_account("m1"), "karmada-m1"),
            (cluster_role("karmada-m1"), "karmada-controller-manager:karmada-m1"),
            (impersonation_secret("m1"), "m1-impersonator"),
            (agent_user("m1"), "system:karmada:agent:m1"),
        ];
        for (derived, expected) in cases {
            assert_eq!(derived, expected);
        }
    }

    #[test]
    fn equally_named_slices_of_two_providers_travel_in_works_of_their_own() {
        let [one, other] = ["m1", "m2"].map(|m| dispatched_endpoint_slice_work(m, "web-x", "ns"));
        assert!(one.starts_with("m1-web-x-") && other.starts_with("m2-web-x-"));
        assert_ne!(one, work("EndpointSlice", "web-x", "ns"));
    }

    #[test]
    fn reserved_namespaces_are_known() {
        for (namespace, reserved) in [
            ("karmada-system", true),
            ("karmada-cluster", true),
            ("karmada-es-m1", true),
            ("default", false),
            ("kube-system", false),
        ] {
            assert_eq!(is_reserved_namespace(namespace), reserved, "{namespace}");
        }
    }

    proptest! {
        #[test]
        fn hashes_are_short_stable_and_use_a_fixed_alphabet(text in ".{0,200}") {
            let once = hash(&text);
            prop_assert_eq!(&once, &hash(&text));
            prop_assert!((1..=10).contains(&once.len()));
            prop_assert!(once.chars().all(|c| "456789bcdf".contains(c)));
        }

        #[test]
        fn names_of_valid_templates_are_lower_case_and_keep_the_template_name(
            name in "[a-zA-Z0-9]([-a-zA-Z0-9:.]{0,60}[a-zA-Z0-9])?",
            namespace in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?",
            kind in "[A-Z][a-zA-Z]{1,20}",
        ) {
            let plain = name.replace(':', ".").to_lowercase();
            for derived in [binding(&kind, &name), work(&kind, &name, &namespace), policy(&namespace, &name, &kind)] {
                let prefix = format!("{plain}-");
                prop_assert!(derived.starts_with(&prefix));
                prop_assert!(derived.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'));
                prop_assert!(derived.len() <= plain.len() + 22);
            }
        }

        #[test]
        fn execution_spaces_lead_back_to_their_cluster(cluster in "[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?") {
            let namespace = execution_space(&cluster);
            prop_assert_eq!(cluster_of_execution_space(&namespace), Some(&*cluster));
            prop_assert!(namespace.len() <= 63);
        }
    }
}
