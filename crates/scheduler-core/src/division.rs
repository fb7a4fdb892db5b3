//! Divides replicas by weight with the Webster (Sainte-Laguë) method: each seat goes to the
//! party with the greatest `votes / (2 * seats + 1)`.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A cluster that takes part in a division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party<'a> {
    pub name: &'a str,
    pub votes: i64,
    /// Seats it holds before the division.
    pub seats: i64,
}

/// Which of two equal parties of equal size comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieOrder {
    #[default]
    Ascending,
    Descending,
}

impl TieOrder {
    /// Spreads the luck of ties over workloads: the hash of the template's uid decides.
    pub fn of_uid(uid: &str) -> Self {
        if uid.is_empty() || fnv1a_32(uid.as_bytes()).is_multiple_of(2) {
            Self::Ascending
        } else {
            Self::Descending
        }
    }
}

fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Gives out `new_seats` and returns the seats of each party afterwards. Parties come in the order
/// of their names, which decides ties.
///
/// Without any votes nothing is given out. Runs in `O(parties log parties)` whatever the number
/// of seats: the bulk is handed out by quota, only the remainder is contested.
pub fn divide(new_seats: i64, parties: &[Party<'_>], ties: TieOrder) -> Vec<i64> {
    let mut seats: Vec<i64> = parties.iter().map(|party| party.seats).collect();
    let votes = parties.iter().map(|party| party.votes.max(0)).fold(0, i64::saturating_add);
    if votes == 0 || new_seats <= 0 {
        return seats;
    }
    let mut left = new_seats;
    if new_seats > 2 * parties.len() as i64 {
        left -= hand_out_quotas(new_seats, parties, &mut seats);
    }
    let claim = |index: usize, seats: i64| Claim {
        quotient: quotient(parties[index].votes, seats),
        seats,
        ties,
        index,
    };
    take_back(&mut left, parties, &mut seats, claim);
    let mut claims: BinaryHeap<Claim> =
        (0..parties.len()).map(|index| claim(index, seats[index])).collect();
    while left > 0 {
        // The winner bids less for its next seat: one way down the heap instead of two.
        let Some(mut winner) = claims.peek_mut() else { break };
        let index = winner.index;
        seats[index] += 1;
        left -= 1;
        *winner = claim(index, seats[index]);
    }
    seats
}

/// Raises every party to (about) the share its votes earn; parties above it keep what they have.
/// Returns how many seats were given, which may be a few more than there are.
fn hand_out_quotas(new_seats: i64, parties: &[Party<'_>], seats: &mut [i64]) -> i64 {
    let mut active: Vec<usize> = (0..parties.len()).filter(|&i| parties[i].votes > 0).collect();
    let share = loop {
        let votes: f64 = active.iter().map(|&i| parties[i].votes as f64).sum();
        let held: i64 = active.iter().map(|&i| parties[i].seats).sum();
        let share = (new_seats + held) as f64 / votes;
        let before = active.len();
        active.retain(|&i| parties[i].votes as f64 * share >= parties[i].seats as f64);
        if active.len() == before {
            break share;
        }
    };
    let mut given = 0;
    for index in active {
        let earned = (parties[index].votes as f64 * share).round() as i64;
        let gain = (earned - seats[index]).max(0);
        seats[index] += gain;
        given += gain;
    }
    given
}

/// Undoes seats that a quota gave to the wrong party: the weakest granted seat goes first, as
/// long as too many are out or a stronger claim is waiting.
fn take_back(
    left: &mut i64,
    parties: &[Party<'_>],
    seats: &mut [i64],
    claim: impl Fn(usize, i64) -> Claim,
) {
    let granted = |seats: &[i64], index: usize| {
        (seats[index] > parties[index].seats).then(|| claim(index, seats[index] - 1))
    };
    let mut weakest: BinaryHeap<Reverse<Claim>> =
        (0..parties.len()).filter_map(|index| granted(seats, index)).map(Reverse).collect();
    if weakest.is_empty() {
        return;
    }
    let mut waiting: BinaryHeap<Claim> =
        (0..parties.len()).map(|index| claim(index, seats[index])).collect();
    while let Some(Reverse(last)) = weakest.pop() {
        // Entries go stale when their party won or lost a seat since.
        if seats[last.index] - 1 != last.seats || seats[last.index] <= parties[last.index].seats {
            continue;
        }
        while waiting.peek().is_some_and(|next| seats[next.index] != next.seats) {
            waiting.pop();
        }
        let outbid = waiting.peek().is_some_and(|next| *next > last && *left >= 0);
        if *left >= 0 && !outbid {
            return;
        }
        seats[last.index] -= 1;
        *left += 1;
        waiting.push(claim(last.index, seats[last.index]));
        if let Some(next) = granted(seats, last.index) {
            weakest.push(Reverse(next));
        }
        if outbid {
            let Some(next) = waiting.pop() else { return };
            seats[next.index] += 1;
            *left -= 1;
            waiting.push(claim(next.index, seats[next.index]));
            weakest.push(Reverse(claim(next.index, seats[next.index] - 1)));
        }
    }
}

fn quotient(votes: i64, seats: i64) -> f64 {
    votes as f64 / (2 * seats + 1) as f64
}

/// What a party bids for its next seat; the greatest claim wins.
struct Claim {
    quotient: f64,
    seats: i64,
    ties: TieOrder,
    index: usize,
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = match self.ties {
            TieOrder::Ascending => other.index.cmp(&self.index),
            TieOrder::Descending => self.index.cmp(&other.index),
        };
        self.quotient
            .total_cmp(&other.quotient)
            .then_with(|| other.seats.cmp(&self.seats))
            .then(by_name)
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Claim {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVEN: &str = "4858ca61-3ff8-4095-8267-f3d059d8074c";
    const ODD: &str = "d43fdeeb-d750-4e2b-bee3-64eb94534f4c";

    fn parties<'a>(votes: &[(&'a str, i64, i64)]) -> Vec<Party<'a>> {
        votes.iter().map(|&(name, votes, seats)| Party { name, votes, seats }).collect()
    }

    /// The method as it is defined: one seat after the other.
    fn one_by_one(new_seats: i64, parties: &[Party<'_>], ties: TieOrder) -> Vec<i64> {
        let mut seats: Vec<i64> = parties.iter().map(|party| party.seats).collect();
        if parties.iter().all(|party| party.votes == 0) {
            return seats;
        }
        for _ in 0..new_seats {
            let claim = |index: usize| Claim {
                quotient: quotient(parties[index].votes, seats[index]),
                seats: seats[index],
                ties,
                index,
            };
            let winner = (0..parties.len()).map(claim).max().unwrap().index;
            seats[winner] += 1;
        }
        seats
    }

    #[test]
    fn e1_seats_go_to_the_greatest_quotient() {
        let parties =
            parties(&[("A", 100_000, 0), ("B", 80_000, 0), ("C", 30_000, 0), ("D", 20_000, 0)]);
        let expected = [
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [2, 1, 0, 0],
            [2, 1, 1, 0],
            [2, 2, 1, 0],
            [2, 2, 1, 1],
            [3, 2, 1, 1],
            [3, 3, 1, 1],
        ];
        for (seats, expected) in (1..).zip(expected) {
            assert_eq!(divide(seats, &parties, TieOrder::Ascending), expected, "{seats} seats");
        }
    }

    #[test]
    fn e2_initial_seats_and_ties() {
        type Case = (i64, &'static [(&'static str, i64, i64)], &'static str, &'static [i64]);
        let cases: &[Case] = &[
            (6, &[("A", 1, 1), ("B", 2, 2), ("C", 3, 3)], "", &[2, 4, 6]),
            (3, &[("A", 1, 1), ("B", 2, 2), ("C", 3, 3)], "", &[2, 3, 4]),
            (2, &[("A", 1, 1), ("B", 2, 2), ("C", 3, 3)], "", &[1, 3, 4]),
            (1, &[("A", 3, 1), ("B", 1, 0)], "", &[1, 1]),
            (2, &[("New", 1, 0), ("Old", 1, 1)], "", &[2, 1]),
            (2, &[("A", 100, 0), ("B", 0, 3)], "", &[2, 3]),
            (1, &[("A", 2, 0), ("B", 1, 0)], "", &[1, 0]),
            (2, &[("A", 2, 0), ("B", 1, 0)], "", &[1, 1]),
            (3, &[("A", 2, 0), ("B", 1, 0)], "", &[2, 1]),
            (5, &[("A", 170, 0), ("B", 110, 0), ("C", 60, 0)], "", &[2, 2, 1]),
            (6, &[("A", 170, 0), ("B", 110, 0), ("C", 60, 0)], "", &[3, 2, 1]),
            (5, &[("A", 1, 0), ("B", 1, 0)], EVEN, &[3, 2]),
            (5, &[("A", 1, 0), ("B", 1, 0)], ODD, &[2, 3]),
            (0, &[("A", 100, 0), ("B", 200, 0)], "", &[0, 0]),
            (3, &[("A", 0, 1), ("B", 0, 2)], "", &[1, 2]),
            (3, &[], "", &[]),
        ];
        for (seats, votes, uid, expected) in cases {
            let result = divide(*seats, &parties(votes), TieOrder::of_uid(uid));
            assert_eq!(&result, expected, "{seats} seats over {votes:?}");
        }
    }

    #[test]
    fn hashes_of_uids_are_stable() {
        assert_eq!(fnv1a_32(EVEN.as_bytes()), 4_060_803_976);
        assert_eq!(fnv1a_32(ODD.as_bytes()), 2_505_132_451);
    }

    proptest! {
        #[test]
        fn handing_out_quotas_changes_no_result(
            votes in proptest::collection::vec((0i64..200, 0i64..60), 1..9),
            new_seats in 0i64..600,
            descending: bool,
        ) {
            let names: Vec<String> = (0..votes.len()).map(|i| format!("m{i}")).collect();
            let parties: Vec<Party<'_>> = names
                .iter()
                .zip(&votes)
                .map(|(name, &(votes, seats))| Party { name, votes, seats })
                .collect();
            let ties = if descending { TieOrder::Descending } else { TieOrder::Ascending };
            let result = divide(new_seats, &parties, ties);
            prop_assert_eq!(&result, &one_by_one(new_seats, &parties, ties));
            if parties.iter().any(|party| party.votes > 0) {
                let held: i64 = parties.iter().map(|party| party.seats).sum();
                prop_assert_eq!(result.iter().sum::<i64>(), held + new_seats);
            }
        }

        #[test]
        fn nobody_exceeds_its_capacity(votes in proptest::collection::vec(0i64..50, 1..9), cut in 0.0f64..=1.0) {
            let names: Vec<String> = (0..votes.len()).map(|i| format!("m{i}")).collect();
            let parties: Vec<Party<'_>> =
                names.iter().zip(&votes).map(|(name, &votes)| Party { name, votes, seats: 0 }).collect();
            let seats = (votes.iter().sum::<i64>() as f64 * cut) as i64;
            for (given, votes) in divide(seats, &parties, TieOrder::Ascending).iter().zip(&votes) {
                prop_assert!(given <= votes);
            }
        }
    }
}
