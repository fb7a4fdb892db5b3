//! The last step: whether the quotas of a namespace have room for a new object. What it uses is noted in
//! their status before it is stored, so that two writers cannot both take the last place.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::status::Status;
use karmada_kinds::quota::{self, Usage};

use super::Operation;
use super::request::Subject;
use crate::call::Call;
use crate::handlers::write::{self, Written};

/// How often a quota is tried anew when others use it at the same time.
const ATTEMPTS: usize = 16;

/// Reserves what a write adds to the use of its namespace's quotas, or refuses it.
pub(crate) async fn reserve(subject: &Subject<'_>) -> Result<(), Status> {
    let attributes = subject.attributes;
    let counts = matches!(attributes.operation, Operation::Create | Operation::Update)
        && attributes.subresource.is_empty()
        && !attributes.namespace.is_empty();
    if !counts {
        return Ok(());
    }
    let resource = GroupResource::new("", "resourcequotas");
    let objects = &subject.call.state.objects;
    let quotas = objects.list(&resource, Some(&attributes.namespace));
    if quotas.is_empty() {
        return Ok(());
    }
    let (group, plural) = (attributes.gvk.group.as_str(), attributes.resource.as_str());
    let mut added = quota::usage(group, plural, subject.object);
    if let Some(old) = subject.old {
        for (name, before) in quota::usage(group, plural, old) {
            if let Some(after) = added.get(&name).cloned() {
                let more = after.nanos() - before.nanos();
                if more > 0 {
                    added.insert(name, Quantity::from_nanos(more, after.format()));
                } else {
                    added.remove(&name);
                }
            }
        }
    }
    for found in quotas {
        if quota::covers(&found, plural, subject.object) {
            take(subject, found, &added).await?;
        }
    }
    Ok(())
}

async fn take(subject: &Subject<'_>, found: Arc<Value>, added: &Usage) -> Result<(), Status> {
    let attributes = subject.attributes;
    let refuse =
        |why: String| Status::forbidden(&attributes.group_resource(), &attributes.name, why);
    let name = found.name();
    let hard = quota::read(found.at(&["spec", "hard"]));
    if attributes.operation == Operation::Create {
        let missing = quota::missing(&attributes.resource, subject.object, &hard);
        if !missing.is_empty() {
            let missing = missing.join(",");
            return Err(refuse(format!("failed quota: {name}: must specify {missing}")));
        }
    }
    let wanted = quota::limited(added, &hard);
    if wanted.is_empty() {
        return Ok(());
    }
    let snapshot = subject.call.state.registry.snapshot();
    let served = snapshot.find("", "v1", "resourcequotas").cloned();
    let call = subject.call.on(served.ok_or_else(Status::no_such_resource)?);
    for _ in 0..ATTEMPTS {
        let current = write::load(&call, &attributes.namespace, name).await?;
        let Some(current) = current else { return Ok(()) };
        let used = quota::read(current.value.at(&["status", "used"]));
        let hard = quota::read(current.value.at(&["status", "hard"]));
        let hard =
            if hard.is_empty() { quota::read(current.value.at(&["spec", "hard"])) } else { hard };
        let after = sum(&used, &wanted);
        let over: Vec<&String> = wanted
            .keys()
            .filter(|name| {
                let limit = hard.get(*name).map(Quantity::nanos);
                let total = after.get(*name).map_or(0, Quantity::nanos);
                limit.is_some_and(|limit| total > limit)
            })
            .collect();
        if !over.is_empty() {
            return Err(refuse(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                quota::shown(&wanted, &over),
                quota::shown(&used, &over),
                quota::shown(&hard, &over),
            )));
        }
        if attributes.dry_run {
            return Ok(());
        }
        if note(&call, &current, &hard, &after).await? {
            return Ok(());
        }
    }
    Err(refuse(format!("unable to update the use of quota {name}, try again")))
}

/// Writes the new use; false if somebody else wrote first.
async fn note(
    call: &Call,
    current: &write::Current,
    hard: &Usage,
    after: &Usage,
) -> Result<bool, Status> {
    let mut changed = current.value.clone();
    changed.set(&["status", "hard"], quota::write(hard));
    changed.set(&["status", "used"], quota::write(after));
    match write::replace(call, current, changed).await? {
        Written::Stored(_) => Ok(true),
        Written::Raced => Ok(false),
    }
}

fn sum(used: &Usage, added: &Usage) -> Usage {
    let mut total = used.clone();
    for (name, amount) in added {
        let before = used.get(name).map_or(0, Quantity::nanos);
        total.insert(name.clone(), Quantity::from_nanos(before + amount.nanos(), amount.format()));
    }
    total
}
