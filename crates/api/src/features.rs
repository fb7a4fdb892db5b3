//! Feature gates: one table, and the `--feature-gates` text that changes it.

use std::fmt;

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    /// Not in the original. Switched by its own name only, so that `AllAlpha` means what it means there.
    Extension,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Extension => "EXTENSION",
        })
    }
}

macro_rules! gates {
    ($( $(#[doc = $doc:literal])* $gate:ident = $name:literal, $default:literal, $stage:ident; )*) => {
        /// A feature that can be switched.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Gate { $( $(#[doc = $doc])* $gate, )* }

        impl Gate {
            /// All gates in their documented order.
            pub const ALL: &'static [Gate] = &[$( Gate::$gate ),*];

            pub fn name(self) -> &'static str {
                match self { $( Self::$gate => $name, )* }
            }

            pub fn default_value(self) -> bool {
                match self { $( Self::$gate => $default, )* }
            }

            pub fn stage(self) -> Stage {
                match self { $( Self::$gate => Stage::$stage, )* }
            }

            pub fn description(self) -> &'static str {
                match self { $( Self::$gate => concat!($($doc),*).trim_ascii_start(), )* }
            }
        }
    };
}

gates! {
    /// Evicts from clusters with NoExecute taints and lets ClusterTaintPolicies act.
    Failover = "Failover", false, Beta;
    /// Keeps the old copy until its replacement is healthy.
    GracefulEviction = "GracefulEviction", true, Beta;
    /// Sends the objects a template refers to along with it.
    PropagateDeps = "PropagateDeps", true, Beta;
    /// Counts free capacity of clusters by classes of node sizes.
    CustomizedClusterResourceModeling = "CustomizedClusterResourceModeling", true, Beta;
    /// Lets policies with preemption Always take over claimed templates.
    PropagationPolicyPreemption = "PropagationPolicyPreemption", false, Alpha;
    /// Serves MultiClusterService.
    MultiClusterService = "MultiClusterService", false, Alpha;
    /// Lets estimators consider ResourceQuotas of the members.
    ResourceQuotaEstimate = "ResourceQuotaEstimate", false, Alpha;
    /// Hands state over to the new cluster on failover.
    StatefulFailoverInjection = "StatefulFailoverInjection", false, Alpha;
    /// Schedules bindings of higher priority first.
    PriorityBasedScheduling = "PriorityBasedScheduling", true, Beta;
    /// Refuses schedule results that exceed a FederatedResourceQuota.
    FederatedQuotaEnforcement = "FederatedQuotaEnforcement", false, Alpha;
    /// Logging options that may still change.
    LoggingAlphaOptions = "LoggingAlphaOptions", false, Alpha;
    /// Logging options that are nearly settled.
    LoggingBetaOptions = "LoggingBetaOptions", true, Beta;
    /// Loggers that carry the context of the call.
    ContextualLogging = "ContextualLogging", true, Beta;
    /// Places workloads of several pod templates as a whole.
    MultiplePodTemplatesScheduling = "MultiplePodTemplatesScheduling", false, Alpha;
    /// Handles recent changes first when controllers start.
    ControllerPriorityQueue = "ControllerPriorityQueue", true, Beta;
    /// Keeps workloads together or apart.
    WorkloadAffinity = "WorkloadAffinity", false, Alpha;
    /// Counts placements that are under way against the estimates.
    SchedulingOvercommitProtection = "SchedulingOvercommitProtection", false, Alpha;
    /// Spreads workloads over zones and providers too, which otherwise are only checked for.
    SpreadByZoneAndProvider = "SpreadByZoneAndProvider", false, Extension;
}

/// What is wrong with a `--feature-gates` text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("missing bool value for {0}")]
    MissingValue(String),
    #[error("invalid value of {gate}={value}, err: expected true or false")]
    NotABool { gate: String, value: String },
    #[error("unrecognized feature gate: {name} (did you mean {nearest}?)")]
    Unknown { name: String, nearest: &'static str },
}

/// Which features are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates(Vec<bool>);

