//! Group `batch`: Job and CronJob.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use karmada_apimachinery::cron::Schedule;
use karmada_apimachinery::field::{Shown, quote};
use karmada_apimachinery::{Value, json, names};

use super::core::pod;
use super::job_status::{check_job_status, count_indexes};
use super::meta::{self, Scope};
use super::place::{At, Errors, FIELD_IMMUTABLE, same};
use super::selectors;

const MAX_INDEXED: i64 = 100_000;

const HIGH_COMPLETIONS_LIMIT: i64 = 10_000;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

const JOB_NAME: &str = "batch.kubernetes.io/job-name";

pub(crate) fn job_create(object: &At<'_>, errs: &mut Errors) {
    check_job(object, true, errs);
}

fn check_job(object: &At<'_>, prefixed_labels: bool, errs: &mut Errors) {
    check_job_meta(object, errs);
    check_generated_selector(object, prefixed_labels, errs);
    let spec = object.field("spec");
    check_job_spec(&spec, errs);
    let completions = spec.field("completions").int();
    if spec.field("completionMode").text() == "Indexed" && completions > 0 {
        let name = object.at(&["metadata", "name"]);
        let hostname = format!("{}-{}", name.text(), completions - 1);
        if !names::dns1123_label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errs.invalid_text(&name, detail);
        }
    }
}

/// A job without labels of its own shows those made for its template, which are checked there.
fn check_job_meta(object: &At<'_>, errs: &mut Errors) {
    let labels = object.at(&["metadata", "labels"]);
    let made = [CONTROLLER_UID, JOB_NAME, "controller-uid", "job-name"];
    let generated = !labels.is_empty()
        && labels.entries().all(|(key, _)| made.contains(&key))
        && labels.value == object.at(&["spec", "template", "metadata", "labels"]).value;
    if !generated {
        return meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    }
    let mut own = object.field("metadata").value.clone();
    if let Some(map) = own.as_object_mut() {
        map.remove("labels");
    }
    let stripped = json!({"metadata": own});
    meta::check(&At::root(&stripped), Scope::Namespaced, names::subdomain_name, errs);
}

fn check_generated_selector(object: &At<'_>, prefixed_labels: bool, errs: &mut Errors) {
    let spec = object.field("spec");
    let selector = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let uid = object.at(&["metadata", "uid"]).text();
    let name = object.at(&["metadata", "name"]).text();
    let mut expected = vec![("controller-uid", uid), ("job-name", name)];
    if prefixed_labels {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    let labels = spec.at(&["template", "metadata", "labels"]);
    for (key, value) in &expected {
        let at = labels.key(key);
        if !at.is_set() {
            errs.required(&at, format!("must be '{value}'"));
        } else if at.text() != *value {
            errs.invalid(&at, labels.shown(), format!("must be '{value}'"));
        }
    }
    let lookup =
        |key: &str| expected.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    if selectors::parse(&selector).is_some_and(|parsed| !parsed.matches_with(lookup)) {
        let shown = selectors::shown(selector.value);
        errs.invalid(&selector, shown, "`selector` not auto-generated");
    }
}

fn check_job_spec(spec: &At<'_>, errs: &mut Errors) {
    check_template_spec(spec, errs);
    let selector = spec.field("selector");
    if selector.is_set() {
        selectors::check(&selector, errs);
    } else {
        errs.required(&selector, "");
    }
    if let Some(parsed) = selectors::parse(&selector) {
        selectors::check_template_labels(&parsed, &spec.field("template"), errs);
    }
}

/// The part of a job's spec that CronJobs share.
fn check_template_spec(spec: &At<'_>, errs: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errs.non_negative(&spec.field(field));
    }
    let per_index = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").is_set() && !per_index.is_set() {
        errs.required(&per_index, "when maxFailedIndexes is specified");
    }
    let manager = spec.field("managedBy");
    if manager.is_set() {
        check_domain_prefixed(&manager, errs);
        if manager.len() > 63 {
            errs.too_long(&manager, 63);
        }
    }
    check_completion_mode(spec, errs);
    if spec.field("podFailurePolicy").is_set() {
        check_failure_policy(spec, errs);
    }
    let success = spec.field("successPolicy");
    if success.is_set() {
        if spec.field("completionMode").text() == "Indexed" {
            check_success_policy(spec, &success, errs);
        } else {
            errs.invalid_value(&success, "requires indexed completion mode");
        }
    }
    let replacement = spec.field("podReplacementPolicy");
    if spec.field("podFailurePolicy").is_set() {
        errs.one_of(&replacement, &["Failed"]);
    } else {
        errs.one_of(&replacement, &["Failed", "TerminatingOrFailed"]);
    }
    let template = spec.field("template");
    pod::check_template(&template, errs);
    let restart = template.at(&["spec", "restartPolicy"]);
    match restart.text() {
        "Always" | "" => errs.required(&restart, r#"valid values: "OnFailure", "Never""#),
        "Never" => {}
        "OnFailure" => {
            if spec.field("podFailurePolicy").is_set() {
                let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
                errs.invalid_text(&restart, detail);
            }
        }
        _ => errs.unsupported(&restart, &["OnFailure", "Never"]),
    }
}

