//! The specification in its plainest form, slow and obvious, to compare with. Everything is counted anew at
//! every step and every combination is tried.

/// A cluster as the specification sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plain {
    pub(super) name: String,
    /// Empty for none.
    pub(super) region: String,
    /// 0 for the affinity itself, then its overflow groups.
    pub(super) tier: usize,
    /// Replicas it was assigned; `None` where it is no target.
    pub(super) held: Option<i64>,
    /// Room on top of what it holds.
    pub(super) room: i64,
}

impl Plain {
    fn available(&self) -> i64 {
        self.room + self.held.unwrap_or(0)
    }

    fn score(&self) -> i64 {
        if self.held.is_some() { 100 } else { 0 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Duplicated,
    /// Weights by name; absent: no preference at all.
    Static(Option<Vec<(String, i64)>>),
    Dynamic,
    Aggregated,
}

/// Least and most groups.
pub(super) type Limits = (usize, usize);

/// What is to be placed, and how.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    pub(super) kind: Kind,
    pub(super) replicas: i64,
    pub(super) by_region: Option<Limits>,
    pub(super) by_cluster: Option<Limits>,
    pub(super) overflows: bool,
    /// History does not count.
    pub(super) fresh: bool,
    /// Ties go to the greater name.
    pub(super) descending: bool,
    /// Present targets in their order, whether their cluster is still there or not.
    pub(super) previous: Vec<(String, i64)>,
}

type Shares = Vec<(String, i64)>;

impl Wish {
    /// Places the wish; `None` where the specification knows no place.
    pub(super) fn place(&self, mut clusters: Vec<Plain>) -> Option<Shares> {
        if self.by_region.is_some() {
            clusters.retain(|cluster| !cluster.region.is_empty());
        }
        clusters.sort_by_key(|c| (c.tier, -c.score(), -c.available(), c.name.clone()));
        let selected = self.select(clusters)?;
        if selected.is_empty() {
            return None;
        }
        let shares = if self.overflows {
            self.tier_after_tier(&selected)?
        } else {
            self.divide(self.replicas, &selected)?
        };
        Some(shares.into_iter().filter(|(_, replicas)| *replicas > 0).collect())
    }

    fn select(&self, clusters: Vec<Plain>) -> Option<Vec<Plain>> {
        let names_its_clusters = match &self.kind {
            Kind::Static(None) => true,
            Kind::Static(Some(weights)) => !weights.is_empty(),
            _ => false,
        };
        if names_its_clusters {
            return Some(clusters);
        }
        match (self.by_region, self.by_cluster) {
            (Some(regions), by_cluster) => self.over_regions(clusters, regions, by_cluster?),
            (None, Some(limits)) => self.over_clusters(clusters, limits),
            (None, None) => Some(clusters),
        }
    }

    fn over_clusters(&self, mut first: Vec<Plain>, (min, max): Limits) -> Option<Vec<Plain>> {
        if first.len() < min {
            return None;
        }
        let mut rest = first.split_off(max.min(first.len()));
        if self.kind == Kind::Duplicated {
            return Some(first);
        }
        let sum = |taken: &[Plain]| taken.iter().map(Plain::available).sum::<i64>();
        for i in (0..first.len()).rev() {
            if sum(&first) >= self.replicas {
                break;
            }
            let mut best: Option<usize> = None;
            for j in 0..rest.len() {
                let beats = best.is_none_or(|b| rest[j].available() > rest[b].available());
                if rest[j].available() > first[i].available() && beats {
                    best = Some(j);
                }
            }
            if let Some(j) = best {
                std::mem::swap(&mut first[i], &mut rest[j]);
            }
        }
        (sum(&first) >= self.replicas).then_some(first)
    }

