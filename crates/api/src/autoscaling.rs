//! `autoscaling.karmada.io/v1alpha1`: scaling workloads over all clusters, by metrics or by the clock.

use crate::hpa::{
    CrossVersionObjectReference, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerStatus,
    MetricSpec,
};
use crate::meta::kinds;
use crate::wire::{Time, go_package, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "autoscaling.karmada.io";

kinds! {
    /// Scales a workload by metrics gathered from all its clusters.
    pub struct FederatedHPA in "autoscaling.karmada.io" / "v1alpha1" as "federatedhpas", Namespaced {
        /// What is scaled, between which bounds and by what.
        spec: FederatedHPASpec,
        /// What was last seen and done.
        status+: HorizontalPodAutoscalerStatus,
    }

    /// Scales a workload or changes the bounds of a FederatedHPA at set times.
    pub struct CronFederatedHPA in "autoscaling.karmada.io" / "v1alpha1" as "cronfederatedhpas", Namespaced {
        /// What is scaled and when.
        spec: CronFederatedHPASpec,
        /// What was done.
        status+: CronFederatedHPAStatus,
    }
}

wire! {
    /// What is scaled, between which bounds and by what.
    pub struct FederatedHPASpec {
        /// Workload to scale; must have a scale subresource.
        scale_target_ref: CrossVersionObjectReference,
        /// Fewest replicas, 1 if unset.
        min_replicas?: Option<i32>,
        /// Most replicas; not below minReplicas.
        max_replicas: i32,
        /// Metrics that tell the wanted number; the largest answer wins. 80 % of the requested CPU if empty.
        metrics?: Vec<MetricSpec>,
        /// How fast the number may change up and down.
        behavior?: Option<HorizontalPodAutoscalerBehavior>,
    }

    /// What is scaled and when.
    pub struct CronFederatedHPASpec {
        /// Workload, or FederatedHPA whose bounds are changed.
        scale_target_ref: CrossVersionObjectReference,
        /// Times and what happens then.
        rules: Vec<CronFederatedHPARule>,
    }

    /// A time and what happens then.
    pub struct CronFederatedHPARule {
        /// Name of the rule, unique; the history is kept under it.
        name: String = {"maxLength": 32, "minLength": 1},
        /// Cron expression with five fields.
        schedule: String,
        /// Replicas to set; needed unless the target is a FederatedHPA.
        target_replicas?: Option<i32>,
        /// minReplicas to set on a FederatedHPA.
        target_min_replicas?: Option<i32>,
        /// maxReplicas to set on a FederatedHPA.
        target_max_replicas?: Option<i32>,
        /// True stops the rule for now.
        suspend?: Option<bool> = {"default": false},
        /// Time zone of the schedule by its database name; the controller's own if unset.
        time_zone?: Option<String>,
        /// Successful runs that are remembered.
        successful_history_limit?: Option<i32> = {"default": 3, "maximum": 32, "minimum": 1},
        /// Failed runs that are remembered.
        failed_history_limit?: Option<i32> = {"default": 3, "maximum": 32, "minimum": 0},
    }

    /// What was done.
    pub struct CronFederatedHPAStatus {
        /// Runs by rule.
        execution_histories?: Vec<ExecutionHistory>,
    }

    /// Runs of one rule.
    pub struct ExecutionHistory {
        /// Name of the rule.
        rule_name: String,
        /// Time of the next run; unset while the rule is stopped.
        next_execution_time?: Option<Time>,
        /// Runs that succeeded.
        successful_executions?: Vec<SuccessfulExecution>,
        /// Runs that failed.
        failed_executions?: Vec<FailedExecution>,
    }

    /// A run that succeeded.
    pub struct SuccessfulExecution {
        /// Planned time.
        schedule_time: Option<Time>,
        /// Actual time.
        execution_time: Option<Time>,
        /// Replicas that were set.
        applied_replicas?: Option<i32>,
        /// maxReplicas that was set.
        applied_max_replicas?: Option<i32>,
        /// minReplicas that was set.
        applied_min_replicas?: Option<i32>,
    }

    /// A run that failed.
    pub struct FailedExecution {
        /// Planned time.
        schedule_time: Option<Time>,
        /// Actual time.
        execution_time: Option<Time>,
        /// What went wrong.
        message: String,
    }
}