/// A name such as `example.com/controller`.
pub(crate) fn check_domain_prefixed(at: &At<'_>, errs: &mut Errors) {
    const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    if !errs.required_text(at) {
        return;
    }
    let parts =
        at.text().split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return errs.invalid_text(at, detail);
    };
    errs.messages_for(at, host, &names::dns1123_subdomain(host));
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(allowed) {
        errs.invalid(at, path, names::pattern_message("Invalid path", PATH, &[]));
    }
}

fn check_completion_mode(spec: &At<'_>, errs: &mut Errors) {
    let mode = spec.field("completionMode");
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    let failed = spec.field("maxFailedIndexes");
    let per_index = spec.field("backoffLimitPerIndex");
    errs.one_of(&mode, &["NonIndexed", "Indexed"]);
    if !mode.is_set() || mode.text() == "NonIndexed" {
        for at in [&per_index, &failed].into_iter().filter(|at| at.is_set()) {
            errs.invalid_int(at, "requires indexed completion mode");
        }
        return;
    }
    if mode.text() != "Indexed" {
        return;
    }
    if !completions.is_set() {
        errs.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.int() > MAX_INDEXED {
        let detail =
            format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        errs.invalid_int(&parallelism, detail);
    }
    if completions.is_set() && failed.int() > completions.int() {
        errs.invalid_int(&failed, "must be less than or equal to completions");
    }
    if failed.int() > MAX_INDEXED {
        errs.invalid_int(&failed, format!("must be less than or equal to {MAX_INDEXED}"));
    }
    if completions.int() > MAX_INDEXED && per_index.is_set() {
        if !failed.is_set() {
            let detail = format!("must be specified when completions is above {MAX_INDEXED}");
            errs.required(&failed, detail);
        }
        for at in [&parallelism, &failed] {
            if at.int() > HIGH_COMPLETIONS_LIMIT {
                errs.invalid_int(at, format!("must be less than or equal to {HIGH_COMPLETIONS_LIMIT} when completions are above {MAX_INDEXED} and used with backoff limit per index"));
            }
        }
    }
}

fn check_failure_policy(spec: &At<'_>, errs: &mut Errors) {
    let rules = spec.at(&["podFailurePolicy", "rules"]);
    if rules.len() > 20 {
        errs.too_many(&rules, 20);
    }
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec.at(&["template", "spec", list]).items())
        .map(|container| container.field("name").text())
        .collect();
    for rule in rules.items() {
        check_failure_rule(spec, &rule, &containers, errs);
    }
}

