//! How many replicas the ResourceQuotas of a namespace leave room for, and what to take back from clusters
//! that cannot run what they were given.
//!
//! Both are asked by programs beside the scheduler: the estimator of a member, which counts what its quotas
//! leave (E17), and the descheduler (E18). The scheduler itself never calls them.

use std::collections::BTreeMap;

use karmada_api::core::ResourceList;

use crate::snapshot::in_units;

/// How many replicas fit under a quota that applies to them; `None` where it limits nothing they ask for.
/// `hard` and `used` are those of the quota's status.
pub fn room_under_quota(
    hard: &ResourceList,
    used: &ResourceList,
    request: &ResourceList,
) -> Option<i64> {
    let mut free: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, limit) in hard {
        // Requests may be limited under either spelling; the tighter one counts.
        let resource = name.strip_prefix("requests.").unwrap_or(name);
        let is_counted = matches!(resource, "cpu" | "memory") || resource.contains('/');
        let Some(used) = used.get(name).filter(|_| is_counted) else { continue };
        let left = in_units(resource, limit).saturating_sub(in_units(resource, used)).max(0);
        free.entry(resource).and_modify(|least| *least = left.min(*least)).or_insert(left);
    }
    let rooms = request.iter().filter_map(|(name, amount)| {
        let amount = in_units(name, amount);
        (amount > 0).then(|| free.get(name.as_str()).map(|free| free / amount)).flatten()
    });
    rooms.min().filter(|room| *room <= i64::from(i32::MAX))
}

/// Replicas a cluster keeps of those it was assigned, when some of them find no node. `ready` is absent where
/// the cluster reports nothing.
pub fn keep_schedulable(assigned: i32, ready: Option<i32>, unschedulable: i32) -> i32 {
    let ready = ready.unwrap_or(-1);
    if ready >= assigned || unschedulable <= 0 || unschedulable > assigned {
        return assigned;
    }
    let kept = assigned - unschedulable;
    if kept < ready { ready } else { kept }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::{Value, json};

    use super::*;

    fn list(amounts: Value) -> ResourceList {
        karmada_apimachinery::from_value(amounts).unwrap()
    }

    #[test]
    fn e17_the_scarcest_limited_resource_counts() {
        let hard = list(json!({"cpu": "1", "memory": "4Mi", "example.com/gpu": "5"}));
        let used = list(json!({"cpu": "200m", "memory": "1Mi", "example.com/gpu": "2"}));
        let cases = [
            (json!({"cpu": "200m"}), Some(4)),
            (json!({"memory": "2Mi"}), Some(1)),
            (json!({"example.com/gpu": "1"}), Some(3)),
            (json!({"cpu": "2", "memory": "2Mi", "example.com/gpu": "1"}), Some(0)),
            (json!({"ephemeral-storage": "1Gi"}), None),
        ];
        for (request, expected) in cases {
            assert_eq!(
                room_under_quota(&hard, &used, &list(request.clone())),
                expected,
                "{request}"
            );
        }
        let none = ResourceList::default();
        assert_eq!(room_under_quota(&none, &none, &list(json!({"cpu": "1"}))), None);
        let twice = list(json!({"cpu": "4", "requests.cpu": "2"}));
        let zero = list(json!({"cpu": "0", "requests.cpu": "0"}));
        assert_eq!(room_under_quota(&twice, &zero, &list(json!({"cpu": "1"}))), Some(2));
    }

    #[test]
    fn e18_a_cluster_keeps_what_runs_or_may_still_run() {
        let cases = [
            ((5, Some(5), 0), 5),
            ((5, Some(4), 1), 4),
            ((5, Some(0), 5), 0),
            ((5, Some(4), 2), 4),
            ((5, Some(0), 2), 3),
            ((5, Some(6), 2), 5),
            ((5, Some(2), 3), 2),
            ((10, Some(3), 7), 3),
            ((10, None, 7), 3),
        ];
        for ((assigned, ready, unschedulable), expected) in cases {
            assert_eq!(keep_schedulable(assigned, ready, unschedulable), expected, "{assigned}");
        }
    }
}