    fn over_regions(
        &self,
        clusters: Vec<Plain>,
        regions: Limits,
        by_cluster: Limits,
    ) -> Option<Vec<Plain>> {
        let mut names: Vec<String> = clusters.iter().map(|c| c.region.clone()).collect();
        names.sort();
        names.dedup();
        if names.len() < regions.0 {
            return None;
        }
        let members = |name: &str| -> Vec<Plain> {
            clusters.iter().filter(|cluster| cluster.region == name).cloned().collect()
        };
        let groups: Vec<Region> = names
            .iter()
            .map(|name| Region {
                name: name.clone(),
                size: members(name).len() as i64,
                score: self.score_of(&members(name), regions.0, by_cluster.0),
            })
            .collect();
        let chosen = best_combination(groups, regions, by_cluster.0 as i64)?;
        let (mut taken, mut pool) = (Vec::new(), Vec::new());
        for region in chosen {
            let mut members = members(&region.name).into_iter();
            taken.extend(members.next());
            pool.extend(members);
        }
        pool.sort_by_key(|c| (c.tier, -c.score(), -c.available(), c.name.clone()));
        let mut pool = pool.into_iter();
        while taken.len() < by_cluster.1 {
            let Some(next) = pool.next() else { break };
            taken.push(next);
        }
        Some(taken)
    }

    fn score_of(&self, members: &[Plain], min_regions: usize, min_clusters: usize) -> i64 {
        if self.kind == Kind::Duplicated {
            let fitting: Vec<&Plain> =
                members.iter().filter(|c| c.available() >= self.replicas).collect();
            let count = fitting.len() as i64;
            let scores: i64 = fitting.iter().map(|c| c.score()).sum();
            return if count == 0 { 0 } else { count * 1000 + scores / count };
        }
        let min_regions = min_regions as i64;
        let target = (self.replicas + min_regions - 1) / min_regions;
        let least = min_regions.max(min_clusters as i64);
        let (mut available, mut score, mut count) = (0, 0, 0);
        for member in members {
            available += member.available();
            score += member.score();
            count += 1;
            if count >= least && available >= target {
                break;
            }
        }
        if available < target {
            available * 1000 + score / members.len() as i64
        } else {
            target * 1000 + score / count
        }
    }

    fn tier_after_tier(&self, selected: &[Plain]) -> Option<Shares> {
        let mut left = self.replicas;
        let mut shares = Vec::new();
        for tier in 0..=selected.iter().map(|c| c.tier).max()? {
            let members: Vec<Plain> = selected.iter().filter(|c| c.tier == tier).cloned().collect();
            let take = left.min(members.iter().map(Plain::available).sum());
            if take > 0 {
                shares.extend(self.divide(take, &members)?);
            }
            left -= take;
        }
        (left == 0).then_some(shares)
    }

    fn divide(&self, replicas: i64, selected: &[Plain]) -> Option<Shares> {
        match &self.kind {
            Kind::Duplicated => Some(selected.iter().map(|c| (c.name.clone(), replicas)).collect()),
            Kind::Static(weights) => Some(self.by_weight(replicas, selected, weights.as_deref())),
            Kind::Dynamic | Kind::Aggregated => self.by_capacity(replicas, selected),
        }
    }

    fn by_weight(
        &self,
        replicas: i64,
        selected: &[Plain],
        weights: Option<&[(String, i64)]>,
    ) -> Shares {
        let weight = |cluster: &Plain| match weights {
            None => 1,
            Some(weights) => {
                let of_it = weights.iter().filter(|(name, _)| *name == cluster.name);
                of_it.map(|(_, weight)| *weight).max().unwrap_or(0)
            }
        };
        let mut votes: Shares = selected.iter().map(|c| (c.name.clone(), weight(c))).collect();
        if votes.iter().all(|(_, weight)| *weight == 0) {
            votes.iter_mut().for_each(|(_, weight)| *weight = 1);
        }
        votes.retain(|(_, weight)| *weight > 0);
        self.webster(replicas, votes)
    }

