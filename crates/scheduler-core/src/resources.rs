//! Amounts of resources in the units capacity is counted in: thousandths for CPU, whole units
//! for everything else. Fractions were rounded up when they were read.

/// The pods a virtual node of a resource model can run.
pub const PODS_PER_MODEL_NODE: i64 = 110;

/// One resource and how much of it; amounts of requests are greater than zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Amount {
    pub resource: String,
    pub amount: i64,
}

/// What one replica asks for, sorted by resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request(Vec<Amount>);

impl Request {
    /// Keeps what is asked for in earnest: amounts of zero or less ask for nothing.
    pub fn new(amounts: impl IntoIterator<Item = (String, i64)>) -> Self {
        let mut amounts: Vec<Amount> = amounts
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(resource, amount)| Amount { resource, amount })
            .collect();
        amounts.sort();
        Self(amounts)
    }

    pub fn amounts(&self) -> &[Amount] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a node has to offer the resource for a pod that asks for it; other names are not looked at.
pub fn is_node_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/')
}

/// A node with what is left on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    free: Vec<Amount>,
    pods: i64,
}

impl Node {
    pub fn new(free: impl IntoIterator<Item = (String, i64)>, pods: i64) -> Self {
        let mut free: Vec<Amount> =
            free.into_iter().map(|(resource, amount)| Amount { resource, amount }).collect();
        free.sort();
        Self { free, pods }
    }

    fn amount_of(&self, resource: &str) -> i64 {
        let place = self.free.binary_search_by(|free| free.resource.as_str().cmp(resource));
        place.map_or(0, |index| self.free[index].amount)
    }

    /// How many replicas fit.
    pub fn room_for(&self, request: &Request) -> i64 {
        let by_resource = request
            .amounts()
            .iter()
            .filter(|asked| is_node_resource(&asked.resource))
            .map(|asked| self.amount_of(&asked.resource) / asked.amount)
            .min()
            .unwrap_or(i64::MAX);
        by_resource.min(self.pods).max(0)
    }

    fn consume(&mut self, request: &Request, replicas: i64) {
        for asked in request.amounts() {
            let place = self.free.binary_search_by(|free| free.resource.cmp(&asked.resource));
            if let Ok(index) = place {
                let taken = asked.amount.saturating_mul(replicas);
                self.free[index].amount = self.free[index].amount.saturating_sub(taken);
            }
        }
        self.pods -= replicas;
    }
}

/// A part of a workload: some replicas of one pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub request: Request,
    pub replicas: i64,
}

/// Places whole sets of parts on nodes, first fit, and keeps what is left.
///
/// Compat: a set that fails half-way keeps what it took.
pub struct FirstFit {
    nodes: Vec<Node>,
}

impl FirstFit {
    pub fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// Places one set of workloads that were decided before but do not show in the numbers yet.
    pub fn place_assumed(&mut self, parts: &[Part]) {
        let mut cursors = vec![0; parts.len()];
        let _ = self.place_set(parts, &mut cursors);
    }

    /// How many whole sets fit, at most `limit`.
    pub fn count_sets(&mut self, parts: &[Part], limit: i64) -> i64 {
        let mut cursors = vec![0; parts.len()];
        let mut sets = 0;
        while sets < limit && self.place_set(parts, &mut cursors) {
            sets += 1;
        }
        sets
    }

    /// How many single replicas fit on all nodes together.
    pub fn count_replicas(&self, request: &Request) -> i64 {
        self.nodes.iter().map(|node| node.room_for(request)).fold(0, i64::saturating_add)
    }

    /// Nodes only ever fill up, so a node that had no room for a part is never asked again:
    /// `cursors` holds the first node worth asking, by part.
    fn place_set(&mut self, parts: &[Part], cursors: &mut [usize]) -> bool {
        parts.iter().zip(cursors).all(|(part, cursor)| self.place(part, cursor))
    }

    fn place(&mut self, part: &Part, cursor: &mut usize) -> bool {
        let mut left = part.replicas;
        while left > 0 {
            let Some(node) = self.nodes.get_mut(*cursor) else { return false };
            let room = node.room_for(&part.request);
            let taken = room.min(left);
            node.consume(&part.request, taken);
            left -= taken;
            if taken == room {
                *cursor += 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: i64 = 1 << 30;

    fn node(cpu_milli: i64, memory_gi: i64, pods: i64) -> Node {
        Node::new([("cpu".into(), cpu_milli), ("memory".into(), memory_gi * GI)], pods)
    }

    fn part(replicas: i64, cpu_milli: i64, memory_gi: i64) -> Part {
        let request = Request::new([("cpu".into(), cpu_milli), ("memory".into(), memory_gi * GI)]);
        Part { request, replicas }
    }

    fn nodes(rows: &[(usize, i64, i64)]) -> Vec<Node> {
        rows.iter()
            .flat_map(|&(count, cpu, memory)| vec![node(cpu, memory, PODS_PER_MODEL_NODE); count])
            .collect()
    }

    #[test]
    fn e15_whole_sets_are_placed_first_fit() {
        type Case = (&'static [(usize, i64, i64)], &'static [(i64, i64, i64)], i64, i64);
        let cases: &[Case] = &[
            (&[(2, 1000, 2), (6, 3000, 10), (3, 4000, 12)], &[(1, 1000, 2), (3, 3000, 10)], 100, 3),
            (
                &[(2, 1000, 2), (3, 2000, 4), (2, 3000, 6), (6, 8000, 12)],
                &[(1, 1000, 2), (3, 3000, 10), (1, 500, 1)],
                100,
                2,
            ),
            (&[(5, 500, 0), (10, 2000, 0)], &[(1, 0, 0)], 100, 100),
            (&[(1, 1000, 2), (1, 4000, 8), (1, 8000, 16)], &[(2, 500, 1), (1, 2000, 4)], 10, 4),
            (&[(2, 2000, 0)], &[(3, 1000, 0)], 10, 1),
            (&[(2, 3000, 0)], &[(1, 2000, 0)], 10, 2),
        ];
        for (rows, parts, limit, expected) in cases {
            let parts: Vec<Part> =
                parts.iter().map(|&(replicas, cpu, memory)| part(replicas, cpu, memory)).collect();
            let sets = FirstFit::new(nodes(rows)).count_sets(&parts, *limit);
            assert_eq!(sets, *expected, "{rows:?} {parts:?}");
        }
    }

    #[test]
    fn e16_replicas_fit_by_the_scarcest_resource() {
        let fit = FirstFit::new(vec![node(3000, 6, 9), node(2000, 4, 0), node(500, 16, 50)]);
        assert_eq!(fit.count_replicas(&part(1, 500, 1).request), 7);
    }

    #[test]
    fn e16_assumed_workloads_take_room_even_where_they_do_not_fit_whole() {
        for (assumed, expected) in [(3, 2), (5, 0)] {
            let mut fit = FirstFit::new(vec![node(2000, 4, 10), node(2000, 4, 10)]);
            fit.place_assumed(&[part(assumed, 1000, 1)]);
            let half_gi = Request::new([("cpu".into(), 500), ("memory".into(), GI / 2)]);
            assert_eq!(fit.count_replicas(&half_gi), expected, "{assumed} assumed");
        }
    }

    #[test]
    fn resources_a_node_does_not_schedule_are_not_looked_at() {
        let request = Request::new([("cpu".into(), 1000), ("licences".into(), 1)]);
        assert_eq!(node(2000, 1, 10).room_for(&request), 2);
        let gpu = Request::new([("example.com/gpu".into(), 1)]);
        assert_eq!(node(2000, 1, 10).room_for(&gpu), 0);
    }
}
