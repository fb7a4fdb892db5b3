//! Why a cluster was refused and why a decision failed, in the words of the original.

use std::collections::BTreeMap;
use std::fmt;

use karmada_api::core::Taint;

/// Why a rule refused a cluster. Small, so that a decision nobody asks about stays cheap.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection {
    NoApi,
    Taint(Taint),
    Affinity,
    /// `provider`, `region` or `zones` is not set on the cluster.
    NoProperty(&'static str),
    Evicting,
    WorkloadAffinity,
    WorkloadAntiAffinity,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoApi => f.write_str("cluster(s) did not have the API resource"),
            Self::Taint(taint) => {
                write!(f, "cluster(s) had untolerated taint {{{}", taint.key)?;
                if !taint.value.is_empty() {
                    write!(f, "={}", taint.value)?;
                }
                write!(f, ":{}}}", taint.effect)
            }
            Self::Affinity => {
                f.write_str("cluster(s) did not match the placement cluster affinity constraint")
            }
            Self::NoProperty(property) => write!(f, "cluster(s) did not have {property} property"),
            Self::Evicting => f.write_str("cluster(s) is in the process of eviction"),
            Self::WorkloadAffinity => f.write_str(
                "ResourceBinding with the same affinity group does not target this cluster",
            ),
            Self::WorkloadAntiAffinity => {
                f.write_str("cluster already has workload with the same anti-affinity group")
            }
        }
    }
}

/// Why an attempt led to no placement.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// No cluster passed the rules: the placement is cleared and waits for a change.
    NoClusterFits { clusters: usize, reasons: Vec<Rejection> },
    /// Not enough capacity: tried again when capacity may have grown.
    Unschedulable(String),
    /// Everything else, such as spread constraints that cannot be met.
    Other(String),
}

impl Failure {
    /// The reason of the `Scheduled` condition.
    pub fn condition_reason(&self) -> &'static str {
        match self {
            Self::NoClusterFits { .. } => "NoClusterFit",
            Self::Unschedulable(_) => "Unschedulable",
            Self::Other(_) => "SchedulerError",
        }
    }

    /// Whether the present placement is given up; any other failure leaves it as it is.
    pub fn clears_placement(&self) -> bool {
        matches!(self, Self::NoClusterFits { .. })
    }

    pub(crate) fn prefixed(self, prefix: &str) -> Self {
        match self {
            Self::Unschedulable(message) => Self::Unschedulable(format!("{prefix}{message}")),
            Self::Other(message) => Self::Other(format!("{prefix}{message}")),
            fit => fit,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable(message) | Self::Other(message) => f.write_str(message),
            Self::NoClusterFits { clusters, reasons } => {
                write!(f, "0/{clusters} clusters are available: {}.", histogram(reasons))
            }
        }
    }
}

/// How often each reason stands, as `2 reason, 1 other` in lexical order.
fn histogram(reasons: &[Rejection]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason.to_string()).or_default() += 1;
    }
    if counts.is_empty() {
        return "no cluster exists".to_owned();
    }
    let mut lines: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    lines.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e21_reasons_are_counted_and_sorted() {
        let taint = Taint {
            key: "k".into(),
            value: "v".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        let reasons =
            vec![Rejection::Taint(taint.clone()), Rejection::Taint(taint), Rejection::NoApi];
        let failure = Failure::NoClusterFits { clusters: 3, reasons };
        assert_eq!(
            failure.to_string(),
            "0/3 clusters are available: 1 cluster(s) did not have the API resource, \
             2 cluster(s) had untolerated taint {k=v:NoSchedule}."
        );
        assert_eq!(failure.condition_reason(), "NoClusterFit");
        assert!(failure.clears_placement());
        let none = Failure::NoClusterFits { clusters: 0, reasons: vec![] };
        assert_eq!(none.to_string(), "0/0 clusters are available: no cluster exists.");
    }
}
