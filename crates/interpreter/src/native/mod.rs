//! The built-in kinds of Kubernetes: which questions are answered for which kind, as one table.

mod aggregate;
mod dependencies;
mod health;
mod reflect;
mod replicas;
mod retain;
#[cfg(test)]
mod tests;

pub(crate) use health::{converged, replicas_converged};
pub(crate) use reflect::whole as reflect_whole;

use crate::rules::Rules;

pub(crate) const TABLE: &[Rules] = &[
    Rules {
        replicas: Some(replicas::workload),
        revise: Some(replicas::revise_replicas),
        retain: Some(retain::deployment),
        reflect: Some(reflect::deployment),
        health: Some(health::replicated),
        aggregate: Some(aggregate::deployment),
        dependencies: Some(dependencies::workload),
        ..Rules::of("apps/v1", "Deployment")
    },
    Rules {
        replicas: Some(replicas::workload),
        revise: Some(replicas::revise_replicas),
        reflect: Some(reflect::replica_set),
        health: Some(health::replica_set),
        aggregate: Some(aggregate::replica_set),
        dependencies: Some(dependencies::workload),
        ..Rules::of("apps/v1", "ReplicaSet")
    },
    Rules {
        replicas: Some(replicas::workload),
        revise: Some(replicas::revise_replicas),
        reflect: Some(reflect::stateful_set),
        health: Some(health::replicated),
        aggregate: Some(aggregate::stateful_set),
        dependencies: Some(dependencies::stateful_set),
        ..Rules::of("apps/v1", "StatefulSet")
    },
    Rules {
        reflect: Some(reflect::daemon_set),
        health: Some(health::daemon_set),
        aggregate: Some(aggregate::daemon_set),
        dependencies: Some(dependencies::workload),
        ..Rules::of("apps/v1", "DaemonSet")
    },
    Rules {
        replicas: Some(replicas::job),
        revise: Some(replicas::revise_parallelism),
        retain: Some(retain::job),
        reflect: Some(reflect::job),
        aggregate: Some(aggregate::job),
        dependencies: Some(dependencies::workload),
        ..Rules::of("batch/v1", "Job")
    },
    Rules {
        aggregate: Some(aggregate::cron_job),
        dependencies: Some(dependencies::cron_job),
        ..Rules::of("batch/v1", "CronJob")
    },
    Rules {
        replicas: Some(replicas::pod),
        retain: Some(retain::pod),
        health: Some(health::pod),
        aggregate: Some(aggregate::pod),
        dependencies: Some(dependencies::pod),
        ..Rules::of("v1", "Pod")
    },
    Rules {
        retain: Some(retain::service),
        reflect: Some(reflect::service),
        health: Some(health::service),
        aggregate: Some(aggregate::service),
        ..Rules::of("v1", "Service")
    },
    Rules {
        health: Some(health::ingress),
        aggregate: Some(aggregate::ingress),
        dependencies: Some(dependencies::ingress),
        ..Rules::of("networking.k8s.io/v1", "Ingress")
    },
    Rules {
        retain: Some(retain::persistent_volume),
        aggregate: Some(aggregate::persistent_volume),
        ..Rules::of("v1", "PersistentVolume")
    },
    Rules {
        retain: Some(retain::persistent_volume_claim),
        health: Some(health::persistent_volume_claim),
        aggregate: Some(aggregate::persistent_volume_claim),
        ..Rules::of("v1", "PersistentVolumeClaim")
    },
    Rules {
        reflect: Some(reflect::pod_disruption_budget),
        health: Some(health::pod_disruption_budget),
        aggregate: Some(aggregate::pod_disruption_budget),
        ..Rules::of("policy/v1", "PodDisruptionBudget")
    },
    Rules {
        reflect: Some(reflect::horizontal_pod_autoscaler),
        aggregate: Some(aggregate::horizontal_pod_autoscaler),
        ..Rules::of("autoscaling/v2", "HorizontalPodAutoscaler")
    },
    Rules { retain: Some(retain::service_account), ..Rules::of("v1", "ServiceAccount") },
    Rules { retain: Some(retain::secret), ..Rules::of("v1", "Secret") },
    Rules {
        dependencies: Some(dependencies::service_import),
        ..Rules::of("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
    },
];
