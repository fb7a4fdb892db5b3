//! Metadata of built-in kinds: the rules of every object plus the stricter one for finalizers.

use karmada_apimachinery::Value;
use karmada_apimachinery::names::{self, NameRule};

use super::place::{At, Errors};

/// Finalizers that may go without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
    /// Never stored, so metadata does not matter.
    None,
}

/// Checks `metadata` of an object of most kinds.
pub(crate) fn check(object: &At<'_>, scope: Scope, rule: NameRule, errs: &mut Errors) {
    check_plain(object, scope, rule, errs);
    check_finalizers(object, errs);
}

/// Checks `metadata` of the few kinds that leave finalizers alone.
pub(crate) fn check_plain(object: &At<'_>, scope: Scope, rule: NameRule, errs: &mut Errors) {
    let meta = object.field("metadata");
    errs.0.extend(names::validate_object_meta(
        meta.value,
        scope == Scope::Namespaced,
        rule,
        &meta.path,
    ));
}

/// Checks what an update may do to `metadata`.
pub(crate) fn update(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    update_plain(new, old, errs);
    check_finalizers(new, errs);
}

pub(crate) fn update_plain(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let meta = new.field("metadata");
    errs.0.extend(names::validate_object_meta_update(
        meta.value,
        old.field("metadata").value,
        &meta.path,
    ));
}

fn check_finalizers(object: &At<'_>, errs: &mut Errors) {
    for finalizer in object.at(&["metadata", "finalizers"]).items() {
        check_standard_finalizer(&finalizer, errs);
    }
}

/// A finalizer without a domain must be one of Kubernetes' own.
pub(crate) fn check_standard_finalizer(finalizer: &At<'_>, errs: &mut Errors) {
    if !finalizer.text().contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.text()) {
        errs.invalid_text(
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

pub(crate) fn labels(at: &At<'_>, errs: &mut Errors) {
    errs.0.extend(names::validate_labels(Some(at.value), &at.path));
}

pub(crate) fn annotations(at: &At<'_>, errs: &mut Errors) {
    errs.0.extend(names::validate_annotations(Some(at.value), &at.path));
}

/// Annotation of an object, absent as `None`.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Metadata that objects made from a template have of their own, in the order they are told.
const TAKEN: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Metadata inside a template: only labels and annotations may be set.
pub(crate) fn template(meta: &At<'_>, errs: &mut Errors) {
    annotations(&meta.field("annotations"), errs);
    labels(&meta.field("labels"), errs);
    for field in TAKEN {
        // Compat: names are made from those of Go by their first letter.
        let at = meta.renamed(field, if *field == "uid" { "uID" } else { field });
        if at.is_set() {
            errs.forbidden(&at, "cannot be set");
        }
    }
}

const CONDITION_REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";

/// Conditions of the common form, one per type.
pub(crate) fn conditions(at: &At<'_>, errs: &mut Errors) {
    let mut seen = Vec::new();
    for condition in at.items() {
        let kind = condition.field("type");
        if seen.contains(&kind.text()) {
            errs.duplicate(&kind);
        }
        seen.push(kind.text());
        self::condition(&condition, errs);
    }
}

fn condition(at: &At<'_>, errs: &mut Errors) {
    let kind = at.field("type");
    errs.messages(&kind, &names::qualified_name(kind.text()));
    let status = at.field("status");
    if !["False", "True", "Unknown"].contains(&status.text()) {
        errs.unsupported(&status, &["False", "True", "Unknown"]);
    }
    let generation = at.field("observedGeneration");
    if generation.int() < 0 {
        errs.invalid_int(&generation, "must be greater than or equal to zero");
    }
    if at.field("lastTransitionTime").is_empty() {
        errs.required(&at.field("lastTransitionTime"), "");
    }
    let reason = at.field("reason");
    if reason.is_empty() {
        errs.required(&reason, "");
    } else {
        if !is_condition_reason(reason.text()) {
            let words = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
            let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            errs.invalid_text(&reason, names::pattern_message(words, CONDITION_REASON, &examples));
        }
        if reason.len() > 1024 {
            errs.too_long(&reason, 1024);
        }
    }
    if at.field("message").len() > 32 * 1024 {
        errs.too_long(&at.field("message"), 32 * 1024);
    }
}

fn is_condition_reason(reason: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let last = |c: char| c.is_ascii_alphanumeric() || c == '_';
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(last)
        && reason.chars().all(inner)
}
