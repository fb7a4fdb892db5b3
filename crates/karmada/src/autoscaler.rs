//! The flags that say how workloads are scaled by metrics.

use std::time::Duration;

use karmada_controllers::context::AutoscalerOptions;

use crate::component::duration;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AutoscalerArgs {
    /// How often the metrics of a FederatedHPA are looked at
    #[arg(long, default_value = "15s", value_parser = duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// How long the highest number asked for counts before a workload shrinks, unless its FederatedHPA says it
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// The part of a target by which it may be missed without a change
    #[arg(long, default_value_t = 0.1)]
    horizontal_pod_autoscaler_tolerance: f64,
    /// How long after its start the processor time of a pod may mislead
    #[arg(long, default_value = "5m0s", value_parser = duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// How long after its start a change of a pod's readiness counts as its first
    #[arg(long, default_value = "30s", value_parser = duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
}

impl AutoscalerArgs {
    pub(crate) fn options(&self) -> AutoscalerOptions {
        AutoscalerOptions {
            sync_period: self.horizontal_pod_autoscaler_sync_period,
            downscale_stabilization: self.horizontal_pod_autoscaler_downscale_stabilization,
            tolerance: self.horizontal_pod_autoscaler_tolerance,
            cpu_initialization_period: self.horizontal_pod_autoscaler_cpu_initialization_period,
            initial_readiness_delay: self.horizontal_pod_autoscaler_initial_readiness_delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: AutoscalerArgs,
    }

    fn parse(line: &str) -> AutoscalerOptions {
        let words = std::iter::once("karmada").chain(line.split_whitespace());
        Command::try_parse_from(words).unwrap().args.options()
    }

    #[test]
    fn workloads_are_scaled_as_the_flags_say() {
        assert_eq!(parse(""), AutoscalerOptions::default());
        let line = "--horizontal-pod-autoscaler-sync-period=30s \
            --horizontal-pod-autoscaler-downscale-stabilization=1m30s \
            --horizontal-pod-autoscaler-tolerance=0.2 \
            --horizontal-pod-autoscaler-cpu-initialization-period=2m \
            --horizontal-pod-autoscaler-initial-readiness-delay=10s";
        let said = AutoscalerOptions {
            sync_period: Duration::from_secs(30),
            downscale_stabilization: Duration::from_secs(90),
            tolerance: 0.2,
            cpu_initialization_period: Duration::from_secs(120),
            initial_readiness_delay: Duration::from_secs(10),
        };
        assert_eq!(parse(line), said);
    }
}
