//! What holds for every fleet and every workload.

use proptest::prelude::*;

use super::reference::{self, Kind, Plain};
use super::*;

#[derive(Debug, Clone)]
struct Case {
    /// Room and replicas held, by cluster.
    clusters: Vec<(i64, i32)>,
    replicas: i32,
    kind: Kind,
    max_clusters: Option<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let clusters =
        proptest::collection::vec((0i64..12, prop_oneof![2 => Just(0), 1 => 1i32..6]), 1..6);
    let kind = prop_oneof![Just(Kind::Duplicated), Just(Kind::Dynamic), Just(Kind::Aggregated)];
    (clusters, 1i32..20, kind, proptest::option::of(1usize..5)).prop_map(
        |(clusters, replicas, kind, max_clusters)| Case { clusters, replicas, kind, max_clusters },
    )
}

impl Case {
    fn names(&self) -> Vec<String> {
        (0..self.clusters.len()).map(|i| format!("m{i}")).collect()
    }

    fn fleet(&self) -> Vec<Value> {
        self.names()
            .iter()
            .zip(&self.clusters)
            .map(|(name, (room, _))| cluster(name, *room))
            .collect()
    }

    fn binding(&self) -> Value {
        let mut placement = match self.kind {
            Kind::Duplicated => {
                json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}})
            }
            Kind::Dynamic => divided("dynamic"),
            Kind::Aggregated => divided("aggregated"),
        };
        if let Some(max) = self.max_clusters {
            placement["spreadConstraints"] =
                json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": max}]);
        }
        let names = self.names();
        let previous: Vec<(&str, i32)> = names
            .iter()
            .zip(&self.clusters)
            .filter(|(_, (_, held))| *held > 0)
            .map(|(name, (_, held))| (name.as_str(), *held))
            .collect();
        binding(self.replicas, placement, &previous)
    }

    fn by_reference(&self) -> Option<Vec<(String, i64)>> {
        let plain = |(name, (room, held)): (String, &(i64, i32))| Plain {
            name,
            is_target: *held > 0,
            assigned: i64::from(*held),
            room: *room,
        };
        let candidates: Vec<Plain> =
            self.names().into_iter().zip(&self.clusters).map(plain).collect();
        let previous: Vec<(String, i64)> = candidates
            .iter()
            .filter(|candidate| candidate.is_target)
            .map(|candidate| (candidate.name.clone(), candidate.assigned))
            .collect();
        let max = self.max_clusters;
        reference::place(candidates, self.kind, i64::from(self.replicas), max, &previous)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: reference_cases(), ..ProptestConfig::default() })]

    #[test]
    fn decisions_agree_with_the_plain_reference(case in case()) {
        let result = place(&case.binding(), &snapshot(&case.fleet()));
        let plain: Option<Vec<(String, i64)>> = result
            .ok()
            .map(|targets| targets.into_iter().map(|(name, n)| (name, i64::from(n))).collect());
        prop_assert_eq!(plain, case.by_reference());
    }
}

/// 100,000 random cases were compared; every run repeats a part of them.
fn reference_cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000)
}

proptest! {
    #[test]
    fn replicas_add_up_and_capacity_is_respected(case in case()) {
        let Ok(targets) = place(&case.binding(), &snapshot(&case.fleet())) else { return Ok(()) };
        let total: i32 = targets.iter().map(|(_, replicas)| replicas).sum();
        if case.kind == Kind::Duplicated {
            prop_assert!(targets.iter().all(|(_, replicas)| *replicas == case.replicas));
            return Ok(());
        }
        prop_assert_eq!(total, case.replicas);
        for (name, replicas) in targets {
            let index: usize = name[1..].parse().unwrap();
            let (room, held) = case.clusters[index];
            prop_assert!(i64::from(replicas) <= room + i64::from(held));
        }
    }

    #[test]
    fn the_order_of_clusters_changes_nothing(case in case(), seed: u64) {
        let fleet = case.fleet();
        let mut shuffled = fleet.clone();
        shuffled.rotate_left(seed as usize % fleet.len());
        prop_assert_eq!(
            place(&case.binding(), &snapshot(&fleet)),
            place(&case.binding(), &snapshot(&shuffled))
        );
    }

    #[test]
    fn a_cluster_that_got_nothing_is_not_missed(case in case()) {
        // A cluster that is passed over for want of room may stand in the way of another, so bounded
        // numbers of clusters are looked at where room does not matter.
        let kind = if case.max_clusters.is_some() { Kind::Duplicated } else { case.kind };
        let case = Case { kind, ..case };
        let fleet = case.fleet();
        let Ok(before) = place(&case.binding(), &snapshot(&fleet)) else { return Ok(()) };
        let used = |cluster: &Value| before.iter().any(|(name, _)| cluster["metadata"]["name"] == **name);
        // One that loses what it had was not unused.
        let unused = |index: &usize| !used(&fleet[*index]) && case.clusters[*index].1 == 0;
        let Some(unused) = (0..fleet.len()).find(unused) else { return Ok(()) };
        let mut smaller = fleet.clone();
        smaller.remove(unused);
        prop_assert_eq!(place(&case.binding(), &snapshot(&smaller)).unwrap(), before);
    }

    #[test]
    fn no_placement_whatever_it_says_makes_a_decision_panic(
        fields in proptest::collection::vec("[a-z]{0,3}", 0..3),
        min in -3i64..5,
        max in -3i64..5,
        replicas in -5i32..9,
    ) {
        let constraints: Vec<Value> = fields
            .iter()
            .map(|_| json!({"spreadByField": "region", "minGroups": min, "maxGroups": max}))
            .chain([json!({"spreadByField": "cluster", "minGroups": max, "maxGroups": min})])
            .collect();
        let mut placement = divided("dynamic");
        placement["spreadConstraints"] = constraints.into();
        let mut near = cluster("m1", -3);
        near["spec"]["region"] = "r".into();
        let _ = place(&binding(replicas, placement, &[("m1", -7)]), &snapshot(&[near, cluster("m2", 4)]));
    }
}
