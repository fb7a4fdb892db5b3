//! What concurrent clients did and were told, held against what the store really went through:
//! every key must behave as if one thing had happened to it at a time.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// What a client did, between which moments, and what it was told.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) key: String,
    pub(super) invoked: Instant,
    pub(super) returned: Instant,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A write on top of a version was acknowledged with a new one.
    Written {
        value: String,
        over: i64,
        version: i64,
    },
    /// A write was refused: it must not have happened.
    Refused {
        value: String,
        why: String,
    },
    /// Nobody said what became of a write.
    Unknown {
        value: String,
        over: i64,
    },
    Read {
        value: String,
        version: i64,
    },
}

/// A change as the store recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) version: i64,
}

/// Says what is wrong with a history, if anything is. `truth` is in the order of versions and
/// begins with the creation of every key.
pub(super) fn check(operations: &[Operation], truth: &[Change]) -> Result<(), String> {
    if !truth.is_sorted_by(|a, b| a.version < b.version) {
        return Err("the store's own history is not in order".to_owned());
    }
    let mut by_key: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in truth {
        by_key.entry(&change.key).or_default().push(change);
    }
    for (key, changes) in &by_key {
        let own: Vec<&Operation> = operations.iter().filter(|op| op.key == *key).collect();
        check_key(&own, changes).map_err(|why| format!("{key}: {why}"))?;
    }
    match operations.iter().find(|op| !by_key.contains_key(op.key.as_str())) {
        Some(op) => Err(format!("the store never heard of {op:?}")),
        None => Ok(()),
    }
}

fn check_key(operations: &[&Operation], changes: &[&Change]) -> Result<(), String> {
    let at: HashMap<i64, &str> = changes.iter().map(|c| (c.version, c.value.as_str())).collect();
    let before: HashMap<i64, i64> =
        changes.windows(2).map(|pair| (pair[1].version, pair[0].version)).collect();
    let version_of: HashMap<&str, i64> =
        changes.iter().map(|c| (c.value.as_str(), c.version)).collect();
    let mut possible = Vec::new();
    for op in operations {
        match &op.outcome {
            Outcome::Written { value, over, version } => {
                if at.get(version) != Some(&value.as_str()) {
                    return Err(format!("an acknowledged write is lost: {op:?}"));
                }
                if before.get(version) != Some(over) {
                    return Err(format!("a write is on top of another version: {op:?}"));
                }
                possible.push(value.as_str());
            }
            Outcome::Unknown { value, over } => {
                if let Some(version) = version_of.get(value.as_str())
                    && before.get(version) != Some(over)
                {
                    return Err(format!("a write is on top of another version: {op:?}"));
                }
                possible.push(value.as_str());
            }
            Outcome::Refused { value, .. } => {
                if version_of.contains_key(value.as_str()) {
                    return Err(format!("a refused write happened: {op:?}"));
                }
            }
            Outcome::Read { value, version } => {
                if at.get(version) != Some(&value.as_str()) {
                    return Err(format!("a read saw what was never there: {op:?}"));
                }
            }
        }
    }
    if let Some(phantom) = changes.iter().skip(1).find(|c| !possible.contains(&c.value.as_str())) {
        return Err(format!("nobody wrote {phantom:?}"));
    }
    check_time(operations, &version_of)
}

/// Whoever asks later must not be told of an earlier state, and nothing is seen before it is asked for.
fn check_time(operations: &[&Operation], versions: &HashMap<&str, i64>) -> Result<(), String> {
    let told = |op: &Operation| match &op.outcome {
        Outcome::Written { version, .. } | Outcome::Read { version, .. } => Some(*version),
        _ => None,
    };
    let mut by_return: Vec<&&Operation> =
        operations.iter().filter(|op| told(op).is_some()).collect();
    by_return.sort_by_key(|op| op.returned);
    // The newest version anyone had been told of by the time of each return.
    let mut newest = Vec::new();
    for op in &by_return {
        let last = newest.last().map_or(0, |(_, version)| *version);
        newest.push((op.returned, last.max(told(op).unwrap_or_default())));
    }
    for op in operations {
        let known = newest.partition_point(|(returned, _)| *returned < op.invoked);
        let floor = known.checked_sub(1).map_or(0, |place| newest[place].1);
        let late = match &op.outcome {
            Outcome::Written { version, .. } => *version <= floor,
            Outcome::Read { version, .. } => *version < floor,
            _ => false,
        };
        if late {
            return Err(format!("version {floor} was known before {op:?}"));
        }
    }
    let mut invoked: HashMap<i64, Instant> = HashMap::new();
    for op in operations {
        if let Outcome::Written { value, .. } | Outcome::Unknown { value, .. } = &op.outcome
            && let Some(version) = versions.get(value.as_str())
        {
            invoked.insert(*version, op.invoked);
        }
    }
    for op in operations {
        if let Outcome::Read { version, .. } = &op.outcome
            && invoked.get(version).is_some_and(|invoked| *invoked > op.returned)
        {
            return Err(format!("seen before it was written: {op:?}"));
        }
    }
    Ok(())
}

