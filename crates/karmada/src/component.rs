//! What the separate components have in common: how they reach the API server, that one of several
//! replicas leads, where they answer for their health, and flags that change nothing here.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use karmada_api::features::Gates;
use karmada_apimachinery::time::parse_go_duration;
use karmada_client::Client;
use karmada_runtime::{
    Clock, Elector, Health, LeaseConfig, Manager, Metrics, RateLimit, Shutdown, serve,
};
use kube::config::Kubeconfig;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tracing::warn;

use crate::stop::Stop;
use crate::version;

/// How long controllers may take to end.
const DRAIN: Duration = Duration::from_secs(10);

/// How many retry periods fit into a renew deadline, at least: attempts are not made on the dot.
const RETRY_SPREAD: f64 = 1.2;

/// Flags of every component that works for the control plane alone.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ComponentArgs {
    /// How the API server is reached; unless given, as kubectl would, or as the pod's service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, requires = "kubeconfig")]
    master: Option<String>,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Flags of every component, however it reaches the control plane.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Switches features, as in `Failover=true,AllAlpha=false`
    #[arg(long, default_value = "", hide_default_value = true, value_parser = parse_gates)]
    pub(crate) feature_gates: Gates,
    /// Where metrics are served over HTTP; 0 for nowhere
    #[arg(long, default_value = ":8080")]
    metrics_bind_address: String,
    /// Waits until no other replica leads before it does anything
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// The namespace of the Lease by which replicas agree who leads
    #[arg(long, default_value = "karmada-system")]
    leader_elect_resource_namespace: String,
    /// How long other replicas wait for a leader that does not answer
    #[arg(long, default_value = "15s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long a leader that cannot renew goes on
    #[arg(long, default_value = "10s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// The pause between attempts to lead
    #[arg(long, default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

/// What differs between components.
pub(crate) struct Component {
    pub(crate) name: &'static str,
    /// The Lease by which replicas agree who leads.
    pub(crate) lease: String,
    pub(crate) health_bind_address: String,
}

/// How fast failed work comes back.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RateLimitArgs {
    /// The pause after the first failure of an object; it doubles with every further one
    #[arg(long, default_value = "5ms", value_parser = duration)]
    rate_limiter_base_delay: Duration,
    #[arg(long, default_value = "1000s", value_parser = duration)]
    rate_limiter_max_delay: Duration,
    /// Retries per second of all objects together
    #[arg(long, default_value_t = 10.0)]
    rate_limiter_qps: f64,
    #[arg(long, default_value_t = 100.0)]
    rate_limiter_bucket_size: f64,
}

impl RateLimitArgs {
    pub(crate) fn limit(&self) -> RateLimit {
        RateLimit {
            base: self.rate_limiter_base_delay,
            max: self.rate_limiter_max_delay,
            per_second: self.rate_limiter_qps,
            burst: self.rate_limiter_bucket_size,
        }
    }
}

/// Compat: flags of every original component that existing command lines carry.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CommonUnused {
    /// No effect: the API server itself limits what it takes
    #[arg(long)]
    kube_api_qps: Option<f32>,
    /// No effect: the API server itself limits what it takes
    #[arg(long)]
    kube_api_burst: Option<i32>,
    /// No effect: leases are the only kind of lock
    #[arg(long)]
    leader_elect_resource_lock: Option<String>,
    /// No effect: --log-level says what is logged
    #[arg(short = 'v', long = "v")]
    verbosity: Option<u8>,
    /// No effect: --log-format says how it is logged
    #[arg(long)]
    logging_format: Option<String>,
    /// No effect: there is no profile of this kind
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_pprof: Option<bool>,
    /// No effect: there is no profile of this kind
    #[arg(long)]
    profiling_bind_address: Option<String>,
    #[command(flatten)]
    klog: KlogArgs,
}

