//! `cluster.karmada.io/v1alpha1`: member clusters.

use crate::core::{Quantity, ResourceList, Taint};
use crate::meta::{Condition, Labels, find_condition, kinds};
use crate::wire::{Int, Uint, go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "cluster.karmada.io";

/// Key of the token in a credential Secret.
pub const SECRET_TOKEN_KEY: &str = "token";
/// Key of the CA bundle in a credential Secret.
pub const SECRET_CA_BUNDLE_KEY: &str = "caBundle";

kinds! {
    /// A member cluster.
    pub struct Cluster in "cluster.karmada.io" / "v1alpha1" as "clusters", Cluster {
        /// How the cluster is reached and what it is like.
        spec: ClusterSpec,
        /// What was last seen of it.
        status+: ClusterStatus,
    }
}

wire! {
    /// How a cluster is reached and what it is like.
    pub struct ClusterSpec {
        /// Unique id of the cluster, by custom the UID of its kube-system namespace.
        id?: String = {"maxLength": 128000},
        /// Who applies Works: Push from the control plane, or Pull by an agent in the cluster.
        sync_mode: ClusterSyncMode = {"enum": ["Push", "Pull"]},
        /// URL of the cluster's API server.
        api_endpoint?: String,
        /// Secret with the token and CA bundle used to reach the cluster.
        secret_ref?: Option<LocalSecretReference>,
        /// Secret with the token that may impersonate users in the cluster.
        impersonator_secret_ref?: Option<LocalSecretReference>,
        /// Accepts any server certificate of the cluster.
        insecure_skip_tls_verification as "insecureSkipTLSVerification"?: bool,
        /// Proxy on the way to the cluster: http, https or socks5.
        proxy_url as "proxyURL"?: String,
        /// Headers sent to the proxy; a comma separates several values.
        proxy_header?: Labels,
        /// Cloud provider of the cluster.
        provider?: String,
        /// Region of the cluster.
        region?: String,
        /// Outdated: zone of the cluster; moved to zones when written.
        zone?: String,
        /// Failure zones of the cluster.
        zones?: Vec<String>,
        /// Taints that keep workloads away.
        taints?: Vec<Taint>,
        /// Classes of node sizes by which free capacity is counted.
        resource_models?: Vec<ResourceModel>,
    }

    /// A class of node sizes.
    pub struct ResourceModel {
        /// Number of the class; larger means bigger nodes.
        grade: Uint,
        /// Bounds of the class, one per resource.
        ranges: Vec<ResourceModelRange>,
    }

    /// Bounds of one resource: from min, included, to max, not included.
    pub struct ResourceModelRange {
        /// Resource name.
        name: String,
        /// Smallest amount.
        min: Quantity,
        /// Amount that no longer belongs to the class.
        max: Quantity,
    }

    /// A Secret of the control plane.
    pub struct LocalSecretReference {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    }

    /// What was last seen of a cluster.
    pub struct ClusterStatus {
        /// Kubernetes version of the cluster.
        kubernetes_version?: String,
        /// APIs the cluster serves.
        api_enablements?: Vec<APIEnablement>,
        /// Observed aspects: Ready, CompleteAPIEnablements.
        conditions?: Vec<Condition>,
        /// Numbers of nodes.
        node_summary?: Option<NodeSummary>,
        /// Capacity and use.
        resource_summary?: Option<ResourceSummary>,
        /// Actions that Remedy objects ask for.
        remedy_actions?: Vec<String>,
    }

    /// Resources of one API group version.
    pub struct APIEnablement {
        /// Group and version.
        group_version: String,
        /// Resources in it.
        resources?: Vec<APIResource>,
    }

    /// One resource.
    pub struct APIResource {
        /// Plural name.
        name: String,
        /// Kind.
        kind: String,
    }

    /// Numbers of nodes.
    pub struct NodeSummary {
        /// All nodes.
        total_num?: i32,
        /// Ready nodes.
        ready_num?: i32,
    }

    /// Capacity and use of a cluster.
    pub struct ResourceSummary {
        /// What all nodes together can give.
        allocatable?: ResourceList,
        /// Requests of pods that have no node yet.
        allocating?: ResourceList,
        /// Requests of pods that run.
        allocated?: ResourceList,
        /// Nodes by class of free capacity.
        allocatable_modelings?: Vec<AllocatableModeling>,
    }

    /// Nodes of one class.
    pub struct AllocatableModeling {
        /// Number of the class.
        grade: Uint,
        /// Nodes in it.
        count: Int,
    }
}

text! {
    /// Who applies Works in a cluster.
    pub enum ClusterSyncMode { Push, Pull }
}

/// What is known about a cluster serving an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiEnablementStatus {
    Enabled,
    /// Discovery was complete and did not list it.
    Disabled,
    /// Discovery was incomplete.
    Unknown,
}

impl Cluster {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        find_condition(&self.status.conditions, kind)
    }

    /// Whether the cluster serves the kind.
    pub fn api_enablement(&self, group_version: &str, kind: &str) -> ApiEnablementStatus {
        let listed = self.status.api_enablements.iter().any(|enablement| {
            enablement.group_version == group_version
                && enablement.resources.iter().any(|resource| resource.kind == kind)
        });
        let complete = || {
            self.condition(crate::conditions::cluster::COMPLETE_API_ENABLEMENTS)
                .is_some_and(Condition::is_true)
        };
        match listed {
            true => ApiEnablementStatus::Enabled,
            false if complete() => ApiEnablementStatus::Disabled,
            false => ApiEnablementStatus::Unknown,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.condition(crate::conditions::cluster::READY).is_some_and(Condition::is_true)
    }
}
