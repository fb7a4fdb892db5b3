//! Taints that Karmada itself puts on clusters.

pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
/// Set by `cordon`.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