/// Says where a watch differs from what happened behind the version it began at.
pub(super) fn check_watch(heard: &[Change], truth: &[Change], after: i64) -> Result<(), String> {
    let wanted: Vec<&Change> = truth.iter().filter(|change| change.version > after).collect();
    for (place, wanted) in wanted.iter().enumerate() {
        match heard.get(place) {
            Some(heard) if heard == *wanted => {}
            other => return Err(format!("{other:?} instead of {wanted:?}")),
        }
    }
    match heard.get(wanted.len()) {
        Some(more) => Err(format!("{more:?} never happened")),
        None => Ok(()),
    }
}

mod tests {
    use super::*;
    use std::time::Duration;

    fn history(steps: &[(u64, u64, Outcome)]) -> Vec<Operation> {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let operation = |(invoked, returned, outcome): &(u64, u64, Outcome)| Operation {
            key: "k".to_owned(),
            invoked: at(*invoked),
            returned: at(*returned),
            outcome: outcome.clone(),
        };
        steps.iter().map(operation).collect()
    }

    fn truth(values: &[&str]) -> Vec<Change> {
        let change = |(place, value): (usize, &&str)| Change {
            key: "k".to_owned(),
            value: (*value).to_owned(),
            version: place as i64 + 1,
        };
        values.iter().enumerate().map(change).collect()
    }

    fn written(value: &str, over: i64, version: i64) -> Outcome {
        Outcome::Written { value: value.to_owned(), over, version }
    }

    fn read(value: &str, version: i64) -> Outcome {
        Outcome::Read { value: value.to_owned(), version }
    }

    #[test]
    fn good_and_bad_histories_are_told_apart() {
        let unknown = |value: &str, over| Outcome::Unknown { value: value.to_owned(), over };
        let refused =
            |value: &str| Outcome::Refused { value: value.to_owned(), why: "conflict".to_owned() };
        type Case<'a> = (&'a str, &'a [&'a str], Vec<(u64, u64, Outcome)>, Option<&'a str>);
        let cases: Vec<Case<'_>> = vec![
            ("in order", &["0", "a"], vec![(1, 2, written("a", 1, 2)), (3, 4, read("a", 2))], None),
            (
                "overlapping",
                &["0", "a"],
                vec![(1, 9, written("a", 1, 2)), (3, 4, read("0", 1))],
                None,
            ),
            (
                "stale",
                &["0", "a"],
                vec![(1, 2, written("a", 1, 2)), (3, 4, read("0", 1))],
                Some("was known"),
            ),
            ("lost", &["0"], vec![(1, 2, written("a", 1, 2))], Some("lost")),
            (
                "replaced",
                &["0", "b"],
                vec![(1, 2, written("a", 1, 2)), (1, 2, unknown("b", 1))],
                Some("lost"),
            ),
            (
                "skipped",
                &["0", "a", "b"],
                vec![(1, 2, written("a", 1, 2)), (3, 4, written("b", 1, 3))],
                Some("on top"),
            ),
            ("maybe yes", &["0", "a"], vec![(1, 2, unknown("a", 1)), (3, 4, read("a", 2))], None),
            ("maybe no", &["0"], vec![(1, 2, unknown("a", 1)), (3, 4, read("0", 1))], None),
            ("refused", &["0", "a"], vec![(1, 2, refused("a"))], Some("refused")),
            ("phantom", &["0", "a"], vec![(1, 2, read("0", 1))], Some("nobody")),
            (
                "early",
                &["0", "a"],
                vec![(3, 4, unknown("a", 1)), (1, 2, read("a", 2))],
                Some("seen before"),
            ),
            (
                "back",
                &["0", "a"],
                vec![(1, 9, written("a", 1, 2)), (2, 3, read("a", 2)), (4, 5, read("0", 1))],
                Some("was known"),
            ),
        ];
        for (name, values, steps, expected) in cases {
            let found = check(&history(&steps), &truth(values)).err();
            match (expected, &found) {
                (None, None) => {}
                (Some(expected), Some(found)) if found.contains(expected) => {}
                _ => panic!("{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_watch_that_leaves_something_out_is_noticed() {
        let all = truth(&["0", "a", "b"]);
        assert!(check_watch(&all[1..], &all, 1).is_ok());
        assert!(check_watch(&all[2..], &all, 1).is_err());
        assert!(check_watch(&[all[2].clone(), all[1].clone()], &all, 1).is_err());
        assert!(check_watch(&all, &all[..2], 0).is_err());
    }
}
