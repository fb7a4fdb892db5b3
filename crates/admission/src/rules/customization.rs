//! ResourceInterpreterCustomization: scripts must load, and a question about a kind has one answer.

use karmada_api::config::{InterpreterOperation, ResourceInterpreterCustomization};

use crate::decode::decode;
use crate::lua;
use crate::request::{Denial, Environment, Request, Verdict};

pub(crate) fn validate(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let new: ResourceInterpreterCustomization = decode(&request.object)?;
    for other in environment.customizations() {
        if other.metadata.name != new.metadata.name {
            check_conflict(&other, &new)?;
        }
    }
    for (operation, script) in new.spec.customizations.scripts() {
        lua::check(script).map_err(|problem| {
            Denial::forbidden(format!(
                "InterpreterOperation({operation}) Lua script error: {problem}"
            ))
        })?;
    }
    Ok(Verdict::default())
}

/// Dependencies are exempt: the lists of several customizations add up.
fn check_conflict(
    other: &ResourceInterpreterCustomization,
    new: &ResourceInterpreterCustomization,
) -> Result<(), Denial> {
    if other.spec.target != new.spec.target {
        return Ok(());
    }
    let taken = other.spec.customizations.scripts();
    let is_taken = |operation: &InterpreterOperation| {
        *operation != InterpreterOperation::InterpretDependency
            && taken.iter().any(|(theirs, _)| theirs == operation)
    };
    let scripts = new.spec.customizations.scripts();
    match scripts.iter().map(|(operation, _)| operation).find(|operation| is_taken(operation)) {
        None => Ok(()),
        Some(operation) => Err(Denial::forbidden(format!(
            "conflicting with InterpreterOperation({operation}) of existing ResourceInterpreterCustomization({})",
            other.metadata.name
        ))),
    }
}
