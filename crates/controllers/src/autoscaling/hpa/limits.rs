//! How fast a workload may grow and shrink: the bounds of its FederatedHPA, what was wished for lately, and
//! how much it was changed lately.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::autoscaling::FederatedHPASpec;
use karmada_api::hpa::{HPAScalingPolicy, HPAScalingRules};

/// Without rules a workload may double at once, or grow to so many.
const FREE_GROWTH: i32 = 4;
/// Longest time that any rule looks back.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// What is remembered about one workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    /// Sizes that were wished for.
    wishes: Vec<(Timestamp, i32)>,
    /// Changes that were made.
    steps: Vec<(Timestamp, i32)>,
}

/// A word for programs and a sentence for people.
pub(super) type Word = (&'static str, &'static str);

const STEADY: Word = ("ReadyForNewScale", "the size that is asked for may be taken at once");
const HELD_UP: Word =
    ("ScaleDownStabilized", "more was asked for a short time ago; the highest of these counts");
const HELD_DOWN: Word =
    ("ScaleUpStabilized", "less was asked for a short time ago; the lowest of these counts");
const WITHIN_RANGE: Word =
    ("DesiredWithinRange", "the size that is asked for is within all limits");
const TOO_MANY: Word = ("TooManyReplicas", "more is asked for than maxReplicas allows");
const TOO_FEW: Word = ("TooFewReplicas", "less is asked for than minReplicas allows");
const TOO_FAST_UP: Word = ("ScaleUpLimit", "more is asked for than may be added at a time");
const TOO_FAST_DOWN: Word =
    ("ScaleDownLimit", "less is asked for than may be taken away at a time");

/// What a wish comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// Of the condition AbleToScale.
    pub(super) able: Word,
    /// Of the condition ScalingLimited, and whether it holds.
    pub(super) limited: (bool, Word),
}

/// What is asked for at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) current: i32,
    pub(super) replicas: i32,
    pub(super) at: Timestamp,
}

pub(super) fn least(spec: &FederatedHPASpec) -> i32 {
    spec.min_replicas.unwrap_or(1)
}

