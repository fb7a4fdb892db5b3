//! Groups `scheduling.k8s.io` and `node.k8s.io`: PriorityClass and RuntimeClass.

use karmada_apimachinery::names;

use super::core::resources::{self, NameKind};
use super::core::scheduling::check_tolerations;
use super::meta::{self, Scope};
use super::place::{At, Errors};

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST_USER_PRIORITY + 1000),
    ("system-cluster-critical", 2 * HIGHEST_USER_PRIORITY),
];

pub(crate) fn priority_class_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let (name, value) = (object.at(&["metadata", "name"]), object.field("value"));
    if name.text().starts_with("system-") {
        if let Some(problem) = system_class_problem(object, name.text()) {
            errs.forbidden(&name, format!("priority class names with 'system-' prefix are reserved for system use only. error: {problem}"));
        }
    } else if value.int() > HIGHEST_USER_PRIORITY {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errs.forbidden(&value, detail);
    }
    let policy = object.field("preemptionPolicy");
    if policy.is_set() {
        errs.required_one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn system_class_problem(object: &At<'_>, name: &str) -> Option<String> {
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if object.field("value").int() != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    if object.field("globalDefault").is_true() {
        return Some(format!("globalDefault of {name} PriorityClass must be false"));
    }
    None
}

pub(crate) fn priority_class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if new.field("value").int() != old.field("value").int() {
        errs.forbidden(&new.field("value"), "may not be changed in an update.");
    }
    errs.immutable(&new.field("preemptionPolicy"), &old.field("preemptionPolicy"));
}

pub(crate) fn runtime_class_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let handler = object.field("handler");
    if errs.required_text(&handler) {
        errs.messages(&handler, &names::dns1123_label(handler.text()));
    }
    let overhead = object.field("overhead");
    for (name, amount) in overhead.field("podFixed").entries() {
        let at = amount.reported_at(overhead.path.child("limits").key(name));
        resources::check_name(&at, name, NameKind::Container, errs);
        resources::check_amount(&at, name, errs);
    }
    let scheduling = object.field("scheduling");
    meta::labels(&scheduling.field("nodeSelector"), errs);
    let tolerations = scheduling.field("tolerations");
    check_tolerations(&tolerations, errs);
    let mut seen = Vec::new();
    for toleration in tolerations.items() {
        let key =
            ["key", "operator", "value", "effect"].map(|field| toleration.field(field).text());
        if seen.contains(&key) {
            errs.duplicate(&toleration);
        }
        seen.push(key);
    }
}

pub(crate) fn runtime_class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    runtime_class_create(new, errs);
    meta::update(new, old, errs);
    errs.immutable(&new.field("handler"), &old.field("handler"));
}