fn check_failure_rule(
    spec: &At<'_>,
    rule: &At<'_>,
    containers: &BTreeSet<&str>,
    errs: &mut Errors,
) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action = rule.field("action");
    match action.text() {
        "" => errs.required(&action, format!("valid values: {}", quoted_list(&ACTIONS))),
        "FailIndex" => {
            if !spec.field("backoffLimitPerIndex").is_set() {
                errs.invalid_text(&action, "requires the backoffLimitPerIndex to be set");
            }
        }
        _ => errs.one_of(&action, &ACTIONS),
    }
    let codes = rule.field("onExitCodes");
    let conditions = rule.field("onPodConditions");
    if codes.is_set() {
        check_exit_codes(&codes, containers, errs);
    }
    if conditions.len() > 20 {
        errs.too_many(&conditions, 20);
    }
    for pattern in conditions.items() {
        const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
        let (kind, status) = (pattern.field("type"), pattern.field("status"));
        errs.messages(&kind, &names::qualified_name(kind.text()));
        if status.is_empty() {
            errs.required(&status, format!("valid values: {}", quoted_list(&STATUSES)));
        } else {
            errs.one_of(&status, &STATUSES);
        }
    }
    let problem = match (codes.is_set(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errs.invalid(rule, Shown::Omitted, problem);
}

fn quoted_list(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    format!("[{}]", quoted.join(" "))
}

fn check_exit_codes(codes: &At<'_>, containers: &BTreeSet<&str>, errs: &mut Errors) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let operator = codes.field("operator");
    if operator.is_empty() {
        errs.required(&operator, format!("valid values: {}", quoted_list(&OPERATORS)));
    } else {
        errs.one_of(&operator, &OPERATORS);
    }
    let container = codes.field("containerName");
    if container.is_set() && !containers.contains(container.text()) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errs.invalid_text(&container, detail);
    }
    let values = codes.field("values");
    if values.is_empty() {
        errs.invalid_value(&values, "at least one value is required");
    } else if values.len() > 255 {
        errs.too_many(&values, 255);
    }
    let mut seen = BTreeSet::new();
    let mut last = None;
    let mut ordered = true;
    for value in values.items() {
        if operator.text() == "In" && value.int() == 0 {
            errs.invalid_int(&value, "must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            errs.duplicate(&value);
        }
        ordered &= last.is_none_or(|last| last <= value.int());
        last = Some(value.int());
    }
    if !ordered {
        errs.invalid_value(&values, "must be ordered");
    }
}

fn check_success_policy(spec: &At<'_>, policy: &At<'_>, errs: &mut Errors) {
    let rules = policy.field("rules");
    let completions = spec.field("completions").int();
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errs.required(&rules, detail);
    }
    if rules.len() > 20 {
        errs.too_many(&rules, 20);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errs.required(&rule, detail);
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.len() > 64 * 1024 {
                errs.too_long(&indexes, 64 * 1024);
            }
            match count_indexes(indexes.text(), completions) {
                Ok(count) => total = count,
                Err(problem) => {
                    let detail = format!("error parsing succeededIndexes: {problem}");
                    errs.invalid_text(&indexes, detail);
                }
            }
        }
        if !count.is_set() {
            continue;
        }
        errs.non_negative(&count);
        if count.int() > completions {
            errs.invalid_int(&count, format!("must be less than or equal to {completions} (the number of specified completions)"));
        }
        if indexes.is_set() && count.int() > total {
            errs.invalid_int(&count, format!("must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"));
        }
    }
}

pub(crate) fn job_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource == "status" {
        meta::update(new, old, errs);
        return check_job_status(new, old, errs);
    }
    let old_labels = old.at(&["spec", "template", "metadata", "labels"]);
    let prefixed = old_labels.field(JOB_NAME).is_set() && old_labels.field(CONTROLLER_UID).is_set();
    check_job(new, prefixed, errs);
    meta::update(new, old, errs);
    let (spec, before) = (new.field("spec"), old.field("spec"));
    check_job_spec(&spec, errs);
    check_completions_change(&spec, &before, errs);
    let selector = spec.field("selector");
    let shown = selectors::shown(selector.value);
    errs.immutable_shown(&selector, &before.field("selector"), shown);
    check_template_change(new, old, errs);
    for field in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        errs.immutable(&spec.field(field), &before.field(field));
    }
}

fn check_completions_change(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let completions = spec.field("completions");
    if spec.field("completionMode").text() != "Indexed" {
        return errs.immutable(&completions, &before.field("completions"));
    }
    let changed = completions.value != before.field("completions").value;
    if changed && completions.is_set() && completions.int() != spec.field("parallelism").int() {
        let detail = "can only be modified in tandem with spec.parallelism";
        errs.invalid_int(&completions, detail);
    }
}

