//! Whether the quotas of a namespace have room for what a binding was assigned, and what they then count.

use karmada_api::core::{Quantity, ResourceList};
use karmada_api::policy::FederatedResourceQuota;
use karmada_api::work::{Component, ResourceBinding};
use karmada_apimachinery::quantity::Format;

use super::resource_names::is_scalar;
use crate::request::{Denial, Environment, QuotaUse};

/// Refuses a binding that would exceed a quota; otherwise says what the quotas count from now on.
pub(crate) fn admit(
    binding: &ResourceBinding,
    old: Option<&ResourceBinding>,
    environment: &dyn Environment,
) -> Result<Vec<QuotaUse>, Denial> {
    let relevant = match old {
        None => !binding.spec.clusters.is_empty(),
        Some(old) => is_relevant_change(old, binding),
    };
    if !relevant {
        return Ok(Vec::new());
    }
    let change = difference(&usage(binding), &old.map(usage).unwrap_or_default());
    if change.is_empty() {
        return Ok(Vec::new());
    }
    let quotas = environment.quotas(&binding.metadata.namespace);
    quotas.iter().filter_map(|quota| charge(quota, &change).transpose()).collect()
}

/// What the quota counts after the change; `None` if the change does not concern it.
fn charge(
    quota: &FederatedResourceQuota,
    change: &ResourceList,
) -> Result<Option<QuotaUse>, Denial> {
    let limits = &quota.spec.overall;
    let tracked: ResourceList = change
        .iter()
        .filter(|(resource, amount)| limits.contains_key(*resource) && !amount.is_zero())
        .map(|(resource, amount)| (resource.clone(), amount.clone()))
        .collect();
    if tracked.is_empty() {
        return Ok(None);
    }
    let used = add(&quota.status.overall_used, &tracked);
    let over = |(resource, amount): &(&String, &Quantity)| {
        limits.get(*resource).is_some_and(|limit| *amount > limit)
    };
    let metadata = &quota.metadata;
    if let Some((resource, amount)) = used.iter().find(over) {
        return Err(Denial {
            code: 403,
            reason: karmada_api::conditions::QUOTA_EXCEEDED,
            message: format!(
                "FederatedResourceQuota({}/{}) exceeded for resource {resource}: requested sum {amount}, limit {}.",
                metadata.namespace, metadata.name, limits[resource]
            ),
        });
    }
    Ok(Some(QuotaUse {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        overall_used: used,
    }))
}

/// Sums two lists the way the original's counters do: CPU in thousandths, the rest in whole units, and
/// nothing that is not positive.
fn add(a: &ResourceList, b: &ResourceList) -> ResourceList {
    let mut sum = ResourceList::new();
    for resource in a.keys().chain(b.keys()) {
        let amounts = [a.get(resource), b.get(resource)].into_iter().flatten();
        let total = match &**resource {
            "cpu" => Quantity::from_millis(saturating_sum(amounts.map(Quantity::milli_value))),
            name => {
                let format = match name {
                    "memory" | "ephemeral-storage" => Format::BinarySi,
                    _ if name.starts_with("hugepages-") => Format::BinarySi,
                    "pods" => Format::DecimalSi,
                    _ if is_scalar(name) => Format::DecimalSi,
                    _ => continue,
                };
                Quantity::new(saturating_sum(amounts.map(Quantity::value)), format)
            }
        };
        if total.signum() > 0 {
            sum.insert(resource.clone(), total);
        }
    }
    sum
}

fn saturating_sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// Returns what all replicas that were assigned to clusters claim together.
pub fn usage(binding: &ResourceBinding) -> ResourceList {
    let spec = &binding.spec;
    let (request, factor) = if spec.components.is_empty() {
        let request =
            spec.replica_requirements.as_ref().map(|needs| needs.resource_request.clone());
        (request.unwrap_or_default(), scheduled_replicas(binding))
    } else {
        // Every chosen cluster runs a full set of the components.
        (request_per_set(&spec.components), spec.clusters.len() as i64)
    };
    if factor == 0 {
        return ResourceList::new();
    }
    request
        .into_iter()
        .filter(|(_, amount)| !amount.is_zero())
        .map(|(resource, amount)| (resource, amount.times(factor)))
        .collect()
}

