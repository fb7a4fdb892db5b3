//! One binary, many programs: argv[0] or the subcommand picks the component.

mod apiserver;
mod keys;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "karmada", version, about = "Many Kubernetes clusters as one")]
struct Cli {
    /// What to log: a level, or levels per target as in `info,karmada=debug`.
    #[arg(long, global = true, default_value = "info", env = "KARMADA_LOG")]
    log_level: String,
    #[arg(long, global = true, value_enum, default_value = "text")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the Kubernetes API, without anything of Karmada.
    Apiserver(apiserver::Args),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&cli.log_level))
        .with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    // Fails only if a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Apiserver(args) => apiserver::run(args).await,
        }
    })
}