/// The template of a suspended job may change where its pods are placed and what they ask for.
fn check_template_change(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let template = new.at(&["spec", "template"]);
    let mut before = old.at(&["spec", "template"]).value.clone();
    let suspended = old.at(&["spec", "suspend"]).is_true();
    let marked = old.at(&["status", "conditions"]).items().any(|condition| {
        condition.field("type").text() == "Suspended" && condition.field("status").text() == "True"
    });
    let idle = old.at(&["status", "active"]).int() == 0;
    let open = suspended && (marked || !old.at(&["status", "startTime"]).is_set()) && idle;
    if !open {
        if !same(template.value, &before) {
            errs.invalid_value(&template, FIELD_IMMUTABLE);
        }
        return;
    }
    let copy = |before: &mut Value, group: &str, field: &str| {
        let value = template.field(group).field(field).value.clone();
        if let Some(map) = before.get_mut(group).and_then(Value::as_object_mut) {
            map.insert(field.to_owned(), value);
        }
    };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy(&mut before, "spec", field);
    }
    for field in ["annotations", "labels"] {
        copy(&mut before, "metadata", field);
    }
    let node_affinity = template.at(&["spec", "affinity", "nodeAffinity"]).value.clone();
    if let Some(spec) = before.get_mut("spec").and_then(Value::as_object_mut) {
        let affinity = spec
            .entry("affinity")
            .or_insert_with(|| Value::Object(karmada_apimachinery::Map::new()));
        if let Some(affinity) = affinity.as_object_mut() {
            affinity.insert("nodeAffinity".to_owned(), node_affinity);
        }
    }
    for list in ["containers", "initContainers"] {
        let news = template.at(&["spec", list]);
        let olds = before.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        let Some(olds) = olds.filter(|olds| olds.len() == news.len()) else { continue };
        for (old, new) in olds.iter_mut().zip(news.items()) {
            if old.get("name") == new.value.get("name") {
                old["resources"] = new.field("resources").value.clone();
            }
        }
    }
    let pod_spec = template.field("spec");
    if !same(pod_spec.value, before.get("spec").unwrap_or(&Value::Null)) {
        let reported = pod_spec.reported_at(new.field("spec").path.child("template.spec"));
        errs.invalid_value(&reported, FIELD_IMMUTABLE);
    }
}

pub(crate) fn cron_job_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_cron_job(&object.field("spec"), None, errs);
    let name = object.at(&["metadata", "name"]);
    if name.len() > 52 {
        errs.invalid_text(&name, "must be no more than 52 characters");
    }
}

pub(crate) fn cron_job_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource == "status" {
        return;
    }
    meta::update(new, old, errs);
    check_cron_job(&new.field("spec"), Some(&old.field("spec")), errs);
}

fn check_cron_job(spec: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    let (schedule, zone) = (spec.field("schedule"), spec.field("timeZone"));
    if errs.required_text(&schedule) {
        if let Err(problem) = Schedule::parse(schedule.text(), &TimeZone::UTC) {
            errs.invalid_text(&schedule, problem);
        }
        let zoned = schedule.text().contains("TZ");
        let was_zoned = old.is_some_and(|old| old.field("schedule").text().contains("TZ"));
        if zoned && was_zoned && zone.is_set() {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errs.invalid_text(&schedule, detail);
        } else if zoned && !was_zoned {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errs.invalid_text(&schedule, detail);
        }
    }
    errs.non_negative(&spec.field("startingDeadlineSeconds"));
    if old.is_none_or(|old| old.field("timeZone").value != zone.value) && zone.is_set() {
        check_time_zone(&zone, errs);
    }
    errs.required_one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = spec.at(&["jobTemplate", "spec"]);
    check_template_spec(&job, errs);
    let selector = job.field("selector");
    if selector.is_set() {
        let shown = selectors::shown(selector.value);
        errs.invalid(&selector, shown, "`selector` will be auto-generated");
    }
    let manual = job.field("manualSelector");
    if manual.is_true() {
        errs.unsupported(&manual, &["nil", "false"]);
    }
    errs.non_negative(&spec.field("successfulJobsHistoryLimit"));
    errs.non_negative(&spec.field("failedJobsHistoryLimit"));
}

fn check_time_zone(zone: &At<'_>, errs: &mut Errors) {
    let name = zone.text();
    if name.is_empty() {
        return errs.invalid_text(zone, "timeZone must be nil or non-empty string");
    }
    let sound = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
    };
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(sound) {
        return errs.invalid_text(zone, unknown);
    }
    if name.eq_ignore_ascii_case("local") {
        errs.invalid_text(
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    let known = matches!(name, "UTC" | "Local") || TimeZone::get(name).is_ok();
    if !known {
        errs.invalid_text(zone, unknown);
    }
}
