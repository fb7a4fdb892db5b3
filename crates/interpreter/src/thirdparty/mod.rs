//! Well-known custom kinds, understood without any configuration: which questions are answered, as one table.
//! Customizations and webhooks come before; the built-in kinds after.

mod argo;
mod blocks;
mod flink;
mod flux;
mod kruise;
mod kubeflow;
mod kyverno;
mod ray;
#[cfg(test)]
mod samples;
mod spark;
#[cfg(test)]
mod tests;
mod volcano;

use blocks::{merge, reflect, replicas_at};
use flux::{is_ready, named_at, report_with, retain_suspension};

use crate::fields::set;
use crate::native::{converged, replicas_converged};
use crate::rules::{Replicas, Rules};

const KRUISE: &str = "apps.kruise.io/v1alpha1";
const FLUX_SOURCE: &str = "source.toolkit.fluxcd.io/v1beta2";

pub(crate) const TABLE: &[Rules] = &[
    Rules {
        aggregate: Some(kruise::aggregate_cron_job),
        dependencies: Some(kruise::cron_job_dependencies),
        ..Rules::of(KRUISE, "AdvancedCronJob")
    },
    Rules {
        replicas: Some(|object, gates| replicas_at(object, &["spec", "parallelism"], 1, gates)),
        revise: Some(|object, replicas| set(object, &["spec", "parallelism"], replicas)),
        retain: Some(kruise::retain_broadcast_job),
        reflect: Some(|object| {
            reflect(
                object,
                &[
                    "conditions",
                    "startTime",
                    "completionTime",
                    "active",
                    "succeeded",
                    "failed",
                    "desired",
                    "phase",
                ],
            )
        }),
        aggregate: Some(kruise::aggregate_broadcast_job),
        health: Some(kruise::broadcast_job_health),
        dependencies: Some(kruise::pod_dependencies),
        ..Rules::of(KRUISE, "BroadcastJob")
    },
    Rules {
        reflect: Some(|object| kruise::report_merged(object, &kruise::CLONE_SET)),
        aggregate: Some(|object, members| merge(object, members, &kruise::CLONE_SET)),
        ..replicated(KRUISE, "CloneSet")
    },
    Rules {
        reflect: Some(|object| kruise::report_merged(object, &kruise::DAEMON_SET)),
        aggregate: Some(|object, members| merge(object, members, &kruise::DAEMON_SET)),
        health: Some(|object| {
            converged(
                object,
                &[
                    ("updatedNumberScheduled", "desiredNumberScheduled"),
                    ("numberAvailable", "updatedNumberScheduled"),
                ],
            )
        }),
        dependencies: Some(kruise::pod_dependencies),
        ..Rules::of(KRUISE, "DaemonSet")
    },
    Rules {
        replicas: Some(|_, _| Ok(Replicas::default())),
        retain: Some(|_, _| Ok(())),
        reflect: Some(kruise::reflect_sidecar_set),
        aggregate: Some(kruise::aggregate_sidecar_set),
        health: Some(kruise::sidecar_set_health),
        dependencies: Some(kruise::sidecar_set_dependencies),
        ..Rules::of(KRUISE, "SidecarSet")
    },
    Rules {
        reflect: Some(|object| kruise::report_merged(object, &kruise::UNITED_DEPLOYMENT)),
        aggregate: Some(|object, members| merge(object, members, &kruise::UNITED_DEPLOYMENT)),
        ..replicated(KRUISE, "UnitedDeployment")
    },
    Rules {
        reflect: Some(|object| kruise::report_merged(object, &kruise::STATEFUL_SET)),
        aggregate: Some(|object, members| merge(object, members, &kruise::STATEFUL_SET)),
        ..replicated("apps.kruise.io/v1beta1", "StatefulSet")
    },
    Rules {
        replicas: Some(argo::workflow_replicas),
        revise: Some(|object, replicas| set(object, &["spec", "parallelism"], replicas)),
        retain: Some(argo::retain_workflow),
        health: Some(argo::workflow_health),
        dependencies: Some(argo::workflow_dependencies),
        ..Rules::of("argoproj.io/v1alpha1", "Workflow")
    },
    Rules {
        components: Some(volcano::components),
        reflect: Some(|object| reflect(object, volcano::FIELDS)),
        aggregate: Some(volcano::aggregate),
        health: Some(volcano::health),
        ..Rules::of("batch.volcano.sh/v1alpha1", "Job")
    },
    Rules {
        replicas: Some(flink::replicas),
        components: Some(flink::components),
        reflect: Some(|object| reflect(object, flink::FIELDS)),
        aggregate: Some(flink::aggregate),
        health: Some(flink::health),
        ..Rules::of("flink.apache.org/v1beta1", "FlinkDeployment")
    },
    Rules {
        retain: Some(retain_suspension),
        reflect: Some(flux::report_helm_release),
        aggregate: Some(flux::aggregate_helm_release),
        health: Some(|object| is_ready(object, &["ReconciliationSucceeded"])),
        dependencies: Some(flux::helm_release_dependencies),
        ..Rules::of("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease")
    },
    Rules {
        replicas: Some(kubeflow::notebook_replicas),
        reflect: Some(kubeflow::reflect_notebook),
        aggregate: Some(kubeflow::aggregate_notebook),
        health: Some(kubeflow::notebook_health),
        ..Rules::of("kubeflow.org/v1", "Notebook")
    },
    Rules {
        components: Some(|object, gates| {
            kubeflow::training_components(object, &kubeflow::PYTORCH, gates)
        }),
        aggregate: Some(kubeflow::aggregate_pytorch),
        health: Some(kubeflow::training_health),
        dependencies: Some(|object| kubeflow::training_dependencies(object, &kubeflow::PYTORCH)),
        ..Rules::of("kubeflow.org/v1", "PyTorchJob")
    },
    Rules {
        components: Some(|object, gates| {
            kubeflow::training_components(object, &kubeflow::TENSORFLOW, gates)
        }),
        aggregate: Some(kubeflow::aggregate_tensorflow),
        health: Some(kubeflow::training_health),
        dependencies: Some(|object| kubeflow::training_dependencies(object, &kubeflow::TENSORFLOW)),
        ..Rules::of("kubeflow.org/v1", "TFJob")
    },
    Rules {
        components: Some(kubeflow::mpi_components),
        reflect: Some(kubeflow::reflect_mpi),
        aggregate: Some(kubeflow::aggregate_mpi),
        health: Some(kubeflow::mpi_health),
        ..Rules::of("kubeflow.org/v2beta1", "MPIJob")
    },
    Rules {
        retain: Some(retain_suspension),
        reflect: Some(|object| report_with(object, &flux::KUSTOMIZATION, &[])),
        aggregate: Some(|object, members| merge(object, members, &flux::KUSTOMIZATION)),
        health: Some(|object| is_ready(object, &["ReconciliationSucceeded"])),
        dependencies: Some(|object| named_at(object, flux::KUSTOMIZATION_NEEDS)),
        ..Rules::of("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
    },
    policy("ClusterPolicy"),
    policy("Policy"),
    Rules {
        components: Some(|object, gates| ray::components(object, ray::CLUSTER, gates)),
        aggregate: Some(ray::aggregate_cluster),
        health: Some(ray::cluster_health),
        ..Rules::of("ray.io/v1", "RayCluster")
    },
    Rules {
        components: Some(|object, gates| ray::components(object, ray::JOB_CLUSTER, gates)),
        aggregate: Some(ray::aggregate_job),
        health: Some(ray::job_health),
        dependencies: Some(|object| {
            ray::dependencies(object, ray::JOB_CLUSTER, &["spec", "submitterPodTemplate", "spec"])
        }),
        ..Rules::of("ray.io/v1", "RayJob")
    },
    Rules {
        replicas: Some(ray::service_replicas),
        revise: Some(ray::revise_service),
        aggregate: Some(ray::aggregate_service),
        health: Some(ray::service_health),
        dependencies: Some(|object| ray::dependencies(object, ray::SERVICE_CLUSTER, &[])),
        ..Rules::of("ray.io/v1", "RayService")
    },
    Rules {
        retain: Some(retain_suspension),
        reflect: Some(|object| {
            let more = &["observedIgnore", "observedRecurseSubmodules"];
            report_with(object, &flux::GIT_REPOSITORY, more)
        }),
        aggregate: Some(|object, members| merge(object, members, &flux::GIT_REPOSITORY)),
        health: Some(|object| is_ready(object, &["Succeeded"])),
        dependencies: Some(|object| named_at(object, flux::GIT_REPOSITORY_NEEDS)),
        ..Rules::of("source.toolkit.fluxcd.io/v1", "GitRepository")
    },
    Rules {
        reflect: Some(|object| report_with(object, &flux::SOURCE, &["observedIgnore"])),
        dependencies: Some(|object| named_at(object, flux::SOURCE_NEEDS)),
        ..source("Bucket")
    },
    Rules {
        reflect: Some(flux::report_helm_chart),
        aggregate: Some(|object, members| merge(object, members, &flux::HELM_CHART)),
        health: Some(|object| is_ready(object, &["Succeeded", "ChartPullSucceeded"])),
        dependencies: Some(|object| named_at(object, flux::HELM_CHART_NEEDS)),
        ..source("HelmChart")
    },
    Rules {
        dependencies: Some(|object| named_at(object, flux::SOURCE_NEEDS)),
        ..source("HelmRepository")
    },
    Rules {
        dependencies: Some(|object| named_at(object, flux::OCI_REPOSITORY_NEEDS)),
        ..source("OCIRepository")
    },
    Rules {
        components: Some(spark::components),
        reflect: Some(|object| reflect(object, spark::FIELDS)),
        aggregate: Some(spark::aggregate),
        health: Some(spark::health),
        ..Rules::of("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    },
];

/// Workloads that are scaled and judged like a Deployment.
const fn replicated(api_version: &'static str, kind: &'static str) -> Rules {
    Rules {
        replicas: Some(|object, gates| replicas_at(object, &["spec", "replicas"], 0, gates)),
        revise: Some(|object, replicas| set(object, &["spec", "replicas"], replicas)),
        health: Some(|object| {
            let pairs = &[("availableReplicas", "updatedReplicas")];
            replicas_converged(object, "updatedReplicas", pairs)
        }),
        dependencies: Some(kruise::pod_dependencies),
        ..Rules::of(api_version, kind)
    }
}

/// Sources that report an artifact and where to get it.
const fn source(kind: &'static str) -> Rules {
    Rules {
        retain: Some(retain_suspension),
        reflect: Some(|object| report_with(object, &flux::SOURCE, &[])),
        aggregate: Some(|object, members| merge(object, members, &flux::SOURCE)),
        health: Some(|object| is_ready(object, &["Succeeded"])),
        ..Rules::of(FLUX_SOURCE, kind)
    }
}

const fn policy(kind: &'static str) -> Rules {
    Rules {
        reflect: Some(|object| reflect(object, kyverno::FIELDS)),
        aggregate: Some(kyverno::aggregate),
        health: Some(kyverno::health),
        ..Rules::of("kyverno.io/v1", kind)
    }
}
