//! Writes to a Job's status, and the notation of completed indexes.

use std::collections::BTreeSet;

use karmada_apimachinery::field::{FieldError, Shown, quote};

use super::place::{At, Errors, FIELD_IMMUTABLE};

/// Counts indexes written as `1,3-5`.
pub(crate) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = interval.split('-').collect();
    if parts.len() > 2 {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(interval)
        ));
    }
    let mut numbers = Vec::new();
    for part in &parts {
        let number: i64 = part
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quote(part)))?;
        if number >= completions {
            return Err(format!("too large index: {}", quote(part)));
        }
        numbers.push(number);
    }
    match numbers[..] {
        [first, end] if first >= end => {
            Err(format!("non-increasing order, previous: {first}, current: {end}"))
        }
        [first, end] => Ok((first, end)),
        [single] => Ok((single, single)),
        _ => Err(format!("cannot convert string to integer for index: {}", quote(interval))),
    }
}

fn has_condition(job: &At<'_>, kind: &str) -> bool {
    job.at(&["status", "conditions"]).items().any(|condition| {
        condition.field("type").text() == kind && condition.field("status").text() == "True"
    })
}

pub(crate) fn check_job_status(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let (status, before) = (new.field("status"), old.field("status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errs.non_negative(&status.field(field));
    }
    let mut seen = BTreeSet::new();
    let uncounted = status.field("uncountedTerminatedPods");
    for uid in ["succeeded", "failed"].iter().flat_map(|list| uncounted.field(list).items()) {
        if uid.is_empty() {
            errs.invalid_text(&uid, "must not be empty");
        } else if !seen.insert(uid.text()) {
            errs.push(FieldError::duplicate(&uid.path, uid.text()));
        }
    }
    check_condition_agreement(new, old, errs);
    check_indexes(new, old, errs);
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if has_condition(old, kind) && !has_condition(new, kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errs.invalid(&status.field("conditions"), Shown::Omitted, detail);
        }
    }
    let elastic = new.at(&["spec", "completionMode"]).text() == "Indexed"
        && new.at(&["spec", "completions"]).value == new.at(&["spec", "parallelism"]).value;
    for counter in ["failed", "succeeded"] {
        let fell = status.field(counter).int() < before.field(counter).int();
        if fell && !(counter == "succeeded" && elastic) {
            let detail = format!("cannot decrease the {counter} counter");
            errs.invalid_int(&status.field(counter), detail);
        }
    }
    check_times(new, old, errs);
}

