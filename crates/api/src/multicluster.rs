//! `multicluster.x-k8s.io/v1alpha1`: the services API shared by multi-cluster projects.

use crate::meta::{Condition, kinds};
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "multicluster.x-k8s.io";

kinds! {
    /// Marks the service of the same name as usable from other clusters.
    pub struct ServiceExport in "multicluster.x-k8s.io" / "v1alpha1" as "serviceexports", Namespaced {
        /// What became of the export.
        status?: ServiceExportStatus,
    }

    /// A service of other clusters, usable here.
    pub struct ServiceImport in "multicluster.x-k8s.io" / "v1alpha1" as "serviceimports", Namespaced {
        /// How the service looks here.
        spec?: ServiceImportSpec,
        /// Where it comes from.
        status?: ServiceImportStatus,
    }
}

wire! {
    /// What became of an export.
    pub struct ServiceExportStatus {
        /// Observed aspects: Valid, Conflict.
        conditions?: Vec<Condition> = {"x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"},
    }

    /// How an imported service looks.
    pub struct ServiceImportSpec {
        /// Ports of the service.
        ports: Vec<ServicePort> = {"x-kubernetes-list-type": "atomic"},
        /// Address of the service when its type is ClusterSetIP.
        ips?: Vec<String> = {"maxItems": 1},
        /// Whether the service has one address (ClusterSetIP) or none (Headless).
        r#type as "type": ServiceImportType = {"enum": ["ClusterSetIP", "Headless"]},
        /// Whether requests of a client stick to one pod: None or ClientIP.
        session_affinity?: String,
        /// Details of session affinity.
        session_affinity_config?: Option<SessionAffinityConfig>,
    }

    /// One port of an imported service.
    pub struct ServicePort {
        /// Name of the port, unique within the service.
        name?: String,
        /// Protocol of the port: TCP, UDP or SCTP; TCP if unset.
        protocol?: String,
        /// Protocol spoken on top, as a hint for implementations.
        app_protocol?: Option<String>,
        /// Number of the port.
        port: i32,
    }

    /// Details of session affinity.
    pub struct SessionAffinityConfig {
        /// Affinity by client address.
        client_ip as "clientIP"?: Option<ClientIPConfig>,
    }

    /// Affinity by client address.
    pub struct ClientIPConfig {
        /// How many seconds a client sticks to a pod.
        timeout_seconds?: Option<i32>,
    }

    /// Where an imported service comes from.
    pub struct ServiceImportStatus {
        /// Clusters that export it.
        clusters?: Vec<ClusterStatus> = {"x-kubernetes-list-map-keys": ["cluster"], "x-kubernetes-list-type": "map"},
    }

    /// A cluster that exports a service.
    pub struct ClusterStatus {
        /// Name of the cluster.
        cluster: String,
    }
}

text! {
    /// Whether an imported service has an address.
    pub enum ServiceImportType { ClusterSetIP, Headless }
}
