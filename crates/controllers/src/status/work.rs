//! The state of delivered objects, as their Work shows it. The lanes of the execution controller
//! call this with what the member answered or a watch brought.

use karmada_api::event_reason;
use karmada_api::work::{ManifestStatus, ResourceHealth, ResourceIdentifier, WorkStatus};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Object;
use karmada_interpreter::{Interpreter, Operation};
use karmada_runtime::{ObjectKey, Recorder};

use crate::context::Context;
use crate::propagation::execution;
use crate::propagation::works::ManifestHead;

pub(crate) fn start(context: &Context) {
    execution::start_reports(context);
}

/// What is to be told about a look at the objects of a Work.
#[derive(Debug, Default)]
pub(crate) struct Reflection {
    notes: Vec<Note>,
    /// An object whose status could not be read.
    pub(crate) failed: Option<String>,
}

#[derive(Debug, PartialEq)]
struct Note {
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Reflection {
    pub(crate) fn tell(&self, events: &Recorder, work: &Object) {
        for Note { warning, reason, message } in &self.notes {
            if *warning {
                events.warning(work, reason, message.as_str());
            } else {
                events.normal(work, reason, message.as_str());
            }
        }
    }

    fn note(&mut self, warning: bool, reason: &'static str, message: String) {
        self.notes.push(Note { warning, reason, message });
    }
}

/// Puts the state of the objects into the status of their Work. Of an object that was not seen the
/// last state stays.
pub(crate) fn reflect(
    interpreter: &Interpreter,
    work: &ObjectKey,
    heads: &[ManifestHead],
    objects: &[Option<&Value>],
    status: &mut WorkStatus,
) -> Reflection {
    let mut reflection = Reflection::default();
    for (ordinal, (head, object)) in heads.iter().zip(objects).enumerate() {
        let Some(object) = object.filter(|object| is_of(object, work)) else { continue };
        let title = format!("{}/{}/{}", head.kind, head.metadata.namespace, head.metadata.name);
        let known = status.manifest_statuses.iter().position(|known| names(known, head));
        let reflected = match interpreter.interpret_status(object) {
            Ok(reflected) => reflected.filter(|reflected| !reflected.is_null()),
            Err(error) => {
                let message = format!("Reflect status for object({title}) failed, err: {error}.");
                reflection.note(true, event_reason::REFLECT_STATUS_FAILED, message);
                reflection.failed = Some(title);
                continue;
            }
        };
        if known.is_none() {
            let message = format!("Reflect status for object({title}) succeed.");
            reflection.note(false, event_reason::REFLECT_STATUS_SUCCEED, message);
        }
        let before = known.map(|place| status.manifest_statuses[place].health.clone());
        let health = health_of(interpreter, object, &title, before.as_ref(), &mut reflection);
        let new =
            ManifestStatus { identifier: identifier(ordinal, head), status: reflected, health };
        match known {
            Some(place) => status.manifest_statuses[place] = new,
            None => status.manifest_statuses.push(new),
        }
    }
    // What is no longer in the Work has no state in it.
    status.manifest_statuses.retain(|known| heads.iter().any(|head| names(known, head)));
    status.manifest_statuses.sort_by_key(|known| known.identifier.ordinal);
    reflection
}

fn health_of(
    interpreter: &Interpreter,
    object: &Value,
    title: &str,
    before: Option<&ResourceHealth>,
    reflection: &mut Reflection,
) -> ResourceHealth {
    if !interpreter.hook_enabled(&object.gvk(), Operation::InterpretHealth) {
        return ResourceHealth::Healthy;
    }
    let (health, word) = match interpreter.interpret_health(object) {
        Ok(true) => (ResourceHealth::Healthy, "healthy"),
        Ok(false) => (ResourceHealth::Unhealthy, "unhealthy"),
        Err(error) => {
            if before != Some(&ResourceHealth::Unknown) {
                let message = format!("Interpret health of object({title}) failed, err: {error}.");
                reflection.note(true, event_reason::INTERPRET_HEALTH_FAILED, message);
            }
            return ResourceHealth::Unknown;
        }
    };
    if before != Some(&health) {
        let message = format!("Interpret health of object({title}) as {word}.");
        reflection.note(false, event_reason::INTERPRET_HEALTH_SUCCEED, message);
    }
    health
}

/// Whether an object in the member says that this Work put it there.
fn is_of(object: &Value, work: &ObjectKey) -> bool {
    use karmada_api::annotations::{WORK_NAME, WORK_NAMESPACE};
    object.annotation(WORK_NAMESPACE) == Some(&work.namespace)
        && object.annotation(WORK_NAME) == Some(&work.name)
}

fn identifier(ordinal: usize, head: &ManifestHead) -> ResourceIdentifier {
    let gvk = head.gvk();
    ResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX).into(),
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        resource: String::new(),
        namespace: head.metadata.namespace.clone(),
        name: head.metadata.name.clone(),
    }
}

fn names(known: &ManifestStatus, head: &ManifestHead) -> bool {
    let (identifier, (group, version)) = (&known.identifier, head.group_version());
    identifier.group == group
        && identifier.version == version
        && identifier.kind == head.kind
        && identifier.namespace == head.metadata.namespace
        && identifier.name == head.metadata.name
}
