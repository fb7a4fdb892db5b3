//! Why a workload runs where it runs: one vocabulary for the whole chain, from the policy that
//! claimed it to the overrides each cluster got. Serialised as it stands for events, the command
//! line and the dashboard; [`Explanation`] prints itself for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::work::ResourceBindingSpec;

/// The reasons behind the present placement of one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// What is explained, as `Kind namespace/name`.
    pub subject: String,
    /// Policies that match, the winner first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyCandidate>,
    /// Whose clusters it follows, whatever was decided about the object itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<Requirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverrideStep>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
}

/// A policy that selects the object, and how it fared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyCandidate {
    /// `PropagationPolicy namespace/name` or `ClusterPropagationPolicy name`.
    pub policy: String,
    pub won: bool,
    pub reason: String,
}

/// A binding whose object needs this one in every cluster it goes to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    /// `ResourceBinding namespace/name` or `ClusterResourceBinding name`.
    pub binding: String,
    pub clusters: Vec<String>,
}

impl Requirement {
    /// Reads them from an attached binding.
    pub fn all_of(spec: &ResourceBindingSpec) -> Vec<Self> {
        let requirement = |by: &crate::work::BindingSnapshot| Self {
            binding: match by.namespace.as_str() {
                "" => format!("ClusterResourceBinding {}", by.name),
                namespace => format!("ResourceBinding {namespace}/{}", by.name),
            },
            clusters: by.clusters.iter().map(|target| target.name.clone()).collect(),
        };
        spec.required_by.iter().map(requirement).collect()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clusters: Vec<&str> = self.clusters.iter().map(String::as_str).collect();
        match clusters.as_slice() {
            [] => write!(f, "{}, which has no cluster yet", self.binding),
            some => write!(f, "{}, which goes to {}", self.binding, fold(some)),
        }
    }
}

/// One scheduling decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduling {
    /// Why a decision was due; empty where that is not known.
    pub trigger: String,
    /// The decision itself is no longer known, as after a restart: this is what comes out of today's clusters, and
    /// `outcome` says what stands where that differs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// Affinity groups that were tried, in order; the last one decided.
    pub attempts: Vec<AffinityAttempt>,
    pub succeeded: bool,
    /// The message of the `Scheduled` condition.
    pub outcome: String,
}

impl Scheduling {
    fn occasion(&self) -> Option<String> {
        let because = match self.trigger.as_str() {
            "" => None,
            trigger => Some(format!("scheduled because {trigger}")),
        };
        match (because, self.anew) {
            (because, false) => because,
            (Some(because), true) => {
                Some(format!("{because}; worked out anew from today's clusters:"))
            }
            (None, true) => Some(
                "the decision is no longer known; worked out anew from today's clusters:"
                    .to_owned(),
            ),
        }
    }
}

/// What one affinity group led to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityAttempt {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    pub clusters: Vec<ClusterVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub divisions: Vec<Division>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How one cluster fared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterVerdict {
    pub cluster: String,
    /// Every rule that refused it; empty for candidates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_by: Vec<Refusal>,
    pub tier: usize,
    pub score: i64,
    /// Replicas (or sets) it could still take; absent where capacity was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<i64>,
    pub selected: bool,
    /// Replicas it was given; absent when it is no target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusal {
    pub rule: String,
    pub reason: String,
}

/// Which regions, zones or providers were chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupChoice {
    /// `region`, `zone` or `provider`.
    pub by: String,
    pub groups: Vec<GroupVerdict>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVerdict {
    pub name: String,
    pub clusters: usize,
    pub score: i64,
    pub chosen: bool,
}

/// How replicas were divided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Division {
    /// `duplicated`, `static weights`, `dynamic weights`, `aggregated`.
    pub strategy: String,
    /// Replicas given out by this division.
    pub replicas: i64,
    pub shares: Vec<Share>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Share {
    pub cluster: String,
    pub weight: i64,
    /// Replicas it had and keeps.
    pub kept: i64,
    /// Replicas it has now.
    pub total: i64,
}

/// One override that changed the object for one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideStep {
    pub cluster: String,
    /// `OverridePolicy namespace/name` or `ClusterOverridePolicy name`.
    pub policy: String,
    /// `image`, `command`, `args`, `labels`, `annotations`, `field` or `plaintext`.
    pub overrider: String,
    /// What it changed, as JSON patch operations in short form: `replace /spec/x = 3`.
    pub changes: Vec<String>,
}

/// What became of the object in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Delivery {
    pub cluster: String,
    pub applied: bool,
    /// What the member said, or why nothing was sent.
    pub message: String,
    /// `Healthy`, `Unhealthy` or `Unknown`; empty while nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
}

