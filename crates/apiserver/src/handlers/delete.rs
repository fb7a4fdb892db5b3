//! DELETE of one object or of a collection: preconditions, grace, finalizers.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::{Details, Status};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

use super::options::{DeleteOptions, Policy};
use super::write::{self, Current, Written};
use super::{Answer, list, present};
use crate::admission::Operation;
use crate::call::Call;
use crate::http::negotiate::Transforms;
use crate::registry::Propagation;
use crate::{admission, allocator, codec};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 32;

pub(crate) async fn delete(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    let body = codec::decode_delete_options(call)?;
    let options = DeleteOptions::read(&call.query, body.as_ref())?;
    warn_of_orphans(call, &options);
    let outcome = delete_object(call, call.name(), &options).await?;
    match outcome {
        Outcome::Pending(object) => {
            let accepted = options.orphan_dependents == Some(false);
            let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
            present::object(call, code, object, form)
        }
        Outcome::Gone(object) if call.served.strategy.rules().returns_deleted => {
            present::object(call, StatusCode::OK, object, form)
        }
        Outcome::Gone(object) => present::encoded(StatusCode::OK, &success(call, &object), form),
    }
}

/// Jobs leave their pods behind unless told otherwise, which surprises people.
fn warn_of_orphans(call: &Call, options: &DeleteOptions) {
    let undecided = options.policy.is_none() && options.orphan_dependents.is_none();
    if undecided && call.served.gvk.group == "batch" && call.served.gvk.kind == "Job" {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
             to remove them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
}

/// The Status that confirms a deletion.
fn success(call: &Call, object: &Value) -> Value {
    let details = Details {
        name: object.name().to_owned(),
        group: call.served.gvk.group.clone(),
        kind: call.served.plural.clone(),
        uid: object.uid().to_owned(),
        ..Details::default()
    };
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details.to_value(),
    })
}

/// What became of the object; it is in the version served.
pub(crate) enum Outcome {
    Gone(Value),
    /// Finalizers or a grace period keep it for now.
    Pending(Value),
}

/// Deletes one object as far as its finalizers and grace period allow.
pub(crate) async fn delete_object(
    call: &Call,
    name: &str,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    for _ in 0..ATTEMPTS {
        let current = write::load_existing(call, call.namespace(), name).await?;
        let attributes =
            write::admission_attributes(call, Operation::Delete, "", name, options.dry_run);
        let mut nothing = Value::Null;
        admission::run::admit(call, &attributes, &mut nothing, Some(&current.value)).await?;
        admission::run::validate(call, &attributes, &nothing, Some(&current.value)).await?;
        check_preconditions(call, options, &current)?;
        let step = decide(call, &current.value, options);
        let (written, pending) = match step {
            Step::Nothing => (Written::Stored(current.value.clone()), true),
            Step::Mark(object) if options.dry_run => (Written::Stored(object), true),
            Step::Mark(object) => (write::replace(call, &current, object).await?, true),
            Step::Remove(last) if options.dry_run => (Written::Stored(last), false),
            Step::Remove(last) => (write::remove(call, &current, last).await?, false),
        };
        let Written::Stored(mut object) = written else { continue };
        call.served.from_storage(&mut object).await?;
        if !pending && !options.dry_run {
            allocator::released(call, &object).await;
        }
        if pending && !options.dry_run && is_definition(call) {
            crate::crd::until_closed(&call.state, &object).await;
        }
        return Ok(if pending { Outcome::Pending(object) } else { Outcome::Gone(object) });
    }
    Err(Status::stale(&call.served.group_resource(), name))
}

fn check_preconditions(
    call: &Call,
    options: &DeleteOptions,
    current: &Current,
) -> Result<(), Status> {
    // Compat: here, and only here, Kubernetes names the kind where it otherwise names the resource.
    let kind = GroupResource::new(call.served.gvk.group.as_str(), call.served.gvk.kind.as_str());
    let is_namespace = call.served.gvk.group.is_empty() && call.served.gvk.kind == "Namespace";
    let object = &current.value;
    if let Some(wanted) = &options.uid
        && wanted != object.uid()
    {
        let why = if is_namespace {
            let status = Status::conflict(
                &call.served.group_resource(),
                object.name(),
                format!(
                    "Precondition failed: UID in precondition: {wanted}, UID in object meta: {}",
                    object.uid()
                ),
            );
            return Err(status);
        } else {
            format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({}). \
                 The object might have been deleted and then recreated",
                object.uid()
            )
        };
        return Err(Status::conflict(&kind, object.name(), why));
    }
    if let Some(wanted) = &options.resource_version
        && wanted != object.resource_version()
    {
        let is = object.resource_version();
        if is_namespace {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {is}"
            );
            return Err(Status::conflict(&call.served.group_resource(), object.name(), why));
        }
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({is}). \
             The object might have been modified"
        );
        return Err(Status::conflict(&kind, object.name(), why));
    }
    Ok(())
}

/// What a deletion does to the stored object.
enum Step {
    /// It is on its way already.
    Nothing,
    Mark(Value),
    /// Carries the last state.
    Remove(Value),
}

