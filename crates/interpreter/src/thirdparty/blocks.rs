//! What the rules of several custom kinds have in common: picking fields, adding up, and merging conditions.

use karmada_api::annotations;
use karmada_api::work::{Component, ComponentReplicaRequirements, ReplicaRequirements};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Map, Value, json};

use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{count, list, make_map, map, objects, set, text, walk};
use crate::pod::template_requirements;
use crate::rules::{Members, Replicas};

/// The fields of the status that say something; an empty object if there is no status.
pub(super) fn pick(object: &Value, fields: &[&str]) -> Result<Map> {
    let mut picked = Map::new();
    if let Some(status) = map(object, &["status"])? {
        for field in fields {
            if let Some(value) = status.get(*field) {
                picked.insert((*field).to_owned(), value.clone());
            }
        }
    }
    drop_empty_fields(&mut picked);
    Ok(picked)
}

/// Leaves out fields that are empty. Compat: what becomes empty by that stays, as an object without fields.
fn drop_empty_fields(fields: &mut Map) {
    fields.retain(|_, value| !is_empty(value));
    fields.values_mut().for_each(drop_empty_fields_within);
}

fn drop_empty_fields_within(value: &mut Value) {
    match value {
        Value::Object(fields) => drop_empty_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(drop_empty_fields_within),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// As [`pick`], with the generation in the member and that of the template it was made from.
pub(super) fn report(object: &Value, fields: &[&str]) -> Result<Option<Value>> {
    let mut picked = pick(object, fields)?;
    if map(object, &["status"])?.is_some() {
        if let Some(generation) = walk(object, &["metadata", "generation"])? {
            picked.insert("generation".to_owned(), generation.clone());
        }
        let template = object.annotation(annotations::TEMPLATE_GENERATION);
        if let Some(generation) = template.and_then(|text| text.trim().parse::<i64>().ok()) {
            picked.insert("resourceTemplateGeneration".to_owned(), generation.into());
        }
    }
    Ok(Some(Value::Object(picked)))
}

pub(super) fn reflect(object: &Value, fields: &[&str]) -> Result<Option<Value>> {
    pick(object, fields).map(|picked| Some(Value::Object(picked)))
}

/// Leaves out nulls and everything empty, at every depth.
pub(super) fn without_empties(map: Map) -> Map {
    prune(map, &|value| value.is_null())
}

/// Leaves out zeros and blanks as well.
pub(super) fn without_zeros(map: Map) -> Map {
    prune(map, &|value| match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0s",
        _ => false,
    })
}

fn prune(map: Map, drop: &dyn Fn(&Value) -> bool) -> Map {
    let kept = map.into_iter().filter_map(|(key, value)| Some((key, prune_value(value, drop)?)));
    kept.collect()
}

fn prune_value(value: Value, drop: &dyn Fn(&Value) -> bool) -> Option<Value> {
    match value {
        Value::Object(map) => {
            let map = prune(map, drop);
            (!map.is_empty()).then_some(Value::Object(map))
        }
        Value::Array(items) => {
            let items: Vec<_> =
                items.into_iter().filter_map(|item| prune_value(item, drop)).collect();
            (!items.is_empty()).then_some(Value::Array(items.into()))
        }
        other => (!drop(&other)).then_some(other),
    }
}

/// Makes this the status; nothing stays of an empty one.
pub(super) fn put_status(object: &mut Value, status: Map) -> Result<()> {
    let status = without_empties(status);
    if status.is_empty() {
        make_map(object, &[])?.remove("status");
        return Ok(());
    }
    set(object, &["status"], status)
}

/// The status of the template as it is now.
pub(super) fn current_status(object: &Value) -> Result<Map> {
    Ok(map(object, &["status"])?.cloned().unwrap_or_default())
}

/// With a single member, its status is the status of the template; says whether that was so.
pub(super) fn pass_single(object: &mut Value, members: &Members<'_>) -> Result<bool> {
    let [item] = members.items else { return Ok(false) };
    let status = item.status.as_ref().and_then(Value::as_object).cloned();
    put_status(object, status.unwrap_or_default())?;
    Ok(true)
}

/// Sums counters over the members.
pub(super) fn sum(members: &Members<'_>, field: &str) -> Result<i64> {
    let mut sum = 0i64;
    members.each(|_, status| {
        sum = sum.saturating_add(count(status, &[field])?);
        Ok(())
    })?;
    Ok(sum)
}

/// How a field that cannot be added up is chosen.
#[derive(Clone, Copy)]
pub(super) enum Otherwise {
    /// Blank if no member says anything.
    Blank,
    /// Zero if no member says anything.
    Zero,
    /// Blank if no member says anything; as it was if there is no member.
    BlankAmongMembers,
    /// The value of the template if no member says anything; blank if there is no member.
    Kept,
    /// Left out if no member says anything.
    Absent,
}

/// The last value of a field that is there and not blank.
pub(super) fn last(members: &Members<'_>, field: &str) -> Option<Value> {
    members
        .reported()
        .filter_map(|(_, status)| status.get(field))
        .filter(|value| !value.is_null() && value.as_str() != Some(""))
        .last()
        .cloned()
}

/// The first value of a field that is there.
pub(super) fn first(members: &Members<'_>, field: &str) -> Option<Value> {
    let mut values = members.reported().filter_map(|(_, status)| status.get(field));
    values.find(|value| !value.is_null()).cloned()
}

/// The earliest and the latest value of a time field; RFC 3339 stamps in UTC compare as text.
pub(super) fn earliest(members: &Members<'_>, field: &str) -> Option<Value> {
    times(members, field).min().map(Value::from)
}

pub(super) fn latest(members: &Members<'_>, field: &str) -> Option<Value> {
    times(members, field).max().map(Value::from)
}

fn times<'a>(members: &'a Members<'_>, field: &'a str) -> impl Iterator<Item = &'a str> {
    let fields = members.reported().filter_map(move |(_, status)| status.get(field));
    fields.filter_map(Value::as_str).filter(|time| !time.is_empty())
}

