//! How many pods each template gets next, within what may be missing and what may be too much.

use karmada_apimachinery::Value;
use karmada_apimachinery::int_or_string::{Rounding, scaled_value};
use karmada_apimachinery::object::ObjectExt as _;

use super::sets::{DESIRED, Generations, ReplicaSet};

/// A ReplicaSet gets another size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scaling {
    pub(super) name: String,
    pub(super) from: i64,
    pub(super) size: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) surge: i64,
    pub(super) unavailable: i64,
}

pub(super) fn desired(deployment: &Value) -> i64 {
    deployment.i64_at(&["spec", "replicas"]).unwrap_or(1)
}

/// How many pods may be too much and how many may be missing. Never both none: nothing would move.
pub(super) fn limits(deployment: &Value) -> Limits {
    let total = desired(deployment);
    if deployment.str_at(&["spec", "strategy", "type"]) == Some("Recreate") {
        return Limits { surge: 0, unavailable: 0 };
    }
    let read = |field: &str, rounding| {
        let value = deployment.at(&["spec", "strategy", "rollingUpdate", field]);
        value.map_or(0, |value| scaled_value(value, total, rounding).unwrap_or_default())
    };
    let surge = read("maxSurge", Rounding::Up);
    let unavailable = read("maxUnavailable", Rounding::Down);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Limits { surge, unavailable: unavailable.min(total) }
}

/// The size a new template starts with.
pub(super) fn first_size(deployment: &Value, generations: &Generations) -> i64 {
    if deployment.str_at(&["spec", "strategy", "type"]) == Some("Recreate") {
        let old: i64 = generations.old.iter().map(ReplicaSet::size).sum();
        let counted: i64 = generations.old.iter().map(|set| set.counted("replicas")).sum();
        return if old + counted > 0 { 0 } else { desired(deployment) };
    }
    grown(deployment, generations, 0)
}

/// The size a new set of this size can be raised to.
fn grown(deployment: &Value, generations: &Generations, size: i64) -> i64 {
    let (want, limits) = (desired(deployment), limits(deployment));
    let now: i64 = generations.all().map(ReplicaSet::size).sum();
    let room = want + limits.surge - now;
    if room <= 0 { size } else { size + room.min(want - size).max(0) }
}

fn to(set: &ReplicaSet, size: i64) -> Option<Scaling> {
    let from = set.size();
    (from != size).then(|| Scaling { name: set.name().to_owned(), from, size })
}

/// The next step of a rolling update.
pub(super) fn roll(deployment: &Value, generations: &Generations) -> Vec<Scaling> {
    let Some(new) = &generations.new else { return Vec::new() };
    let want = desired(deployment);
    let size = new.size();
    let next = if size > want { want } else { grown(deployment, generations, size) };
    if let Some(scaling) = to(new, next) {
        return vec![scaling];
    }
    shrink_old(deployment, generations, new)
}

/// Takes old pods away: first those that do not work anyway, then as many as may be missing.
fn shrink_old(deployment: &Value, generations: &Generations, new: &ReplicaSet) -> Vec<Scaling> {
    let old_total: i64 = generations.old.iter().map(ReplicaSet::size).sum();
    if old_total == 0 {
        return Vec::new();
    }
    let least = desired(deployment) - limits(deployment).unavailable;
    let all: i64 = generations.all().map(ReplicaSet::size).sum();
    let missing_in_new = new.size() - new.counted("availableReplicas");
    let most_down = all - least - missing_in_new;
    if most_down <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<i64> = generations.old.iter().map(ReplicaSet::size).collect();
    let mut left = most_down;
    for (set, size) in generations.old.iter().zip(&mut sizes) {
        let broken = (*size - set.counted("availableReplicas")).max(0).min(left);
        *size -= broken;
        left -= broken;
    }
    let available: i64 = generations.all().map(|set| set.counted("availableReplicas")).sum();
    let mut spare = (available - least).max(0);
    for size in &mut sizes {
        let gone = spare.min(*size);
        *size -= gone;
        spare -= gone;
    }
    generations.old.iter().zip(sizes).filter_map(|(set, size)| to(set, size)).collect()
}

/// First the old pods go, all of them; then the new ones come.
pub(super) fn recreate(
    deployment: &Value,
    generations: &Generations,
    old_pods_run: bool,
) -> Vec<Scaling> {
    let down: Vec<Scaling> = generations.old.iter().filter_map(|set| to(set, 0)).collect();
    if !down.is_empty() {
        return down;
    }
    if old_pods_run {
        return Vec::new();
    }
    let new = generations.new.iter();
    new.filter_map(|set| to(set, desired(deployment))).collect()
}

/// Whether the Deployment was given another size since its sets were last scaled.
pub(super) fn is_scaling_event(deployment: &Value, generations: &Generations) -> bool {
    let want = desired(deployment);
    let active = generations.all().filter(|set| set.size() > 0);
    active.filter_map(|set| set.number(DESIRED)).any(|known| known != want)
}

/// Gives every set its share of a new size, so that a rollout under way stays where it is.
pub(super) fn scale_in_proportion(deployment: &Value, generations: &Generations) -> Vec<Scaling> {
    let want = desired(deployment);
    let active: Vec<&ReplicaSet> = generations.all().filter(|set| set.size() > 0).collect();
    // A single set takes it all; so does the newest if none is active.
    if active.len() <= 1 {
        let only = active.first().copied().or(generations.new.as_ref());
        return only.and_then(|set| resized(set, want, want)).into_iter().collect();
    }
    let is_saturated = generations
        .new
        .as_ref()
        .is_some_and(|new| new.size() == want && new.counted("availableReplicas") == want);
    if is_saturated {
        return generations.old.iter().filter_map(|set| to(set, 0)).collect();
    }
    let now: i64 = active.iter().map(|set| set.size()).sum();
    let allowed = if want > 0 { want + limits(deployment).surge } else { 0 };
    let mut to_share = allowed - now;
    let mut ranked = active;
    // Growing favours the newest of the largest, shrinking the oldest of the largest.
    ranked.sort_by_key(|set| {
        let revision = if to_share > 0 { -set.revision() } else { set.revision() };
        (-set.size(), revision)
    });
    let mut sizes = Vec::new();
    for set in &ranked {
        let share = if to_share == 0 { 0 } else { share_of(set, want, allowed, to_share) };
        to_share -= share;
        sizes.push(set.size() + share);
    }
    // What rounding left over goes to the largest.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_share).max(0);
    }
    ranked.iter().zip(sizes).filter_map(|(set, size)| resized(set, size, want)).collect()
}

fn share_of(set: &ReplicaSet, _want: i64, allowed: i64, to_share: i64) -> i64 {
    let known = set.number("deployment.kubernetes.io/max-replicas").filter(|max| *max > 0);
    let known = known.unwrap_or_else(|| set.counted("replicas").max(1));
    let exact = set.size() as f64 * allowed as f64 / known as f64;
    let share = exact.round() as i64 - set.size();
    if to_share > 0 { share.clamp(0, to_share) } else { share.clamp(to_share, 0) }
}

/// A set whose size stays still has to learn the new size of the whole.
fn resized(set: &ReplicaSet, size: i64, want: i64) -> Option<Scaling> {
    let learns = set.number(DESIRED).is_some_and(|known| known != want);
    let from = set.size();
    (from != size || learns).then(|| Scaling { name: set.name().to_owned(), from, size })
}