/// Compat: what Go's logger is told. Lines go to stderr as they come.
#[derive(Debug, Clone, clap::Args)]
struct KlogArgs {
    /// No effect: --log-level takes filters for single parts, as in `info,karmada_scheduler=debug`
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    /// No effect: every line is written at once
    #[arg(long, hide = true)]
    log_flush_frequency: Option<String>,
    /// No effect: redirect stderr
    #[arg(long, hide = true)]
    log_dir: Option<String>,
    /// No effect: redirect stderr
    #[arg(long, hide = true)]
    log_file: Option<String>,
    /// No effect: redirect stderr
    #[arg(long, hide = true)]
    log_file_max_size: Option<u64>,
    /// No effect: lines always go to stderr
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<bool>,
    /// No effect: lines always go to stderr
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<bool>,
    /// No effect: --log-level says what is logged
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
    /// No effect
    #[arg(long, hide = true)]
    log_backtrace_at: Option<String>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<bool>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<bool>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<bool>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<bool>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_text_split_stream: Option<bool>,
    /// No effect
    #[arg(long, hide = true)]
    log_text_info_buffer_size: Option<String>,
    /// No effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    log_json_split_stream: Option<bool>,
    /// No effect
    #[arg(long, hide = true)]
    log_json_info_buffer_size: Option<String>,
}

/// Says once, for the flags given, that they change nothing, and what does instead.
pub(crate) fn tell_unused(flags: &[(&str, bool, &str)]) {
    for (flag, _, instead) in flags.iter().filter(|(_, given, _)| *given) {
        warn!(flag, instead, "this flag has no effect here");
    }
}

impl CommonUnused {
    pub(crate) fn tell(&self) {
        let server = "the API server limits what it takes";
        tell_unused(&[
            ("--kube-api-qps", self.kube_api_qps.is_some(), server),
            ("--kube-api-burst", self.kube_api_burst.is_some(), server),
            (
                "--leader-elect-resource-lock",
                self.leader_elect_resource_lock.as_deref().is_some_and(|lock| lock != "leases"),
                "leases are the only kind of lock",
            ),
            ("--enable-pprof", self.enable_pprof == Some(true), "perf and other system tools"),
            ("-v", self.verbosity.is_some(), "--log-level"),
            ("--logging-format", self.logging_format.is_some(), "--log-format"),
            ("--vmodule", self.klog.vmodule.is_some(), "--log-level"),
            ("--stderrthreshold", self.klog.stderrthreshold.is_some(), "--log-level"),
            (
                "--log-dir, --log-file",
                self.klog.log_dir.is_some() || self.klog.log_file.is_some(),
                "redirect stderr",
            ),
        ]);
    }
}

pub(crate) fn parse_gates(text: &str) -> Result<Gates, String> {
    Gates::parse(text).map_err(|error| error.to_string())
}

/// Reads a duration as Go writes it: `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = parse_go_duration(text)?;
    parsed.try_into().map_err(|_| format!("{text} is less than nothing"))
}

impl ComponentArgs {
    /// Runs a component as [`ProcessArgs::run`] does.
    pub(crate) async fn run(
        &self,
        component: Component,
        start: impl FnOnce(Manager) + Send + 'static,
    ) -> anyhow::Result<()> {
        let client = match (&self.kubeconfig, &self.master) {
            (Some(path), Some(server)) => Client::from_kubeconfig_at(path, server).await,
            (Some(path), None) => Client::from_kubeconfig(path, None).await,
            (None, _) => Client::infer().await,
        };
        let client = client.context("reach the API server")?;
        self.process.run(component, client, start).await
    }
}