    fn by_capacity(&self, replicas: i64, selected: &[Plain]) -> Option<Shares> {
        let is_selected = |name: &str| selected.iter().any(|c| c.name == name);
        let kept: Shares =
            self.previous.iter().filter(|(name, _)| is_selected(name)).cloned().collect();
        let assigned: i64 = kept.iter().map(|(_, n)| n).sum();
        let rooms = || selected.iter().map(|c| (c.name.clone(), c.room));
        let (target, mut weights, kept) = if self.fresh {
            let all = selected.iter().map(|c| (c.name.clone(), c.available())).collect();
            (replicas, all, Vec::new())
        } else if assigned > replicas {
            (replicas, kept, Vec::new())
        } else if assigned < replicas {
            (replicas - assigned, rooms().collect::<Shares>(), kept)
        } else {
            return Some(kept);
        };
        weights.sort_by_key(|(_, w)| -w);
        if weights.iter().map(|(_, w)| w).sum::<i64>() < target {
            return None;
        }
        if self.kind == Kind::Aggregated {
            weights = fewest(target, weights, &kept);
        }
        let mut result = self.webster(target, weights);
        for (name, n) in kept {
            match result.iter_mut().find(|(other, _)| *other == name) {
                Some((_, total)) => *total += n,
                None => result.push((name, n)),
            }
        }
        Some(result)
    }

    /// One seat after the other to the greatest quotient.
    fn webster(&self, seats: i64, mut votes: Shares) -> Shares {
        votes.sort();
        if self.descending {
            votes.reverse();
        }
        let mut given: Vec<i64> = vec![0; votes.len()];
        for _ in 0..seats {
            let mut best = 0;
            for i in 1..votes.len() {
                let quotient = |i: usize| votes[i].1 as f64 / (2 * given[i] + 1) as f64;
                let (a, b) = (quotient(i), quotient(best));
                if a > b || (a == b && given[i] < given[best]) {
                    best = i;
                }
            }
            if votes.iter().any(|(_, v)| *v > 0) {
                given[best] += 1;
            }
        }
        let mut shares: Shares = votes.into_iter().map(|(name, _)| name).zip(given).collect();
        shares.sort();
        shares
    }
}

/// The shortest list of clusters with enough room, those in use first.
fn fewest(target: i64, weights: Shares, kept: &[(String, i64)]) -> Shares {
    let in_use = |name: &str| kept.iter().any(|(k, n)| k == name && *n > 0);
    let (mut ordered, others): (Shares, Shares) =
        weights.into_iter().partition(|(name, _)| in_use(name));
    ordered.extend(others);
    let mut cut = Shares::new();
    for weight in ordered {
        if cut.iter().map(|(_, w)| w).sum::<i64>() >= target {
            break;
        }
        cut.push(weight);
    }
    cut
}

#[derive(Debug, Clone, PartialEq)]
struct Region {
    name: String,
    size: i64,
    score: i64,
}

/// Tries every combination of regions, in the order of the specification.
fn best_combination(
    mut groups: Vec<Region>,
    (min, max): Limits,
    target: i64,
) -> Option<Vec<Region>> {
    groups.sort_by_key(|group| (group.size, -group.score, group.name.clone()));
    let mut paths = Vec::new();
    if groups.len() == min {
        let size: i64 = groups.iter().map(|group| group.size).sum();
        if size >= target && min <= max {
            paths.push(groups);
        }
    } else {
        descend(&groups, 0, &mut Vec::new(), (min, max), target, &mut paths);
    }
    for path in &mut paths {
        path.sort_by_key(|group| (-group.score, group.name.clone()));
    }
    let sum = |path: &[Region], of: fn(&Region) -> i64| path.iter().map(of).sum::<i64>();
    // Stable: among equals the one found first comes first.
    paths.sort_by_key(|path| (-sum(path, |g| g.score), -sum(path, |g| g.size)));
    let mut best = paths.first()?.clone();
    for path in &paths[1..] {
        if path.len() < best.len() && best.starts_with(path) {
            best = path.clone();
        }
    }
    Some(best)
}

fn descend(
    groups: &[Region],
    from: usize,
    path: &mut Vec<Region>,
    (min, max): Limits,
    target: i64,
    paths: &mut Vec<Vec<Region>>,
) {
    let size: i64 = path.iter().map(|group| group.size).sum();
    if size >= target && (min..=max).contains(&path.len()) {
        paths.push(path.clone());
        return;
    }
    if path.len() == max {
        return;
    }
    for (index, group) in groups.iter().enumerate().skip(from) {
        path.push(group.clone());
        descend(groups, index + 1, path, (min, max), target, paths);
        path.pop();
    }
}
