//! `karmada member`: one simulated member cluster as a process of its own, and the faults of any
//! member that runs on this machine.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use karmada_apiserver::pki::write_private;
use karmada_member_sim::{AddressPool, Config, Nodes, Sim, Timeline, set_faults};

use crate::stop::Stop;
use crate::up::default_data_dir;

#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    member: Option<MemberArgs>,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Breaks a running member, or heals it; without a fault, says what is wrong with it.
    Fault(FaultArgs),
}

#[derive(Debug, Clone, clap::Args)]
struct FaultArgs {
    name: String,
    /// partition, black-hole, freeze, latency=200ms, error-rate=0.1, empty-lists, webhook-denies,
    /// node-down=NODE, node-up=NODE, image-never-pulls=IMAGE, crash-loop=SELECTOR, full, heal
    faults: Vec<String>,
    /// The data directory of the process the member runs in
    /// [default: karmada in the user's data directory]
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
struct MemberArgs {
    name: String,
    /// How many nodes it has
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Processors of each node
    #[arg(long, default_value = "8")]
    cpu: String,
    /// Memory of each node
    #[arg(long, default_value = "32Gi")]
    memory: String,
    /// Pods each node takes
    #[arg(long, default_value = "110")]
    pods: String,
    /// The region its nodes are labelled with
    #[arg(long, default_value = "")]
    region: String,
    /// The zone its nodes are labelled with
    #[arg(long, default_value = "")]
    zone: String,
    /// How pods live that do not say otherwise by annotations: start-delay, ready-delay, run-for,
    /// stop-delay (2s, or 1s-5s to draw from), exit-code, exit-reason, crash-loop, image-pull, hold;
    /// `general` takes one to five seconds for everything
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "", hide_default_value = true)]
    scripted: Timeline,
    /// Where addresses of load balancers and Ingresses come from; they wait for ever unless given
    #[arg(long, value_name = "CIDR")]
    load_balancers: Option<AddressPool>,
    /// What port forwards to this port of any pod lead to; a server that names the pod unless given
    #[arg(long, value_name = "PORT=HOST:PORT", value_parser = parse_forward)]
    forward: Vec<(u16, String)>,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port to serve on; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    secure_port: u16,
    /// Where certificates and the kubeconfig are kept
    /// [default: karmada in the user's data directory]
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    match (args.action, args.member) {
        (Some(Action::Fault(args)), _) => fault(args).await,
        (None, Some(args)) => serve(args).await,
        (None, None) => anyhow::bail!("a name is needed: karmada member NAME"),
    }
}

/// Files of one member in a data directory, the same for every program that runs members.
pub(crate) struct Files {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) pki: PathBuf,
    pub(crate) control: PathBuf,
}

impl Files {
    /// Makes the directory they are in.
    pub(crate) fn prepare(data_dir: &Path, member: &str) -> anyhow::Result<Self> {
        let dir = data_dir.join("members");
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self::of(data_dir, member))
    }

    pub(crate) fn of(data_dir: &Path, member: &str) -> Self {
        let dir = data_dir.join("members");
        Self {
            kubeconfig: dir.join(format!("{member}.config")),
            pki: dir.join(format!("{member}.pki")),
            control: dir.join(format!("{member}.sock")),
        }
    }
}

/// Reads `8080=127.0.0.1:9000`.
fn parse_forward(text: &str) -> Result<(u16, String), String> {
    let parsed = text.split_once('=').and_then(|(port, address)| {
        let (host, target) = address.rsplit_once(':')?;
        target.parse::<u16>().ok().filter(|_| !host.is_empty())?;
        Some((port.parse().ok()?, address.to_owned()))
    });
    parsed.ok_or_else(|| "a port and an address such as 8080=127.0.0.1:9000 are needed".to_owned())
}

fn data_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    given.or_else(default_data_dir).context("find the user's data directory; give --data-dir")
}

async fn serve(args: MemberArgs) -> anyhow::Result<()> {
    let began = Instant::now();
    let files = Files::prepare(&data_dir(args.data_dir)?, &args.name)?;
    let nodes = Nodes {
        count: args.nodes,
        cpu: args.cpu,
        memory: args.memory,
        pods: args.pods,
        region: args.region,
        zone: args.zone,
        ..Nodes::default()
    };
    let config = Config {
        nodes,
        listen: Some(SocketAddr::new(args.bind_address, args.secure_port)),
        pki_dir: Some(files.pki),
        control: Some(files.control),
        timeline: args.scripted,
        load_balancers: args.load_balancers,
        forwards: args.forward.into_iter().collect(),
        ..Config::named(&args.name)
    };
    let member = Sim::start(config).await?;
    write_private(&files.kubeconfig, &member.kubeconfig())?;
    let stop = Stop::listen()?;
    greet(began, &member, &files.kubeconfig);
    stop.requested().await;
    member.stop().await;
    Ok(())
}

fn greet(began: Instant, member: &Sim, kubeconfig: &Path) {
    let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    crate::tell(format_args!(
        "Member {} is ready after {:.1} s at {}\n\n  export KUBECONFIG={}",
        member.name(),
        began.elapsed().as_secs_f64(),
        member.endpoint(),
        kubeconfig.display()
    ));
}

async fn fault(args: FaultArgs) -> anyhow::Result<()> {
    let files = Files::of(&data_dir(args.data_dir)?, &args.name);
    let state = set_faults(&files.control, &args.faults).await?;
    Ok(crate::stdout::print(&format!("{}: {state}\n", args.name))?)
}
