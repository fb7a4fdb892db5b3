//! `networking.karmada.io/v1alpha1`: services and routes that span clusters.

use crate::core::ServiceStatus;
use crate::ingress::{IngressLoadBalancerStatus, IngressSpec};
use crate::meta::kinds;
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "networking.karmada.io";

kinds! {
    /// Makes the service of the same name reachable across clusters.
    pub struct MultiClusterService in "networking.karmada.io" / "v1alpha1" as "multiclusterservices", Namespaced {
        /// How the service is exposed.
        spec: MultiClusterServiceSpec,
        /// What was last seen of it.
        status+: ServiceStatus,
    }

    /// Routes requests to services in several clusters.
    pub struct MultiClusterIngress in "networking.karmada.io" / "v1alpha1" as "multiclusteringresses", Namespaced {
        /// Routes for requests from outside.
        spec+: IngressSpec,
        /// What was last seen of them.
        status+: MultiClusterIngressStatus,
    }
}

wire! {
    /// How a service is exposed.
    pub struct MultiClusterServiceSpec {
        /// Ways of exposure: CrossCluster or LoadBalancer, one of them; cannot be changed later.
        types: Vec<ExposureType> = {"items": {"description": "A way of exposure: CrossCluster or LoadBalancer."}},
        /// Ports that are exposed; all if empty.
        ports?: Vec<ExposurePort>,
        /// Outdated: use providerClusters and consumerClusters.
        range+: ExposureRange,
        /// Outdated: use providerClusters.
        service_provision_clusters?: Vec<String>,
        /// Outdated: use consumerClusters.
        service_consumption_clusters?: Vec<String>,
        /// Clusters whose pods serve; all if empty.
        provider_clusters?: Vec<ClusterSelector>,
        /// Clusters where the service can be used; all if empty.
        consumer_clusters?: Vec<ClusterSelector>,
    }

    /// A cluster.
    pub struct ClusterSelector {
        /// Name of the cluster.
        name: String,
    }

    /// A port to expose.
    pub struct ExposurePort {
        /// Name of the service's port.
        name?: String,
        /// Number of the service's port.
        port: i32,
    }

    /// Clusters of an exposure.
    pub struct ExposureRange {
        /// Names of the clusters.
        cluster_names?: Vec<String>,
    }

    /// What was last seen of an ingress over clusters.
    pub struct MultiClusterIngressStatus {
        /// Addresses under which the routes are served.
        load_balancer+: IngressLoadBalancerStatus,
        /// Clusters that get no traffic at present.
        traffic_block_clusters?: Vec<String>,
        /// Which clusters hold the services behind the routes.
        service_locations?: Vec<ServiceLocation>,
    }

    /// Where a service is.
    pub struct ServiceLocation {
        /// Name of the service.
        name: String,
        /// Clusters that have it.
        clusters?: Vec<String>,
    }
}

text! {
    /// A way to expose a service.
    pub enum ExposureType { CrossCluster, LoadBalancer }
}
