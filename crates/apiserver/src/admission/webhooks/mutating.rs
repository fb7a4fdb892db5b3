//! Mutating webhooks: one after the other, each seeing what the one before made of the object.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, patch};

use super::{Hook, ask, hooks, wants};
use crate::admission::Attributes;
use crate::admission::request::Subject;
use crate::call::Call;

/// The mutating webhooks of one write.
pub(crate) struct Mutating {
    hooks: Vec<Hook>,
    /// What each webhook left behind, if it was asked.
    seen: Vec<Option<Value>>,
}

/// The webhooks a write has to pass.
pub(crate) fn mutating(call: &Call) -> Mutating {
    let hooks = hooks(call, "mutatingwebhookconfigurations");
    Mutating { seen: vec![None; hooks.len()], hooks }
}

impl Mutating {
    pub(crate) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Asks every webhook that wants to be asked.
    pub(crate) async fn run(
        &mut self,
        call: &Call,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for (hook, seen) in self.hooks.iter().zip(&mut self.seen) {
            if one(hook, call, attributes, object, old).await? {
                *seen = Some(object.clone());
            }
        }
        Ok(())
    }

    /// Asks those again that asked for it, if somebody changed the object since they saw it.
    pub(crate) async fn run_again(
        &mut self,
        call: &Call,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for (hook, seen) in self.hooks.iter().zip(&self.seen) {
            let again = hook.spec().str_at(&["reinvocationPolicy"]) == Some("IfNeeded");
            if again && seen.as_ref().is_some_and(|seen| seen != object) {
                one(hook, call, attributes, object, old).await?;
            }
        }
        Ok(())
    }
}

/// Asks one webhook and applies its patch; tells whether it was asked.
async fn one(
    hook: &Hook,
    call: &Call,
    attributes: &Attributes,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<bool, Status> {
    let subject = Subject { call, attributes, object, old };
    let Some(view) = wants(hook, &subject).await? else { return Ok(false) };
    let Some(verdict) = ask(hook, &subject, &view).await? else { return Ok(true) };
    let Some(changes) = verdict.patch else { return Ok(true) };
    if object.is_null() {
        return Ok(true);
    }
    let changed = match patch::json::apply(&view.object, &changes) {
        Ok(changed) => changed,
        Err(_) if hook.ignores_failures() => return Ok(true),
        Err(status) => return Err(Status::internal(status.message)),
    };
    *object = subject.in_version(changed, &attributes.gvk.version).await?;
    call.served.strategy.apply_defaults(object);
    Ok(true)
}
