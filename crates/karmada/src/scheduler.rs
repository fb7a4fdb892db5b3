//! `karmada scheduler`: places bindings, as a component of its own in front of any API server.

use std::time::Duration;

use karmada_scheduler::Options;
use karmada_scheduler_core::EnabledRules;
use tracing::warn;

use crate::component::{
    CommonUnused, Component, ComponentArgs, RateLimitArgs, duration, tell_unused,
};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Only bindings that name this scheduler are placed
    #[arg(long, default_value = "default-scheduler")]
    scheduler_name: String,
    /// The rules that run: `*` for all, a name to add one, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    plugins: Vec<String>,
    /// Workloads without replicas go to all clusters selected for them
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_empty_workload_propagation: bool,
    /// The name of the Lease by which replicas agree who leads
    #[arg(long, default_value = "karmada-scheduler")]
    leader_elect_resource_name: String,
    /// Where health is served over HTTP; 0 for nowhere
    #[arg(long, default_value = ":10351")]
    health_probe_bind_address: String,
    #[command(flatten)]
    rate_limit: RateLimitArgs,
    #[command(flatten)]
    estimator: EstimatorArgs,
    #[command(flatten)]
    common: CommonUnused,
}

/// Compat: estimators are asked by later versions; until then capacity is what clusters report.
#[derive(Debug, Clone, clap::Args)]
struct EstimatorArgs {
    /// No effect yet: capacity is what clusters report in their status
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_scheduler_estimator: bool,
    /// No effect without estimators
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    disable_scheduler_estimator_in_pull_mode: Option<bool>,
    /// No effect without estimators
    #[arg(long, value_parser = duration)]
    scheduler_estimator_timeout: Option<Duration>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_service_namespace: Option<String>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_service_prefix: Option<String>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_port: Option<u16>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_cert_file: Option<String>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_key_file: Option<String>,
    /// No effect without estimators
    #[arg(long)]
    scheduler_estimator_ca_file: Option<String>,
    /// No effect without estimators
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    insecure_skip_estimator_verify: Option<bool>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let plugins = EnabledRules::parse(&args.plugins).map_err(anyhow::Error::msg)?;
    args.common.tell();
    let estimator = &args.estimator;
    let without = "without effect until estimators are asked";
    tell_unused(&[
        ("--scheduler-estimator-ca-file", estimator.scheduler_estimator_ca_file.is_some(), without),
        (
            "--insecure-skip-estimator-verify",
            estimator.insecure_skip_estimator_verify == Some(true),
            without,
        ),
    ]);
    if estimator.enable_scheduler_estimator {
        warn!("estimators are not asked: capacity is what clusters report in their status");
    }
    let component = Component {
        name: "karmada-scheduler",
        lease: args.leader_elect_resource_name.clone(),
        health_bind_address: args.health_probe_bind_address.clone(),
    };
    let options = Options {
        scheduler_name: args.scheduler_name.clone(),
        plugins,
        propagate_empty_workloads: args.enable_empty_workload_propagation,
        rate_limit: args.rate_limit.limit(),
        ..Options::default()
    };
    let gates = args.component.process.feature_gates.clone();
    let start = move |manager| drop(karmada_scheduler::start(&manager, options, &gates));
    args.component.run(component, start).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::parse_line as parse;

    #[test]
    fn the_command_lines_of_the_original_are_understood() {
        let line = "--kubeconfig=/etc/karmada/config/karmada.config --metrics-bind-address=$(POD_IP):8080 \
            --health-probe-bind-address=$(POD_IP):10351 --enable-scheduler-estimator=true \
            --leader-elect-resource-namespace=karmada-system --leader-elect-resource-name=other \
            --scheduler-estimator-ca-file=/etc/ca.crt --scheduler-estimator-cert-file=/etc/k.crt \
            --scheduler-estimator-key-file=/etc/k.key --scheduler-name=other --plugins=*,-TaintToleration \
            --leader-elect=false --scheduler-estimator-timeout=3s --rate-limiter-max-delay=16m40s --v=4 \
            --feature-gates=PriorityBasedScheduling=false --kube-api-qps=40.0 --kube-api-burst=60";
        let args: Args = parse(line).unwrap();
        assert_eq!(
            (args.scheduler_name.as_str(), args.leader_elect_resource_name.as_str()),
            ("other", "other")
        );
        assert_eq!(args.plugins, ["*", "-TaintToleration"]);
        assert_eq!(args.rate_limit.limit().max, Duration::from_secs(1000));
        assert!(parse::<Args>("--scheduler-nam=x").unwrap_err().contains("--scheduler-name"));
        assert!(parse::<Args>("--master=https://x").unwrap_err().contains("--kubeconfig"));
    }
}