/// Lines an explanation may take on a screen, unless a precision asks for another number; the rest is counted.
const SCREEN: usize = 24;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![self.subject.clone()];
        for candidate in &self.policies {
            let mark = if candidate.won { "claimed by" } else { "not by" };
            lines.push(format!("  {mark:<10} {}: {}", candidate.policy, candidate.reason));
        }
        lines.extend(self.required_by.iter().map(|by| format!("  required by {by}")));
        if let Some(scheduling) = &self.scheduling {
            lines.extend(scheduling.occasion().map(|occasion| format!("  {occasion}")));
            for attempt in &scheduling.attempts {
                lines.extend(attempt_lines(attempt));
            }
            let mark = if scheduling.succeeded { "=>" } else { "=> FAILED:" };
            lines.push(format!("  {mark} {}", scheduling.outcome));
        }
        for step in &self.overrides {
            let changes = step.changes.join(", ");
            lines.push(format!(
                "  {}: {} by {}: {changes}",
                step.cluster, step.overrider, step.policy
            ));
        }
        for delivery in &self.deliveries {
            let mark = if delivery.applied { "applied" } else { "NOT applied" };
            let Delivery { cluster, message, health, .. } = delivery;
            let health = if health.is_empty() { "" } else { &format!(", {health}") };
            lines.push(format!("  {cluster}: {mark}{health}: {message}"));
        }
        let most = f.precision().unwrap_or(SCREEN).max(3);
        if lines.len() > most {
            let cut = lines.len() - (most - 1);
            let end = lines.split_off(most - 2);
            lines.push(format!("  … {cut} more lines (-o yaml shows all)"));
            lines.extend(end.into_iter().next_back());
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Refused clusters are folded by reason: a fleet has many, the reasons are few.
fn attempt_lines(attempt: &AffinityAttempt) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(affinity) = &attempt.affinity {
        lines.push(format!("  affinity group {affinity}:"));
    }
    let mut refused: Vec<(&Refusal, Vec<&str>)> = Vec::new();
    for verdict in &attempt.clusters {
        let Some(first) = verdict.rejected_by.first() else { continue };
        match refused.iter_mut().find(|(refusal, _)| *refusal == first) {
            Some((_, clusters)) => clusters.push(&verdict.cluster),
            None => refused.push((first, vec![&verdict.cluster])),
        }
    }
    for (refusal, clusters) in refused {
        lines.push(format!("    - {}: {} ({})", fold(&clusters), refusal.reason, refusal.rule));
    }
    if let Some(choice) = &attempt.groups {
        let groups: Vec<String> = choice
            .groups
            .iter()
            .map(|group| {
                format!(
                    "{}{} ({} clusters, score {})",
                    if group.chosen { "+" } else { "-" },
                    group.name,
                    group.clusters,
                    group.score
                )
            })
            .collect();
        lines.push(format!("    {}s: {}", choice.by, groups.join(", ")));
    }
    for verdict in attempt.clusters.iter().filter(|verdict| verdict.rejected_by.is_empty()) {
        let mut line =
            format!("    {} {}", if verdict.selected { "+" } else { "·" }, verdict.cluster);
        line += &format!(": score {}", verdict.score);
        if let Some(room) = verdict.allocatable {
            line += &format!(", room for {room}");
        }
        if verdict.tier > 0 {
            line += &format!(", overflow tier {}", verdict.tier);
        }
        match verdict.replicas {
            Some(replicas) => line += &format!(" -> {replicas} replicas"),
            None if verdict.selected => line += " -> nothing",
            None => line += " -> not needed",
        }
        lines.push(line);
    }
    for division in &attempt.divisions {
        let shares: Vec<String> = division
            .shares
            .iter()
            .map(|share| {
                format!(
                    "{} {} (weight {}, kept {})",
                    share.cluster, share.total, share.weight, share.kept
                )
            })
            .collect();
        lines.push(format!(
            "    {} of {}: {}",
            division.strategy,
            division.replicas,
            shares.join(", ")
        ));
    }
    if let Some(error) = &attempt.error {
        lines.push(format!("    ! {error}"));
    }
    lines
}

