//! `karmada agent`: pull mode. Registers the cluster it runs in with the control plane, then delivers the
//! cluster's Works and reports its state, so that nobody has to reach the cluster from outside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use karmada_api::names::component;
use karmada_client::Client;
use karmada_controllers::agent::Agent;
use karmada_controllers::context::Options;
use karmada_controllers::members::Limits;
use karmada_registration::{Access, Join, Reported, register};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::component::{
    CommonUnused, Component, ProcessArgs, RateLimitArgs, connect, duration, tell_unused,
};
use crate::controller_manager::check_against;

/// Controllers of the original's agent; those that are not in our table are still to come.
const KNOWN: &[&str] = &[
    "certRotation",
    "clusterStatus",
    "endpointsliceCollect",
    "execution",
    "serviceExport",
    "workStatus",
];

const CREDENTIALS: &str = "KubeCredentials";
const IMPERSONATOR: &str = "KubeImpersonator";
const NOTHING: &str = "None";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    process: ProcessArgs,
    /// The kubeconfig of the control plane
    #[arg(long, value_name = "FILE")]
    karmada_kubeconfig: PathBuf,
    /// The context of that kubeconfig to use; its current one unless given
    #[arg(long, value_name = "NAME")]
    karmada_context: Option<String>,
    /// The kubeconfig of the cluster; as the pod's service account unless given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The name the cluster is registered under
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Where credentials are kept, in the control plane and in the cluster
    #[arg(long, default_value = "karmada-cluster", value_name = "NAME")]
    cluster_namespace: String,
    /// Where the control plane reaches the cluster, for those who want to look into it from there
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    cluster_api_endpoint: String,
    /// The proxy on that way
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// The provider the cluster runs at
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    cluster_provider: String,
    /// The region the cluster is in
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    cluster_region: String,
    /// The zones the cluster spans
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    cluster_zones: Vec<String>,
    /// Which credentials of the cluster the control plane is given: KubeCredentials, KubeImpersonator or None
    #[arg(long, value_delimiter = ',', default_value = "KubeCredentials,KubeImpersonator")]
    report_secrets: Vec<String>,
    /// The controllers that run: `*` for the defaults, a name to add one, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Where health is served over HTTP; 0 for nowhere
    #[arg(long, default_value = ":10357")]
    health_probe_bind_address: String,
    /// How often the state of the cluster is reported
    #[arg(long, default_value = "10s", value_parser = duration)]
    cluster_status_update_frequency: Duration,
    /// How long the cluster's lease lasts
    #[arg(long, default_value = "40s", value_parser = duration)]
    cluster_lease_duration: Duration,
    /// The part of that time after which it is renewed
    #[arg(long, default_value_t = 0.25, value_parser = fraction)]
    cluster_lease_renew_interval_fraction: f64,
    /// How long the cluster must fail before it counts as not ready
    #[arg(long, default_value = "30s", value_parser = duration)]
    cluster_failure_threshold: Duration,
    /// How long the cluster must answer before it counts as ready again
    #[arg(long, default_value = "30s", value_parser = duration)]
    cluster_success_threshold: Duration,
    /// How long the caches of the cluster may take to fill
    #[arg(long, default_value = "2m0s", value_parser = duration)]
    cluster_cache_sync_timeout: Duration,
    /// Requests per second to the cluster
    #[arg(long, default_value_t = 40.0)]
    cluster_api_qps: f64,
    #[arg(long, default_value_t = 60.0)]
    cluster_api_burst: f64,
    /// Counts free nodes by classes of size
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_cluster_resource_modeling: bool,
    /// How many Works are worked on at a time
    #[arg(long, default_value_t = 5)]
    concurrent_work_syncs: usize,
    #[command(flatten)]
    rate_limit: RateLimitArgs,
    #[command(flatten)]
    unused: Unused,
    #[command(flatten)]
    common: CommonUnused,
}

/// Compat: flags of the original that existing command lines carry.
#[derive(Debug, Clone, clap::Args)]
struct Unused {
    /// No effect: --concurrent-work-syncs counts for all controllers
    #[arg(long)]
    concurrent_cluster_syncs: Option<usize>,
    /// No effect: nothing needs to be read again without a reason
    #[arg(long)]
    resync_period: Option<String>,
    /// No effect yet: certificates are not renewed
    #[arg(long)]
    karmada_kubeconfig_namespace: Option<String>,
    /// No effect yet: certificates are not renewed
    #[arg(long)]
    cert_rotation_checking_interval: Option<String>,
    /// No effect yet: certificates are not renewed
    #[arg(long)]
    cert_rotation_remaining_time_threshold: Option<f64>,
}

