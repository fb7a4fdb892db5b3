//! What simulated members cost: an idle one, many of them full of pods, a thousand of them joined,
//! and how soon a large one is registered. Every load runs in a process of its own, so that its peak of
//! memory is its own.

mod idle;
mod joined;
mod pods;

use anyhow::Context as _;
use clap::ValueEnum;
use karmada_member_sim::{Config, Nodes, Sim};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The load to measure; all of them, each in a process of its own, if not given
    #[arg(long)]
    load: Option<Load>,
    /// Members started in the process
    #[arg(long)]
    members: Option<usize>,
    /// Nodes of each
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods brought up in each
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// How often the large member is registered
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Counts what is allocated in members full of pods too, which takes processor time of its own
    #[arg(long)]
    heap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Members that do nothing
    Idle,
    /// One Deployment of 100 replicas
    Deployment,
    /// Many members, all their nodes full of pods
    Pods,
    /// Very many members joined to one control plane
    Joined,
    /// A member of 5,000 nodes, joined again and again
    Registration,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let Some(load) = args.load else { return run_all() };
    if load != Load::Idle && !args.heap {
        crate::allocations::do_not_count();
    }
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(async {
        match load {
            Load::Idle => idle::measure(&args).await,
            Load::Deployment => pods::measure_one(&args).await,
            Load::Pods => pods::measure(&args).await,
            Load::Joined => joined::measure_many(&args).await,
            Load::Registration => joined::measure_large(&args).await,
        }
    })
}

/// Runs every load in a process of its own.
#[allow(clippy::print_stdout, reason = "the headings are part of the tables")]
fn run_all() -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    for load in Load::value_variants() {
        let name = load.to_possible_value().context("a load has a name")?;
        let flag = format!("--load={}", name.get_name());
        println!("\nkarmada-bench members {flag}");
        let status = std::process::Command::new(&program).args(["members", &flag]).status();
        anyhow::ensure!(status.context("start a measurement")?.success(), "{flag} failed");
    }
    Ok(())
}

async fn start(name: String, nodes: usize) -> anyhow::Result<Sim> {
    let nodes = Nodes { count: nodes, ..Nodes::default() };
    Ok(Sim::start(Config { nodes, ..Config::named(name) }).await?)
}

fn row(what: &str, ours: impl std::fmt::Display, goal: &str) -> Vec<String> {
    vec![what.to_owned(), ours.to_string(), goal.to_owned()]
}

fn print(rows: &[Vec<String>]) {
    crate::table::print(&["what", "ours", "goal"], rows);
}
