//! What a failed pod means for its job, and when enough has succeeded.

use std::collections::BTreeSet;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use super::indexes;
use crate::workloads::body::ContainerStatus;
use crate::workloads::pods::Pod;

/// What becomes of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Count,
    Ignore,
    FailIndex,
    FailJob(String),
}

/// Applies the first rule of a `podFailurePolicy` that matches.
pub(super) fn judge_failure(policy: Option<&Value>, pod: &Pod) -> Verdict {
    let rules = policy.map_or(&[][..], |policy| policy.list_at(&["rules"]));
    for (index, rule) in rules.iter().enumerate() {
        let action = rule.str_at(&["action"]).unwrap_or_default();
        let (namespace, name) = (pod.object.namespace(), pod.name());
        let found = if let Some(requirement) = rule.at(&["onExitCodes"]) {
            exited_with(pod, requirement).map(|(container, code)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code} \
                     matching {action} rule at index {index}"
                )
            })
        } else {
            condition_of(pod, rule.list_at(&["onPodConditions"])).map(|condition| {
                format!(
                    "Pod {namespace}/{name} has condition {condition} matching {action} rule at \
                     index {index}"
                )
            })
        };
        let Some(message) = found else { continue };
        return match action {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => Verdict::FailJob(message),
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

fn exited_with(pod: &Pod, requirement: &Value) -> Option<(String, i64)> {
    let only = requirement.str_at(&["containerName"]);
    let codes: Vec<_> = requirement.list_at(&["values"]).iter().filter_map(Value::as_i64).collect();
    let matches = |status: &ContainerStatus| {
        let code = status.state.terminated.as_ref()?.exit_code;
        let named = only.is_none_or(|name| name == status.name);
        let wanted = match requirement.str_at(&["operator"]) {
            Some("In") => codes.contains(&code),
            Some("NotIn") => !codes.contains(&code),
            _ => false,
        };
        (named && code != 0 && wanted).then(|| (status.name.clone(), code))
    };
    let status = pod.status();
    status.container_statuses.iter().chain(&status.init_container_statuses).find_map(matches)
}

fn condition_of(pod: &Pod, patterns: &[Value]) -> Option<String> {
    let matches = |pattern: &&Value| {
        let condition = pod.condition(pattern.str_at(&["type"]).unwrap_or_default());
        let wanted = pattern.str_at(&["status"]).unwrap_or("True");
        condition.is_some_and(|condition| condition.status == wanted)
    };
    patterns.iter().find(matches).and_then(|pattern| pattern.str_at(&["type"])).map(str::to_owned)
}

/// Returns why the job counts as successful already, if a rule of its `successPolicy` says so.
pub(super) fn judge_success(
    policy: Option<&Value>,
    completions: i64,
    succeeded: &BTreeSet<i64>,
) -> Option<String> {
    for (index, rule) in policy?.list_at(&["rules"]).iter().enumerate() {
        let wanted = rule.str_at(&["succeededIndexes"]);
        let wanted = wanted.map(|text| indexes::parse(text, completions));
        let reached = match &wanted {
            Some(wanted) => wanted.intersection(succeeded).count(),
            None => succeeded.len(),
        };
        let needed = match (rule.i64_at(&["succeededCount"]), &wanted) {
            (Some(count), _) => usize::try_from(count).unwrap_or(usize::MAX),
            (None, Some(wanted)) => wanted.len(),
            (None, None) => continue,
        };
        if reached >= needed {
            return Some(format!("Matched rules at index {index}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn failed(code: i64) -> Pod {
        Pod::from_value(&json!({"metadata": {"name": "p", "namespace": "x"},
            "status": {"phase": "Failed", "conditions": [
                {"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}}))
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let policy = json!({"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7],
                "containerName": "other"}},
            {"action": "Ignore", "onPodConditions": [
                {"type": "DisruptionTarget", "status": "True"}]},
        ]});
        let message = "Container c for pod x/p failed with exit code 42 matching FailJob rule at \
            index 0";
        assert_eq!(judge_failure(Some(&policy), &failed(42)), Verdict::FailJob(message.into()));
        assert_eq!(judge_failure(Some(&policy), &failed(7)), Verdict::Ignore);
        assert_eq!(judge_failure(None, &failed(7)), Verdict::Count);
    }

    #[test]
    fn success_needs_the_named_indexes_or_enough_of_them() {
        let rules = |rule: Value| json!({"rules": [rule]});
        let succeeded = BTreeSet::from([0, 2]);
        let cases = [
            (rules(json!({"succeededIndexes": "0"})), true),
            (rules(json!({"succeededIndexes": "0-2"})), false),
            (rules(json!({"succeededIndexes": "0-2", "succeededCount": 2})), true),
            (rules(json!({"succeededCount": 3})), false),
        ];
        for (policy, met) in cases {
            assert_eq!(judge_success(Some(&policy), 5, &succeeded).is_some(), met, "{policy}");
        }
    }
}
