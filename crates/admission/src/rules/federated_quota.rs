//! FederatedResourceQuota.

use karmada_api::core::{Quantity, ResourceList};
use karmada_api::policy::{
    FederatedResourceQuota, FederatedResourceQuotaSpec, FederatedResourceQuotaStatus,
};
use karmada_apimachinery::field::{FieldError, Path};

use super::check_cluster_name;
use super::resource_names::{check_amount, check_quota_name};
use crate::decode::decode;
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};

const NAME_MAX: usize = 63;

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let quota: FederatedResourceQuota = decode(&request.object)?;
    let mut errors = Vec::new();
    let name = &*quota.metadata.name;
    if name.len() > NAME_MAX {
        errors.push(FieldError::invalid(
            &Path::new("metadata").child("name"),
            name,
            format!("must be no more than {NAME_MAX} characters"),
        ));
    }
    errors.extend(check_spec(&quota.spec, &Path::new("spec")));
    errors.extend(check_status(&quota.status, &Path::new("status")));
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_spec(spec: &FederatedResourceQuotaSpec, path: &Path) -> Vec<FieldError> {
    let overall_path = path.child("overall");
    let assignments_path = path.child("staticAssignments");
    let mut errors = check_list(&spec.overall, &overall_path);
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let path = assignments_path.index(index);
        errors.extend(check_cluster_name(&assignment.cluster_name, &path.child("clusterName")));
        errors.extend(check_list(&assignment.hard, &path.child("hard")));
    }
    for (resource, limit) in &spec.overall {
        let mut assigned = Quantity::ZERO;
        for amount in spec.static_assignments.iter().filter_map(|a| a.hard.get(resource)) {
            assigned += amount;
        }
        if *limit < assigned {
            let message = "overall is less than assignments";
            errors.push(FieldError::invalid(
                &overall_path.key(resource),
                limit.to_string(),
                message,
            ));
        }
    }
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let path = assignments_path.index(index).child("hard");
        for resource in assignment.hard.keys().filter(|key| !spec.overall.contains_key(*key)) {
            let message = "assignment resourceName is not exist in overall";
            errors.push(FieldError::invalid(&path.key(resource), &**resource, message));
        }
    }
    errors
}

fn check_status(status: &FederatedResourceQuotaStatus, path: &Path) -> Vec<FieldError> {
    let mut errors = check_list(&status.overall, &path.child("overall"));
    errors.extend(check_list(&status.overall_used, &path.child("overallUsed")));
    for (index, cluster) in status.aggregated_status.iter().enumerate() {
        let path = path.child("aggregatedStatus").index(index);
        errors.extend(check_cluster_name(&cluster.cluster_name, &path.child("clusterName")));
        errors.extend(check_list(&cluster.hard, &path.child("hard")));
        errors.extend(check_list(&cluster.used, &path.child("used")));
    }
    errors
}

fn check_list(list: &ResourceList, path: &Path) -> Vec<FieldError> {
    list.iter()
        .flat_map(|(resource, amount)| {
            let path = path.key(resource);
            let mut errors = check_quota_name(resource, &path);
            errors.extend(check_amount(resource, amount, &path));
            errors
        })
        .collect()
}
