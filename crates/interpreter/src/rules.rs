//! The form in which compiled knowledge about kinds is written down: one row of functions per kind.

use jiff::Timestamp;
use karmada_api::config::DependentObjectReference;
use karmada_api::work::{AggregatedStatusItem, Component, ReplicaRequirements};
use karmada_apimachinery::Value;

use crate::error::{Error, Result};
use crate::{Gates, Operation};

type ComponentsOf = fn(&Value, Gates) -> Result<Vec<Component>>;
type StatusOf = fn(&Value) -> Result<Option<Value>>;
type DependenciesOf = fn(&Value) -> Result<Vec<DependentObjectReference>>;

/// What is known about one kind; a missing function means that the question is not answered here.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) replicas: Option<fn(&Value, Gates) -> Result<Replicas>>,
    pub(crate) components: Option<ComponentsOf>,
    pub(crate) revise: Option<fn(&mut Value, i64) -> Result<()>>,
    pub(crate) retain: Option<fn(&mut Value, &Value) -> Result<()>>,
    pub(crate) reflect: Option<StatusOf>,
    pub(crate) aggregate: Option<fn(&mut Value, &Members<'_>) -> Result<()>>,
    pub(crate) health: Option<fn(&Value) -> Result<bool>>,
    pub(crate) dependencies: Option<DependenciesOf>,
}

/// How many replicas an object asks for, and what one of them needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replicas {
    pub replicas: i32,
    pub requirements: Option<ReplicaRequirements>,
}

/// The statuses of the members that are to be combined, and when that happens.
pub(crate) struct Members<'a> {
    pub(crate) items: &'a [AggregatedStatusItem],
    pub(crate) now: Timestamp,
}

impl Members<'_> {
    /// Clusters with the status they reported; those without one are left out.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.items.iter().filter_map(|item| {
            let status = item.status.as_ref().filter(|status| !status.is_null())?;
            Some((item.cluster_name.as_str(), status))
        })
    }

    /// Reads every reported status; an error names the cluster it came from.
    pub(crate) fn each(&self, mut read: impl FnMut(&str, &Value) -> Result<()>) -> Result<()> {
        for (cluster, status) in self.reported() {
            read(cluster, status).map_err(|source| Error::Member {
                cluster: cluster.to_owned(),
                source: Box::new(source),
            })?;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}

impl Rules {
    pub(crate) const fn of(api_version: &'static str, kind: &'static str) -> Self {
        Self {
            api_version,
            kind,
            replicas: None,
            components: None,
            revise: None,
            retain: None,
            reflect: None,
            aggregate: None,
            health: None,
            dependencies: None,
        }
    }

    pub(crate) fn answers(&self, operation: Operation) -> bool {
        match operation {
            Operation::InterpretReplica => self.replicas.is_some(),
            Operation::InterpretComponent => self.components.is_some(),
            Operation::ReviseReplica => self.revise.is_some(),
            Operation::Retain => self.retain.is_some(),
            Operation::InterpretStatus => self.reflect.is_some(),
            Operation::AggregateStatus => self.aggregate.is_some(),
            Operation::InterpretHealth => self.health.is_some(),
            Operation::InterpretDependency => self.dependencies.is_some(),
        }
    }
}

/// The row of a kind in a table.
pub(crate) fn find(
    table: &'static [Rules],
    api_version: &str,
    kind: &str,
) -> Option<&'static Rules> {
    table.iter().find(|rules| rules.kind == kind && rules.api_version == api_version)
}
