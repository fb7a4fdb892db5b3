//! The names a script can see. Everything that reaches files, other states or the machine is left out;
//! functions of the libraries that can run long pay for it.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value as LuaValue};

use super::budget::{Budget, stopped};
use super::pattern::{self, Capture, PatternError};
use super::vm::Surroundings;
use super::{dates, kube};

/// Strings longer than this are refused by the string library.
const MAX_STRING: usize = 1_000_000;

/// Puts the visible names together from the full libraries and the functions of the host.
///
/// Libraries are sealed, so that no script can change them for the next one. `pcall` does not catch the
/// end of the budget: once it is spent, every protected call raises again.
const PRELUDE: &str = include_str!("prelude.lua");

/// Makes the metatable through which the environment of a call sees the permitted names.
pub(super) fn build(lua: &Lua, surroundings: &Surroundings) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("limit", MAX_STRING)?;
    host.raw_set("kube", kube::module(lua, surroundings)?)?;

    let budget = surroundings.budget.clone();
    host.raw_set("walk", lua.create_function(move |lua, ()| budget.spend_walk(lua))?)?;
    let budget = surroundings.budget.clone();
    let steps = move |_: &Lua, steps: f64| budget.spend_steps(steps as u64);
    host.raw_set("steps", lua.create_function(steps)?)?;
    let budget = surroundings.budget.clone();
    host.raw_set("is_stopped", lua.create_function(move |_, ()| Ok(budget.is_exhausted()))?)?;

    let now = surroundings.now.clone();
    let time = move |_: &Lua, table: Option<Table>| match table {
        Some(table) => dates::seconds_of(&table),
        None => Ok(now.get()),
    };
    host.raw_set("time", lua.create_function(time)?)?;
    let now = surroundings.now.clone();
    let date = move |lua: &Lua, (format, seconds): (Option<String>, Option<f64>)| {
        let format = format.unwrap_or_else(|| "%c".to_owned());
        dates::date(lua, &format, seconds.unwrap_or_else(|| now.get()))
    };
    host.raw_set("date", lua.create_function(date)?)?;

    let budget = surroundings.budget.clone();
    let find = move |lua: &Lua, arguments: FindArguments| search(lua, &budget, arguments, true);
    host.raw_set("find", lua.create_function(find)?)?;
    let budget = surroundings.budget.clone();
    let find = move |lua: &Lua, arguments: FindArguments| search(lua, &budget, arguments, false);
    host.raw_set("match", lua.create_function(find)?)?;
    let budget = surroundings.budget.clone();
    host.raw_set("gmatch", lua.create_function(move |lua, words| iterate(lua, &budget, words))?)?;

    lua.load(PRELUDE).set_name("=prelude").call(host)
}

type FindArguments = (LuaString, LuaString, Option<f64>, Option<bool>);

/// `string.find` (with the place of the match) and `string.match` (without).
fn search(
    lua: &Lua,
    budget: &Budget,
    (subject, pattern, init, plain): FindArguments,
    with_place: bool,
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    check_length(subject.len().max(pattern.len()))?;
    let from = start(init.unwrap_or(1.0), subject.len());
    let spend = |fuel| budget.spend(fuel);
    let is_plain = with_place && plain.unwrap_or(false);
    let found = if is_plain {
        find_plain(&subject, &pattern, from, &spend)
    } else {
        pattern::find(&subject, &pattern, from, &spend)
    };
    let Some(found) = found.map_err(pattern_error)? else {
        return Ok(MultiValue::from_iter([LuaValue::Nil]));
    };
    let mut results = MultiValue::new();
    let captures = if with_place {
        results.push_back(LuaValue::Number(found.start as f64 + 1.0));
        results.push_back(LuaValue::Number(found.end as f64));
        found.captures
    } else {
        found.captures_or_whole()
    };
    for capture in captures {
        results.push_back(captured(lua, &subject, capture)?);
    }
    Ok(results)
}

/// `string.gmatch`: a function that gives the next match each time.
fn iterate(
    lua: &Lua,
    budget: &Rc<Budget>,
    (subject, pattern): (LuaString, LuaString),
) -> mlua::Result<mlua::Function> {
    check_length(subject.as_bytes().len().max(pattern.as_bytes().len()))?;
    let (subject, pattern) = (subject.as_bytes().to_vec(), pattern.as_bytes().to_vec());
    let budget = budget.clone();
    let mut from = 0;
    lua.create_function_mut(move |lua, ()| {
        let found = pattern::find(&subject, &pattern, from, &|fuel| budget.spend(fuel));
        let Some(found) = found.map_err(pattern_error)? else {
            from = subject.len() + 1;
            return Ok(MultiValue::from_iter([LuaValue::Nil]));
        };
        // An empty match must not be found again.
        from = if found.end == found.start { found.end + 1 } else { found.end };
        let captures = found.captures_or_whole().into_iter();
        captures.map(|capture| captured(lua, &subject, capture)).collect()
    })
}

fn find_plain(
    subject: &[u8],
    word: &[u8],
    from: usize,
    spend: &dyn Fn(u64) -> bool,
) -> Result<Option<pattern::Match>, PatternError> {
    if !spend((subject.len() * word.len().max(1) / 8) as u64 + 1) {
        return Err(PatternError::Stopped);
    }
    let found =
        |start: usize| pattern::Match { start, end: start + word.len(), captures: Vec::new() };
    if word.is_empty() {
        return Ok((from <= subject.len()).then(|| found(from)));
    }
    let rest = subject.get(from..).unwrap_or_default();
    Ok(rest.windows(word.len()).position(|window| window == word).map(|at| found(from + at)))
}

/// Where a search begins: positions count from one, negative ones from the end.
fn start(init: f64, length: usize) -> usize {
    if init > 0.0 {
        // A search beyond the end finds nothing but the empty match there.
        return (init as usize - 1).min(length + 1);
    }
    if init < 0.0 { length.saturating_sub((-init) as usize) } else { 0 }
}

fn captured(lua: &Lua, subject: &[u8], capture: Capture) -> mlua::Result<LuaValue> {
    Ok(match capture {
        Capture::Text(start, end) => LuaValue::String(lua.create_string(&subject[start..end])?),
        Capture::Position(position) => LuaValue::Number(position as f64),
    })
}

fn check_length(length: usize) -> mlua::Result<()> {
    if length > MAX_STRING {
        return Err(mlua::Error::runtime("string is too long"));
    }
    Ok(())
}

fn pattern_error(error: PatternError) -> mlua::Error {
    match error {
        PatternError::Malformed(problem) => mlua::Error::runtime(problem),
        PatternError::Stopped => stopped(),
    }
}
