//! CronFederatedHPA.

use karmada_api::autoscaling::{
    CronFederatedHPA, CronFederatedHPARule, CronFederatedHPASpec, FederatedHPA,
};
use karmada_api::meta::Kind;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names::{self, validate_object_meta};

use super::cron;
use super::federated_hpa::check_reference;
use crate::decode::decode;
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let scaler: CronFederatedHPA = decode(&request.object)?;
    let metadata = request.object.get("metadata").unwrap_or(&Value::Null);
    let mut errors =
        validate_object_meta(metadata, true, names::subdomain_name, &Path::new("metadata"));
    errors.extend(check_spec(&scaler.spec, &Path::new("spec")));
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_spec(spec: &CronFederatedHPASpec, path: &Path) -> Vec<FieldError> {
    let target = &spec.scale_target_ref;
    let target_path = path.child("scaleTargetRef");
    let scales_scaler = target.api_version == FederatedHPA::api_version();
    if scales_scaler && target.kind != FederatedHPA::KIND {
        let message = format!(
            "invalid scaleTargetRef kind: {}, only support {}",
            target.kind,
            FederatedHPA::KIND
        );
        return vec![FieldError::invalid(&target_path.child("kind"), &*target.kind, message)];
    }
    let mut errors = check_reference(target, &target_path);
    for (index, rule) in spec.rules.iter().enumerate() {
        let path = path.child("rules").index(index);
        if spec.rules[..index].iter().any(|earlier| earlier.name == rule.name) {
            errors.push(FieldError::duplicate(&path.child("name"), &*rule.name));
        }
        errors.extend(check_times(rule, &path));
        errors.extend(if scales_scaler {
            check_bounds(rule, &path)
        } else {
            check_replicas(rule, &target.kind, &path).into_iter().collect()
        });
    }
    errors
}

fn check_times(rule: &CronFederatedHPARule, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !cron::is_valid(&rule.schedule) {
        let path = path.child("schedule");
        errors.push(FieldError::invalid(&path, &*rule.schedule, "invalid cron format"));
    }
    if let Some(zone) = &rule.time_zone
        && let Some(problem) = time_zone_problem(zone)
    {
        errors.push(FieldError::invalid(&path.child("timeZone"), &**zone, problem));
    }
    errors
}

/// Zones are known by the exact spelling of the database that is part of the binary.
fn time_zone_problem(zone: &str) -> Option<String> {
    if zone.is_empty() || zone == "UTC" || zone == "Local" {
        return None;
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Some("time: invalid location name".to_owned());
    }
    let known = jiff::tz::TimeZoneDatabase::bundled()
        .get(zone)
        .is_ok_and(|found| found.iana_name() == Some(zone));
    (!known).then(|| format!("unknown time zone {zone}"))
}

// Compat: none of these errors shows the value.
fn check_bounds(rule: &CronFederatedHPARule, path: &Path) -> Vec<FieldError> {
    let (min, max) = (rule.target_min_replicas, rule.target_max_replicas);
    let (low, high) = (min.unwrap_or(1), max.unwrap_or(i32::MAX));
    [
        (
            min.is_none() && max.is_none(),
            "targetMaxReplicas",
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA",
        ),
        (low <= 0, "targetMinReplicas", "targetMinReplicas should be larger than 0"),
        (high <= 0, "targetMaxReplicas", "targetMaxReplicas should be larger than 0"),
        (
            low > high,
            "targetMinReplicas",
            "targetMaxReplicas should be larger than or equal to targetMinReplicas",
        ),
    ]
    .into_iter()
    .filter(|(broken, ..)| *broken)
    .map(|(_, field, message)| FieldError::invalid(&path.child(field), "", message))
    .collect()
}

fn check_replicas(rule: &CronFederatedHPARule, kind: &str, path: &Path) -> Option<FieldError> {
    let message = match rule.target_replicas {
        None => format!("targetReplicas cannot be nil if you want to scale {kind}"),
        Some(count) if count < 0 => "targetReplicas should be larger than or equal to 0".to_owned(),
        Some(_) => return None,
    };
    Some(FieldError::invalid(&path.child("targetReplicas"), "", message))
}
