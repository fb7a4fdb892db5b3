//! Flux: sources and what is made of them.

use karmada_api::config::DependentObjectReference;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use super::blocks::{Conditions, Merge, Otherwise, keep_field, report};
use crate::error::Result;
use crate::fields::{objects, text};
use crate::pod::References;

pub(super) const HELM_RELEASE: Merge = Merge {
    sums: &[],
    last: &[
        ("lastAttemptedRevision", Otherwise::Kept),
        ("lastAppliedRevision", Otherwise::Kept),
        ("lastAttemptedValuesChecksum", Otherwise::Kept),
        ("helmChart", Otherwise::Kept),
        ("lastReleaseRevision", Otherwise::Kept),
    ],
    conditions: Conditions::Merged,
};

pub(super) const KUSTOMIZATION: Merge = Merge {
    sums: &[],
    last: &[("lastAttemptedRevision", Otherwise::Kept), ("lastAppliedRevision", Otherwise::Kept)],
    conditions: Conditions::Merged,
};

pub(super) const GIT_REPOSITORY: Merge =
    Merge { sums: &[], last: &[("artifact", Otherwise::Absent)], conditions: Conditions::Merged };

/// Buckets, Helm repositories and OCI repositories.
pub(super) const SOURCE: Merge = Merge {
    sums: &[],
    last: &[("artifact", Otherwise::Absent), ("url", Otherwise::Blank)],
    conditions: Conditions::Merged,
};

pub(super) const HELM_CHART: Merge = Merge {
    sums: &[],
    last: &[
        ("artifact", Otherwise::Absent),
        ("observedChartName", Otherwise::Blank),
        ("observedSourceArtifactRevision", Otherwise::Blank),
        ("url", Otherwise::Blank),
    ],
    conditions: Conditions::Merged,
};

const FAILURES: [&str; 3] = ["failures", "upgradeFailures", "installFailures"];

/// The counters of failures are summed anew each time; the original lets them grow without end.
pub(super) fn aggregate_helm_release(
    object: &mut Value,
    members: &crate::rules::Members<'_>,
) -> Result<()> {
    super::blocks::merge(object, members, &HELM_RELEASE)?;
    for counter in FAILURES {
        let is_counted = members.reported().any(|(_, status)| status.get(counter).is_some());
        if is_counted || members.len() == 0 {
            let sum = super::blocks::sum(members, counter)?;
            crate::fields::set(object, &["status", counter], sum)?;
        }
    }
    Ok(())
}

/// Compat: charts do not report the generation they have seen.
pub(super) fn report_helm_chart(object: &Value) -> Result<Option<Value>> {
    let mut fields: Vec<_> = HELM_CHART.last.iter().map(|(field, _)| *field).collect();
    fields.push("conditions");
    report(object, &fields)
}

/// Reports the merged fields and some more.
pub(super) fn report_with(object: &Value, rules: &Merge, more: &[&str]) -> Result<Option<Value>> {
    let mut fields: Vec<_> = rules.last.iter().map(|(field, _)| *field).collect();
    fields.extend(["conditions", "observedGeneration"]);
    fields.extend(more);
    report(object, &fields)
}

pub(super) fn report_helm_release(object: &Value) -> Result<Option<Value>> {
    report_with(object, &HELM_RELEASE, &FAILURES)
}

/// Ready for one of the given reasons.
pub(super) fn is_ready(object: &Value, reasons: &[&str]) -> Result<bool> {
    for condition in objects(object, &["status", "conditions"])? {
        let is_ready =
            text(condition, &["type"])? == "Ready" && text(condition, &["status"])? == "True";
        if is_ready && reasons.contains(&text(condition, &["reason"])?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reconciliation that was paused in a member stays paused.
pub(super) fn retain_suspension(desired: &mut Value, observed: &Value) -> Result<()> {
    keep_field(desired, observed, &["spec", "suspend"])
}

/// Objects named at these places of the specification.
pub(super) fn named_at(
    object: &Value,
    places: &[(&'static str, &[&str])],
) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    add_named(&mut references, object, places)?;
    Ok(references.into_list(object.namespace()))
}

fn add_named<'a>(
    references: &mut References<'a>,
    object: &'a Value,
    places: &[(&'static str, &[&str])],
) -> Result<()> {
    for (kind, path) in places {
        references.add(kind, object, path)?;
    }
    Ok(())
}

const KUBE_CONFIG: (&str, &[&str]) = ("Secret", &["spec", "kubeConfig", "secretRef", "name"]);
const SERVICE_ACCOUNT: (&str, &[&str]) = ("ServiceAccount", &["spec", "serviceAccountName"]);
const SECRET: (&str, &[&str]) = ("Secret", &["spec", "secretRef", "name"]);
const VERIFY: (&str, &[&str]) = ("Secret", &["spec", "verify", "secretRef", "name"]);

pub(super) const KUSTOMIZATION_NEEDS: &[(&str, &[&str])] =
    &[("Secret", &["spec", "decryption", "secretRef", "name"]), KUBE_CONFIG, SERVICE_ACCOUNT];
pub(super) const GIT_REPOSITORY_NEEDS: &[(&str, &[&str])] = &[SECRET, VERIFY];
pub(super) const SOURCE_NEEDS: &[(&str, &[&str])] = &[SECRET];
pub(super) const HELM_CHART_NEEDS: &[(&str, &[&str])] = &[VERIFY];
pub(super) const OCI_REPOSITORY_NEEDS: &[(&str, &[&str])] =
    &[SECRET, VERIFY, ("Secret", &["spec", "certSecretRef", "name"]), SERVICE_ACCOUNT];

pub(super) fn helm_release_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    let verify = ("Secret", ["spec", "chart", "spec", "verify", "secretRef", "name"]);
    add_named(&mut references, object, &[(verify.0, &verify.1), KUBE_CONFIG, SERVICE_ACCOUNT])?;
    for source in objects(object, &["spec", "valuesFrom"])? {
        match text(source, &["kind"])? {
            "Secret" => references.add("Secret", source, &["name"])?,
            "ConfigMap" => references.add("ConfigMap", source, &["name"])?,
            _ => {}
        }
    }
    Ok(references.into_list(object.namespace()))
}
