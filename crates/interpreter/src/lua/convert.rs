//! Values on their way into Lua and back, tree to tree. Lua cannot tell an empty list from an empty object;
//! what a script returns is repaired by looking at the objects it was given.

use std::collections::{BTreeMap, HashSet};

use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::{Map, Value};
use mlua::{Lua, LuaString, Table, Value as LuaValue};
use serde_json::Number;

/// Deeper trees are refused in both directions.
const MAX_DEPTH: usize = 100;

pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    to_lua_at(lua, value, 0)
}

fn to_lua_at(lua: &Lua, value: &Value, depth: usize) -> mlua::Result<LuaValue> {
    if depth > MAX_DEPTH {
        return Err(mlua::Error::runtime("object is nested too deeply"));
    }
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(flag) => LuaValue::Boolean(*flag),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::String(text) => table.raw_seti(index + 1, text.as_str())?,
                    other => table.raw_seti(index + 1, to_lua_at(lua, other, depth + 1)?)?,
                }
            }
            LuaValue::Table(table)
        }
        Value::Object(entries) => {
            let table = lua.create_table_with_capacity(0, entries.len())?;
            for (key, item) in entries {
                match item {
                    // Text goes straight in: a handle for every string would cost more than the string.
                    Value::String(text) => table.raw_set(key.as_str(), text.as_str())?,
                    other => table.raw_set(key.as_str(), to_lua_at(lua, other, depth + 1)?)?,
                }
            }
            LuaValue::Table(table)
        }
    })
}

/// The form in which scripts see the status of a member.
pub(super) fn item_to_lua(lua: &Lua, item: &AggregatedStatusItem) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 5)?;
    table.raw_set("clusterName", item.cluster_name.as_str())?;
    if let Some(status) = &item.status {
        table.raw_set("status", to_lua(lua, status)?)?;
    }
    if item.applied {
        table.raw_set("applied", true)?;
    }
    for (field, text) in
        [("appliedMessage", &*item.applied_message), ("health", item.health.as_str())]
    {
        if !text.is_empty() {
            table.raw_set(field, text)?;
        }
    }
    Ok(table)
}

/// Reads a value back; empty tables come out as lists.
pub(super) fn from_lua(value: &LuaValue) -> Result<Value, String> {
    from_lua_at(value, &mut HashSet::new(), 0)
}

fn from_lua_at(value: &LuaValue, seen: &mut HashSet<usize>, depth: usize) -> Result<Value, String> {
    match value {
        LuaValue::Nil => Ok(Value::Null),
        LuaValue::Boolean(flag) => Ok(Value::Bool(*flag)),
        LuaValue::Integer(number) => Ok(Value::from(*number)),
        LuaValue::Number(number) => from_number(*number),
        LuaValue::String(text) => Ok(Value::String(text.to_string_lossy().into())),
        LuaValue::Table(table) => {
            if depth > MAX_DEPTH {
                return Err("table is nested too deeply".to_owned());
            }
            // Compat: a table that is reachable twice is refused, cycle or not.
            if !seen.insert(table.to_pointer() as usize) {
                return Err("cannot encode recursively nested tables to JSON".to_owned());
            }
            from_table(table, seen, depth)
        }
        other => Err(format!("cannot encode {} to JSON", other.type_name())),
    }
}

fn from_number(number: f64) -> Result<Value, String> {
    // Beyond this, not every whole number has a form of its own.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE {
        return Ok(Value::from(number as i64));
    }
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| format!("cannot encode the number {number} to JSON"))
}

fn from_table(table: &Table, seen: &mut HashSet<usize>, depth: usize) -> Result<Value, String> {
    // Gathered first: converting inside of the walk would nest as deeply as the tables do.
    let mut pairs = Vec::new();
    table
        .for_each(|key: LuaValue, value: LuaValue| {
            pairs.push((key, value));
            Ok(())
        })
        .map_err(|e| e.to_string())?;
    let mut entries = Map::new();
    let mut items = BTreeMap::new();
    for (key, value) in pairs {
        let value = from_lua_at(&value, seen, depth + 1)?;
        match key {
            LuaValue::String(key) => drop(entries.insert(key_text(&key), value)),
            LuaValue::Integer(index) => drop(items.insert(index, value)),
            other => {
                let kind = other.type_name();
                return Err(format!("cannot encode a table with a key of type {kind}"));
            }
        }
    }
    if items.is_empty() && !entries.is_empty() {
        return Ok(Value::Object(entries));
    }
    if !entries.is_empty() {
        return Err("cannot encode mixed or invalid key types".to_owned());
    }
    // Keys are sorted, so a dense list counts up from one.
    if items.keys().zip(1..).any(|(index, expected)| *index != expected) {
        return Err("cannot encode sparse array".to_owned());
    }
    Ok(Value::Array(items.into_values().collect()))
}

fn key_text(key: &LuaString) -> String {
    key.to_string_lossy()
}

/// What an empty result stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    Object,
    List,
}

/// Gives empty tables back the form they have in the reference objects; those that are in none go away.
pub(super) fn repair(result: &mut Value, whole: Empty, references: &[&Value]) {
    if is_empty_list(result) {
        if whole == Empty::Object {
            *result = Value::Object(Map::new());
        }
        return;
    }
    let mut shape = Shape::default();
    for reference in references {
        shape.learn(reference, 0);
    }
    repair_at(result, Some(&shape));
}

fn is_empty_list(value: &Value) -> bool {
    matches!(value, Value::Array(items) if items.is_empty())
}

/// Where empty lists and objects stand in the references; elements of a list count as one place.
#[derive(Default)]
struct Shape<'a> {
    fields: BTreeMap<&'a str, Shape<'a>>,
    has_empty_object: bool,
    has_empty_list: bool,
}

impl<'a> Shape<'a> {
    fn learn(&mut self, value: &'a Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Array(items) if items.is_empty() => self.has_empty_list = true,
            Value::Object(entries) if entries.is_empty() => self.has_empty_object = true,
            Value::Array(items) => items.iter().for_each(|item| self.learn(item, depth + 1)),
            Value::Object(entries) => {
                // Only branches that can hold something empty are remembered.
                for (key, entry) in entries.iter().filter(|(_, e)| e.is_object() || e.is_array()) {
                    self.fields.entry(key).or_default().learn(entry, depth + 1);
                }
            }
            _ => {}
        }
    }
}

fn repair_at(value: &mut Value, shape: Option<&Shape<'_>>) {
    match value {
        Value::Array(items) => items.retain_mut(|item| keep(item, shape)),
        Value::Object(entries) => entries.retain(|key, entry| {
            keep(entry, shape.and_then(|shape| shape.fields.get(key.as_str())))
        }),
        _ => {}
    }
}

/// Repairs what stands at a place; says whether it may stay.
fn keep(value: &mut Value, shape: Option<&Shape<'_>>) -> bool {
    if !is_empty_list(value) {
        repair_at(value, shape);
        return true;
    }
    if shape.is_some_and(|shape| shape.has_empty_object) {
        *value = Value::Object(Map::new());
        return true;
    }
    shape.is_some_and(|shape| shape.has_empty_list)
}