/// How conditions of the members become those of the template.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Conditions {
    Untouched,
    /// Equal ones become one, whose message names the clusters.
    Merged,
    /// The last of each type.
    LastPerType,
}

/// How statuses become one, for kinds that report generations.
pub(super) struct Merge {
    pub(super) sums: &'static [&'static str],
    pub(super) last: &'static [(&'static str, Otherwise)],
    pub(super) conditions: Conditions,
}

/// Merges statuses; the template counts as observed once every member is aligned with it.
pub(super) fn merge(object: &mut Value, members: &Members<'_>, rules: &Merge) -> Result<()> {
    let mut status = current_status(object)?;
    let generation = count(object, &["metadata", "generation"])?;
    let mut aligned = 0;
    members.each(|_, reported| {
        let own = count(reported, &["generation"])?;
        let is_aligned = count(reported, &["resourceTemplateGeneration"])? == generation
            && count(reported, &["observedGeneration"])? == own;
        aligned += usize::from(is_aligned);
        Ok(())
    })?;
    // A member that reports nothing has seen nothing, unless there is nothing to see.
    if generation == 0 {
        aligned += members.len() - members.reported().count();
    }
    let observed = if aligned == members.len() {
        generation
    } else {
        count(object, &["status", "observedGeneration"])?
    };
    status.insert("observedGeneration".to_owned(), observed.into());
    for field in rules.sums {
        status.insert((*field).to_owned(), sum(members, field)?.into());
    }
    for (field, otherwise) in rules.last {
        let value = last(members, field).or(match otherwise {
            Otherwise::Blank => Some("".into()),
            Otherwise::Zero => Some(0.into()),
            Otherwise::BlankAmongMembers if members.len() > 0 => Some("".into()),
            Otherwise::Kept if members.len() == 0 => Some("".into()),
            Otherwise::BlankAmongMembers | Otherwise::Kept => status.get(*field).cloned(),
            Otherwise::Absent => None,
        });
        status.insert((*field).to_owned(), value.unwrap_or(Value::Null));
    }
    match rules.conditions {
        Conditions::Untouched => {}
        Conditions::Merged => {
            status.insert("conditions".to_owned(), merged_conditions(members)?.into());
        }
        Conditions::LastPerType => {
            let conditions = last_conditions(members)?;
            if !conditions.is_empty() {
                status.insert("conditions".to_owned(), conditions.into());
            }
        }
    }
    put_status(object, status)
}

