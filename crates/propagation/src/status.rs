//! The status of a binding, gathered from its Works. One Work changes one item: nothing is
//! counted again.

use std::collections::BTreeMap;

use karmada_api::conditions::{binding as condition, work as work_condition};
use karmada_api::meta::{Condition, find_condition};
use karmada_api::names;
use karmada_api::work::{
    AggregatedStatusItem, ObjectReference, ResourceBindingSpec, ResourceHealth, Work, WorkStatus,
};
use karmada_apimachinery::gvk::GroupVersion;

use crate::work::{cluster_of, kept_clusters};

/// What the Works of one binding report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aggregation {
    items: BTreeMap<String, AggregatedStatusItem>,
    applied: usize,
}

/// What is asked of a Work, for callers that do not keep it whole.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub cluster: &'a str,
    pub work: &'a str,
    pub is_being_deleted: bool,
    /// Whether the binding's object is among the manifests.
    pub holds: bool,
    pub status: &'a WorkStatus,
}

/// A Work of the binding that does not hold the binding's object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("work {work} does not hold {kind} {namespace}/{name}")]
pub struct WrongWork {
    pub work: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Aggregation {
    /// Takes in what one Work says now; returns whether that changed anything.
    pub fn observe(&mut self, work: &Work, resource: &ObjectReference) -> Result<bool, WrongWork> {
        let Some(cluster) = cluster_of(work) else { return Ok(false) };
        let report = Report {
            cluster,
            work: &work.metadata.name,
            is_being_deleted: work.metadata.deletion_timestamp.is_some(),
            holds: holds(work, resource),
            status: &work.status,
        };
        self.take(&report, resource)
    }

    /// Takes in the report of one Work; returns whether that changed anything.
    pub fn take(
        &mut self,
        report: &Report<'_>,
        resource: &ObjectReference,
    ) -> Result<bool, WrongWork> {
        if report.is_being_deleted {
            return Ok(self.forget(report.cluster));
        }
        let item = item_of(report, resource)?;
        let before = self.items.insert(report.cluster.to_owned(), item.clone());
        let was_applied = before.as_ref().is_some_and(|item| item.applied);
        self.applied = self.applied + usize::from(item.applied) - usize::from(was_applied);
        Ok(before.as_ref() != Some(&item))
    }

    /// Drops the Work of a cluster; returns whether there was one.
    pub fn forget(&mut self, cluster: &str) -> bool {
        let Some(item) = self.items.remove(cluster) else { return false };
        self.applied -= usize::from(item.applied);
        true
    }

    /// The items, by cluster name.
    pub fn items(&self) -> Vec<AggregatedStatusItem> {
        self.items.values().cloned().collect()
    }

    /// Whether every cluster that should have the object has it, and no other one.
    pub fn is_fully_applied(&self, spec: &ResourceBindingSpec) -> bool {
        self.applied == self.items.len() && is_fully_applied(self.items.values(), spec)
    }

    /// The `FullyApplied` condition.
    pub fn condition(&self, spec: &ResourceBindingSpec) -> Condition {
        let (status, reason, message) = if self.is_fully_applied(spec) {
            (
                "True",
                condition::reason::FULLY_APPLIED_SUCCESS,
                "All works have been successfully applied",
            )
        } else {
            (
                "False",
                condition::reason::FULLY_APPLIED_FAILED,
                "Failed to apply all works, see status.aggregatedStatus for details",
            )
        };
        Condition {
            r#type: condition::FULLY_APPLIED.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        }
    }
}

/// Whether every cluster that should have the object has it, and no other one, going by one item per cluster.
pub fn is_fully_applied<'a>(
    items: impl ExactSizeIterator<Item = &'a AggregatedStatusItem>,
    spec: &ResourceBindingSpec,
) -> bool {
    let expected = kept_clusters(spec);
    !expected.is_empty()
        && expected.len() == items.len()
        && items.into_iter().all(|item| item.applied && expected.contains(&*item.cluster_name))
}

fn item_of(
    report: &Report<'_>,
    resource: &ObjectReference,
) -> Result<AggregatedStatusItem, WrongWork> {
    let applied = find_condition(&report.status.conditions, work_condition::APPLIED);
    let mut item = AggregatedStatusItem {
        cluster_name: report.cluster.to_owned(),
        health: ResourceHealth::Unknown,
        ..AggregatedStatusItem::default()
    };
    if !applied.is_some_and(Condition::is_true) {
        item.applied_message = applied.map(|applied| applied.message.clone()).unwrap_or_default();
        return Ok(item);
    }
    item.applied = true;
    if !report.holds {
        return Err(WrongWork {
            work: format!("{}/{}", names::execution_space(report.cluster), report.work),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        });
    }
    let GroupVersion { group, version } =
        GroupVersion::parse(&resource.api_version).unwrap_or_default();
    let reported = report.status.manifest_statuses.iter().find(|reported| {
        let id = &reported.identifier;
        id.group == group
            && id.version == version
            && id.kind == resource.kind
            && id.namespace == resource.namespace
            && id.name == resource.name
    });
    if let Some(reported) = reported {
        item.status.clone_from(&reported.status);
        item.health = reported.health.clone();
    }
    Ok(item)
}

fn holds(work: &Work, resource: &ObjectReference) -> bool {
    use karmada_apimachinery::object::ObjectExt;
    work.spec.workload.manifests.iter().any(|manifest| {
        manifest.api_version() == resource.api_version
            && manifest.kind() == resource.kind
            && manifest.namespace() == resource.namespace
            && manifest.name() == resource.name
    })
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::{Value, json};
    use proptest::prelude::*;

    use super::*;

    fn resource() -> ObjectReference {
        karmada_apimachinery::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web"})).unwrap()
    }

    fn work(cluster: &str, applied: Option<&str>, status: Value) -> Work {
        let conditions: Vec<Value> = applied
            .map(|applied| json!({"type": "Applied", "status": applied, "reason": "R", "message": "why"}))
            .into_iter()
            .collect();
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "web"}}]}},
            "status": {
                "conditions": conditions,
                "manifestStatuses": [{
                    "identifier": {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "ns", "name": "web"},
                    "status": status, "health": "Healthy",
                }],
            },
        }))
        .unwrap()
    }

    fn spec(clusters: &[&str]) -> ResourceBindingSpec {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        karmada_apimachinery::from_value(json!({"resource": {}, "clusters": clusters})).unwrap()
    }

    #[test]
    fn items_say_what_each_cluster_reports() {
        let mut gathered = Aggregation::default();
        assert!(
            gathered
                .observe(&work("m2", Some("True"), json!({"replicas": 1})), &resource())
                .unwrap()
        );
        assert!(gathered.observe(&work("m1", Some("False"), json!({})), &resource()).unwrap());
        assert!(!gathered.observe(&work("m1", Some("False"), json!({})), &resource()).unwrap());
        let shown = karmada_apimachinery::to_value(gathered.items()).unwrap();
        assert_eq!(
            shown,
            json!([
                {"clusterName": "m1", "appliedMessage": "why", "health": "Unknown"},
                {"clusterName": "m2", "applied": true, "status": {"replicas": 1}, "health": "Healthy"},
            ])
        );
    }

    #[test]
    fn fully_applied_needs_every_expected_cluster_and_no_other() {
        let mut gathered = Aggregation::default();
        assert!(!gathered.is_fully_applied(&spec(&[])));
        gathered.observe(&work("m1", Some("True"), json!({})), &resource()).unwrap();
        assert!(gathered.is_fully_applied(&spec(&["m1"])));
        assert!(!gathered.is_fully_applied(&spec(&["m1", "m2"])));
        assert!(!gathered.is_fully_applied(&spec(&["m2"])));
        assert_eq!(gathered.condition(&spec(&["m1"])).status, "True");
        gathered.forget("m1");
        assert!(!gathered.is_fully_applied(&spec(&["m1"])));
    }

    #[test]
    fn a_work_that_holds_another_object_is_an_error() {
        let mut other = resource();
        other.name = "api".into();
        let error = Aggregation::default()
            .observe(&work("m1", Some("True"), json!({})), &other)
            .unwrap_err();
        assert_eq!(error.to_string(), "work karmada-es-m1/w does not hold Deployment ns/api");
    }

    proptest! {
        #[test]
        fn step_by_step_equals_a_recount(steps in proptest::collection::vec((0usize..4, 0usize..4), 0..30)) {
            let states = [None, Some("True"), Some("False")];
            let mut gathered = Aggregation::default();
            let mut last: BTreeMap<usize, usize> = BTreeMap::new();
            for (cluster, state) in steps {
                let name = format!("m{cluster}");
                if state == 3 {
                    gathered.forget(&name);
                    last.remove(&cluster);
                } else {
                    gathered.observe(&work(&name, states[state], json!({})), &resource()).unwrap();
                    last.insert(cluster, state);
                }
            }
            let mut recount = Aggregation::default();
            for (cluster, state) in last {
                recount.observe(&work(&format!("m{cluster}"), states[state], json!({})), &resource()).unwrap();
            }
            prop_assert_eq!(gathered, recount);
        }
    }
}
