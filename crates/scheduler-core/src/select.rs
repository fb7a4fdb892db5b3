//! Chooses among the candidates: spread constraints, groups of regions, capacity.

use std::collections::{BTreeMap, HashSet};

use karmada_api::explain::{AffinityAttempt, GroupChoice, GroupVerdict};
use karmada_api::policy::{
    Placement, ReplicaDivisionPreference, SpreadConstraint, SpreadFieldValue,
};

use crate::combination::{Bounds, Group, choose};
use crate::reason::Failure;
use crate::snapshot::ClusterInfo;
use crate::trigger::is_duplicated;
use crate::{Candidate, Config};

/// What selection must make room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Every target gets all replicas: room does not matter.
    Anything,
    /// That many replicas, or one whole set.
    Room(i64),
}

/// Returns the selected candidates, in the order in which they are to be served.
pub(crate) fn select<'a>(
    mut candidates: Vec<Candidate<'a>>,
    placement: &Placement,
    replicas: i64,
    need: Need,
    config: &Config,
    mut trace: Option<&mut AffinityAttempt>,
) -> Result<Vec<Candidate<'a>>, Failure> {
    // No two have the same place, so the order is the same as that of a stable sort.
    candidates.sort_unstable_by(Candidate::order);
    if ignores_spread(placement) {
        return Ok(candidates);
    }
    let constraint = |field: SpreadFieldValue| {
        placement.spread_constraints.iter().find(|constraint| constraint.spread_by_field == field)
    };
    let by_cluster = constraint(SpreadFieldValue::Cluster);
    let mut fields = vec![SpreadFieldValue::Region];
    if config.spread_by_zone_and_provider {
        fields.extend([SpreadFieldValue::Zone, SpreadFieldValue::Provider]);
    }
    for field in fields {
        if let Some(by_group) = constraint(field) {
            let spread =
                Spread { by_group, by_cluster, replicas, duplicated: is_duplicated(placement) };
            return spread.over_groups(candidates, trace.as_deref_mut());
        }
    }
    match by_cluster {
        Some(by_cluster) => over_clusters(candidates, by_cluster, need),
        None => Err(Failure::Other("just support cluster and region spread constraint".to_owned())),
    }
}

/// Static weights name their clusters themselves, so spreading has no say.
fn ignores_spread(placement: &Placement) -> bool {
    if placement.spread_constraints.is_empty() {
        return true;
    }
    let Some(strategy) = &placement.replica_scheduling else { return false };
    let is_weighted = !is_duplicated(placement)
        && strategy.replica_division_preference == ReplicaDivisionPreference::Weighted;
    is_weighted
        && strategy.weight_preference.as_ref().is_none_or(|weights| {
            !weights.static_weight_list.is_empty() && weights.dynamic_weight.is_unset()
        })
}

fn over_clusters<'a>(
    mut candidates: Vec<Candidate<'a>>,
    constraint: &SpreadConstraint,
    need: Need,
) -> Result<Vec<Candidate<'a>>, Failure> {
    if (candidates.len() as i64) < constraint.min_groups.0 {
        return Err(Failure::Other(
            "the number of feasible clusters is less than spreadConstraint.MinGroups".to_owned(),
        ));
    }
    // Compat: no upper bound given means none may be taken.
    let count = candidates.len().min(usize::try_from(constraint.max_groups.0).unwrap_or(0));
    let mut rest = candidates.split_off(count);
    let Need::Room(need) = need else { return Ok(candidates) };
    let sum = |taken: &[Candidate<'_>]| {
        taken.iter().map(|candidate| candidate.available).fold(0, i64::saturating_add)
    };
    let mut room = sum(&candidates);
    for taken in candidates.iter_mut().rev() {
        if room >= need {
            break;
        }
        let roomier = rest
            .iter_mut()
            .filter(|other| other.available > taken.available)
            .reduce(|best, other| if other.available > best.available { other } else { best });
        if let Some(other) = roomier {
            room = room.saturating_sub(taken.available).saturating_add(other.available);
            std::mem::swap(taken, other);
        }
    }
    if room < need {
        return Err(Failure::Other(format!("no enough resource when selecting {count} clusters")));
    }
    Ok(candidates)
}

/// Spreading over regions, zones or providers and over clusters within them.
struct Spread<'p> {
    by_group: &'p SpreadConstraint,
    by_cluster: Option<&'p SpreadConstraint>,
    replicas: i64,
    duplicated: bool,
}

