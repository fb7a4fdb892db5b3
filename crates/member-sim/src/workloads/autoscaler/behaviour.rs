//! How fast a workload may grow and shrink: stabilisation windows and policies.

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

/// What an autoscaler remembers about one workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// What was asked for, and when.
    pub(super) wishes: Vec<(Timestamp, i64)>,
    /// By how much the workload was changed, and when.
    pub(super) steps: Vec<(Timestamp, i64)>,
}

/// Longest time anything is remembered.
const LONGEST: SignedDuration = SignedDuration::from_secs(3600);
/// How long the highest wish holds when shrinking, unless the spec says otherwise.
const DOWN_WINDOW: i64 = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i64,
    /// Reason and message of `AbleToScale`.
    pub(super) able: (&'static str, &'static str),
    /// Reason and message of `ScalingLimited`, if something held it back.
    pub(super) limited: Option<(&'static str, &'static str)>,
}

impl Memory {
    pub(super) fn remember(&mut self, wish: i64, now: Timestamp) {
        let fresh = |at: &Timestamp| now.duration_since(*at) <= LONGEST;
        self.wishes.retain(|(at, _)| fresh(at));
        self.steps.retain(|(at, _)| fresh(at));
        self.wishes.push((now, wish));
    }

    /// What a wish comes down to.
    pub(super) fn limit(
        &self,
        behaviour: Option<&Value>,
        (least, most): (i64, i64),
        (current, wish): (i64, i64),
        now: Timestamp,
    ) -> Limited {
        let rules = |field: &str| behaviour.and_then(|behaviour| behaviour.at(&[field]));
        let window = |field: &str, default: i64| {
            rules(field).and_then(|r| r.i64_at(&["stabilizationWindowSeconds"])).unwrap_or(default)
        };
        let recent = |seconds: i64| {
            let since = SignedDuration::from_secs(seconds);
            let fresh = self.wishes.iter().filter(move |(at, _)| now.duration_since(*at) <= since);
            fresh.map(|(_, wish)| *wish).chain([wish])
        };
        let ceiling = recent(window("scaleDown", DOWN_WINDOW)).max().unwrap_or(wish);
        let floor = recent(window("scaleUp", 0)).min().unwrap_or(wish);
        let steady = current.clamp(floor, ceiling.max(floor));
        let able = if steady > wish {
            (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            )
        } else if steady < wish {
            (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            )
        } else {
            ("ReadyForNewScale", "recommended size matches current size")
        };
        let (replicas, limited) = self.bound(
            [rules("scaleUp"), rules("scaleDown")],
            (least, most),
            (current, steady),
            now,
        );
        Limited { replicas, able, limited }
    }

    fn bound(
        &self,
        [up, down]: [Option<&Value>; 2],
        (least, most): (i64, i64),
        (current, steady): (i64, i64),
        now: Timestamp,
    ) -> (i64, Option<(&'static str, &'static str)>) {
        if steady > current {
            let limit = self.reach(up, current, now, true).max(current);
            if steady > limit.min(most) {
                return if most <= limit {
                    (
                        most,
                        Some((
                            "TooManyReplicas",
                            "the desired replica count is more than the maximum replica count",
                        )),
                    )
                } else {
                    (
                        limit,
                        Some((
                            "ScaleUpLimit",
                            "the desired replica count is increasing faster than the maximum scale rate",
                        )),
                    )
                };
            }
        } else if steady < current {
            let limit = self.reach(down, current, now, false).min(current);
            if steady < limit.max(least) {
                return if least >= limit {
                    (
                        least,
                        Some((
                            "TooFewReplicas",
                            "the desired replica count is less than the minimum replica count",
                        )),
                    )
                } else {
                    (
                        limit,
                        Some((
                            "ScaleDownLimit",
                            "the desired replica count is decreasing faster than the maximum scale rate",
                        )),
                    )
                };
            }
        }
        (steady.clamp(least.min(most), most), None)
    }

