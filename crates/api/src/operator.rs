//! `operator.karmada.io/v1alpha1`: a whole control plane as one object. It lives in the cluster that hosts the
//! control plane, not in the control plane itself.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;

use crate::core::{ResourceList, Toleration};
use crate::meta::{Condition, Labels, kinds};
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "operator.karmada.io";

/// Settings of the gates of one program or of all.
pub type FeatureGates = BTreeMap<String, bool>;

kinds! {
    /// A control plane that an operator installs and keeps.
    pub struct Karmada in "operator.karmada.io" / "v1alpha1" as "karmadas", Namespaced {
        /// What to install, and where.
        spec?: KarmadaSpec,
        /// What became of it.
        status+: KarmadaStatus,
    }
}

wire! {
    /// What to install, and where.
    pub struct KarmadaSpec {
        /// Cluster to install into; the operator's own if unset.
        host_cluster?: Option<HostCluster>,
        /// Registry that all images are taken from.
        private_registry?: Option<ImageRegistry>,
        /// Settings of the programs.
        components?: Option<KarmadaComponents>,
        /// Feature gates of all programs.
        feature_gates?: FeatureGates,
        /// Where the custom resource definitions come from.
        crd_tarball?: Option<CrdTarball>,
        /// Certificates that are not made by the operator, and how long its own are valid.
        custom_certificate?: Option<CustomCertificate>,
        /// Stops the operator from touching this control plane.
        suspend?: Option<bool>,
    }

    /// The cluster that hosts the control plane.
    pub struct HostCluster {
        /// URL of its API server.
        api_endpoint?: String,
        /// Secret with the credentials for it.
        secret_ref?: Option<LocalSecretReference>,
        /// Its network.
        networking?: Option<Networking>,
    }

    /// Network of the host cluster.
    pub struct Networking {
        /// Domain of its Services; cluster.local if unset.
        dns_domain?: Option<String>,
    }

    /// A Secret.
    pub struct LocalSecretReference {
        /// Namespace.
        namespace?: String,
        /// Name.
        name?: String,
    }

    /// A registry of images.
    pub struct ImageRegistry {
        /// Address that is put before the names of images.
        registry: String,
    }

    /// Settings of the programs.
    pub struct KarmadaComponents {
        /// The store.
        etcd: Option<Etcd>,
        /// The API server.
        karmada_api_server as "karmadaAPIServer"?: Option<KarmadaAPIServer>,
        /// The server of the aggregated API.
        karmada_aggregated_api_server as "karmadaAggregatedAPIServer"?: Option<ServingComponent>,
        /// The controllers of Kubernetes.
        kube_controller_manager?: Option<KubeControllerManager>,
        /// The controllers of Karmada.
        karmada_controller_manager?: Option<ControllerComponent>,
        /// The scheduler.
        karmada_scheduler?: Option<GatedComponent>,
        /// Admission.
        karmada_webhook?: Option<PlainComponent>,
        /// Takes replicas back that cannot run; not installed if unset.
        karmada_descheduler?: Option<GatedComponent>,
        /// Search over all members; not installed if unset.
        karmada_search?: Option<PlainComponent>,
        /// Metrics of all members; not installed if unset.
        karmada_metrics_adapter?: Option<PlainComponent>,
    }

    /// What every program can be told.
    pub struct CommonSettings {
        /// Image without its tag.
        image_repository?: String,
        /// Tag of the image.
        image_tag?: String,
        /// When the image is pulled.
        image_pull_policy?: String,
        /// Replicas.
        replicas?: Option<i32>,
        /// Labels of the pods.
        labels?: Labels,
        /// Annotations of the pods.
        annotations?: Labels,
        /// Requests and limits of the pods.
        resources?: Option<ResourceRequirements>,
        /// Priority class of the pods; system-node-critical if unset.
        priority_class_name?: String = {"default": "system-node-critical"},
        /// How many pods an upgrade of nodes may take away at a time.
        pod_disruption_budget_config?: Option<PodDisruptionBudgetConfig> = {"x-kubernetes-validations": [{"rule": "has(self.minAvailable) != has(self.maxUnavailable)", "message": "exactly one of minAvailable and maxUnavailable must be set"}]},
        /// Taints of nodes that the pods bear.
        tolerations?: Vec<Toleration>,
        /// Nodes the pods go to.
        affinity?: Option<Value> = {"type": "object"},
    }

    /// Requests and limits.
    pub struct ResourceRequirements {
        /// At most.
        limits?: ResourceList,
        /// At least.
        requests?: ResourceList,
    }

    /// How many pods may be missing; one of the two is given.
    pub struct PodDisruptionBudgetConfig {
        /// Pods that must stay.
        min_available?: Option<Value> = {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": null},
        /// Pods that may be away.
        max_unavailable?: Option<Value> = {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": null},
    }

    /// The store: one the operator makes, or one that is there.
    pub struct Etcd {
        /// A store that the operator makes.
        local?: Option<LocalEtcd>,
        /// A store that is there.
        external?: Option<ExternalEtcd>,
    }

    /// A store that the operator makes.
    pub struct LocalEtcd {
        flatten common: CommonSettings,
        /// Where data is kept.
        volume_data?: Option<VolumeData>,
        /// Further names in its server certificate.
        server_cert_sa_ns as "serverCertSANs"?: Vec<String>,
        /// Further names in its peer certificate.
        peer_cert_sa_ns as "peerCertSANs"?: Vec<String>,
        /// Further arguments.
        extra_args?: Labels,
    }

    /// Where data is kept.
    pub struct VolumeData {
        /// A claim made from this template.
        volume_claim?: Option<Value> = {"type": "object"},
        /// A directory of the node.
        host_path?: Option<Value> = {"type": "object"},
        /// A directory that ends with the pod.
        empty_dir?: Option<Value> = {"type": "object"},
    }

    /// A store that is there.
    pub struct ExternalEtcd {
        /// Its addresses.
        endpoints: Vec<String>,
        /// Secret with its authority and a client certificate.
        secret_ref: LocalSecretReference,
    }

    /// The API server.
    pub struct KarmadaAPIServer {
        flatten common: CommonSettings,
        /// Addresses of Services; 10.96.0.0/12 if unset.
        service_subnet?: Option<String>,
        /// Further arguments.
        extra_args?: Labels,
        /// Further mounts.
        extra_volume_mounts?: Vec<Value> = {"items": {"type": "object"}},
        /// Further volumes.
        extra_volumes?: Vec<Value> = {"items": {"type": "object"}},
        /// Further names in its certificate.
        cert_sa_ns as "certSANs"?: Vec<String>,
        /// Its feature gates.
        feature_gates?: FeatureGates,
        /// How it is reached from outside.
        service_type?: ServiceType = {"default": "ClusterIP", "enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        /// Class of its load balancer.
        load_balancer_class?: Option<String>,
        /// Annotations of its Service.
        service_annotations?: Labels,
        /// Containers beside it.
        sidecar_containers?: Vec<Value> = {"items": {"type": "object"}},
    }

    /// A program that serves TLS.
    pub struct ServingComponent {
        flatten common: CommonSettings,
        /// Further arguments.
        extra_args?: Labels,
        /// Further names in its certificate.
        cert_sa_ns as "certSANs"?: Vec<String>,
        /// Its feature gates.
        feature_gates?: FeatureGates,
    }

    /// The controllers of Kubernetes.
    pub struct KubeControllerManager {
        flatten common: CommonSettings,
        /// Addresses of pods.
        cluster_cidr as "clusterCIDR"?: Option<String>,
        /// Addresses of Services.
        service_subnet?: Option<String>,
        /// Controllers to run; `*` for all.
        controllers?: Vec<String>,
        /// Further arguments.
        extra_args?: Labels,
        /// Its feature gates.
        feature_gates?: FeatureGates,
    }

    /// A program that runs controllers.
    pub struct ControllerComponent {
        flatten common: CommonSettings,
        /// Controllers to run; `*` for all, `-name` for all but one.
        controllers?: Vec<String>,
        /// Further arguments.
        extra_args?: Labels,
        /// Its feature gates.
        feature_gates?: FeatureGates,
    }

    /// A program with feature gates.
    pub struct GatedComponent {
        flatten common: CommonSettings,
        /// Further arguments.
        extra_args?: Labels,
        /// Its feature gates.
        feature_gates?: FeatureGates,
    }

    /// A program.
    pub struct PlainComponent {
        flatten common: CommonSettings,
        /// Further arguments.
        extra_args?: Labels,
    }

    /// Where the custom resource definitions come from.
    pub struct CrdTarball {
        /// An archive to download.
        http_source?: Option<HttpSource>,
        /// When it is downloaded.
        crd_download_policy?: Option<DownloadPolicy> = {"default": "IfNotPresent", "enum": ["Always", "IfNotPresent"]},
    }

    /// An archive to download.
    pub struct HttpSource {
        /// Its URL.
        url?: String,
        /// Proxy on the way to it.
        proxy?: Option<ProxyConfig>,
    }

    /// A proxy.
    pub struct ProxyConfig {
        /// Its URL.
        proxy_url as "proxyURL": String,
    }

    /// Certificates.
    pub struct CustomCertificate {
        /// Secret with the authority of the API server.
        api_server_ca_cert as "apiServerCACert"?: Option<LocalSecretReference>,
        /// Days for which other certificates are valid.
        leaf_cert_validity_days?: Option<i32> = {"minimum": 1},
    }

    /// What became of the control plane.
    pub struct KarmadaStatus {
        /// Generation that was handled.
        observed_generation?: i64,
        /// Secret with an administrator's kubeconfig.
        secret_ref?: Option<LocalSecretReference>,
        /// Version of Karmada.
        karmada_version?: String,
        /// Version of Kubernetes.
        kubernetes_version?: String,
        /// Ready, and why or why not.
        conditions?: Vec<Condition>,
        /// Service of the API server.
        api_server_service?: Option<APIServerService>,
    }

    /// A Service.
    pub struct APIServerService {
        /// Name.
        name: String,
    }
}

text! {
    /// How a Service is reached.
    pub enum ServiceType { ClusterIP, NodePort, LoadBalancer }

    /// When definitions are downloaded.
    pub enum DownloadPolicy { Always, IfNotPresent }
}
