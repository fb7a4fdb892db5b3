//! Kinds whose statuses add up, and whether all members have caught up with the template.

use karmada_apimachinery::{Map, Value};

use super::replace_status;
use crate::error::Result;
use crate::fields::{count, make_map, map};
use crate::native::reflect::{
    AUTOSCALER, Counter, DAEMON_SET, DEPLOYMENT, DISRUPTION_BUDGET, REPLICA_SET, STATEFUL_SET,
    write,
};
use crate::rules::Members;

pub(crate) fn deployment(object: &mut Value, members: &Members<'_>) -> Result<()> {
    sum_and_align(object, members, DEPLOYMENT, Alignment::WithTemplate)
}

pub(crate) fn replica_set(object: &mut Value, members: &Members<'_>) -> Result<()> {
    sum_and_align(object, members, REPLICA_SET, Alignment::WithTemplate)
}

pub(crate) fn daemon_set(object: &mut Value, members: &Members<'_>) -> Result<()> {
    sum_and_align(object, members, DAEMON_SET, Alignment::WithTemplate)
}

pub(crate) fn stateful_set(object: &mut Value, members: &Members<'_>) -> Result<()> {
    sum_and_align(object, members, STATEFUL_SET, Alignment::WithMember)
}

/// What the generation recorded in the member's object is compared with.
#[derive(Clone, Copy)]
enum Alignment {
    WithTemplate,
    /// Compat: for stateful sets the original compares with the member's own generation.
    WithMember,
}

/// Sums the counters; the template counts as observed once every member is aligned with it.
fn sum_and_align(
    object: &mut Value,
    members: &Members<'_>,
    counters: &[Counter],
    alignment: Alignment,
) -> Result<()> {
    let generation = count(object, &["metadata", "generation"])?;
    let mut sums = vec![0i64; counters.len()];
    let mut aligned = 0;
    members.each(|_, status| {
        add(&mut sums, counters, status)?;
        let own = count(status, &["generation"])?;
        let wanted = match alignment {
            Alignment::WithTemplate => generation,
            Alignment::WithMember => own,
        };
        let observed = count(status, &["observedGeneration"])? >= own;
        let current = count(status, &["resourceTemplateGeneration"])? >= wanted;
        aligned += usize::from(observed && current);
        Ok(())
    })?;
    let before = count(object, &["status", "observedGeneration"])?;
    let observed = if aligned == members.len() { generation } else { before };

    let mut changed = observed != before;
    for (counter, sum) in counters.iter().zip(&sums) {
        changed |= count(object, &["status", counter.name])? != *sum;
    }
    if changed {
        let status = make_map(object, &["status"])?;
        write(status, Counter { name: "observedGeneration", always: false }, observed);
        for (counter, sum) in counters.iter().zip(sums) {
            write(status, *counter, sum);
        }
    }
    Ok(())
}

fn add(sums: &mut [i64], counters: &[Counter], status: &Value) -> Result<()> {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum = sum.saturating_add(count(status, &[counter.name])?);
    }
    Ok(())
}

fn summed(members: &Members<'_>, counters: &[Counter]) -> Result<Map> {
    let mut sums = vec![0i64; counters.len()];
    members.each(|_, status| add(&mut sums, counters, status))?;
    let mut status = Map::new();
    for (counter, sum) in counters.iter().zip(sums) {
        write(&mut status, *counter, sum);
    }
    Ok(status)
}

/// Disrupted pods are told apart by the cluster they are in.
pub(crate) fn pod_disruption_budget(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let mut status = summed(members, DISRUPTION_BUDGET)?;
    let mut disrupted = Map::new();
    members.each(|cluster, status| {
        for (pod, time) in map(status, &["disruptedPods"])?.into_iter().flatten() {
            disrupted.insert(format!("{cluster}/{pod}"), time.clone());
        }
        Ok(())
    })?;
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), disrupted.into());
    }
    replace_status(object, status)
}

pub(crate) fn horizontal_pod_autoscaler(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let mut status = summed(members, AUTOSCALER)?;
    // Compat: a list that Kubernetes never leaves out.
    status.insert("currentMetrics".to_owned(), Value::Null);
    replace_status(object, status)
}