    /// How far the policies let the number go.
    fn reach(&self, rules: Option<&Value>, current: i64, now: Timestamp, up: bool) -> i64 {
        let select = rules.and_then(|rules| rules.str_at(&["selectPolicy"])).unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let stated = rules.map_or(&[][..], |rules| rules.list_at(&["policies"]));
        let mut limits: Vec<_> =
            stated.iter().map(|policy| self.policy(policy, current, now, up)).collect();
        if limits.is_empty() && up {
            // Four pods or double, whichever is more, every 15 seconds.
            limits.push((self.before(current, 15, now, up) * 2).max(current + 4));
        } else if limits.is_empty() {
            limits.push(0);
        }
        let far = if up { limits.iter().max() } else { limits.iter().min() };
        let near = if up { limits.iter().min() } else { limits.iter().max() };
        let chosen = if select == "Min" { near } else { far };
        chosen.copied().unwrap_or(current)
    }

    fn policy(&self, policy: &Value, current: i64, now: Timestamp, up: bool) -> i64 {
        let number = |field: &str| policy.i64_at(&[field]).unwrap_or_default();
        let start = self.before(current, number("periodSeconds"), now, up);
        let value = number("value");
        match (policy.str_at(&["type"]), up) {
            (Some("Pods"), true) => start + value,
            (Some("Pods"), false) => start - value,
            (_, true) => (start * (100 + value) + 99) / 100,
            (_, false) => start * (100 - value) / 100,
        }
    }

    /// How many there were at the beginning of the period.
    fn before(&self, current: i64, seconds: i64, now: Timestamp, up: bool) -> i64 {
        let period = SignedDuration::from_secs(seconds);
        let recent = self.steps.iter().filter(|(at, _)| now.duration_since(*at) < period);
        let changed = recent.map(|(_, step)| *step).filter(|step| (*step > 0) == up);
        current - changed.sum::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn shrinking_waits_for_the_highest_recent_wish() {
        let mut memory = Memory::default();
        memory.remember(8, at(0));
        let soon = memory.limit(None, (1, 10), (8, 2), at(60));
        assert_eq!((soon.replicas, soon.able.0), (8, "ScaleDownStabilized"));
        assert_eq!(memory.limit(None, (1, 10), (8, 2), at(301)).replicas, 2);
    }

    #[test]
    fn growing_is_bounded_by_rate_and_maximum() {
        let memory = Memory::default();
        let limit = |behaviour: Option<&Value>, current, wish| {
            let limited = memory.limit(behaviour, (1, 20), (current, wish), at(0));
            (limited.replicas, limited.limited.map_or("", |(reason, _)| reason))
        };
        assert_eq!(limit(None, 1, 20), (5, "ScaleUpLimit"));
        assert_eq!(limit(None, 10, 15), (15, ""));
        assert_eq!(limit(None, 15, 50), (20, "TooManyReplicas"));
        let slow = json!({"scaleUp": {"policies": [
            {"type": "Pods", "value": 1, "periodSeconds": 60}]}});
        assert_eq!(limit(Some(&slow), 3, 9), (4, "ScaleUpLimit"));
        let never = json!({"scaleUp": {"selectPolicy": "Disabled"}});
        assert_eq!(limit(Some(&never), 3, 9), (3, "ScaleUpLimit"));
    }

    #[test]
    fn steps_of_the_period_count() {
        let mut memory = Memory::default();
        memory.steps.push((at(0), 2));
        let slow = json!({"scaleUp": {"policies": [
            {"type": "Pods", "value": 2, "periodSeconds": 60}]}});
        assert_eq!(memory.limit(Some(&slow), (1, 20), (5, 9), at(30)).replicas, 5);
        assert_eq!(memory.limit(Some(&slow), (1, 20), (5, 9), at(61)).replicas, 7);
    }
}