impl Spread<'_> {
    fn over_groups<'a>(
        &self,
        candidates: Vec<Candidate<'a>>,
        trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<Candidate<'a>>, Failure> {
        let field = self.by_group.spread_by_field.as_str();
        let members = group_by(&candidates, &self.by_group.spread_by_field);
        if (members.len() as i64) < self.by_group.min_groups.0 {
            return Err(Failure::Other(format!(
                "the number of feasible {field} is less than spreadConstraint.MinGroups"
            )));
        }
        let groups: Vec<Group<'_>> = members
            .iter()
            .map(|(name, indexes)| Group {
                name,
                value: indexes.len() as i64,
                weight: self.score(&candidates, indexes),
            })
            .collect();
        let chosen = choose(&groups, self.bounds());
        if let Some(trace) = trace {
            trace.groups = Some(describe(field, &groups, &chosen));
        }
        if chosen.is_empty() {
            return Err(Failure::Other(
                "the number of clusters is less than the cluster spreadConstraint.MinGroups"
                    .to_owned(),
            ));
        }
        let chosen: Vec<&[usize]> =
            chosen.iter().map(|&index| members[groups[index].name].as_slice()).collect();
        Ok(self.take(&candidates, &chosen))
    }

    fn bounds(&self) -> Bounds {
        let count = |groups: i64| usize::try_from(groups).unwrap_or(0);
        Bounds {
            min_groups: count(self.by_group.min_groups.0),
            max_groups: count(self.by_group.max_groups.0),
            target: self.by_cluster.map_or(0, |constraint| constraint.min_groups.0),
        }
    }

    /// The best cluster of each group first, then the best of the rest, whatever their group.
    fn take<'a>(&self, candidates: &[Candidate<'a>], groups: &[&[usize]]) -> Vec<Candidate<'a>> {
        let mut taken: Vec<usize> = Vec::new();
        for group in groups {
            taken.extend(group.iter().find(|index| !taken.contains(index)).copied());
        }
        let seen: HashSet<usize> = taken.iter().copied().collect();
        // Candidates are sorted, so their indexes are their rank.
        let mut pool: Vec<usize> =
            groups.concat().into_iter().filter(|index| !seen.contains(index)).collect();
        pool.sort_unstable();
        pool.dedup();
        let limit = self.by_cluster.map_or(0, |constraint| constraint.max_groups.0);
        let limit = usize::try_from(limit).unwrap_or(0);
        let more = limit.saturating_sub(taken.len()).min(pool.len());
        taken.extend(&pool[..more]);
        taken.into_iter().map(|index| candidates[index].clone()).collect()
    }

    /// Ranks a group: by how much of the workload it can take, then by the score of its clusters.
    fn score(&self, candidates: &[Candidate<'_>], members: &[usize]) -> i64 {
        let members = || members.iter().map(|&index| &candidates[index]);
        if self.duplicated {
            let fitting: Vec<i64> = members()
                .filter(|candidate| candidate.available >= self.replicas)
                .map(|candidate| candidate.score)
                .collect();
            let count = fitting.len() as i64;
            return if count == 0 { 0 } else { count * 1000 + fitting.iter().sum::<i64>() / count };
        }
        let min_groups = self.by_group.min_groups.0.max(1);
        let target = self.replicas.saturating_add(min_groups - 1) / min_groups;
        let least = self.by_cluster.map_or(0, |c| c.min_groups.0).max(self.by_group.min_groups.0);
        let (mut available, mut score, mut count) = (0i64, 0i64, 0i64);
        for candidate in members() {
            available = available.saturating_add(candidate.available);
            score += candidate.score;
            count += 1;
            if count >= least && available >= target {
                break;
            }
        }
        if available < target {
            available.saturating_mul(1000).saturating_add(score / members().count() as i64)
        } else {
            target.saturating_mul(1000).saturating_add(score / count)
        }
    }
}

/// Indexes of the candidates by group; a cluster in several zones stands in each.
fn group_by<'a>(
    candidates: &[Candidate<'a>],
    field: &SpreadFieldValue,
) -> BTreeMap<&'a str, Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        for name in groups_of(candidate.cluster, field) {
            groups.entry(name).or_default().push(index);
        }
    }
    groups
}

fn groups_of<'a>(cluster: &'a ClusterInfo, field: &SpreadFieldValue) -> Vec<&'a str> {
    let one = |name: &'a str| if name.is_empty() { vec![] } else { vec![name] };
    match field {
        SpreadFieldValue::Region => one(&cluster.region),
        SpreadFieldValue::Provider => one(&cluster.provider),
        _ => cluster.zones.iter().map(String::as_str).collect(),
    }
}

