//! Group `coordination.k8s.io`: Lease.

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;

use super::meta::{self, Scope};
use super::place::{At, Errors};

pub(crate) fn lease_create(object: &At<'_>, errs: &mut Errors) {
    meta::check_plain(object, Scope::Namespaced, names::subdomain_name, errs);
    check_lease(&object.field("spec"), errs);
}

pub(crate) fn lease_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update_plain(new, old, errs);
    check_lease(&new.field("spec"), errs);
}

fn check_lease(spec: &At<'_>, errs: &mut Errors) {
    let duration = spec.field("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errs.invalid_int(&duration, "must be greater than 0");
    }
    let transitions = spec.field("leaseTransitions");
    if transitions.int() < 0 {
        errs.invalid_int(&transitions, "must be greater than or equal to 0");
    }
    let strategy = spec.field("strategy");
    if strategy.is_set() {
        // Compat: the field is named twice in the path.
        let reported = strategy.field("strategy").path;
        if strategy.text().contains('/') {
            let at = strategy.reported_at(reported);
            errs.messages(&at, &names::qualified_name(strategy.text()));
        } else if strategy.text() != "OldestEmulationVersion" {
            let supported = ["OldestEmulationVersion"];
            errs.push(FieldError::not_supported(&reported, strategy.text(), &supported));
        }
    }
    let holder = spec.field("preferredHolder");
    if !holder.is_empty() && strategy.is_empty() {
        errs.forbidden(&holder, "may only be specified if `strategy` is defined");
    }
}