/// Which conditions exclude or require each other.
fn check_condition_agreement(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let status = new.field("status");
    let changed = |kind: &str| has_condition(new, kind) != has_condition(old, kind);
    let (complete, failed) = (has_condition(new, "Complete"), has_condition(new, "Failed"));
    let target = has_condition(new, "FailureTarget");
    let met = has_condition(new, "SuccessCriteriaMet");
    let field_changed = |field: &str| status.field(field).value != old.at(&["status", field]).value;
    let fail = |detail: &str, errs: &mut Errors| {
        errs.invalid(&status.field("conditions"), Shown::Omitted, detail);
    };
    if complete && failed && (changed("Complete") || changed("Failed")) {
        fail("cannot set Complete=True and Failed=true conditions", errs);
    }
    if complete && target && (changed("Complete") || changed("FailureTarget")) {
        fail("cannot set Complete=True and FailureTarget=true conditions", errs);
    }
    let completion = status.field("completionTime");
    let completion_matters = changed("Complete") || field_changed("completionTime");
    if completion_matters && completion.is_set() && !complete {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errs.invalid_value(&completion, detail);
    }
    if completion_matters && !completion.is_set() && complete {
        errs.required(&completion, "completionTime is required for Complete jobs");
    }
    let start = status.field("startTime");
    if (field_changed("startTime") || field_changed("completionTime"))
        && start.is_set()
        && completion.is_set()
        && completion.text() < start.text()
    {
        errs.invalid_value(&completion, "must be equal to or after `startTime`");
    }
    if failed && !target && (changed("Failed") || field_changed("failedIndexes")) {
        fail("cannot set Failed=True condition without the FailureTarget=true condition", errs);
    }
    if complete && !met && (changed("Complete") || changed("SuccessCriteriaMet")) {
        fail(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            errs,
        );
    }
    check_finished(new, old, errs);
    if met && failed {
        fail("cannot set SuccessCriteriaMet=True and Failed=true conditions", errs);
    }
    if met && target {
        fail("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errs);
    }
    if new.at(&["spec", "successPolicy"]).is_set() && !met && complete {
        fail(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            errs,
        );
    }
    if has_condition(old, "SuccessCriteriaMet") && !met {
        fail("cannot disable the SuccessCriteriaMet=True condition", errs);
    }
    if has_condition(old, "Complete") && !has_condition(old, "SuccessCriteriaMet") && met {
        fail(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            errs,
        );
    }
}

/// A finished job has started, and nothing of it runs any more.
fn check_finished(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let status = new.field("status");
    let finished = |job: &At<'_>| has_condition(job, "Complete") || has_condition(job, "Failed");
    let turned = finished(new) != finished(old);
    let field_changed = |field: &str| status.field(field).value != old.at(&["status", field]).value;
    let ready = status.field("ready");
    if finished(new) {
        let active = status.field("active");
        if active.int() > 0 && (turned || field_changed("active")) {
            errs.invalid_int(&active, "active>0 is invalid for finished job");
        }
        let never_ran = new.at(&["spec", "suspend"]).is_true()
            && new.at(&["spec", "completions"]).number() == Some(0);
        if !status.field("startTime").is_set()
            && (turned || field_changed("startTime"))
            && !never_ran
        {
            errs.required(&status.field("startTime"), "startTime is required for finished job");
        }
        let uncounted = status.field("uncountedTerminatedPods");
        let some =
            !uncounted.field("failed").is_empty() || !uncounted.field("succeeded").is_empty();
        if some && (turned || field_changed("uncountedTerminatedPods")) {
            errs.invalid_value(&uncounted, "must be empty for finished job");
        }
        let terminating = status.field("terminating");
        if terminating.int() > 0 && (turned || field_changed("terminating")) {
            errs.invalid_int(&terminating, "terminating>0 is invalid for finished job");
        }
    }
    let counts_changed = field_changed("ready") || field_changed("active");
    if counts_changed && ready.int() > status.field("active").int() {
        errs.invalid_int(&ready, "cannot set more ready pods than active");
    }
}

fn check_indexes(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let (status, spec) = (new.field("status"), new.field("spec"));
    let changed = |field: &str| status.field(field).value != old.at(&["status", field]).value;
    let completions = spec.field("completions");
    let (done, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    if changed("completedIndexes") {
        if let (true, Err(problem)) =
            (completions.is_set(), count_indexes(done.text(), completions.int()))
        {
            errs.invalid_text(&done, format!("error parsing completedIndexes: {problem}"));
        }
        if !done.is_empty() && spec.field("completionMode").text() != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errs.invalid_text(&done, detail);
        }
    }
    if changed("failedIndexes") && failed.is_set() {
        let per_index = spec.field("backoffLimitPerIndex").is_set();
        if let (true, true, Err(problem)) =
            (completions.is_set(), per_index, count_indexes(failed.text(), completions.int()))
        {
            errs.invalid_text(&failed, format!("error parsing failedIndexes: {problem}"));
        }
        if !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errs.invalid_text(&failed, detail);
        }
    }
}

fn check_times(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let (status, before) = (new.field("status"), old.field("status"));
    let completion = status.field("completionTime");
    let previous = before.field("completionTime");
    if completion.is_set() && previous.is_set() && completion.value != previous.value {
        errs.invalid_value(&completion, FIELD_IMMUTABLE);
    }
    let start = status.field("startTime");
    let resumed = has_condition(old, "Suspended") && !has_condition(new, "Suspended");
    let moved =
        before.field("startTime").is_set() && start.value != before.field("startTime").value;
    if moved && !resumed && !new.at(&["spec", "suspend"]).is_true() {
        errs.invalid_value(&start, "field is immutable for unsuspended job once set");
    }
}
