//! The specification in its plainest form, slow and obvious, to compare with.

/// A candidate as selection and division see it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plain {
    pub(super) name: String,
    pub(super) is_target: bool,
    pub(super) assigned: i64,
    pub(super) room: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Duplicated,
    Dynamic,
    Aggregated,
}

/// Places `replicas` over the candidates, at most `max` of them (none: no constraint).
pub(super) fn place(
    mut candidates: Vec<Plain>,
    kind: Kind,
    replicas: i64,
    max: Option<usize>,
    previous: &[(String, i64)],
) -> Option<Vec<(String, i64)>> {
    candidates.sort_by_key(|c| (!c.is_target, -(c.room + c.assigned), c.name.clone()));
    let selected = match max {
        None => candidates,
        Some(max) => take(candidates, max, (kind != Kind::Duplicated).then_some(replicas))?,
    };
    match kind {
        Kind::Duplicated => Some(selected.into_iter().map(|c| (c.name, replicas)).collect()),
        _ => by_capacity(&selected, kind, replicas, previous),
    }
}

fn take(mut all: Vec<Plain>, max: usize, need: Option<i64>) -> Option<Vec<Plain>> {
    let mut rest = all.split_off(max.min(all.len()));
    let Some(need) = need else { return Some(all) };
    let sum = |taken: &[Plain]| taken.iter().map(|c| c.room + c.assigned).sum::<i64>();
    for i in (0..all.len()).rev() {
        if sum(&all) >= need {
            break;
        }
        let mut best: Option<usize> = None;
        for j in 0..rest.len() {
            let room = rest[j].room + rest[j].assigned;
            let beats = best.is_none_or(|b| room > rest[b].room + rest[b].assigned);
            if room > all[i].room + all[i].assigned && beats {
                best = Some(j);
            }
        }
        if let Some(j) = best {
            std::mem::swap(&mut all[i], &mut rest[j]);
        }
    }
    (sum(&all) >= need).then_some(all)
}

fn by_capacity(
    selected: &[Plain],
    kind: Kind,
    replicas: i64,
    previous: &[(String, i64)],
) -> Option<Vec<(String, i64)>> {
    let kept: Vec<(String, i64)> = previous
        .iter()
        .filter(|(name, _)| selected.iter().any(|c| c.name == *name))
        .cloned()
        .collect();
    let assigned: i64 = kept.iter().map(|(_, n)| n).sum();
    if assigned == replicas {
        return Some(kept.into_iter().filter(|(_, n)| *n > 0).collect());
    }
    let grows = assigned < replicas;
    let mut weights: Vec<(String, i64)> = if grows {
        selected.iter().map(|c| (c.name.clone(), c.room)).collect()
    } else {
        kept.clone()
    };
    let target = if grows { replicas - assigned } else { replicas };
    weights.sort_by_key(|(_, w)| -w);
    if weights.iter().map(|(_, w)| w).sum::<i64>() < target {
        return None;
    }
    if kind == Kind::Aggregated {
        let in_use = |name: &str| grows && kept.iter().any(|(k, n)| k == name && *n > 0);
        let (mut first, second): (Vec<_>, Vec<_>) =
            weights.into_iter().partition(|(name, _)| in_use(name));
        first.extend(second);
        let mut cut = Vec::new();
        for weight in first {
            if cut.iter().map(|(_, w): &(String, i64)| w).sum::<i64>() >= target {
                break;
            }
            cut.push(weight);
        }
        weights = cut;
    }
    let mut result = webster(target, weights);
    if grows {
        for (name, n) in kept {
            match result.iter_mut().find(|(other, _)| *other == name) {
                Some((_, total)) => *total += n,
                None => result.push((name, n)),
            }
        }
    }
    Some(result.into_iter().filter(|(_, n)| *n > 0).collect())
}

fn webster(seats: i64, mut votes: Vec<(String, i64)>) -> Vec<(String, i64)> {
    votes.sort();
    let mut given: Vec<i64> = vec![0; votes.len()];
    for _ in 0..seats {
        let mut best = 0;
        for i in 1..votes.len() {
            let (a, b) = (
                votes[i].1 as f64 / (2 * given[i] + 1) as f64,
                votes[best].1 as f64 / (2 * given[best] + 1) as f64,
            );
            if a > b || (a == b && given[i] < given[best]) {
                best = i;
            }
        }
        if votes.iter().any(|(_, v)| *v > 0) {
            given[best] += 1;
        }
    }
    votes.into_iter().zip(given).map(|((name, _), n)| (name, n)).collect()
}
