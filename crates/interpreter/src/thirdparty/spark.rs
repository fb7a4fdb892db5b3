//! Spark: applications with a driver and executors.

use karmada_api::core::ResourceList;
use karmada_api::work::{Component, ReplicaRequirements};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value};

use super::blocks::{
    component, current_status, latest, loose_replicas, number, pass_single, put_status, sum,
};
use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{flag, map, text, walk};
use crate::pod;
use crate::rules::Members;

pub(super) const FIELDS: &[&str] = &[
    "applicationState",
    "driverInfo",
    "executorState",
    "sparkApplicationId",
    "lastSubmissionAttemptTime",
    "submissionAttempts",
    "executionAttempts",
    "submissionID",
    "terminationTime",
];

pub(super) fn components(object: &Value, _: Gates) -> Result<Vec<Component>> {
    let executors = executor_count(object)?;
    let mut components = Vec::new();
    for (role, replicas) in [("driver", 1), ("executor", executors)] {
        let requirements = match walk(object, &["spec", role])? {
            Some(spec) => needs(object, spec),
            None => needs(object, &Value::Object(Map::new())),
        };
        let requirements = requirements.map_err(|e| e.under(&format!("spec.{role}")))?;
        components.push(component(role, replicas, Some(requirements)));
    }
    Ok(components)
}

fn executor_count(object: &Value) -> Result<i32> {
    let mut replicas = loose_replicas(object, &["spec", "executor", "instances"], 1)?;
    if flag(object, &["spec", "dynamicAllocation", "enabled"])?.unwrap_or(false) {
        for bound in ["initialExecutors", "minExecutors"] {
            let least = loose_replicas(object, &["spec", "dynamicAllocation", bound], 1)?;
            replicas = replicas.max(least);
        }
    }
    Ok(replicas)
}

fn needs(object: &Value, role: &Value) -> Result<ReplicaRequirements> {
    let mut request = ResourceList::new();
    let cpu = walk(role, &["cores"])?.map(Quantity::from_value).transpose();
    let cpu = cpu.map_err(|e| Error::invalid(&["cores"], e))?;
    request.insert("cpu".to_owned(), cpu.unwrap_or_else(|| Quantity::from_millis(1000)));
    request.insert("memory".to_owned(), memory(object, role)?);
    let gpu = text(role, &["gpu", "name"])?;
    let count = number(role, &["gpu", "quantity"])?.unwrap_or(0.0);
    if !gpu.is_empty() && count > 0.0 {
        let count = Quantity::from_value(&Value::from(count as i64));
        let count = count.map_err(|e| Error::invalid(&["gpu", "quantity"], e))?;
        request.insert(gpu.to_owned(), count);
    }
    Ok(ReplicaRequirements {
        node_claim: pod::node_claim(role)?.filter(|claim| *claim != Default::default()),
        resource_request: request,
        namespace: String::new(),
        priority_class_name: text(role, &["priorityClassName"])?.to_owned(),
    })
}

/// Units of the Java virtual machine, all of them binary, from small to large.
const UNITS: [(&str, &str); 6] =
    [("b", ""), ("k", "Ki"), ("m", "Mi"), ("g", "Gi"), ("t", "Ti"), ("p", "Pi")];

/// An amount in a unit, by its place among [`UNITS`].
#[derive(Clone, Copy)]
struct Amount {
    number: f64,
    unit: usize,
}

impl Amount {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let split = text.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = text.split_at(split);
        let unit = if unit.len() > 1 { unit.strip_suffix('b')? } else { unit };
        let unit = UNITS.iter().position(|(java, _)| *java == unit)?;
        Some(Self { number: number.parse().ok()?, unit })
    }

    fn at(path: &'static str, role: &Value) -> Result<Option<Self>> {
        let text = text(role, &[path])?;
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = || Error::invalid(&[path], format!("{text:?} is not an amount of memory"));
        Self::parse(text).map(Some).ok_or_else(invalid)
    }

    fn to_unit(self, unit: usize) -> f64 {
        self.number * 1024f64.powi(self.unit as i32 - unit as i32)
    }
}

/// Memory of the virtual machine and what it needs beside it, in the smaller unit of the two.
fn memory(object: &Value, role: &Value) -> Result<Quantity> {
    const LEAST: Amount = Amount { number: 384.0, unit: 2 };
    let memory = Amount::at("memory", role)?.unwrap_or(Amount { number: 1.0, unit: 3 });
    let overhead = match Amount::at("memoryOverhead", role)? {
        Some(overhead) => overhead,
        None => {
            let is_java = matches!(&*job_type(object)?, "java" | "scala");
            let default = if is_java { 0.10 } else { 0.40 };
            let factor = number(object, &["spec", "memoryOverheadFactor"])?.unwrap_or(default);
            let unit = memory.unit.min(LEAST.unit);
            let share = Amount { number: memory.number * factor, unit: memory.unit };
            Amount { number: share.to_unit(unit).max(LEAST.to_unit(unit)), unit }
        }
    };
    let unit = memory.unit.min(overhead.unit);
    let total = memory.to_unit(unit) + overhead.to_unit(unit);
    let printed = format!("{total:.6}{}", UNITS[unit].1);
    Quantity::parse(&printed).map_err(|e| Error::invalid(&["memory"], e))
}

fn job_type(object: &Value) -> Result<String> {
    match text(object, &["spec", "type"])? {
        "" => Err(Error::missing(&["spec", "type"])),
        kind => Ok(kind.to_ascii_lowercase()),
    }
}

pub(super) fn health(object: &Value) -> Result<bool> {
    let path = &["status", "applicationState", "state"];
    Ok(walk(object, path)?.is_some() && text(object, path)? != "FAILED")
}

/// The worst state wins; one that nobody knows counts as unknown.
fn severity(state: &str) -> u8 {
    match state {
        "SUBMITTED" | "PENDING_RERUN" => 1,
        "COMPLETED" => 2,
        "SUSPENDING" | "SUSPENDED" => 3,
        "RUNNING" | "RESUMING" | "SUCCEEDING" => 4,
        "INVALIDATING" => 5,
        "FAILING" | "FAILED" | "SUBMISSION_FAILED" => 6,
        _ => 0,
    }
}

pub(super) fn aggregate(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 || pass_single(object, members)? {
        return Ok(());
    }
    let mut worst: Option<(u8, Value)> = None;
    let mut executors = Map::new();
    members.each(|_, status| {
        if let Some(state) = walk(status, &["applicationState"])? {
            let severity = severity(text(state, &["state"])?);
            if worst.as_ref().is_none_or(|(known, _)| severity > *known) {
                worst = Some((severity, state.clone()));
            }
        }
        executors.extend(map(status, &["executorState"])?.cloned().unwrap_or_default());
        Ok(())
    })?;
    let mut status = current_status(object)?;
    status.insert("applicationState".to_owned(), worst.map_or(Value::Null, |(_, state)| state));
    status.insert("executorState".to_owned(), executors.into());
    for counter in ["executionAttempts", "submissionAttempts"] {
        status.insert(counter.to_owned(), sum(members, counter)?.into());
    }
    for time in ["lastSubmissionAttemptTime", "terminationTime"] {
        status.insert(time.to_owned(), latest(members, time).unwrap_or_else(|| "".into()));
    }
    put_status(object, status)
}