impl Memory {
    /// Remembers the size at the first look, so that a restart is no reason to shrink.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.wishes.is_empty() {
            self.wishes.push((now, current));
        }
    }

    /// Remembers that the workload was changed.
    pub(super) fn step(&mut self, change: i32, now: Timestamp) {
        self.steps.push((now, change));
    }

    /// Brings a wish within the limits, and remembers it.
    pub(super) fn limit(
        &mut self,
        spec: &FederatedHPASpec,
        stabilization: Duration,
        wish: Wish,
    ) -> Limited {
        let fresh = |at: &Timestamp| wish.at.duration_since(*at) <= LONGEST;
        self.wishes.retain(|(at, _)| fresh(at));
        self.steps.retain(|(at, _)| fresh(at));
        let stabilization = SignedDuration::try_from(stabilization).unwrap_or(LONGEST);
        let limited = match &spec.behavior {
            None => self.limit_freely(spec, stabilization, wish),
            Some(behavior) => {
                let rules = [behavior.scale_up.as_ref(), behavior.scale_down.as_ref()];
                self.limit_by_rules(spec, rules, stabilization, wish)
            }
        };
        self.wishes.push((wish.at, wish.replicas));
        limited
    }

    /// What was wished for within a time, now included.
    fn lately(&self, wish: Wish, time: SignedDuration) -> impl Iterator<Item = i32> {
        let recent = self.wishes.iter().filter(move |(at, _)| wish.at.duration_since(*at) < time);
        recent.map(|(_, replicas)| *replicas).chain([wish.replicas])
    }

    fn limit_freely(&self, spec: &FederatedHPASpec, window: SignedDuration, wish: Wish) -> Limited {
        let steady = self.lately(wish, window).max().unwrap_or(wish.replicas);
        let able = if steady == wish.replicas { STEADY } else { HELD_UP };
        let growth = wish.current.saturating_mul(2).max(FREE_GROWTH);
        let (most, too_many) = match spec.max_replicas > growth {
            true => (growth, TOO_FAST_UP),
            false => (spec.max_replicas, TOO_MANY),
        };
        let least = least(spec);
        let (replicas, limited) = match steady {
            steady if steady < least => (least, (true, TOO_FEW)),
            steady if steady > most => (most, (true, too_many)),
            steady => (steady, (false, WITHIN_RANGE)),
        };
        Limited { replicas, able, limited }
    }

    fn limit_by_rules(
        &self,
        spec: &FederatedHPASpec,
        [up, down]: [Option<&HPAScalingRules>; 2],
        stabilization: SignedDuration,
        wish: Wish,
    ) -> Limited {
        let window = |rules: Option<&HPAScalingRules>, default: SignedDuration| {
            let seconds = rules.and_then(|rules| rules.stabilization_window_seconds);
            seconds.map_or(default, |seconds| SignedDuration::from_secs(seconds.into()))
        };
        let lowest = self.lately(wish, window(up, SignedDuration::ZERO)).min();
        let highest = self.lately(wish, window(down, stabilization)).max();
        let steady = wish.current.max(lowest.unwrap_or(wish.replicas));
        let steady = steady.min(highest.unwrap_or(wish.replicas));
        let able = match wish.replicas >= wish.current {
            _ if steady == wish.replicas => STEADY,
            true => HELD_DOWN,
            false => HELD_UP,
        };
        let (replicas, limited) = self.keep_pace(spec, [up, down], steady, wish);
        Limited { replicas, able, limited }
    }

    fn keep_pace(
        &self,
        spec: &FederatedHPASpec,
        [up, down]: [Option<&HPAScalingRules>; 2],
        steady: i32,
        wish: Wish,
    ) -> (i32, (bool, Word)) {
        if steady > wish.current {
            let reach = self.reach(up, Direction::Up, wish).max(wish.current);
            let (most, reason) = match spec.max_replicas > reach {
                true => (reach, TOO_FAST_UP),
                false => (spec.max_replicas, TOO_MANY),
            };
            if steady > most {
                return (most, (true, reason));
            }
        } else if steady < wish.current {
            let reach = self.reach(down, Direction::Down, wish).min(wish.current);
            let (least, reason) = match least(spec) < reach {
                true => (reach, TOO_FAST_DOWN),
                false => (least(spec), TOO_FEW),
            };
            if steady < least {
                return (least, (true, reason));
            }
        }
        (steady, (false, WITHIN_RANGE))
    }

    /// How far the rules let the size go at once.
    fn reach(&self, rules: Option<&HPAScalingRules>, way: Direction, wish: Wish) -> i32 {
        let select = rules.and_then(|rules| rules.select_policy.as_deref());
        if select == Some("Disabled") {
            return wish.current;
        }
        let stated = rules.map_or(&[][..], |rules| &rules.policies);
        let usual = way.usual_policies();
        let policies = if stated.is_empty() { &usual[..] } else { stated };
        let reaches = policies.iter().map(|policy| self.reach_by(policy, way, wish));
        let takes_most = (way == Direction::Up) == (select != Some("Min"));
        let chosen = if takes_most { reaches.max() } else { reaches.min() };
        chosen.unwrap_or(wish.current)
    }

    fn reach_by(&self, policy: &HPAScalingPolicy, way: Direction, wish: Wish) -> i32 {
        let period = SignedDuration::from_secs(policy.period_seconds.into());
        let recent = self.steps.iter().filter(|(at, _)| wish.at.duration_since(*at) < period);
        let changed = recent.map(|(_, step)| i64::from(*step)).sum::<i64>();
        let (start, value) = (i64::from(wish.current) - changed, i64::from(policy.value));
        let reach = match (policy.r#type.as_str(), way) {
            ("Pods", Direction::Up) => start + value,
            ("Pods", Direction::Down) => start - value,
            // Rounded up, since a step that rounds to nothing would never be taken.
            (_, Direction::Up) => (start * (100 + value) + 99) / 100,
            (_, Direction::Down) => start * (100 - value) / 100,
        };
        i32::try_from(reach).unwrap_or(i32::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    /// What counts where nothing is stated.
    fn usual_policies(self) -> Vec<HPAScalingPolicy> {
        let policy = |kind: &str, value| HPAScalingPolicy {
            r#type: kind.to_owned(),
            value,
            period_seconds: 15,
        };
        match self {
            Self::Up => vec![policy("Pods", FREE_GROWTH), policy("Percent", 100)],
            Self::Down => vec![policy("Percent", 100)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::hpa::HorizontalPodAutoscalerBehavior;

    const STABILIZATION: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn spec(min: i32, max: i32) -> FederatedHPASpec {
        FederatedHPASpec { min_replicas: Some(min), max_replicas: max, ..Default::default() }
    }

    fn policy(kind: &str, value: i32, period_seconds: i32) -> HPAScalingPolicy {
        HPAScalingPolicy { r#type: kind.to_owned(), value, period_seconds }
    }

    fn rules(select: &str, window: i32, policies: &[HPAScalingPolicy]) -> HPAScalingRules {
        HPAScalingRules {
            stabilization_window_seconds: Some(window),
            select_policy: Some(select.to_owned()),
            policies: policies.to_vec(),
            tolerance: None,
        }
    }

    fn behaving(up: HPAScalingRules, down: HPAScalingRules) -> FederatedHPASpec {
        let behavior =
            HorizontalPodAutoscalerBehavior { scale_up: Some(up), scale_down: Some(down) };
        FederatedHPASpec { behavior: Some(behavior), ..spec(1, 100) }
    }

    fn limit(memory: &mut Memory, spec: &FederatedHPASpec, wish: (i32, i32), time: i64) -> Limited {
        let wish = Wish { current: wish.0, replicas: wish.1, at: at(time) };
        memory.limit(spec, STABILIZATION, wish)
    }

    /// Size and reason of ScalingLimited for a first wish.
    fn first(spec: &FederatedHPASpec, current: i32, wish: i32) -> (i32, &'static str) {
        let limited = limit(&mut Memory::default(), spec, (current, wish), 0);
        let (is_limited, (reason, _)) = limited.limited;
        assert_eq!(is_limited, reason != "DesiredWithinRange");
        (limited.replicas, reason)
    }

    #[test]
    fn bounds_and_free_growth_hold_without_rules() {
        let cases = [
            (2, 3, (3, "DesiredWithinRange")),
            (1, 9, (4, "ScaleUpLimit")),
            (3, 9, (6, "ScaleUpLimit")),
            (6, 30, (10, "TooManyReplicas")),
            (5, 1, (2, "TooFewReplicas")),
        ];
        for (current, wish, expected) in cases {
            assert_eq!(first(&spec(2, 10), current, wish), expected, "{current} to {wish}");
        }
    }

    #[test]
    fn shrinking_waits_until_nobody_has_wished_for_more_lately() {
        let (mut memory, spec) = (Memory::default(), spec(1, 10));
        memory.begin(8, at(0));
        memory.begin(2, at(1));
        let soon = limit(&mut memory, &spec, (8, 3), 60);
        assert_eq!((soon.replicas, soon.able.0), (8, "ScaleDownStabilized"));
        let later = limit(&mut memory, &spec, (8, 2), 300);
        assert_eq!((later.replicas, later.able.0), (3, "ScaleDownStabilized"));
        let grown = limit(&mut memory, &spec, (3, 5), 301);
        assert_eq!((grown.replicas, grown.able.0), (5, "ReadyForNewScale"));
    }

    #[test]
    fn rules_bound_each_step_in_both_directions() {
        let pods = |value| policy("Pods", value, 60);
        let percent = |value| policy("Percent", value, 60);
        let up = |select, policies: &[_]| {
            first(&behaving(rules(select, 0, policies), rules("Max", 0, &[])), 10, 90)
        };
        assert_eq!(up("Max", &[pods(4), percent(50)]), (15, "ScaleUpLimit"));
        assert_eq!(up("Min", &[pods(4), percent(50)]), (14, "ScaleUpLimit"));
        assert_eq!(up("Max", &[percent(1)]), (11, "ScaleUpLimit"));
        assert_eq!(up("Max", &[]), (20, "ScaleUpLimit"));
        assert_eq!(up("Disabled", &[pods(4)]), (10, "ScaleUpLimit"));
        let down = |select, policies: &[_]| {
            first(&behaving(rules("Max", 0, &[]), rules(select, 0, policies)), 10, 2)
        };
        assert_eq!(down("Max", &[pods(4), percent(50)]), (5, "ScaleDownLimit"));
        assert_eq!(down("Min", &[pods(4), percent(50)]), (6, "ScaleDownLimit"));
        assert_eq!(down("Max", &[percent(1)]), (9, "ScaleDownLimit"));
        assert_eq!(down("Max", &[]), (2, "DesiredWithinRange"));
        assert_eq!(down("Disabled", &[pods(4)]), (10, "ScaleDownLimit"));
    }

    #[test]
    fn what_was_changed_within_the_period_counts() {
        let spec = behaving(rules("Max", 0, &[policy("Pods", 4, 60)]), rules("Max", 0, &[]));
        let mut memory = Memory::default();
        assert_eq!(limit(&mut memory, &spec, (10, 90), 0).replicas, 14);
        memory.step(4, at(0));
        assert_eq!(limit(&mut memory, &spec, (14, 90), 30).replicas, 14);
        memory.step(-2, at(30));
        assert_eq!(limit(&mut memory, &spec, (12, 90), 31).replicas, 14);
        assert_eq!(limit(&mut memory, &spec, (14, 90), 60).replicas, 20);
    }

    #[test]
    fn windows_of_rules_hold_up_growing_and_shrinking() {
        let spec = behaving(rules("Max", 60, &[]), rules("Max", 120, &[]));
        let mut memory = Memory::default();
        memory.begin(5, at(0));
        let grow = limit(&mut memory, &spec, (5, 9), 10);
        assert_eq!((grow.replicas, grow.able.0), (5, "ScaleUpStabilized"));
        let grow = limit(&mut memory, &spec, (5, 8), 61);
        assert_eq!((grow.replicas, grow.able.0), (8, "ReadyForNewScale"));
        let shrink = limit(&mut memory, &spec, (8, 2), 100);
        assert_eq!((shrink.replicas, shrink.able.0), (8, "ScaleDownStabilized"));
        let shrink = limit(&mut memory, &spec, (8, 2), 200);
        assert_eq!((shrink.replicas, shrink.able.0), (2, "ReadyForNewScale"));
    }

    #[test]
    fn the_flag_counts_where_the_rules_name_no_window() {
        let mut down = rules("Max", 0, &[]);
        down.stabilization_window_seconds = None;
        let spec = behaving(rules("Max", 0, &[]), down);
        let mut memory = Memory::default();
        memory.begin(8, at(0));
        assert_eq!(limit(&mut memory, &spec, (8, 2), 299).replicas, 8);
        assert_eq!(limit(&mut memory, &spec, (8, 2), 600).replicas, 2);
    }
}