fn decide(call: &Call, stored: &Value, options: &DeleteOptions) -> Step {
    let rules = call.served.strategy.rules();
    let now = call.now();
    if call.served.gvk.group.is_empty() && call.served.gvk.kind == "Namespace" {
        return decide_namespace(stored, options, now);
    }
    if is_definition(call) {
        return decide_definition(stored, now);
    }
    let mut object = stored.clone();
    let grace = rules.graceful_deletion.then(|| grace_period(stored, options));
    let mut graceful = false;
    if let Some(grace) = grace {
        if stored.is_being_deleted() {
            let before =
                stored.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
            // A second deletion can only shorten the wait.
            let asked = options.grace_period.map(|_| grace);
            match asked {
                Some(asked) if asked < before => {
                    shorten(&mut object, before, asked);
                    graceful = true;
                }
                _ if before > 0 => return Step::Nothing,
                _ => {}
            }
        } else {
            mark(&mut object, now, grace);
            graceful = true;
        }
    }
    let changed = set_gc_finalizers(rules.default_propagation, &mut object, options);
    let waits = !object.list_at(&["metadata", "finalizers"]).is_empty();
    let grace_left = object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    if graceful && grace_left > 0 {
        return Step::Mark(object);
    }
    if !waits {
        return Step::Remove(if graceful { object } else { stored.clone() });
    }
    if !object.is_being_deleted() {
        mark(&mut object, now, 0);
    } else if !changed && !graceful {
        return Step::Nothing;
    }
    Step::Mark(object)
}

fn is_definition(call: &Call) -> bool {
    call.served.gvk.group == "apiextensions.k8s.io"
}

/// Definitions wait for their objects.
fn decide_definition(stored: &Value, now: Timestamp) -> Step {
    if stored.is_being_deleted() {
        let waits = !stored.list_at(&["metadata", "finalizers"]).is_empty();
        return if waits { Step::Nothing } else { Step::Remove(stored.clone()) };
    }
    let mut object = stored.clone();
    crate::crd::mark_for_deletion(&mut object, now);
    Step::Mark(object)
}

/// Namespaces go through phases of their own; their content is deleted by a controller.
fn decide_namespace(stored: &Value, options: &DeleteOptions, now: Timestamp) -> Step {
    let finalizers = stored.list_at(&["spec", "finalizers"]);
    if stored.is_being_deleted() {
        let waits =
            !finalizers.is_empty() || !stored.list_at(&["metadata", "finalizers"]).is_empty();
        return if waits { Step::Nothing } else { Step::Remove(stored.clone()) };
    }
    let mut object = stored.clone();
    mark(&mut object, now, 0);
    object.remove_at(&["metadata", "deletionGracePeriodSeconds"]);
    object.set(&["status", "phase"], "Terminating");
    set_gc_finalizers(Propagation::Background, &mut object, options);
    Step::Mark(object)
}

fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let when = now + SignedDuration::from_secs(grace);
    object.set(&["metadata", "deletionTimestamp"], format_time(when));
    object.set(&["metadata", "deletionGracePeriodSeconds"], grace);
    if let Some(generation) = object.i64_at(&["metadata", "generation"]).filter(|g| *g > 0) {
        object.set(&["metadata", "generation"], generation + 1);
    }
}

fn shorten(object: &mut Value, before: i64, grace: i64) {
    let end = object
        .str_at(&["metadata", "deletionTimestamp"])
        .and_then(karmada_apimachinery::time::parse_time);
    if let Some(end) = end {
        let end = end - SignedDuration::from_secs(before) + SignedDuration::from_secs(grace);
        object.set(&["metadata", "deletionTimestamp"], format_time(end));
    }
    object.set(&["metadata", "deletionGracePeriodSeconds"], grace);
}

/// How long a pod may take to stop.
fn grace_period(pod: &Value, options: &DeleteOptions) -> i64 {
    let wanted = options
        .grace_period
        .or_else(|| pod.i64_at(&["spec", "terminationGracePeriodSeconds"]))
        .unwrap_or_default();
    let runs = pod.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty())
        && !matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    match wanted {
        _ if !runs => 0,
        wanted if wanted < 0 => 1,
        wanted => wanted,
    }
}

/// Puts on or takes off the finalizers that tell the garbage collector what to do; true if they changed.
fn set_gc_finalizers(default: Propagation, object: &mut Value, options: &DeleteOptions) -> bool {
    let has = |object: &Value, name| object.has_finalizer(name);
    let orphan = match (default, options.orphan_dependents, options.policy) {
        (Propagation::Unsupported, _, _) => false,
        (_, Some(orphan), _) => orphan,
        (_, _, Some(policy)) => policy == Policy::Orphan,
        _ if has(object, ORPHAN) => true,
        _ if has(object, FOREGROUND) => false,
        (default, _, _) => default == Propagation::Orphan,
    };
    let foreground = match (default, options.orphan_dependents, options.policy) {
        (Propagation::Unsupported, _, _) | (_, Some(_), _) => false,
        (_, _, Some(policy)) => policy == Policy::Foreground,
        _ => has(object, FOREGROUND),
    };
    let before: Vec<Value> = object.list_at(&["metadata", "finalizers"]).to_vec();
    let mut after: Vec<Value> =
        before.iter().filter(|name| **name != ORPHAN && **name != FOREGROUND).cloned().collect();
    for (wanted, name) in [(orphan, ORPHAN), (foreground, FOREGROUND)] {
        if wanted {
            after.push(name.into());
        }
    }
    let same = before.len() == after.len() && before.iter().all(|name| after.contains(name));
    if same {
        return false;
    }
    if after.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set(&["metadata", "finalizers"], after);
    }
    true
}

pub(crate) async fn delete_collection(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::List)?;
    let body = codec::decode_delete_options(call)?;
    let options = DeleteOptions::read(&call.query, body.as_ref())?;
    warn_of_orphans(call, &options);
    let (objects, metadata) = list::find(call).await?;
    for object in &objects {
        match delete_object(call, object.name(), &options).await {
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    present::list(call, &objects, &metadata, form).await
}