impl ProcessArgs {
    /// Runs a component until the process is asked to end: answers for its health at once, and
    /// calls `start` when it leads.
    pub(crate) async fn run(
        &self,
        component: Component,
        client: Client,
        start: impl FnOnce(Manager) + Send + 'static,
    ) -> anyhow::Result<()> {
        let election = self.election(&component)?;
        let client = client.with_user_agent(component.name);
        let (shutdown, metrics, health) = (Shutdown::new(), Metrics::default(), Health::new());
        version::register(&metrics, &self.feature_gates);
        let addresses = [&*component.health_bind_address, &*self.metrics_bind_address];
        let stop = Stop::listen()?;
        serve_health(addresses, &health, &metrics, &shutdown).await?;
        let clock = Clock::real();
        let leading = lead(election, client, clock, metrics, &shutdown, start);
        tokio::pin!(leading);
        tokio::select! {
            () = &mut leading => {
                shutdown.finish(DRAIN).await;
                // Whoever supervises the process starts it again as one that waits.
                anyhow::bail!("another replica leads");
            }
            () = stop.requested() => {}
        }
        shutdown.trigger();
        // Whoever leads gives the lease up, so that others need not wait.
        if tokio::time::timeout(DRAIN, leading).await.is_err() {
            warn!("the lease was not given up in time");
        }
        shutdown.finish(DRAIN).await;
        Ok(())
    }

    /// The lease to hold, unless it works without one.
    fn election(&self, component: &Component) -> anyhow::Result<Option<LeaseConfig>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let config = LeaseConfig {
            duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaseConfig::new(
                &self.leader_elect_resource_namespace,
                &component.lease,
                format!("{}_{}", host(), uuid::Uuid::new_v4()),
            )
        };
        check_lease_times(&config)?;
        Ok(Some(config))
    }
}

/// Leads as long as it may and works meanwhile; at once where there is no election.
async fn lead(
    election: Option<LeaseConfig>,
    client: Client,
    clock: Clock,
    metrics: Metrics,
    shutdown: &Shutdown,
    start: impl FnOnce(Manager) + Send + 'static,
) {
    let Some(config) = election else {
        start(Manager::new(client, clock, metrics, shutdown.clone()));
        return shutdown.triggered().await;
    };
    let elector = Elector::new(&client, config, clock.clone());
    let lead = move |leading: Shutdown| async move {
        start(Manager::new(client, clock, metrics, leading.clone()));
        leading.triggered().await;
    };
    elector.run(shutdown, lead).await;
}

/// Refuses times by which two replicas could lead at once, or one lost request would end a leader. The rules are
/// those of client-go.
pub(crate) fn check_lease_times(config: &LeaseConfig) -> anyhow::Result<()> {
    let LeaseConfig { duration, renew_deadline, retry_period, .. } = config;
    // What others wait for is written down in whole seconds.
    let lease = Duration::from_secs(duration.as_secs());
    anyhow::ensure!(
        !retry_period.is_zero(),
        "--leader-elect-retry-period is 0, which leaves no pause between attempts: set it to 2s, for example"
    );
    anyhow::ensure!(
        *renew_deadline > retry_period.mul_f64(RETRY_SPREAD),
        "--leader-elect-renew-deadline ({renew_deadline:?}) must be more than {RETRY_SPREAD} times \
         --leader-elect-retry-period ({retry_period:?}): raise the deadline or lower the period"
    );
    anyhow::ensure!(
        lease > *renew_deadline,
        "--leader-elect-lease-duration ({lease:?}, in whole seconds) must be longer than \
         --leader-elect-renew-deadline ({renew_deadline:?}), or another replica may lead while this one still does: \
         raise the duration or lower the deadline"
    );
    Ok(())
}