fn request_per_set(components: &[Component]) -> ResourceList {
    let mut total = ResourceList::new();
    for component in components {
        let Some(needs) = &component.replica_requirements else { continue };
        for (resource, amount) in &needs.resource_request {
            let amount = amount.times(i64::from(component.replicas));
            total.entry(resource.clone()).and_modify(|sum| *sum += &amount).or_insert(amount);
        }
    }
    total
}

fn scheduled_replicas(binding: &ResourceBinding) -> i64 {
    binding.spec.clusters.iter().map(|target| i64::from(target.replicas)).sum()
}

fn difference(new: &ResourceList, old: &ResourceList) -> ResourceList {
    let mut change = ResourceList::new();
    for resource in new.keys().chain(old.keys()) {
        let amount = |list: &ResourceList| list.get(resource).cloned().unwrap_or_default();
        let delta = &amount(new) - &amount(old);
        if !delta.is_zero() {
            change.insert(resource.clone(), delta);
        }
    }
    change
}

fn is_relevant_change(old: &ResourceBinding, new: &ResourceBinding) -> bool {
    let request = |binding: &ResourceBinding| {
        let needs = binding.spec.replica_requirements.as_ref();
        needs.map(|needs| needs.resource_request.clone()).unwrap_or_default()
    };
    let names = |binding: &ResourceBinding| {
        let mut names: Vec<_> = binding.spec.clusters.iter().map(|c| c.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let components = |binding: &ResourceBinding| -> Vec<_> {
        let request = |component: &Component| {
            component.replica_requirements.as_ref().map(|needs| needs.resource_request.clone())
        };
        binding.spec.components.iter().map(|c| (c.replicas, request(c))).collect()
    };
    let has_components = !old.spec.components.is_empty() || !new.spec.components.is_empty();
    request(old) != request(new)
        || scheduled_replicas(old) != scheduled_replicas(new)
        || (has_components && names(old) != names(new))
        || components(old) != components(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Settings;
    use karmada_apimachinery::{Value, json};

    fn binding(replicas: i32, cpu: &str) -> ResourceBinding {
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {
                "clusters": [{"name": "m", "replicas": replicas}],
                "replicaRequirements": {"resourceRequest": {"cpu": cpu, "memory": "1Gi", "x": "1"}},
            },
        }))
        .unwrap()
    }

    fn settings(overall: Value, used: Value) -> Settings {
        let quota = karmada_apimachinery::from_value(json!({
            "metadata": {"name": "q", "namespace": "ns"},
            "spec": {"overall": overall}, "status": {"overallUsed": used},
        }));
        Settings { quotas: vec![quota.unwrap()], ..Settings::default() }
    }

    fn used(uses: &[QuotaUse]) -> Value {
        karmada_apimachinery::to_value(&uses[0].overall_used).unwrap()
    }

    #[test]
    fn an_admitted_binding_is_added_to_what_its_quotas_count() {
        let settings = settings(json!({"cpu": "3", "memory": "8Gi"}), json!({"cpu": "500m"}));
        let uses = admit(&binding(2, "1"), None, &settings).unwrap();
        assert_eq!(used(&uses), json!({"cpu": "2500m", "memory": "2Gi"}));
        let uses = admit(&binding(1, "1"), Some(&binding(0, "1")), &settings).unwrap();
        assert_eq!(used(&uses), json!({"cpu": "1500m", "memory": "1Gi"}));
    }

    #[test]
    fn changes_that_use_nothing_more_touch_no_quota() {
        let settings = settings(json!({"cpu": "1"}), json!({"cpu": "9"}));
        assert_eq!(admit(&binding(2, "1"), Some(&binding(2, "1")), &settings), Ok(Vec::new()));
        assert_eq!(admit(&binding(2, "0"), None, &settings), Ok(Vec::new()));
        let mut unscheduled = binding(2, "1");
        unscheduled.spec.clusters.clear();
        assert_eq!(admit(&unscheduled, None, &settings), Ok(Vec::new()));
    }

    #[test]
    fn a_shrinking_binding_is_refused_while_the_total_stays_over_the_limit() {
        let settings = settings(json!({"cpu": "1"}), json!({"cpu": "9"}));
        let denial = admit(&binding(1, "1"), Some(&binding(2, "1")), &settings).unwrap_err();
        assert_eq!((denial.code, denial.reason), (403, "QuotaExceeded"));
        assert_eq!(
            denial.message,
            "FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 8, limit 1."
        );
    }
}
