//! Group `policy`: PodDisruptionBudget and Eviction.

use super::apps::{check_at_most_all, check_int_or_percent};
use super::meta;
use super::place::{At, Errors};
use super::selectors;

pub(crate) fn budget_create(object: &At<'_>, errs: &mut Errors) {
    let spec = object.field("spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        errs.invalid_value(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for at in [&least, &most].into_iter().filter(|at| at.is_set()) {
        check_int_or_percent(at, errs);
        check_at_most_all(at, errs);
    }
    selectors::check(&spec.field("selector"), errs);
    errs.one_of(&spec.field("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
}

pub(crate) fn budget_update(subresource: &str, new: &At<'_>, _: &At<'_>, errs: &mut Errors) {
    if subresource != "status" {
        return budget_create(new, errs);
    }
    let status = new.field("status");
    meta::conditions(&status.field("conditions"), errs);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        errs.non_negative(&status.field(field));
    }
}