impl Unused {
    fn tell(&self) {
        let coming = "not available yet";
        tell_unused(&[
            (
                "--resync-period",
                self.resync_period.as_deref().is_some_and(|period| period != "0"),
                "nothing has to be read again without a reason",
            ),
            (
                "--concurrent-cluster-syncs",
                self.concurrent_cluster_syncs.is_some(),
                "--concurrent-work-syncs counts for all controllers",
            ),
            (
                "--karmada-kubeconfig-namespace, --cert-rotation-*",
                self.karmada_kubeconfig_namespace.is_some()
                    || self.cert_rotation_checking_interval.is_some()
                    || self.cert_rotation_remaining_time_threshold.is_some(),
                coming,
            ),
        ]);
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(fraction),
        _ => Err("it is a number between 0 and 1".to_owned()),
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    check_against(&args.controllers, KNOWN, |entry| entry.on_in_agent)?;
    let reported = reported(&args.report_secrets)?;
    args.common.tell();
    args.unused.tell();
    let (path, context) = (&args.karmada_kubeconfig, args.karmada_context.as_deref());
    let plane = connect("--karmada-kubeconfig", path, context).await?;
    let plane = plane.with_user_agent(component::AGENT);
    let config = member_config(args.kubeconfig.as_deref()).await?;
    let access = access(&args, &config);
    let member = Client::from_config(config)?.with_user_agent(component::AGENT);
    let name = args.cluster_name.as_str();
    let registered = register(&plane, &member, &access, &join(&args), reported).await;
    registered.with_context(|| format!("register the cluster {name}"))?;
    tracing::info!(cluster = name, "registered");
    let component = Component {
        name: component::AGENT,
        lease: format!("{}-{name}", component::AGENT),
        health_bind_address: args.health_probe_bind_address.clone(),
    };
    let agent = Agent {
        cluster: name.to_owned(),
        member,
        gates: args.process.feature_gates.clone(),
        options: options(&args),
        controllers: args.controllers.clone(),
    };
    args.process.run(component, plane, move |manager| agent.start(manager)).await
}

/// The way into the cluster.
async fn member_config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    let Some(path) = kubeconfig.filter(|path| !path.as_os_str().is_empty()) else {
        return kube::Config::incluster()
            .context("this is no pod of the cluster; give the cluster's kubeconfig: --kubeconfig");
    };
    let named = || format!("--kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(named)?;
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(named)
}

/// How the control plane is told to reach the cluster, if anybody there wants to.
fn access(args: &Args, config: &kube::Config) -> Access {
    let found = Access::of(config);
    let proxy_url = Some(found.proxy_url).filter(|url| !url.is_empty());
    Access {
        endpoint: args.cluster_api_endpoint.clone(),
        insecure: found.insecure,
        proxy_url: proxy_url.unwrap_or_else(|| args.proxy_server_address.clone()),
    }
}

fn join(args: &Args) -> Join {
    Join {
        namespace: args.cluster_namespace.clone(),
        provider: args.cluster_provider.clone(),
        region: args.cluster_region.clone(),
        zones: args.cluster_zones.clone(),
        ..Join::named(&args.cluster_name)
    }
}

fn reported(list: &[String]) -> anyhow::Result<Reported> {
    let mut reported = Reported::NONE;
    for word in list {
        match word.as_str() {
            CREDENTIALS => reported.credentials = true,
            IMPERSONATOR => reported.impersonator = true,
            NOTHING | "" => {}
            other => anyhow::bail!(
                "--report-secrets {other:?}: it is {CREDENTIALS}, {IMPERSONATOR} or {NOTHING}"
            ),
        }
    }
    let contradicts = reported != Reported::NONE && list.iter().any(|word| word == NOTHING);
    anyhow::ensure!(!contradicts, "--report-secrets: {NOTHING} goes with nothing else");
    Ok(reported)
}

fn options(args: &Args) -> Options {
    Options {
        cluster_status_update_frequency: args.cluster_status_update_frequency,
        cluster_lease_duration: args.cluster_lease_duration,
        cluster_lease_renew_interval_fraction: args.cluster_lease_renew_interval_fraction,
        cluster_success_threshold: args.cluster_success_threshold,
        cluster_failure_threshold: args.cluster_failure_threshold,
        cluster_cache_sync_timeout: args.cluster_cache_sync_timeout,
        enable_cluster_resource_modeling: args.enable_cluster_resource_modeling,
        member_limits: Limits {
            qps: args.cluster_api_qps,
            burst: args.cluster_api_burst,
            ..Limits::default()
        },
        rate_limit: args.rate_limit.limit(),
        workers: args.concurrent_work_syncs,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::parse_line as parse;

    #[test]
    fn the_command_lines_of_the_original_are_understood() {
        let line = "--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig --karmada-context=karmada \
            --cluster-name=member2 --cluster-api-endpoint=https://10.0.0.1:6443 \
            --proxy-server-address= --leader-elect-resource-namespace=karmada-system \
            --cluster-status-update-frequency=10s --cluster-lease-duration=1m0s \
            --feature-gates=CustomizedClusterResourceModeling=true,MultiClusterService=true \
            --metrics-bind-address=:8080 --health-probe-bind-address=0.0.0.0:10357 --v=4";
        let args: Args = parse(line).unwrap();
        assert_eq!(options(&args).cluster_lease_duration, Duration::from_secs(60));
        assert_eq!(join(&args).name, "member2");
        let missing = parse::<Args>("--cluster-name=member2").unwrap_err();
        assert!(missing.contains("--karmada-kubeconfig"), "{missing}");
    }

    #[test]
    fn what_is_reported_is_said_in_the_words_of_the_original() {
        let words = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
        for (list, expected) in [
            ("KubeCredentials,KubeImpersonator", Some(Reported::ALL)),
            ("KubeImpersonator", Some(Reported { impersonator: true, ..Reported::NONE })),
            ("None", Some(Reported::NONE)),
            ("None,KubeCredentials", None),
            ("Everything", None),
        ] {
            assert_eq!(reported(&words(list)).ok(), expected, "{list}");
        }
    }
}