fn describe(field: &str, groups: &[Group<'_>], chosen: &[usize]) -> GroupChoice {
    let verdict = |(index, group): (usize, &Group<'_>)| GroupVerdict {
        name: group.name.to_owned(),
        clusters: group.value as usize,
        score: group.weight,
        chosen: chosen.contains(&index),
    };
    GroupChoice { by: field.to_owned(), groups: groups.iter().enumerate().map(verdict).collect() }
}

#[cfg(test)]
mod tests {
    use karmada_api::wire::Int;

    use super::*;

    /// Clusters as (name, score, available), with a region.
    fn clusters(rows: &[(&str, &str, i64, i64)]) -> Vec<(ClusterInfo, i64, i64)> {
        rows.iter()
            .map(|&(name, region, score, available)| {
                let info = ClusterInfo {
                    name: name.into(),
                    region: region.into(),
                    ..ClusterInfo::default()
                };
                (info, score, available)
            })
            .collect()
    }

    fn candidates(clusters: &[(ClusterInfo, i64, i64)]) -> Vec<Candidate<'_>> {
        let mut candidates: Vec<Candidate<'_>> = clusters
            .iter()
            .enumerate()
            .map(|(place, (cluster, score, available))| Candidate {
                cluster,
                place,
                tier: 0,
                score: *score,
                allocatable: *available,
                available: *available,
            })
            .collect();
        candidates.sort_by(Candidate::order);
        candidates
    }

    fn constraint(min_groups: i64, max_groups: i64) -> SpreadConstraint {
        SpreadConstraint {
            spread_by_field: SpreadFieldValue::Region,
            min_groups: Int(min_groups),
            max_groups: Int(max_groups),
            ..SpreadConstraint::default()
        }
    }

    fn names(result: Result<Vec<Candidate<'_>>, Failure>) -> String {
        match result {
            Ok(selected) => {
                let names: Vec<&str> = selected.iter().map(|c| c.cluster.name.as_str()).collect();
                names.join(" ")
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn e9_roomier_clusters_replace_better_ones_where_room_is_short() {
        let first = clusters(&[
            ("member4", "", 60, 50),
            ("member2", "", 40, 60),
            ("member3", "", 30, 80),
            ("member1", "", 20, 40),
        ]);
        let second =
            clusters(&[("member1", "", 60, 40), ("member2", "", 50, 30), ("member3", "", 40, 60)]);
        let short = "no enough resource when selecting 2 clusters";
        let few = "the number of feasible clusters is less than spreadConstraint.MinGroups";
        let cases = [
            (&first, (1, 2), Need::Room(100), "member4 member2"),
            (&first, (1, 2), Need::Anything, "member4 member2"),
            (&first, (1, 2), Need::Room(120), "member4 member3"),
            (&first, (1, 2), Need::Room(200), short),
            (&first, (7, 7), Need::Room(30), few),
            (&second, (1, 2), Need::Room(80), "member1 member3"),
        ];
        for (clusters, (min, max), need, expected) in cases {
            let result = over_clusters(candidates(clusters), &constraint(min, max), need);
            assert_eq!(names(result), expected, "{min} {max} {need:?}");
        }
    }

    #[test]
    fn e10_groups_score_by_what_they_can_take() {
        let hundred_each = |rooms: &[i64]| rooms.iter().map(|&room| (100, room)).collect();
        let none_each = |rooms: &[i64]| rooms.iter().map(|&room| (0, room)).collect();
        let two_scored = |rooms: &[i64]| {
            rooms.iter().enumerate().map(|(i, &room)| (if i < 2 { 100 } else { 0 }, room)).collect()
        };
        type Case = (bool, i64, (i64, i64), Vec<(i64, i64)>, i64);
        let cases: Vec<Case> = vec![
            (true, 50, (1, 1), hundred_each(&[60, 70, 40, 30, 10]), 2100),
            (true, 50, (1, 1), none_each(&[60, 60, 60, 60]), 4000),
            (true, 20, (1, 1), two_scored(&[30, 30, 30, 30, 30]), 5040),
            (true, 20, (1, 1), two_scored(&[30, 30, 30, 10, 10]), 3066),
            (true, 10, (1, 1), vec![(50, 5), (50, 5)], 0),
            (false, 100, (2, 1), hundred_each(&[10, 10, 10, 10, 5]), 45100),
            (false, 100, (2, 1), none_each(&[40, 30, 10, 10]), 50000),
            (false, 100, (2, 1), hundred_each(&[40, 40, 10, 10, 5]), 50100),
            (false, 100, (2, 0), two_scored(&[30, 30, 30, 10, 10]), 50100),
            (false, 100, (2, 0), two_scored(&[10, 10, 10, 10, 5]), 45040),
            (false, 100, (2, 0), two_scored(&[10, 10, 10, 5, 5]), 40040),
        ];
        for (duplicated, replicas, (group_min, cluster_min), rows, expected) in cases {
            let infos: Vec<(ClusterInfo, i64, i64)> = (0..)
                .zip(&rows)
                .map(|(i, &(score, room))| {
                    (ClusterInfo { name: format!("m{i}"), ..ClusterInfo::default() }, score, room)
                })
                .collect();
            let candidates = candidates(&infos);
            let (by_group, by_cluster) = (constraint(group_min, 9), constraint(cluster_min, 9));
            let spread =
                Spread { by_group: &by_group, by_cluster: Some(&by_cluster), replicas, duplicated };
            let members: Vec<usize> = (0..candidates.len()).collect();
            assert_eq!(spread.score(&candidates, &members), expected, "{rows:?}");
        }
    }

    /// Regions with their scores, and their clusters as (name, score, available).
    type Region<'a> = (&'a str, i64, &'a [(&'a str, i64, i64)]);

    /// Chooses regions by the scores given and takes clusters from them.
    fn by_region(regions: &[Region<'_>], region: (i64, i64), by_cluster: (i64, i64)) -> String {
        let rows: Vec<(&str, &str, i64, i64)> = regions
            .iter()
            .flat_map(|(region, _, clusters)| {
                clusters.iter().map(move |(name, score, room)| (*name, *region, *score, *room))
            })
            .collect();
        let clusters = clusters(&rows);
        let candidates = candidates(&clusters);
        let members = group_by(&candidates, &SpreadFieldValue::Region);
        let (by_group, by_cluster) =
            (constraint(region.0, region.1), constraint(by_cluster.0, by_cluster.1));
        let spread = Spread {
            by_group: &by_group,
            by_cluster: Some(&by_cluster),
            replicas: 1,
            duplicated: false,
        };
        let groups: Vec<Group<'_>> = regions
            .iter()
            .map(|(name, weight, clusters)| Group {
                name,
                value: clusters.len() as i64,
                weight: *weight,
            })
            .collect();
        let chosen = choose(&groups, spread.bounds());
        let chosen: Vec<&[usize]> =
            chosen.iter().map(|&index| members[groups[index].name].as_slice()).collect();
        names(Ok(spread.take(&candidates, &chosen)))
    }

    #[test]
    fn e12_each_chosen_region_gives_its_best_cluster_first() {
        let five: &[Region<'_>] = &[
            ("R1", 70, &[("m1", 70, 40)]),
            ("R2", 40, &[("m2", 40, 40), ("m3", 40, 40), ("m4", 40, 40)]),
            ("R3", 60, &[("m5", 60, 40), ("m6", 50, 60)]),
            ("R4", 70, &[("m7", 70, 100)]),
            ("R5", 50, &[("m8", 50, 50)]),
        ];
        assert_eq!(by_region(five, (1, 3), (6, 8)), "m1 m5 m2 m6 m3 m4");
        let four: &[Region<'_>] = &[
            ("R1", 90, &[("m1", 90, 40)]),
            ("R2", 70, &[("m2", 70, 40), ("m3", 60, 40), ("m4", 30, 40)]),
            ("R3", 80, &[("m5", 80, 40), ("m6", 50, 40)]),
            ("R4", 50, &[("m7", 50, 40), ("m8", 50, 40), ("m9", 50, 40), ("ma", 50, 40)]),
        ];
        assert_eq!(by_region(four, (2, 2), (4, 5)), "m1 m2 m3 m4");
        let two: &[Region<'_>] = &[
            ("R1", 100, &[("m1", 9, 9), ("m2", 9, 9)]),
            ("R2", 80, &[("m3", 9, 9), ("m4", 9, 9), ("m5", 9, 9)]),
        ];
        assert_eq!(by_region(two, (1, 1), (2, 2)), "m1 m2");
        assert_eq!(by_region(two, (1, 1), (3, 3)), "m3 m4 m5");
        assert_eq!(by_region(two, (1, 1), (4, 4)), "");
    }
}
