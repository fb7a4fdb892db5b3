//! Chooses the groups (regions, zones, providers) a workload is spread over: enough clusters in
//! total, a number of groups within bounds, and the greatest weight.

use std::cmp::Ordering;

/// A group that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'a> {
    pub name: &'a str,
    /// How many clusters it offers.
    pub value: i64,
    pub weight: i64,
}

/// What a choice must fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub min_groups: usize,
    pub max_groups: usize,
    /// The least sum of values.
    pub target: i64,
}

/// Returns the indexes of the chosen groups, heaviest first; empty when no choice fulfils the bounds.
///
/// Compat: the answer is that of a depth-first search over the groups in order of value, weight
/// and name, which stops each path as soon as it fulfils the bounds, takes the path with the
/// greatest weight, then value, then the first found, and cuts it back to a shorter found path
/// where that is its heaviest part. Here it is one pass over (groups chosen, value so far).
pub fn choose(groups: &[Group<'_>], bounds: Bounds) -> Vec<usize> {
    let order = search_order(groups);
    let Some(best) = best_path(groups, &order, bounds) else { return Vec::new() };
    let mut chosen: Vec<usize> = best.iter().map(|&place| order[place]).collect();
    chosen.sort_by(|&a, &b| heavier_first(&groups[a], &groups[b]));
    let mut place_of = vec![0; groups.len()];
    for (place, &index) in order.iter().enumerate() {
        place_of[index] = place;
    }
    for length in 1..chosen.len() {
        let mut places: Vec<usize> =
            chosen[..length].iter().map(|&index| place_of[index]).collect();
        places.sort_unstable();
        if is_found_path(groups, &order, &places, bounds) {
            chosen.truncate(length);
            break;
        }
    }
    chosen
}

fn search_order(groups: &[Group<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|&a, &b| {
        groups[a].value.cmp(&groups[b].value).then_with(|| heavier_first(&groups[a], &groups[b]))
    });
    order
}

fn heavier_first(a: &Group<'_>, b: &Group<'_>) -> Ordering {
    b.weight.cmp(&a.weight).then_with(|| a.name.cmp(b.name))
}

impl Bounds {
    fn fulfilled(self, length: usize, value: i64) -> bool {
        value >= self.target && length >= self.min_groups && length <= self.max_groups
    }
}

/// Whether the search would record exactly this path: it fulfils the bounds, its beginnings do not.
fn is_found_path(groups: &[Group<'_>], order: &[usize], places: &[usize], bounds: Bounds) -> bool {
    let mut value = 0;
    for (length, &place) in (1..).zip(places) {
        value += groups[order[place]].value;
        if bounds.fulfilled(length, value) {
            return length == places.len();
        }
    }
    false
}

/// The best way to reach one state; paths share their beginnings.
#[derive(Clone, Copy)]
struct Reached {
    weight: i64,
    value: i64,
    /// Index into the arena of steps.
    last: usize,
}

struct Step {
    place: usize,
    before: Option<usize>,
}

/// Finds the best path as places in search order. State: how many groups were taken and how much
/// of the target they cover; of all ways into a state only the best can lead to the best end.
fn best_path(groups: &[Group<'_>], order: &[usize], bounds: Bounds) -> Option<Vec<usize>> {
    let offered = groups.iter().map(|group| group.value).fold(0, i64::saturating_add);
    if offered < bounds.target {
        return None;
    }
    let target = bounds.target.max(0) as usize;
    let depth = bounds.max_groups.min(groups.len());
    let mut steps: Vec<Step> = Vec::new();
    let mut states: Vec<Option<Reached>> = vec![None; (depth + 1) * (target + 1)];
    let at = |length: usize, covered: usize| length * (target + 1) + covered;
    let mut best: Option<Reached> = None;
    for (place, &index) in order.iter().enumerate() {
        let Group { value, weight, .. } = groups[index];
        // Longest first, so that no group is taken twice.
        for length in (0..depth).rev() {
            for covered in 0..=target {
                let from = if length == 0 {
                    if covered > 0 {
                        break;
                    }
                    None
                } else {
                    match states[at(length, covered)] {
                        Some(reached) => Some(reached),
                        None => continue,
                    }
                };
                steps.push(Step { place, before: from.map(|from| from.last) });
                let reached = Reached {
                    weight: from.map_or(0, |from| from.weight).saturating_add(weight),
                    value: from.map_or(0, |from| from.value) + value,
                    last: steps.len() - 1,
                };
                let slot = if bounds.fulfilled(length + 1, reached.value) {
                    &mut best
                } else {
                    let covered = (covered + value.max(0) as usize).min(target);
                    &mut states[at(length + 1, covered)]
                };
                if slot.is_none_or(|present| is_better(&steps, &reached, &present)) {
                    *slot = Some(reached);
                } else {
                    steps.pop();
                }
            }
        }
    }
    best.map(|best| path_of(&steps, best.last))
}

fn is_better(steps: &[Step], new: &Reached, present: &Reached) -> bool {
    let by_sums = new.weight.cmp(&present.weight).then_with(|| new.value.cmp(&present.value));
    match by_sums {
        Ordering::Greater => true,
        Ordering::Less => false,
        // The path found first wins: the one that is smaller place by place.
        Ordering::Equal => path_of(steps, new.last) < path_of(steps, present.last),
    }
}

fn path_of(steps: &[Step], last: usize) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(last), |&step| steps[step].before)
        .map(|step| steps[step].place)
        .collect();
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names<'a>(groups: &[Group<'a>], chosen: &[usize]) -> Vec<&'a str> {
        chosen.iter().map(|&index| groups[index].name).collect()
    }

    fn groups<'a>(rows: &[(&'a str, i64, i64)]) -> Vec<Group<'a>> {
        rows.iter().map(|&(name, value, weight)| Group { name, value, weight }).collect()
    }

    /// The search as it is defined, over every path.
    fn by_search(groups: &[Group<'_>], bounds: Bounds) -> Vec<usize> {
        fn descend(
            groups: &[Group<'_>],
            order: &[usize],
            bounds: Bounds,
            path: &mut Vec<usize>,
            found: &mut Vec<Vec<usize>>,
        ) {
            let value = path.iter().map(|&index| groups[index].value).sum();
            if bounds.fulfilled(path.len(), value) {
                found.push(path.clone());
                return;
            }
            if path.len() == bounds.max_groups {
                return;
            }
            for (next, &index) in order.iter().enumerate() {
                path.push(index);
                descend(groups, &order[next + 1..], bounds, path, found);
                path.pop();
            }
        }
        let order = search_order(groups);
        let mut found = Vec::new();
        for (next, &index) in order.iter().enumerate() {
            descend(groups, &order[next + 1..], bounds, &mut vec![index], &mut found);
        }
        let sum = |path: &[usize], of: fn(&Group<'_>) -> i64| -> i64 {
            path.iter().map(|&index| of(&groups[index])).sum()
        };
        for path in &mut found {
            path.sort_by(|&a, &b| heavier_first(&groups[a], &groups[b]));
        }
        found.sort_by_key(|path| {
            (-sum(path, |group| group.weight), -sum(path, |group| group.value))
        });
        let Some((first, rest)) = found.split_first() else { return Vec::new() };
        let mut best = first;
        for path in rest {
            if path.len() < best.len() && best.starts_with(path) {
                best = path;
            }
        }
        best.clone()
    }

    #[test]
    fn e11_combination_search() {
        type Case =
            (&'static [(&'static str, i64, i64)], (usize, usize, i64), &'static [&'static str]);
        let cases: &[Case] = &[
            (
                &[
                    ("R1", 1, 80),
                    ("R3", 1, 80),
                    ("R2", 1, 60),
                    ("R5", 2, 60),
                    ("R4", 5, 50),
                    ("R6", 3, 50),
                ],
                (1, 3, 10),
                &["R5", "R4", "R6"],
            ),
            (
                &[
                    ("R1", 1, 80),
                    ("R2", 4, 40),
                    ("R3", 1, 30),
                    ("R4", 3, 30),
                    ("R5", 3, 20),
                    ("R6", 5, 10),
                ],
                (2, 6, 5),
                &["R1", "R2"],
            ),
            (
                &[
                    ("R1", 1, 60),
                    ("R2", 1, 50),
                    ("R3", 1, 40),
                    ("R4", 3, 30),
                    ("R5", 3, 20),
                    ("R6", 3, 10),
                ],
                (1, 3, 6),
                &["R1", "R4", "R5"],
            ),
            (
                &[("R1", 1, 60), ("R2", 2, 50), ("R3", 3, 40), ("R4", 4, 30)],
                (1, 2, 5),
                &["R1", "R4"],
            ),
            (
                &[("R4", 1, 60), ("R3", 3, 50), ("R1", 3, 40), ("R2", 4, 30)],
                (1, 2, 5),
                &["R3", "R1"],
            ),
            (&[("R1", 1, 80)], (2, 3, 1), &[]),
            (&[("R1", 1, 80), ("R2", 2, 30)], (2, 3, 4), &[]),
        ];
        for (rows, (min_groups, max_groups, target), expected) in cases {
            let groups = groups(rows);
            let bounds =
                Bounds { min_groups: *min_groups, max_groups: *max_groups, target: *target };
            assert_eq!(names(&groups, &choose(&groups, bounds)), *expected, "{rows:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn one_pass_gives_the_answer_of_the_search(
            rows in proptest::collection::vec((1i64..5, 0i64..4), 1..8),
            min_groups in 0usize..4,
            extra in 0usize..4,
            target in 0i64..12,
        ) {
            let labels: Vec<String> = (0..rows.len()).map(|i| format!("r{i}")).collect();
            let groups: Vec<Group<'_>> = labels
                .iter()
                .zip(&rows)
                .map(|(name, &(value, weight))| Group { name, value, weight })
                .collect();
            let bounds = Bounds { min_groups, max_groups: min_groups + extra, target };
            prop_assert_eq!(choose(&groups, bounds), by_search(&groups, bounds));
        }
    }
}
