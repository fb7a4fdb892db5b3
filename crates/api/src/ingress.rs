//! The parts of `networking/v1` that MultiClusterIngress embeds.

use crate::core::PortStatus;
use crate::wire::{go_package, text, wire};

go_package!("v1");

wire! {
    /// Routes for requests from outside.
    pub struct IngressSpec {
        /// Class of the controller that implements the routes.
        ingress_class_name?: Option<String>,
        /// Where requests go that no rule fits.
        default_backend?: Option<IngressBackend>,
        /// Certificates by host.
        tls?: Vec<IngressTLS> = {"x-kubernetes-list-type": "atomic"},
        /// Routes by host.
        rules?: Vec<IngressRule> = {"x-kubernetes-list-type": "atomic"},
    }

    /// Where requests go: a service or another object.
    pub struct IngressBackend {
        /// Service that answers; give either this or the resource.
        service?: Option<IngressServiceBackend>,
        /// Object in the same namespace that answers; give either this or the service.
        resource?: Option<TypedLocalObjectReference>,
    }

    /// A service and one of its ports.
    pub struct IngressServiceBackend {
        /// Name of the service in the same namespace.
        name: String,
        /// Port of the service, by name or number.
        port+: ServiceBackendPort,
    }

    /// A port by name or number.
    pub struct ServiceBackendPort = {"x-kubernetes-map-type": "atomic"} {
        /// Name of the port; give either this or the number.
        name?: String,
        /// Number of the port; give either this or the name.
        number?: i32,
    }

    /// An object in the same namespace.
    pub struct TypedLocalObjectReference = {"x-kubernetes-map-type": "atomic"} {
        /// API group of the object; the core group if unset.
        api_group+: Option<String>,
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    }

    /// A certificate and the hosts it is for.
    pub struct IngressTLS {
        /// Hosts the certificate covers.
        hosts?: Vec<String> = {"x-kubernetes-list-type": "atomic"},
        /// Name of the Secret that holds the certificate.
        secret_name?: String,
    }

    /// Routes of one host.
    pub struct IngressRule {
        /// Host name, possibly with a leading wildcard label; all hosts if empty.
        host?: String,
        /// Routes by path.
        http?: Option<HTTPIngressRuleValue>,
    }

    /// Routes by path.
    pub struct HTTPIngressRuleValue {
        /// Paths and where they lead.
        paths: Vec<HTTPIngressPath> = {"x-kubernetes-list-type": "atomic"},
    }

    /// A path and where it leads.
    pub struct HTTPIngressPath {
        /// Path to compare with; starts with a slash unless the type is ImplementationSpecific.
        path?: String,
        /// How the path is compared: Exact, Prefix or ImplementationSpecific.
        path_type: Option<PathType>,
        /// Where requests go.
        backend: IngressBackend,
    }

    /// Addresses of an ingress.
    pub struct IngressLoadBalancerStatus {
        /// Entry points.
        ingress?: Vec<IngressLoadBalancerIngress> = {"x-kubernetes-list-type": "atomic"},
    }

    /// One entry point of an ingress.
    pub struct IngressLoadBalancerIngress {
        /// Address of the entry point.
        ip?: String,
        /// Host name of the entry point.
        hostname?: String,
        /// Ports of the entry point and their state.
        ports?: Vec<PortStatus> = {"x-kubernetes-list-type": "atomic"},
    }
}

text! {
    /// How a path is compared.
    pub enum PathType { Exact, Prefix, ImplementationSpecific }
}
