//! Lanes: requests of one kind cannot take the places of all others. Each lane has a share of the places
//! and lends part of what it does not use; a flood of lists starves nobody.
//!
//! The lanes and shares are those of the priority levels a new cluster starts with. Changing the stored
//! objects does not change them.

use parking_lot::Mutex;

use crate::auth::Identity;
use crate::routes::Target;

/// Name, share of all places, and how much of it is lent while it is free, in percent.
pub(crate) const LANES: &[(&str, u64, u64)] = &[
    ("system", 30, 33),
    ("node-high", 40, 25),
    ("leader-election", 10, 0),
    ("workload-high", 40, 50),
    ("workload-low", 100, 90),
    ("global-default", 20, 50),
    ("catch-all", 5, 0),
];

/// The lane of a request, as the suggested flow schemas would choose it.
pub(crate) fn lane_of(user: &Identity, target: &Target) -> &'static str {
    let is_lease = target.group == "coordination.k8s.io" && target.resource == "leases";
    let controls =
        matches!(user.user.as_str(), "system:kube-controller-manager" | "system:kube-scheduler");
    let in_system = user.user.starts_with("system:serviceaccount:kube-system:");
    if is_lease && (controls || in_system) && matches!(target.verb, "get" | "create" | "update") {
        return "leader-election";
    }
    if user.is_in("system:nodes") {
        let own = is_lease || (target.group.is_empty() && target.resource == "nodes");
        return if own { "node-high" } else { "system" };
    }
    if controls || in_system {
        return "workload-high";
    }
    if user.is_in("system:serviceaccounts") { "workload-low" } else { "global-default" }
}

/// The places of a server, by lane.
pub(crate) struct Lanes {
    places: u64,
    taken: Mutex<Vec<u64>>,
}

/// A place in a lane, given back when it is dropped.
pub(crate) struct Place<'a> {
    lanes: &'a Lanes,
    lane: usize,
}

impl Lanes {
    pub(crate) fn new(places: usize) -> Self {
        Self { places: places as u64, taken: Mutex::new(vec![0; LANES.len()]) }
    }

    fn share(&self, lane: usize) -> u64 {
        let all: u64 = LANES.iter().map(|(_, share, _)| share).sum();
        (self.places * LANES[lane].1).div_ceil(all)
    }

    /// Takes a place in a lane, or none if its own are taken and nobody lends one.
    pub(crate) fn take(&self, name: &str) -> Option<Place<'_>> {
        let lane = LANES.iter().position(|(own, _, _)| *own == name)?;
        let mut taken = self.taken.lock();
        let borrowed: u64 = (0..LANES.len())
            .filter(|other| *other != lane)
            .map(|other| self.share(other).saturating_sub(taken[other]) * LANES[other].2 / 100)
            .sum();
        if taken[lane] >= self.share(lane) + borrowed {
            return None;
        }
        taken[lane] += 1;
        drop(taken);
        Some(Place { lanes: self, lane })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lanes.taken.lock()[self.lane] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: OPS-3, APF-1
    #[test]
    fn a_flood_in_one_lane_leaves_places_in_all_others() {
        let lanes = Lanes::new(600);
        let mut flood = Vec::new();
        while let Some(place) = lanes.take("global-default") {
            flood.push(place);
        }
        assert!(flood.len() > 100, "idle places are lent: {}", flood.len());
        for (name, _, _) in LANES.iter().filter(|(name, _, _)| *name != "global-default") {
            assert!(lanes.take(name).is_some(), "{name}");
        }
        drop(flood);
        assert!(lanes.take("global-default").is_some());
    }

    #[test]
    fn requests_find_their_lane() {
        let user = |name: &str, groups: &[&str]| Identity::new(name, groups.iter().copied());
        let lease = Target {
            verb: "update",
            group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            ..Target::default()
        };
        let list = Target { verb: "list", resource: "pods".into(), ..Target::default() };
        let manager = user("system:kube-controller-manager", &["system:authenticated"]);
        let account = user("system:serviceaccount:a:b", &["system:serviceaccounts"]);
        assert_eq!(lane_of(&manager, &lease), "leader-election");
        assert_eq!(lane_of(&manager, &list), "workload-high");
        assert_eq!(lane_of(&account, &list), "workload-low");
        assert_eq!(lane_of(&user("jane", &["system:authenticated"]), &list), "global-default");
        assert_eq!(lane_of(&user("system:node:n", &["system:nodes"]), &list), "system");
    }
}