impl Default for Gates {
    fn default() -> Self {
        Self(Gate::ALL.iter().map(|gate| gate.default_value()).collect())
    }
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

impl Gates {
    /// Parses `Failover=true,AllAlpha=false`. A gate that is named wins over `AllAlpha` and `AllBeta`
    /// wherever it stands; of a gate named twice the last one counts.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut named = Vec::new();
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| ParseError::MissingValue(entry.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = parse_bool(value).ok_or_else(|| ParseError::NotABool {
                gate: name.to_owned(),
                value: value.to_owned(),
            })?;
            match name {
                ALL_ALPHA => gates.set_stage(Stage::Alpha, on),
                ALL_BETA => gates.set_stage(Stage::Beta, on),
                _ => named.push((find(name)?, on)),
            }
        }
        for (gate, on) in named {
            gates.set(gate, on);
        }
        Ok(gates)
    }

    pub fn is_on(&self, gate: Gate) -> bool {
        self.0.get(gate as usize).copied().unwrap_or_default()
    }

    pub fn set(&mut self, gate: Gate, on: bool) {
        if let Some(slot) = self.0.get_mut(gate as usize) {
            *slot = on;
        }
    }

    pub fn with(mut self, gate: Gate, on: bool) -> Self {
        self.set(gate, on);
        self
    }

    /// Every gate with its setting, for metrics and `version`.
    pub fn iter(&self) -> impl Iterator<Item = (Gate, bool)> + '_ {
        Gate::ALL.iter().map(|&gate| (gate, self.is_on(gate)))
    }

    fn set_stage(&mut self, stage: Stage, on: bool) {
        for &gate in Gate::ALL {
            if gate.stage() == stage {
                self.set(gate, on);
            }
        }
    }
}

fn find(name: &str) -> Result<Gate, ParseError> {
    Gate::ALL.iter().copied().find(|gate| gate.name() == name).ok_or_else(|| {
        let known = Gate::ALL.iter().map(|gate| gate.name()).chain([ALL_ALPHA, ALL_BETA]);
        let nearest = known
            .min_by_key(|known| {
                let (known, name) = (known.to_lowercase(), name.to_lowercase());
                // A name that holds what was written is nearer than any with other letters.
                (!known.contains(&name), edit_distance(&known, &name))
            })
            .unwrap_or(ALL_ALPHA);
        ParseError::Unknown { name: name.to_owned(), nearest }
    })
}

// Compat: the spellings that the original's flag accepts.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use Gate::*;

    fn on(text: &str) -> Vec<Gate> {
        let gates = Gates::parse(text).unwrap();
        gates.iter().filter(|(_, on)| *on).map(|(gate, _)| gate).collect()
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        assert_eq!(Gates::parse("").unwrap(), Gates::default());
        assert_eq!(on("").len(), 7);
    }

    #[test]
    fn a_named_gate_wins_over_its_stage_wherever_it_stands() {
        assert!(
            on("WorkloadAffinity=false,AllAlpha=true").iter().all(|gate| *gate != WorkloadAffinity)
        );
        assert!(on("AllAlpha=true, WorkloadAffinity=false").contains(&MultiClusterService));
        assert_eq!(on("AllBeta=false,Failover=True"), [Failover]);
        let all = on("AllAlpha=1,AllBeta=t");
        assert_eq!(all.len(), Gate::ALL.len() - 1);
        assert!(!all.contains(&SpreadByZoneAndProvider));
        assert!(on("SpreadByZoneAndProvider=true").contains(&SpreadByZoneAndProvider));
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        let cases = [
            ("Failover", "missing bool value for Failover"),
            ("Failover=yes", "invalid value of Failover=yes, err: expected true or false"),
            ("Failove=true", "unrecognized feature gate: Failove (did you mean Failover?)"),
            ("allalpha=true", "unrecognized feature gate: allalpha (did you mean AllAlpha?)"),
            (
                "PolicyPreemption=true",
                "unrecognized feature gate: PolicyPreemption (did you mean PropagationPolicyPreemption?)",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(Gates::parse(text).unwrap_err().to_string(), message);
        }
    }
}
