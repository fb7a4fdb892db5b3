//! One Lua state per thread, with the compiled scripts it has seen. A state whose limits were exceeded is
//! thrown away.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use karmada_apimachinery::Value;
use mlua::chunk::ChunkMode;
use mlua::{
    Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value as LuaValue, VmState,
};

use super::budget::{Budget, STRIDE};
use super::convert::to_lua;
use super::{Call, Result, Script, ScriptError, sandbox};
use crate::{Gates, Operation};

/// Compiled scripts kept per thread; beyond that all are dropped and compiled anew.
const MAX_COMPILED: usize = 512;

/// Garbage beyond this is collected before the state is used again.
const MAX_IDLE: usize = 8 << 20;

thread_local! {
    static IDLE: RefCell<Option<Vm>> = const { RefCell::new(None) };
}

/// What the functions of the sandbox know about the call they are made in.
#[derive(Clone, Default)]
pub(super) struct Surroundings {
    pub(super) budget: Rc<Budget>,
    pub(super) now: Rc<Cell<f64>>,
    pub(super) gates: Rc<Cell<Gates>>,
}

struct Vm {
    lua: Lua,
    surroundings: Surroundings,
    /// Metatable of every environment.
    visible: Table,
    compiled: HashMap<u64, Function>,
}

impl Vm {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let surroundings = Surroundings::default();
        surroundings.budget.refill(u64::MAX, 0);
        let visible = sandbox::build(&lua, &surroundings)?;
        let budget = surroundings.budget.clone();
        let every = HookTriggers::new().every_nth_instruction(STRIDE);
        lua.set_global_hook(every, move |lua, _| {
            budget.spend_stride(lua)?;
            Ok(VmState::Continue)
        })?;
        Ok(Self { lua, surroundings, visible, compiled: HashMap::new() })
    }

    fn function(&mut self, script: &Script) -> Result<Function> {
        if let Some(function) = self.compiled.get(&script.id) {
            return Ok(function.clone());
        }
        // Text only: a crafted binary chunk could break out.
        let chunk = self.lua.load(&*script.source).set_mode(ChunkMode::Text).set_name("=<string>");
        let function = chunk.into_function().map_err(|e| ScriptError::Compile(e.to_string()))?;
        if self.compiled.len() >= MAX_COMPILED {
            self.compiled.clear();
        }
        self.compiled.insert(script.id, function.clone());
        Ok(function)
    }

    /// Runs the chunk in a fresh environment and returns the function it defines.
    fn define(&mut self, script: &Script, operation: Operation) -> Result<Function> {
        let name = operation.function();
        let chunk = self.function(script)?;
        let fail = |e: mlua::Error| failure(name, &self.surroundings.budget, &e);
        let environment = self.lua.create_table().map_err(fail)?;
        environment.raw_set("_G", &environment).map_err(fail)?;
        environment.set_metatable(Some(self.visible.clone())).map_err(fail)?;
        chunk.set_environment(environment.clone()).map_err(fail)?;
        chunk.call::<()>(()).map_err(fail)?;
        match environment.raw_get::<LuaValue>(name).map_err(fail)? {
            LuaValue::Function(function) => Ok(function),
            LuaValue::Nil => Err(ScriptError::FunctionMissing(name)),
            other => Err(ScriptError::NotAFunction(name, other.type_name())),
        }
    }

    fn call(
        &mut self,
        script: &Script,
        operation: Operation,
        call: &Call<'_>,
        objects: &[&Value],
        more: impl FnOnce(&Lua) -> mlua::Result<Vec<LuaValue>>,
    ) -> Result<MultiValue> {
        let name = operation.function();
        let Surroundings { budget, now, gates } = self.surroundings.clone();
        now.set((call.clock)().as_second() as f64);
        gates.set(call.gates);
        let fail = |e: mlua::Error| failure(name, &budget, &e);

        budget.refill(call.limits.fuel, self.lua.used_memory());
        let mut arguments = MultiValue::new();
        for object in objects {
            arguments.push_back(to_lua(&self.lua, object).map_err(fail)?);
        }
        arguments.extend(more(&self.lua).map_err(fail)?);
        budget.refill(call.limits.fuel, self.lua.used_memory());
        let limit = self.lua.used_memory().saturating_add(call.limits.memory);
        self.lua.set_memory_limit(limit).map_err(fail)?;
        let results = self
            .define(script, operation)
            .and_then(|function| function.call(arguments).map_err(fail));
        // Without a limit values are read back without guarding each step, which is what takes the time.
        self.lua.set_memory_limit(0).map_err(fail)?;
        results
    }
}

fn failure(function: &'static str, budget: &Budget, error: &mlua::Error) -> ScriptError {
    if budget.is_exhausted() {
        return ScriptError::OutOfFuel(function);
    }
    match error {
        mlua::Error::MemoryError(_) => ScriptError::OutOfMemory(function),
        mlua::Error::CallbackError { cause, .. } => failure(function, budget, cause),
        mlua::Error::RuntimeError(problem) => {
            ScriptError::Run { function, problem: retold(problem) }
        }
        other => ScriptError::Run { function, problem: other.to_string() },
    }
}

/// Compat: the trace of a failed script in the words of the original, since it ends up in events. Functions
/// of the host are marked `[G]`, the function that was asked for counts as the main chunk.
fn retold(problem: &str) -> String {
    let Some((message, trace)) = problem.split_once("\nstack traceback:") else {
        return problem.to_owned();
    };
    let is_own =
        |line: &&str| line.starts_with("<string>:") || line.starts_with("[C]: in function '");
    let mut lines: Vec<_> = trace
        .lines()
        .map(str::trim)
        .filter(is_own)
        .map(|line| line.replacen("[C]", "[G]", 1))
        .collect();
    while lines.last().is_some_and(|line| line.starts_with("[G]")) {
        lines.pop();
    }
    if let Some(outermost) = lines.last_mut()
        && let Some((place, _)) = outermost.split_once(": in ")
    {
        *outermost = format!("{place}: in main chunk");
    }
    lines.push("[G]: ?".to_owned());
    format!("{message}\nstack traceback:\n\t{}", lines.join("\n\t"))
}

/// Takes the state of this thread, or makes one.
fn with_vm<T>(work: impl FnOnce(&mut Vm) -> Result<T>) -> Result<T> {
    let idle = IDLE.with(|slot| slot.borrow_mut().take());
    let mut vm = match idle {
        Some(vm) => vm,
        None => Vm::new().map_err(|e| ScriptError::Sandbox(e.to_string()))?,
    };
    let result = work(&mut vm);
    let is_spoilt = matches!(result, Err(ScriptError::OutOfFuel(_) | ScriptError::OutOfMemory(_)));
    let is_clean = vm.lua.used_memory() < MAX_IDLE
        || (vm.lua.gc_collect().is_ok() && vm.lua.used_memory() < MAX_IDLE);
    if !is_spoilt && is_clean {
        IDLE.with(|slot| *slot.borrow_mut() = Some(vm));
    }
    result
}

pub(super) fn compile(script: &Script) -> Result<()> {
    with_vm(|vm| vm.function(script).map(drop))
}

/// Calls the function of a script for an operation and reads its results.
pub(super) fn run<T>(
    script: &Script,
    operation: Operation,
    call: &Call<'_>,
    objects: &[&Value],
    more: impl FnOnce(&Lua) -> mlua::Result<Vec<LuaValue>>,
    read: impl FnOnce(MultiValue) -> Result<T>,
) -> Result<T> {
    with_vm(|vm| read(vm.call(script, operation, call, objects, more)?))
}
