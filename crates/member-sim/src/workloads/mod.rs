//! The controllers of a cluster that runs workloads, each reading and writing nothing but the API.

mod autoscaler;
mod body;
mod bursts;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod expectations;
mod job;
mod ownership;
mod pod_gc;
pub(crate) mod pods;
mod quota;
mod replicaset;
mod revision;
mod services;
mod statefulset;
mod status;
mod storage;

use karmada_runtime::Manager;

pub use services::load_balancer::{AddressPool, NoPool};

/// One controller: its name as `kube-controller-manager --controllers` spells it, and its start.
pub struct Entry {
    pub name: &'static str,
    start: fn(&Manager),
}

#[rustfmt::skip]
pub const CONTROLLERS: &[Entry] = &[
    Entry { name: "cronjob-controller", start: cronjob::start },
    Entry { name: "daemonset-controller", start: daemonset::start },
    Entry { name: "disruption-controller", start: disruption::start },
    Entry { name: "kubernetes-service-controller", start: services::api_server::start },
    Entry { name: "endpoints-controller", start: services::endpoints::start },
    Entry { name: "endpointslice-controller", start: services::slices::start },
    Entry { name: "endpointslice-mirroring-controller", start: services::mirroring::start },
    Entry { name: "horizontal-pod-autoscaler-controller", start: autoscaler::start },
    Entry { name: "job-controller", start: job::start },
    Entry { name: "persistentvolume-binder-controller", start: storage::volumes::start },
    Entry { name: "persistentvolumeclaim-protection-controller", start: storage::claims::start },
    Entry { name: "pod-garbage-collector-controller", start: pod_gc::start },
    Entry { name: "resourcequota-controller", start: quota::start },
    Entry { name: "volumeattributesclass-protection-controller", start: storage::attributes::start },
    Entry { name: "statefulset-controller", start: statefulset::start },
    Entry { name: "deployment-controller", start: deployment::start },
    Entry { name: "replicaset-controller", start: replicaset::start },
    Entry { name: "replicationcontroller-controller", start: replicaset::start_replication_controller },
];

/// Starts all of them, and with a pool of addresses what a cloud adds.
pub(crate) fn start(manager: &Manager, pool: Option<AddressPool>) {
    if let Some(pool) = pool {
        services::load_balancer::start(manager, pool);
    }
    for entry in CONTROLLERS {
        tracing::debug!(controller = entry.name, "starting");
        (entry.start)(manager);
    }
}
