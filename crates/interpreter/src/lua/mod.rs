//! Scripts of users: Lua 5.1 in a sandbox that bounds instructions and memory, compiled once per thread.
//!
//! A script is a chunk that defines one global function per question. Each call runs the chunk in a fresh
//! environment, so nothing leaks from one call into another. Limits are counted, not timed: the same script
//! on the same object always ends the same way.

mod budget;
mod convert;
mod dates;
mod kube;
mod pattern;
mod sandbox;
#[cfg(test)]
mod tests;
mod vm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use karmada_api::config::DependentObjectReference;
use karmada_api::work::{AggregatedStatusItem, Component};
use karmada_apimachinery::Value;
use mlua::{Lua, MultiValue, Value as LuaValue};
use serde::de::DeserializeOwned;

use crate::{Gates, Operation, Replicas};
use convert::{Empty, from_lua, item_to_lua, repair};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("compile: {0}")]
    Compile(String),
    #[error("not found function {0}")]
    FunctionMissing(&'static str),
    #[error("{0} is not a function: {1}")]
    NotAFunction(&'static str, &'static str),
    /// Compat: only what the script says, as events show it.
    #[error("{problem}")]
    Run { function: &'static str, problem: String },
    #[error("run {0}: too many instructions")]
    OutOfFuel(&'static str),
    #[error("run {0}: too much memory")]
    OutOfMemory(&'static str),
    #[error("result of {function}: {problem}")]
    Result { function: &'static str, problem: String },
    #[error("create sandbox: {0}")]
    Sandbox(String),
}

type Result<T> = std::result::Result<T, ScriptError>;

/// What one call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, and work of library functions counted in instructions; the default takes about a second.
    pub fuel: u64,
    /// Bytes beyond those of the arguments.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 100_000_000, memory: 64 << 20 }
    }
}

/// The surroundings of a call.
pub(crate) struct Call<'a> {
    pub(crate) gates: Gates,
    pub(crate) limits: &'a Limits,
    pub(crate) clock: &'a (dyn Fn() -> Timestamp + Send + Sync),
}

/// The source of a script and the identity under which compiled forms of it are kept.
#[derive(Debug, Clone)]
pub struct Script {
    id: u64,
    source: Arc<str>,
}

impl Script {
    pub fn new(source: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), source: source.into() }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the script compiles; it is not run.
    pub fn compile(&self) -> Result<()> {
        vm::compile(self)
    }

    pub(crate) fn replicas(&self, object: &Value, call: &Call<'_>) -> Result<Replicas> {
        let operation = Operation::InterpretReplica;
        let (replicas, requirements) = vm::run(
            self,
            operation,
            call,
            &[object],
            |_| Ok(Vec::new()),
            |results| {
                let mut results = results.into_iter();
                let replicas = match results.next() {
                    Some(LuaValue::Integer(number)) => number as f64,
                    Some(LuaValue::Number(number)) => number,
                    other => {
                        return Err(unexpected(operation, "a number", &other.unwrap_or_default()));
                    }
                };
                // Compat: fractions are cut off.
                let requirements = match results.next().unwrap_or_default() {
                    LuaValue::Nil => None,
                    table @ LuaValue::Table(_) => {
                        Some(value_of(operation, &table, Empty::Object, &[])?)
                    }
                    other => return Err(unexpected(operation, "a table or nil", &other)),
                };
                Ok((replicas as i32, requirements))
            },
        )?;
        let requirements = requirements.map(|value| typed(operation, value)).transpose()?;
        Ok(Replicas { replicas, requirements })
    }

    pub(crate) fn components(&self, object: &Value, call: &Call<'_>) -> Result<Vec<Component>> {
        let operation = Operation::InterpretComponent;
        let value = vm::run(
            self,
            operation,
            call,
            &[object],
            |_| Ok(Vec::new()),
            |results| match first(results) {
                LuaValue::Nil => Ok(Value::Array(Default::default())),
                table @ LuaValue::Table(_) => value_of(operation, &table, Empty::List, &[]),
                other => Err(unexpected(operation, "a table or nil", &other)),
            },
        )?;
        typed(operation, value)
    }

    pub(crate) fn revise(&self, object: &Value, replicas: i64, call: &Call<'_>) -> Result<Value> {
        let operation = Operation::ReviseReplica;
        let more = |_: &Lua| Ok(vec![LuaValue::Number(replicas as f64)]);
        self.table(operation, call, &[object], more, Empty::Object, &[object])
    }

    pub(crate) fn retain(
        &self,
        desired: &Value,
        observed: &Value,
        call: &Call<'_>,
    ) -> Result<Value> {
        let objects = &[desired, observed];
        self.table(Operation::Retain, call, objects, |_| Ok(Vec::new()), Empty::Object, objects)
    }

    pub(crate) fn reflect(&self, object: &Value, call: &Call<'_>) -> Result<Option<Value>> {
        let operation = Operation::InterpretStatus;
        self.table(operation, call, &[object], |_| Ok(Vec::new()), Empty::Object, &[]).map(Some)
    }

    pub(crate) fn health(&self, object: &Value, call: &Call<'_>) -> Result<bool> {
        let operation = Operation::InterpretHealth;
        vm::run(
            self,
            operation,
            call,
            &[object],
            |_| Ok(Vec::new()),
            |results| match first(results) {
                LuaValue::Boolean(healthy) => Ok(healthy),
                other => Err(unexpected(operation, "a boolean", &other)),
            },
        )
    }

    pub(crate) fn aggregate(
        &self,
        object: &Value,
        items: &[AggregatedStatusItem],
        call: &Call<'_>,
    ) -> Result<Value> {
        let statuses = |lua: &Lua| {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(item_to_lua(lua, item)?)?;
            }
            Ok(vec![LuaValue::Table(table)])
        };
        self.table(Operation::AggregateStatus, call, &[object], statuses, Empty::Object, &[])
    }

    pub(crate) fn dependencies(
        &self,
        object: &Value,
        call: &Call<'_>,
    ) -> Result<Vec<DependentObjectReference>> {
        let operation = Operation::InterpretDependency;
        let list = self.table(operation, call, &[object], |_| Ok(Vec::new()), Empty::List, &[])?;
        typed(operation, list)
    }

    /// Runs a function that returns a table.
    fn table(
        &self,
        operation: Operation,
        call: &Call<'_>,
        objects: &[&Value],
        more: impl FnOnce(&Lua) -> mlua::Result<Vec<LuaValue>>,
        empty: Empty,
        references: &[&Value],
    ) -> Result<Value> {
        vm::run(self, operation, call, objects, more, |results| match first(results) {
            table @ LuaValue::Table(_) => value_of(operation, &table, empty, references),
            other => Err(unexpected(operation, "a table", &other)),
        })
    }
}

fn first(results: MultiValue) -> LuaValue {
    results.into_iter().next().unwrap_or_default()
}

fn value_of(
    operation: Operation,
    table: &LuaValue,
    empty: Empty,
    references: &[&Value],
) -> Result<Value> {
    let fail = |problem| ScriptError::Result { function: operation.function(), problem };
    let mut value = from_lua(table).map_err(fail)?;
    repair(&mut value, empty, references);
    Ok(value)
}

fn typed<T: DeserializeOwned>(operation: Operation, value: Value) -> Result<T> {
    let fail = |e: serde_json::Error| ScriptError::Result {
        function: operation.function(),
        problem: e.to_string(),
    };
    karmada_apimachinery::from_value(value).map_err(fail)
}

fn unexpected(operation: Operation, expected: &str, found: &LuaValue) -> ScriptError {
    let problem = format!("expected {expected}, got {}", found.type_name());
    ScriptError::Result { function: operation.function(), problem }
}