/// Conditions of all members; those with equal type, status and reason become one.
pub(super) fn merged_conditions(members: &Members<'_>) -> Result<Vec<Value>> {
    const IDENTITY: [&str; 3] = ["type", "status", "reason"];
    let mut merged: Vec<Value> = Vec::new();
    members.each(|cluster, status| {
        for condition in objects(status, &["conditions"])? {
            let message = format!("{cluster}={}", text(condition, &["message"])?);
            let same = |known: &&mut Value| {
                IDENTITY.iter().all(|field| known.get(*field) == condition.get(*field))
            };
            match merged.iter_mut().find(same) {
                Some(known) => {
                    let joined = format!("{}, {message}", text(known, &["message"])?);
                    set(known, &["message"], joined)?;
                }
                None => {
                    let mut condition = condition.clone();
                    set(&mut condition, &["message"], message)?;
                    merged.push(condition);
                }
            }
        }
        Ok(())
    })?;
    Ok(merged)
}

/// The last condition of each type, in the order in which the types turned up.
fn last_conditions(members: &Members<'_>) -> Result<Vec<Value>> {
    let mut last: Vec<Value> = Vec::new();
    members.each(|_, status| {
        for condition in objects(status, &["conditions"])? {
            text(condition, &["type"])?;
            put_by_type(&mut last, condition);
        }
        Ok(())
    })?;
    Ok(last)
}

/// Takes the place of the condition of the same type, or a new one at the end.
pub(super) fn put_by_type(conditions: &mut Vec<Value>, condition: &Value) {
    match conditions.iter_mut().find(|known| known.get("type") == condition.get("type")) {
        Some(known) => *known = condition.clone(),
        None => conditions.push(condition.clone()),
    }
}

/// All conditions of all members, one after the other.
pub(super) fn all_conditions(members: &Members<'_>) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    members.each(|_, status| {
        all.extend(list(status, &["conditions"])?.iter().cloned());
        Ok(())
    })?;
    Ok(all)
}

/// Whether a condition of this type is true in a status.
pub(super) fn is_true(status: &Value, kind: &str) -> Result<bool> {
    for condition in objects(status, &["conditions"])? {
        if text(condition, &["type"])? == kind && text(condition, &["status"])? == "True" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A condition that holds since now.
pub(super) fn condition_now(
    members: &Members<'_>,
    kind: &str,
    reason: &str,
    message: &str,
) -> Value {
    let now = format_time(members.now);
    json!({
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    })
}

/// A number that may be written as text.
pub(super) fn number(value: &Value, path: &[&str]) -> Result<Option<f64>> {
    Ok(match walk(value, path)? {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    })
}

/// Replicas that may be written as text.
pub(super) fn loose_replicas(value: &Value, path: &[&str], default: i32) -> Result<i32> {
    match number(value, path)? {
        None => Ok(default),
        Some(number) if number.abs() <= f64::from(i32::MAX) => Ok(number as i32),
        Some(number) => Err(Error::invalid(path, format!("{number} has more than 32 bits"))),
    }
}

pub(super) fn component(
    name: &str,
    replicas: i32,
    requirements: Option<ReplicaRequirements>,
) -> Component {
    let requirements = requirements.map(|requirements| ComponentReplicaRequirements {
        node_claim: requirements.node_claim,
        resource_request: requirements.resource_request,
        priority_class_name: requirements.priority_class_name,
    });
    Component { name: name.to_owned(), replicas, replica_requirements: requirements }
}

const TEMPLATE: &[&str] = &["spec", "template"];

/// Replicas of a field, needs of the pod template.
pub(super) fn replicas_at(
    object: &Value,
    path: &[&str],
    default: i32,
    gates: Gates,
) -> Result<Replicas> {
    Ok(Replicas {
        replicas: crate::fields::replicas(object, path, default)?,
        requirements: template_requirements(object, TEMPLATE, gates)?,
    })
}

/// Copies a field of the specification that the member changed.
pub(super) fn keep_field(desired: &mut Value, observed: &Value, path: &[&str]) -> Result<()> {
    match walk(observed, path)? {
        Some(value) => set(desired, path, value.clone()),
        None => Ok(()),
    }
}
