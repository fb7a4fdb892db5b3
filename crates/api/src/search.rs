//! `search.karmada.io/v1alpha1`: caching objects of members for search.

use crate::cluster::LocalSecretReference;
use crate::meta::{Condition, kinds};
use crate::policy::ClusterAffinity;
use crate::wire::{go_package, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "search.karmada.io";

kinds! {
    /// Kinds of objects that are cached from members for search and proxying.
    pub struct ResourceRegistry in "search.karmada.io" / "v1alpha1" as "resourceregistries", Cluster {
        /// What is cached from where.
        spec+: ResourceRegistrySpec,
        /// What became of it.
        status+: ResourceRegistryStatus,
    }
}

wire! {
    /// What is cached from where.
    pub struct ResourceRegistrySpec {
        /// Clusters to cache from.
        target_cluster: ClusterAffinity,
        /// Kinds to cache.
        resource_selectors: Vec<ResourceSelector>,
        /// Where copies go in addition to memory.
        backend_store?: Option<BackendStoreConfig>,
    }

    /// A kind to cache.
    pub struct ResourceSelector {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
        /// Restricts to one namespace.
        namespace?: String,
    }

    /// Where copies go.
    pub struct BackendStoreConfig {
        /// An OpenSearch cluster.
        open_search?: Option<OpenSearchConfig>,
    }

    /// An OpenSearch cluster.
    pub struct OpenSearchConfig {
        /// URLs of its nodes.
        addresses: Vec<String>,
        /// Secret with userName and password.
        secret_ref: LocalSecretReference,
    }

    /// What became of a registry.
    pub struct ResourceRegistryStatus {
        /// Observed aspects.
        conditions?: Vec<Condition>,
    }
}
