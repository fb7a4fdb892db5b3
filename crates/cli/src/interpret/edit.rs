//! Scripts of a customization as one Lua file to edit, and back.

use karmada_api::config::ResourceInterpreterCustomization;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};
use karmada_interpreter::Operation;

use super::RULES;
use crate::error::{Error, Result};

/// What begins the part of a rule.
const RULE: &str = "---@rule: ";
/// Lines that explain and are not kept.
const NOTE: &str = "--#";

/// What each rule is asked, for `--show-doc`.
fn purpose(rule: Operation) -> &'static str {
    match rule {
        Operation::Retain => {
            "Retain(desired, observed): what to send, with what the member shall keep"
        }
        Operation::InterpretReplica => {
            "GetReplicas(desired): how many replicas, and what each of them needs"
        }
        Operation::InterpretComponent => {
            "GetComponents(desired): the parts of a workload, with their replicas"
        }
        Operation::ReviseReplica => {
            "ReviseReplica(desired, replicas): the object with another number of replicas"
        }
        Operation::InterpretStatus => "ReflectStatus(observed): what of the status is collected",
        Operation::AggregateStatus => {
            "AggregateStatus(desired, items): the object with the status of all clusters"
        }
        Operation::InterpretHealth => "InterpretHealth(observed): whether it does its work",
        Operation::InterpretDependency => {
            "GetDependencies(desired): the objects that go where it goes"
        }
    }
}

/// Where the script of a rule stands.
fn field(rule: Operation) -> &'static str {
    match rule {
        Operation::Retain => "retention",
        Operation::InterpretReplica => "replicaResource",
        Operation::InterpretComponent => "componentResource",
        Operation::ReviseReplica => "replicaRevision",
        Operation::InterpretStatus => "statusReflection",
        Operation::AggregateStatus => "statusAggregation",
        Operation::InterpretHealth => "healthInterpretation",
        Operation::InterpretDependency => "dependencyInterpretation",
    }
}

/// All rules of a customization, those without a script too.
pub(super) fn write(customization: &ResourceInterpreterCustomization, show_doc: bool) -> String {
    let target = &customization.spec.target;
    let mut text = format!(
        "{NOTE} Edit the scripts below; lines that begin with {NOTE} are ignored, a rule without text is removed.\n\
         ---@name: {}\n---@apiVersion: {}\n---@kind: {}\n",
        customization.metadata.name, target.api_version, target.kind
    );
    let scripts = customization.spec.customizations.scripts();
    for rule in RULES {
        text.push_str(&format!("{RULE}{}\n", rule.name()));
        if show_doc {
            text.push_str(&format!("{NOTE} {}\n", purpose(rule)));
        }
        let known = scripts.iter().find(|(own, _)| Operation::from_api(own) == Some(rule));
        if let Some((_, script)) = known {
            text.push_str(script.trim_end());
            text.push('\n');
        }
    }
    text
}

/// The scripts in an edited text, by rule.
pub(super) fn read(text: &str) -> Result<Vec<(Operation, String)>> {
    let mut scripts: Vec<(Operation, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(RULE) {
            let rule = Operation::parse(name.trim()).ok_or_else(|| {
                let known = RULES.iter().map(|rule| rule.name());
                let hint = crate::suggest::did_you_mean(name.trim(), known);
                Error::Message(format!("rule {} is not known{hint}", name.trim()))
            })?;
            scripts.push((rule, String::new()));
            continue;
        }
        if line.starts_with(NOTE) || line.starts_with("---@") {
            continue;
        }
        match scripts.last_mut() {
            Some((_, script)) => {
                script.push_str(line);
                script.push('\n');
            }
            None if line.trim().is_empty() => {}
            None => return Err(Error::Message(format!("no rule is named above {line:?}"))),
        }
    }
    Ok(scripts)
}

/// Puts the scripts into a customization; a rule without one goes.
pub(super) fn set(object: &mut Value, scripts: &[(Operation, String)]) {
    for rule in RULES {
        let path = ["spec", "customizations", field(rule)];
        let script = scripts.iter().find(|(own, _)| *own == rule).map(|(_, script)| script);
        match script.filter(|script| !script.trim().is_empty()) {
            Some(script) => object.set(&path, json!({"luaScript": script})),
            None => drop(object.remove_at(&path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_survive_being_edited() {
        let mut object = json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "deploy"},
            "spec": {
                "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
                "customizations": {
                    "retention": {"luaScript": "-- kept\nfunction Retain(a, b) return a end\n"},
                    "healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end\n"}}},
        });
        let customization = karmada_apimachinery::from_value(object.clone()).unwrap();
        let text = write(&customization, true);
        assert!(text.contains("---@name: deploy\n---@apiVersion: apps/v1\n---@kind: Deployment\n"));
        let before = object.clone();
        set(&mut object, &read(&text).unwrap());
        assert_eq!(object, before);
        let edited =
            text.replace("function Retain(a, b) return a end\n", "").replace("-- kept\n", "");
        set(&mut object, &read(&edited.replace("return true", "return false")).unwrap());
        assert_eq!(
            object["spec"]["customizations"],
            json!({"healthInterpretation": {"luaScript": "function InterpretHealth(o) return false end\n"}})
        );
        assert!(read("---@rule: Retian\n").unwrap_err().to_string().contains("\"Retain\""));
    }
}
