//! MutatingAdmissionPolicy: expressions that change an object before it is stored.

use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::{Cause, Details, Status};
use karmada_apimachinery::{Value, patch};
use karmada_cel::Budget;

use super::compiled::Mutation;
use super::{Applies, BUDGET, GROUP, InForce, Variables, applies, in_force, merge, wanted};
use crate::admission::request::Subject;
use crate::admission::{Attributes, Operation};
use crate::call::Call;

/// Policies run once, and those that ask for it once more after others changed the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    First,
    Second,
}

const BINDINGS: &str = "mutatingadmissionpolicybindings";

/// Whether there are policies in force at all.
pub(crate) fn may_mutate(call: &Call) -> bool {
    !call.state.objects.list(&GroupResource::new(GROUP, BINDINGS), None).is_empty()
}

/// Lets all policies in force change an object.
pub(crate) async fn mutate(
    call: &Call,
    attributes: &Attributes,
    object: &mut Value,
    old: Option<&Value>,
    round: Round,
) -> Result<(), Status> {
    if attributes.operation == Operation::Delete {
        return Ok(());
    }
    let pairs = in_force(call, "mutatingadmissionpolicies", BINDINGS);
    for pair in &pairs {
        let again = pair.policy.spec.str_at(&["reinvocationPolicy"]) == Some("IfNeeded");
        if round == Round::Second && !again {
            continue;
        }
        apply(pair, call, attributes, object, old).await?;
    }
    Ok(())
}

async fn apply(
    pair: &InForce,
    call: &Call,
    attributes: &Attributes,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let policy = &*pair.policy;
    let refuse = |why: String| {
        if policy.ignores_failures() { Ok(()) } else { Err(refusal(pair, attributes, &why)) }
    };
    let subject = Subject { call, attributes, object, old };
    let (version, parameters) = match applies(pair, &subject) {
        Applies::No => return Ok(()),
        Applies::Failed(why) => return refuse(why),
        Applies::To(version, parameters) => (version, parameters),
    };
    for parameter in parameters {
        let mut budget = Budget::new(BUDGET);
        let mut asked = false;
        for mutation in &policy.mutations {
            let subject = Subject { call, attributes, object, old };
            let view = subject.view(version.clone()).await?;
            let variables = Variables::new(&subject, &view, policy, parameter.as_deref());
            if !asked {
                match wanted(policy, &variables) {
                    Ok(true) => asked = true,
                    Ok(false) => break,
                    Err(why) => return refuse(why),
                }
            }
            match changed(mutation, &variables, &mut budget, (call, &version), &view.object) {
                Ok(new) => {
                    *object = subject.in_version(new, &attributes.gvk.version).await?;
                    call.served.strategy.apply_defaults(object);
                }
                Err(why) => return refuse(why),
            }
        }
    }
    Ok(())
}

/// The object after one mutation.
fn changed(
    mutation: &Mutation,
    variables: &Variables<'_>,
    budget: &mut Budget,
    (call, version): (&Call, &str),
    object: &Value,
) -> Result<Value, String> {
    let failed = |why: String| format!("expression '{}' resulted in error: {why}", mutation.text);
    let program = mutation.program.as_ref().map_err(|why| failed(why.clone()))?;
    let result = program.run(variables, budget).map_err(|error| failed(error.to_string()))?;
    let result = result.to_json();
    if mutation.json_patch {
        return patch::json::apply(object, &result).map_err(|status| failed(status.message));
    }
    for place in ["name", "namespace", "uid"] {
        if result.at(&["metadata", place]).is_some() {
            return Err(failed(format!("metadata.{place} may not be changed")));
        }
    }
    let gvk = &call.served.gvk;
    let kind = karmada_apimachinery::gvk::GroupVersion::new(gvk.group.as_str(), version)
        .with_kind(gvk.kind.as_str());
    Ok(merge::merged(object, &result, call.served.strategy.schema_of(&kind)))
}

fn refusal(pair: &InForce, attributes: &Attributes, why: &str) -> Status {
    let message = format!(
        "policy '{}' with binding '{}' denied request: {why}",
        pair.policy.name,
        pair.binding.name()
    );
    // Compat: the reason says invalid, the code says forbidden.
    Status::new(403, "Invalid", message.clone()).with_details(Details {
        name: attributes.name.to_string(),
        group: attributes.gvk.group.clone(),
        kind: attributes.resource.to_string(),
        causes: vec![Cause { message, ..Cause::default() }],
        ..Details::default()
    })
}
