//! What the tests of this crate share: an interpreter with a fixed clock, and short ways to write members.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::Value;

use crate::{Gates, Interpreter, Operation};

pub(crate) const NOW: &str = "2026-03-01T12:00:00Z";

/// The letters of the coverage tables.
pub(crate) const COLUMNS: [(char, Operation); 8] = [
    ('R', Operation::InterpretReplica),
    ('C', Operation::InterpretComponent),
    ('V', Operation::ReviseReplica),
    ('T', Operation::Retain),
    ('S', Operation::InterpretStatus),
    ('A', Operation::AggregateStatus),
    ('H', Operation::InterpretHealth),
    ('D', Operation::InterpretDependency),
];

pub(crate) fn interpreter() -> Interpreter {
    interpreter_with(Gates::default())
}

pub(crate) fn interpreter_with(gates: Gates) -> Interpreter {
    let now: Timestamp = NOW.parse().unwrap();
    Interpreter::new(gates, Arc::new(move || now))
}

/// Members with the status each reports; null means that it reports none.
pub(crate) fn members(statuses: &[(&str, Value)]) -> Vec<AggregatedStatusItem> {
    let item = |(cluster, status): &(&str, Value)| AggregatedStatusItem {
        cluster_name: (*cluster).to_owned(),
        status: (!status.is_null()).then(|| status.clone()),
        applied: true,
        ..AggregatedStatusItem::default()
    };
    statuses.iter().map(item).collect()
}
