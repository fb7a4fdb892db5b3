//! The parts of `core/v1` that Karmada's kinds embed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::meta::{Condition, Labels};
use crate::wire::{Time, go_package, text, wire};

pub use crate::quantity::Quantity;

go_package!("v1");

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

text! {
    /// What a taint does to workloads that do not tolerate it.
    pub enum TaintEffect { NoSchedule, PreferNoSchedule, NoExecute }

    /// How a toleration compares a taint's value.
    pub enum TolerationOperator { Exists, Equal, Lt, Gt }

    /// How a node selector requirement compares.
    pub enum NodeSelectorOperator { In, NotIn, Exists, DoesNotExist, Gt, Lt }
}

wire! {
    /// A statement that taints matching it do not repel the workload.
    pub struct Toleration {
        /// Taint key that is tolerated; empty with operator Exists tolerates every taint.
        key?: String,
        /// Comparison of the value: Exists or Equal, Equal when left out.
        operator?: TolerationOperator,
        /// Taint value that is tolerated; must be empty with operator Exists.
        value?: String,
        /// Taint effect that is tolerated; empty tolerates all effects.
        effect?: TaintEffect,
        /// How long a NoExecute taint is tolerated; unset means for ever.
        toleration_seconds?: Option<i64>,
    }

    /// A mark that repels workloads without a matching toleration.
    pub struct Taint {
        /// Taint key.
        key: String,
        /// Taint value.
        value?: String,
        /// What happens to workloads that do not tolerate the taint.
        effect: TaintEffect,
        /// When the taint was added; kept for NoExecute taints only.
        time_added?: Option<Time>,
    }

    /// Alternatives of node requirements; a node fits if one term holds.
    pub struct NodeSelector = {"x-kubernetes-map-type": "atomic"} {
        /// Terms of which one must hold.
        node_selector_terms: Vec<NodeSelectorTerm> = {"x-kubernetes-list-type": "atomic"},
    }

    /// Requirements on a node that must all hold; an empty term matches no node.
    pub struct NodeSelectorTerm = {"x-kubernetes-map-type": "atomic"} {
        /// Requirements on node labels.
        match_expressions?: Vec<NodeSelectorRequirement> = {"x-kubernetes-list-type": "atomic"},
        /// Requirements on node fields.
        match_fields?: Vec<NodeSelectorRequirement> = {"x-kubernetes-list-type": "atomic"},
    }

    /// A relation between a key and a set of values.
    pub struct NodeSelectorRequirement {
        /// Key the requirement is about.
        key: String,
        /// Relation of the key to the values: In, NotIn, Exists, DoesNotExist, Gt or Lt.
        operator: NodeSelectorOperator,
        /// Values to compare with; empty for Exists and DoesNotExist, one integer for Gt and Lt.
        values?: Vec<String> = {"x-kubernetes-list-type": "atomic"},
    }

    /// Observed state of a service.
    pub struct ServiceStatus {
        /// Addresses under which the load balancer serves, if there is one.
        load_balancer+: LoadBalancerStatus,
        /// Observed aspects of the service.
        conditions?: Vec<Condition> = {"x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"},
    }

    /// Addresses of a load balancer.
    pub struct LoadBalancerStatus {
        /// Entry points; traffic for the service is sent to these.
        ingress?: Vec<LoadBalancerIngress> = {"x-kubernetes-list-type": "atomic"},
    }

    /// One entry point of a load balancer.
    pub struct LoadBalancerIngress {
        /// Address of the entry point, for load balancers that work with addresses.
        ip?: String,
        /// Host name of the entry point, for load balancers that work with names.
        hostname?: String,
        /// How traffic to the address is handled: VIP or Proxy.
        ip_mode?: Option<String>,
        /// Ports of the entry point and their state.
        ports?: Vec<PortStatus> = {"x-kubernetes-list-type": "atomic"},
    }

    /// State of one port of a load balancer.
    pub struct PortStatus {
        /// Port number.
        port: i32,
        /// Protocol of the port: TCP, UDP or SCTP.
        protocol: String,
        /// Problem with the port, as a machine-readable word.
        error: Option<String> = {
            "maxLength": 316,
            "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        },
    }

    /// Where and how a webhook is reached.
    pub struct WebhookClientConfig {
        /// Address of the hook, https only; give either this or the service.
        url?: Option<String>,
        /// Service that serves the hook; give either this or the URL.
        service?: Option<ServiceReference>,
        /// PEM bundle that the hook's certificate is checked against; the system's roots if unset.
        ca_bundle?: crate::wire::Bytes,
    }

    /// A service and the path on it.
    pub struct ServiceReference {
        /// Namespace of the service.
        namespace: String,
        /// Name of the service.
        name: String,
        /// URL path sent with each request.
        path?: Option<String>,
        /// Port of the service, 443 if unset.
        port?: Option<i32>,
    }
}

impl Toleration {
    /// Whether the taint is tolerated (key, effect and value; not the duration).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_unset() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Unset | TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            _ => false,
        }
    }
}

impl Taint {
    /// Two taints are the same one if key and effect agree.
    pub fn is_same(&self, other: &Taint) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// How much longer the taint is tolerated: no time at all where nothing tolerates it, for ever
    /// (`None`) where no toleration that does is limited.
    pub fn tolerated_for(&self, tolerations: &[Toleration], now: Time) -> Option<Duration> {
        let mut tolerating = tolerations.iter().filter(|t| t.tolerates(self)).peekable();
        if tolerating.peek().is_none() {
            return Some(Duration::ZERO);
        }
        let gone = now.0.duration_since(self.time_added?.0);
        let left = |seconds| {
            let allowed = jiff::SignedDuration::from_secs(seconds);
            Duration::try_from(allowed.saturating_sub(gone)).unwrap_or_default()
        };
        tolerating.filter_map(|toleration| toleration.toleration_seconds).map(left).min()
    }
}

/// Whether every pair of `selector` is among `labels`.
pub fn labels_match(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