/// The way to a server by a kubeconfig that a flag names, in the context given or its current one.
pub(crate) async fn connect(
    flag: &str,
    path: &Path,
    context: Option<&str>,
) -> anyhow::Result<Client> {
    let named = || format!("{flag} {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(named)?;
    let context = context.filter(|context| !context.is_empty());
    if let Some(wanted) = context {
        let known: Vec<&str> = kubeconfig.contexts.iter().map(|known| &*known.name).collect();
        anyhow::ensure!(
            known.contains(&wanted),
            "{}: there is no context {wanted:?} in it; there are: {}",
            named(),
            known.join(", ")
        );
    }
    Client::from_kubeconfig_value(kubeconfig, context).await.with_context(named)
}

/// The name of the machine, as the leader is known by.
fn host() -> String {
    let file = || std::fs::read_to_string("/etc/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or_else(file);
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or("karmada".into())
}

/// Serves health and metrics; one listener for both if they share the address.
pub(crate) async fn serve_health(
    addresses: [&str; 2],
    health: &Health,
    metrics: &Metrics,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let [first, second] = addresses;
    let second = Some(second).filter(|second| *second != first);
    for address in [Some(first), second].into_iter().flatten().filter(is_somewhere) {
        let listener = listen(address)
            .await
            .with_context(|| format!("listen on {address} for health and metrics"))?;
        tracing::info!(address = %listener.local_addr()?, "serving health and metrics");
        shutdown.spawn(serve(listener, health.clone(), metrics.clone(), shutdown.clone()));
    }
    Ok(())
}

/// Whether to listen at all; `0` and nothing mean not to.
fn is_somewhere(address: &&str) -> bool {
    !matches!(*address, "" | "0")
}

/// Listens; `:8080` means all addresses, those of IPv6 too where the machine has any.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await };
    let port: u16 = port
        .parse()
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, format!("{port:?} is no port")))?;
    match listen_on_all(port) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        listening => listening,
    }
}

/// One socket for both families, whatever the machine does unless told.
fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    const WAITING: i32 = 1024;
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(WAITING)?;
    TcpListener::from_std(socket.into())
}

/// Reads a line as the arguments of a component.
#[cfg(test)]
pub(crate) fn parse_line<A: clap::Args>(line: &str) -> Result<A, String> {
    let command = A::augment_args(clap::Command::new("component").no_binary_name(true));
    let read = command.try_get_matches_from(line.split_whitespace());
    read.and_then(|found| A::from_arg_matches(&found)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn times_by_which_two_could_lead_are_refused_and_the_flags_named() {
        let cases = [
            ("15s 10s 2s", None),
            ("15s 10s 8333ms", None),
            ("15s 2s 1666ms", None),
            ("10s 10s 2s", Some("--leader-elect-lease-duration")),
            ("10s999ms 10s 2s", Some("--leader-elect-lease-duration")),
            ("5s 10s 2s", Some("--leader-elect-lease-duration")),
            ("15s 10s 10s", Some("--leader-elect-renew-deadline")),
            ("15s 12s 10s", Some("--leader-elect-renew-deadline")),
            ("15s 10s 0s", Some("--leader-elect-retry-period")),
        ];
        for (times, flag) in cases {
            let times: Vec<Duration> = times.split(' ').map(|t| duration(t).unwrap()).collect();
            let config = LeaseConfig {
                duration: times[0],
                renew_deadline: times[1],
                retry_period: times[2],
                ..LeaseConfig::new("ns", "lease", "me")
            };
            let error = check_lease_times(&config).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), flag.is_some(), "{times:?}: {error:?}");
            assert!(flag.is_none_or(|flag| error.unwrap().starts_with(flag)), "{times:?}");
        }
    }

    #[test]
    fn an_address_of_0_turns_a_listener_off() {
        let cases = [("0", false), ("", false), (":8080", true), ("0.0.0.0:80", true)];
        for (address, expected) in cases {
            assert_eq!(is_somewhere(&address), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn a_port_alone_means_the_addresses_of_both_families() {
        let listener = listen(":0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let loopbacks: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        // A machine may have no IPv6.
        for loopback in loopbacks.into_iter().take(1 + usize::from(address.is_ipv6())) {
            let reached = tokio::net::TcpStream::connect((loopback, address.port())).await;
            assert!(reached.is_ok(), "{loopback}: {reached:?}");
        }
        let taken = listen(&format!(":{}", address.port())).await;
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
        let odd = listen(":http").await.unwrap_err().to_string();
        assert!(odd.contains("no port"), "{odd}");
        let one = listen("127.0.0.1:0").await.unwrap();
        assert!(one.local_addr().unwrap().is_ipv4());
    }
}
