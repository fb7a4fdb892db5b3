//! Every benchmark of the project, as tables. Numbers are of one run on one machine: compare them
//! with each other, not with those of another day.

mod allocations;
mod apiserver;
mod cores;
mod far;
mod members;
mod plane;
mod propagation;
mod store;
mod table;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "karmada-bench", about = "Measures the parts of Karmada")]
struct Cli {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Ours beside a real kube-apiserver: requests, lists, watches, memory, start
    Apiserver(apiserver::Args),
    /// Scheduling, policy lookup and rendering, without any I/O
    Cores(cores::Args),
    /// Simulated members: idle, full of pods, joined by the thousand, registered
    Members(members::Args),
    /// From template to member and back: a cold start, single objects, a restart
    Propagation(propagation::Args),
    /// Writes, reads, ranges, watch fan-out and opening of the store
    Store(store::Args),
}

fn main() -> anyhow::Result<()> {
    allocations::begin();
    match Cli::parse().subject {
        Subject::Apiserver(args) => apiserver::run(args),
        Subject::Cores(args) => cores::run(args),
        Subject::Members(args) => members::run(args),
        Subject::Propagation(args) => propagation::run(args),
        Subject::Store(args) => store::run(args),
    }
}
