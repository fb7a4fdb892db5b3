//! The API server beside the real one: the same generator drives ours on its embedded store, ours on etcd
//! and kube-apiserver on etcd, each as processes of its own, over TLS. What is missing here is left out
//! and said.

mod definitions;
mod fan_out;
mod figures;
mod requests;
mod servers;
mod wire;

use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use figures::Figures;
use requests::Sizes;
use servers::{Kind, Programs, Running};

/// How long a server rests before its memory is read.
const REST: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Only this server; repeat it for more
    #[arg(long)]
    only: Vec<Kind>,
    #[command(flatten)]
    programs: Programs,
    /// The share of the load to run, as in 0.01 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Events per second that all watchers are told of
    #[arg(long, default_value_t = 20.0)]
    pace: f64,
}

impl Args {
    fn scaled(&self, whole: usize) -> usize {
        ((whole as f64 * self.scale) as usize).clamp(5, whole)
    }

    fn rest(&self) -> Duration {
        REST.mul_f64(self.scale.clamp(0.01, 1.0))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    crate::allocations::do_not_count();
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(compare(&args))
}

#[allow(clippy::print_stderr, reason = "what is left out has to be said")]
async fn compare(args: &Args) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for kind in Kind::value_variants() {
        if !args.only.is_empty() && !args.only.contains(kind) {
            continue;
        }
        if let Some(missing) = args.programs.missing(*kind) {
            eprintln!("SKIPPED {}: there is no {missing} here", kind.title());
            continue;
        }
        eprintln!("measuring {} …", kind.title());
        servers.push((*kind, measure(*kind, args).await.with_context(|| kind.title())?));
    }
    anyhow::ensure!(!servers.is_empty(), "there is nothing to measure");
    let compared = servers.iter().any(|(kind, _)| *kind == Kind::Kubernetes);
    let servers: Vec<(&str, Figures)> =
        servers.into_iter().map(|(kind, figures)| (kind.title(), figures)).collect();
    figures::print(&servers, compared);
    Ok(())
}

async fn measure(kind: Kind, args: &Args) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let mut server = Running::start(kind, &args.programs).await?;
    figures.less("start to ready, s", server.start.as_secs_f64(), "≥ 10x, < 1");
    tokio::time::sleep(args.rest()).await;
    figures.less("memory at rest, MB", server.memory(), "≥ 5x");
    let sizes = Sizes {
        creates: [1000, 5000, 10_000].map(|whole| args.scaled(whole)),
        gets: args.scaled(20_000),
        patches: args.scaled(4000),
    };
    requests::measure(&server, sizes, &mut figures).await?;
    let (watchers, events) = (args.scaled(1000), args.scaled(1000));
    fan_out::measure(&server, (watchers, events, args.pace), &mut figures).await?;
    tokio::time::sleep(args.rest()).await;
    let objects = sizes.creates.iter().sum::<usize>() + events;
    figures.less(format!("memory with {objects} objects, MB"), server.memory(), "≥ 5x");
    let definitions = args.scaled(500);
    definitions::measure(&server, definitions, &mut figures).await?;
    tokio::time::sleep(args.rest()).await;
    figures.less(format!("memory with {definitions} CRDs too, MB"), server.memory(), "≥ 5x");
    let again = server.start_again().await?;
    figures.less("killed, start to ready with all of it, s", again.as_secs_f64(), "");
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn ours_goes_through_every_step() {
        let args = Cli::parse_from(["bench", "--scale", "0.002", "--only", "embedded"]).args;
        assert_eq!(args.programs.missing(Kind::Embedded), None, "cargo build -p karmada first");
        run(args).unwrap();
    }
}
