//! The module `kube` that scripts require: quantities, and what pod templates tell.

use karmada_apimachinery::Value;
use karmada_apimachinery::quantity::Quantity;
use mlua::{Lua, LuaString, Table, Value as LuaValue, Variadic};
use serde::Serialize;

use super::convert::{Empty, from_lua, repair, to_lua};
use super::vm::Surroundings;
use crate::error::Result;
use crate::fields::walk;
use crate::pod::{self, References};

pub(super) fn module(lua: &Lua, surroundings: &Surroundings) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("resourceAdd", lua.create_function(resource_add)?)?;
    module.raw_set("getResourceQuantity", lua.create_function(resource_quantity)?)?;
    let gates = surroundings.gates.clone();
    let requirements = move |lua: &Lua, arguments: Variadic<LuaValue>| {
        let template = pod_template(&arguments, 1, "accuratePodRequirements")?;
        let requirements = spec(&template)
            .and_then(|spec| spec.map_or(Ok(None), |spec| pod::requirements(spec, gates.get())))
            .map_err(|e| mlua::Error::runtime(e.to_string()))?;
        requirements.map_or(Ok(LuaValue::Nil), |requirements| serialized(lua, &requirements))
    };
    module.raw_set("accuratePodRequirements", lua.create_function(requirements)?)?;
    module.raw_set("getPodDependencies", lua.create_function(pod_dependencies)?)?;
    Ok(module)
}

fn resource_add(_: &Lua, amounts: Variadic<Option<LuaString>>) -> mlua::Result<String> {
    let mut sum = Quantity::ZERO;
    for amount in amounts.iter().flatten() {
        sum += &quantity(amount)?;
    }
    Ok(sum.canonical())
}

fn resource_quantity(_: &Lua, amount: LuaString) -> mlua::Result<f64> {
    let number = quantity(&amount)?.as_f64();
    if number < 0.0 || !number.is_finite() {
        return Err(mlua::Error::runtime(format!("quantity {number} is negative or infinite")));
    }
    Ok(number)
}

fn quantity(text: &LuaString) -> mlua::Result<Quantity> {
    let text = text.to_string_lossy();
    Quantity::parse(&text)
        .map_err(|e| mlua::Error::runtime(format!("parse quantity {text:?}: {e}")))
}

fn pod_dependencies(lua: &Lua, arguments: Variadic<LuaValue>) -> mlua::Result<LuaValue> {
    let template = pod_template(&arguments, 2, "getPodDependencies")?;
    let namespace = match arguments.get(1) {
        Some(LuaValue::String(namespace)) => namespace.to_string_lossy(),
        _ => "default".to_owned(),
    };
    let references = spec(&template)
        .and_then(|spec| spec.map_or(Ok(References::default()), References::of))
        .map_err(|e| mlua::Error::runtime(e.to_string()))?;
    serialized(lua, &references.into_list(&namespace))
}

fn pod_template(arguments: &[LuaValue], expected: usize, function: &str) -> mlua::Result<Value> {
    let given = arguments.len();
    if given != expected {
        let problem = format!("{function} expects {expected} argument(s), got {given}");
        return Err(mlua::Error::runtime(problem));
    }
    let template = match arguments.first() {
        Some(template @ LuaValue::Table(_)) => from_lua(template).map_err(mlua::Error::runtime)?,
        _ => return Err(mlua::Error::runtime(format!("{function} expects a pod template"))),
    };
    let mut template = template;
    repair(&mut template, Empty::Object, &[]);
    Ok(template)
}

fn spec(template: &Value) -> Result<Option<&Value>> {
    walk(template, &["spec"])
}

fn serialized(lua: &Lua, value: &impl Serialize) -> mlua::Result<LuaValue> {
    let value = karmada_apimachinery::to_value(value).map_err(mlua::Error::external)?;
    to_lua(lua, &value)
}
