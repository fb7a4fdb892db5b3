//! Kinds that are served natively, without a custom resource definition: what the API server must know of them.

use karmada_apimachinery::Value;

use crate::cluster::Cluster;
use crate::crd;
use crate::meta::Kind;
use crate::search::ResourceRegistry;

/// A kind with storage of its own.
#[derive(Debug, Clone, Copy)]
pub struct NativeResource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    /// Prefix of the keys in the store; the name follows.
    pub storage_prefix: &'static str,
    /// Subresources besides the object itself.
    pub subresources: &'static [&'static str],
    /// Builds the published schema.
    pub schema: fn() -> Value,
}

/// An API group version that is announced by an APIService.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiService {
    pub group: &'static str,
    pub version: &'static str,
    pub group_priority: i32,
    pub version_priority: i32,
}

/// The kinds served natively; all are cluster-scoped and in no category.
pub const RESOURCES: [NativeResource; 2] = [
    NativeResource {
        group: Cluster::GROUP,
        version: Cluster::VERSION,
        kind: Cluster::KIND,
        plural: Cluster::PLURAL,
        singular: "cluster",
        storage_prefix: "/registry/cluster.karmada.io/clusters/",
        subresources: &["status", "proxy"],
        schema: crd::schema::<Cluster>,
    },
    NativeResource {
        group: ResourceRegistry::GROUP,
        version: ResourceRegistry::VERSION,
        kind: ResourceRegistry::KIND,
        plural: ResourceRegistry::PLURAL,
        singular: "resourceregistry",
        // Compat: the original writes the plural in camel case here.
        storage_prefix: "/registry/search.karmada.io/resourceRegistries/",
        subresources: &["status"],
        schema: crd::schema::<ResourceRegistry>,
    },
];

/// The group versions that components other than the API server itself answer for.
pub const API_SERVICES: [ApiService; 5] = [
    service(Cluster::GROUP, "v1alpha1", 2000, 10),
    service(ResourceRegistry::GROUP, "v1alpha1", 2000, 10),
    service("metrics.k8s.io", "v1beta1", 2000, 10),
    service("custom.metrics.k8s.io", "v1beta1", 100, 200),
    service("custom.metrics.k8s.io", "v1beta2", 100, 200),
];

const fn service(
    group: &'static str,
    version: &'static str,
    group_priority: i32,
    version_priority: i32,
) -> ApiService {
    ApiService { group, version, group_priority, version_priority }
}

impl ApiService {
    /// Name of the APIService object.
    pub fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_kinds_have_a_schema_with_every_field_explained() {
        for resource in RESOURCES {
            let schema = (resource.schema)();
            assert_eq!(crd::undescribed_fields(&schema), Vec::<String>::new(), "{}", resource.kind);
        }
        assert_eq!(API_SERVICES[0].name(), "v1alpha1.cluster.karmada.io");
    }
}
