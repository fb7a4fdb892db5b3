//! Why a workload runs where it runs: one vocabulary for the whole chain, from the policy that
//! claimed it to the overrides each cluster got. Serialised as it stands for events, the command
//! line and the dashboard; [`Explanation`] prints itself for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reasons behind the present placement of one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// What is explained, as `Kind namespace/name`.
    pub subject: String,
    /// Policies that match, the winner first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyCandidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverrideStep>,
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

/// One scheduling decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduling {
    /// Why a decision was due (or why none was).
    pub trigger: String,
    /// Affinity groups that were tried, in order; the last one decided.
    pub attempts: Vec<AffinityAttempt>,
    pub succeeded: bool,
    /// The message of the `Scheduled` condition.
    pub outcome: String,
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

/// Lines an explanation may take on a screen; longer parts are cut and counted.
const SCREEN: usize = 24;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![self.subject.clone()];
        for candidate in &self.policies {
            let mark = if candidate.won { "claimed by" } else { "not by" };
            lines.push(format!("  {mark:<10} {}: {}", candidate.policy, candidate.reason));
        }
        if let Some(scheduling) = &self.scheduling {
            lines.push(format!("  scheduled because {}", scheduling.trigger));
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
        if lines.len() > SCREEN {
            let cut = lines.len() - (SCREEN - 1);
            let end = lines.split_off(SCREEN - 2);
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