fn fold(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    if names.len() <= SHOWN {
        return names.join(", ");
    }
    format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Explanation {
        let policy = |policy: &str, won, reason: &str| PolicyCandidate {
            policy: policy.into(),
            won,
            reason: reason.into(),
        };
        let verdict = |cluster: &str, score, replicas| ClusterVerdict {
            cluster: cluster.into(),
            score,
            allocatable: Some(10),
            selected: true,
            replicas: Some(replicas),
            ..ClusterVerdict::default()
        };
        let group = |name: &str, clusters, score, chosen| GroupVerdict {
            name: name.into(),
            clusters,
            score,
            chosen,
        };
        let share = |cluster: &str, weight, kept, total| Share {
            cluster: cluster.into(),
            weight,
            kept,
            total,
        };
        let taint = Refusal {
            rule: "TaintToleration".into(),
            reason: "cluster(s) had untolerated taint {k:NoSchedule}".into(),
        };
        let refused = |cluster: &str| ClusterVerdict {
            cluster: cluster.into(),
            rejected_by: vec![taint.clone()],
            ..ClusterVerdict::default()
        };
        let attempt = AffinityAttempt {
            affinity: Some("primary".into()),
            clusters: vec![
                verdict("m1", 100, 3),
                verdict("m2", 0, 2),
                refused("m3"),
                refused("m4"),
            ],
            groups: Some(GroupChoice {
                by: "region".into(),
                groups: vec![group("east", 2, 5050, true), group("west", 1, 3000, false)],
            }),
            divisions: vec![Division {
                strategy: "dynamic weights".into(),
                replicas: 5,
                shares: vec![share("m1", 10, 2, 3), share("m2", 10, 0, 2)],
            }],
            error: None,
        };
        Explanation {
            subject: "Deployment shop/web".into(),
            policies: vec![
                policy("PropagationPolicy shop/web", true, "selects it by name"),
                policy("PropagationPolicy shop/all", false, "selects it by kind only"),
            ],
            scheduling: Some(Scheduling {
                trigger: "the number of replicas changed".into(),
                anew: false,
                attempts: vec![attempt],
                succeeded: true,
                outcome: "Binding has been scheduled successfully. Result: {m1:3, m2:2}".into(),
            }),
            overrides: vec![OverrideStep {
                cluster: "m2".into(),
                policy: "OverridePolicy shop/registry".into(),
                overrider: "image".into(),
                changes: vec![
                    "replace /spec/template/spec/containers/0/image = mirror.example/web:v1".into(),
                ],
            }],
            ..Explanation::default()
        }
    }

    #[test]
    fn the_whole_chain_reads_from_policy_to_override() {
        let expected = "\
Deployment shop/web
  claimed by PropagationPolicy shop/web: selects it by name
  not by     PropagationPolicy shop/all: selects it by kind only
  scheduled because the number of replicas changed
  affinity group primary:
    - m3, m4: cluster(s) had untolerated taint {k:NoSchedule} (TaintToleration)
    regions: +east (2 clusters, score 5050), -west (1 clusters, score 3000)
    + m1: score 100, room for 10 -> 3 replicas
    + m2: score 0, room for 10 -> 2 replicas
    dynamic weights of 5: m1 3 (weight 10, kept 2), m2 2 (weight 10, kept 0)
  => Binding has been scheduled successfully. Result: {m1:3, m2:2}
  m2: image by OverridePolicy shop/registry: replace /spec/template/spec/containers/0/image = mirror.example/web:v1";
        let whole = whole();
        assert_eq!(whole.to_string(), expected);
        let json = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), whole);
    }

    #[test]
    fn a_decision_that_is_no_longer_known_is_not_made_up() {
        let mut told = whole();
        let scheduling = told.scheduling.as_mut().unwrap();
        scheduling.anew = true;
        let line = |told: &Explanation| told.to_string().lines().nth(3).unwrap().to_owned();
        assert_eq!(
            line(&told),
            "  scheduled because the number of replicas changed; worked out anew from today's clusters:"
        );
        told.scheduling.as_mut().unwrap().trigger.clear();
        assert_eq!(
            line(&told),
            "  the decision is no longer known; worked out anew from today's clusters:"
        );
    }

    #[test]
    fn a_dependency_says_who_requires_it_and_where_that_goes() {
        let spec: ResourceBindingSpec = serde_json::from_value(serde_json::json!({
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "conf"},
            "requiredBy": [
                {"namespace": "shop", "name": "web-deployment", "clusters": [{"name": "m1"}, {"name": "m2"}]},
                {"namespace": "shop", "name": "new-deployment"}]}))
        .unwrap();
        let required_by = Requirement::all_of(&spec);
        let told = Explanation { required_by, ..Explanation::default() }.to_string();
        let lines: Vec<&str> = told.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  required by ResourceBinding shop/web-deployment, which goes to m1, m2",
                "  required by ResourceBinding shop/new-deployment, which has no cluster yet",
            ]
        );
    }

    #[test]
    fn what_does_not_fit_the_screen_is_counted() {
        let mut long = whole();
        let step = long.overrides[0].clone();
        long.overrides = vec![step; 40];
        let shown = long.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[22], "  … 28 more lines (-o yaml shows all)");
        assert!(lines[23].starts_with("  m2: image by"));
    }
}
