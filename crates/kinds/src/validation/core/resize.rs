//! Resizing a running pod: only cpu and memory may change.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};

use super::pod::{self, MIRROR};
use super::resources::quantity;
use crate::validation::meta;
use crate::validation::place::{At, Errors, same};

const MUTABLE: &str = "only cpu and memory resources are mutable";

pub(crate) fn check(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    pod::check_changed(new, old, errs);
    let (spec, before) = (new.field("spec"), old.field("spec"));
    let refusal = if meta::annotation(old.value, MIRROR).is_some() {
        Some("static pods cannot be resized")
    } else if before.at(&["os", "name"]).text() == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(detail) = refusal {
        errs.0 = vec![FieldError::forbidden(&Path::new("[]"), detail)];
        return;
    }
    if quality_class(&spec) != quality_class(&before) {
        let class = new.at(&["status", "qosClass"]);
        let detail = "Pod QOS Class may not change as a result of resizing";
        errs.invalid(&spec, class.text(), detail);
    }
    let running = old
        .at(&["status", "containerStatuses"])
        .items()
        .find(|s| s.at(&["state", "running"]).is_set());
    if running.is_some_and(|status| !status.field("resources").is_set()) {
        errs.forbidden(&spec, "Pod running on node without support for resize");
    }
    check_pod_level(&spec, &before, errs);
    let unordered = errs.len();
    check_order(&spec, &before, errs);
    if errs.len() > unordered {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (after, before) in spec.field(list).items().zip(before.field(list).items()) {
            let resources = after.field("resources");
            for kind in ["requests", "limits"] {
                if any_removed(&resources.field(kind), &before.at(&["resources", kind])) {
                    let detail = format!("resource {kind} cannot be removed");
                    errs.forbidden(&resources.field(kind), detail);
                }
            }
        }
    }
    let munged = with_amounts_undone(&spec, &before, errs);
    if errs.is_empty() && !same(&munged, before.value) {
        errs.forbidden(&spec, MUTABLE);
    }
}

fn check_pod_level(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let (after, before) = (spec.field("resources"), before.field("resources"));
    if !before.is_set() {
        return;
    }
    if !after.is_set() {
        return errs.forbidden(&after, "pod-level resources cannot be removed");
    }
    for kind in ["requests", "limits"] {
        if any_removed(&after.field(kind), &before.field(kind)) {
            let detail = format!("pod-level resource {kind} cannot be removed");
            errs.forbidden(&after.field(kind), detail);
        }
    }
}

fn any_removed(after: &At<'_>, before: &At<'_>) -> bool {
    before.entries().any(|(name, _)| !after.field(name).is_set())
}

fn check_order(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let after = spec.field(list);
        if after.len() != before.field(list).len() {
            errs.forbidden(&after, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (after, before) in after.items().zip(before.field(list).items()) {
            if after.field("name").text() != before.field("name").text() {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errs.forbidden(&after.field("name"), detail);
            }
        }
    }
}

/// The new spec with cpu and memory as before; what differs then was not allowed to.
fn with_amounts_undone(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) -> Value {
    let mut munged = spec.value.clone();
    if let Some(resources) = munged.get_mut("resources") {
        undo_amounts(resources, &before.field("resources"));
        if !same(resources, before.field("resources").value) {
            errs.forbidden(spec, "only cpu and memory resources are mutable at pod-level");
        }
    }
    for list in ["containers", "initContainers"] {
        let news = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (i, container) in news.enumerate() {
            let old = before.field(list).index(i);
            let changed = !same(container, old.value);
            if let Some(resources) = container.get_mut("resources") {
                undo_amounts(resources, &old.field("resources"));
            }
            let at = spec.field(list).index(i);
            let differs = !same(container, old.value);
            if differs && list == "containers" {
                errs.forbidden(spec, MUTABLE);
            } else if differs {
                errs.forbidden(
                    &at,
                    "only cpu and memory resources for init or sidecar containers are mutable",
                );
            }
            let restarts = at
                .field("resizePolicy")
                .items()
                .any(|policy| policy.field("restartPolicy").text() == "RestartContainer");
            let sidecar = at.field("restartPolicy").text() == "Always";
            if list == "initContainers" && changed && !sidecar && restarts {
                errs.forbidden(&at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized");
            }
        }
    }
    munged
}

fn undo_amounts(resources: &mut Value, before: &At<'_>) {
    for kind in ["limits", "requests"] {
        let Some(map) = resources.as_object_mut() else { return };
        let amounts =
            map.entry(kind).or_insert_with(|| Value::Object(karmada_apimachinery::Map::new()));
        let Some(amounts) = amounts.as_object_mut() else { continue };
        for name in ["cpu", "memory"] {
            amounts.remove(name);
            let old = before.field(kind).field(name);
            if old.is_set() {
                amounts.insert(name.to_owned(), old.value.clone());
            }
        }
    }
}

/// The quality of service a pod's resources give it.
fn quality_class(spec: &At<'_>) -> &'static str {
    let mut sources: Vec<At<'_>> = Vec::new();
    if spec.field("resources").is_set() {
        sources.push(spec.field("resources"));
    } else {
        for list in ["containers", "initContainers"] {
            sources.extend(spec.field(list).items().map(|c| c.field("resources")));
        }
    }
    let amount = |at: &At<'_>, kind: &str, name: &str| {
        quantity(&at.field(kind).field(name)).filter(|amount| !amount.is_zero())
    };
    let mut any = false;
    let mut guaranteed = !sources.is_empty();
    for resources in &sources {
        for name in ["cpu", "memory"] {
            let limit = amount(resources, "limits", name);
            let request = amount(resources, "requests", name);
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
