//! One binary, many programs: argv[0] or the subcommand picks the component.

mod agent;
mod aggregated_apiserver;
mod apiserver;
mod audit;
mod autoscaler;
mod backup;
mod cluster_api;
mod cluster_proxy;
mod completion;
mod component;
mod control;
mod controller_manager;
mod crds;
mod encryption;
mod etcd;
mod eviction;
mod explain;
mod front_proxy;
mod member;
mod members;
mod names;
mod scheduler;
mod search;
mod stdout;
mod stop;
mod up;
mod version;
mod webhook;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
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
    /// Runs the whole control plane in this process.
    Up(up::Args),
    /// Runs a simulated member cluster, or sets its faults.
    Member(member::Args),
    /// Serves the Kubernetes API, without anything of Karmada.
    Apiserver(apiserver::Args),
    /// Writes everything a control plane keeps into one file, while it runs.
    Backup(backup::BackupArgs),
    /// Brings back what `backup` has written, while the control plane runs or into an empty place.
    Restore(backup::RestoreArgs),
    /// Moves a control plane between its data directory and etcd.
    Move(backup::MoveArgs),
    /// The command line for users, also started as `karmadactl` or `kubectl karmada`.
    #[command(name = "ctl", disable_help_flag = true)]
    Ctl {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Registers the cluster it runs in, and works for it in place of the control plane (pull mode).
    Agent(Box<agent::Args>),
    /// Serves clusters behind any API server.
    AggregatedApiserver(Box<aggregated_apiserver::Args>),
    /// Runs Karmada's controllers against any API server.
    ControllerManager(Box<controller_manager::Args>),
    /// Places bindings against any API server.
    Scheduler(Box<scheduler::Args>),
    /// Prints the custom resource definitions, for use on any API server.
    Crds(crds::Args),
    /// Prints a script by which a shell completes commands and flags.
    Completion(completion::Args),
    /// Prints what the program is made from and which features are on.
    Version(version::Args),
    /// Serves the admission of Karmada's kinds over HTTPS, for use behind any API server.
    Webhook(webhook::Args),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for whoever typed it, whatever their shell says about backtraces.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    if let Some((program, arguments)) = names::command_line(std::env::args_os()) {
        return command_line(program, arguments);
    }
    let cli = Cli::parse_from(names::arguments(std::env::args_os()));
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&cli.log_level))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // Whoever read the log may be gone. Telling them about that would end the task that logged.
        .log_internal_errors(false);
    match cli.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    // Fails only if a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Up(args) => up::run(args).await,
            Command::Member(args) => member::run(args).await,
            Command::Apiserver(args) => apiserver::run(args).await,
            Command::Backup(args) => backup::backup(args).await,
            Command::Restore(args) => backup::restore(args).await,
            Command::Move(args) => backup::move_store(args).await,
            // Taken before anything is parsed, unless flags of this program stand before it.
            Command::Ctl { arguments } => std::process::exit(
                karmada_cli::run(karmada_cli::Program::Karmadactl, arguments).await,
            ),
            Command::Agent(args) => agent::run(*args).await,
            Command::AggregatedApiserver(args) => aggregated_apiserver::run(*args).await,
            Command::ControllerManager(args) => controller_manager::run(*args).await,
            Command::Scheduler(args) => scheduler::run(*args).await,
            Command::Crds(args) => crds::run(&args),
            Command::Completion(args) => completion::run(&args, &Cli::command()),
            Command::Version(args) => version::run(&args),
            Command::Webhook(args) => webhook::run(args).await,
        }
    })
}

/// Greets whoever typed the command. They may have stopped reading (`| head -1`), which is no reason to
/// end a control plane, as `println!` would.
fn tell(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The program as `karmadactl` or kubectl's plugin: its own flags, its own errors, quiet unless asked.
fn command_line(program: karmada_cli::Program, arguments: Vec<OsString>) -> anyhow::Result<()> {
    let filter = match karmada_cli::verbosity(&arguments) {
        // What fails is told in the command's own words.
        0..4 => "error,kube_client=off",
        4..6 => "warn,karmada=debug",
        _ => "debug",
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(karmada_cli::run(program, arguments));
    // Reading from a terminal cannot be interrupted: whoever waits for it is left behind.
    runtime.shutdown_background();
    std::process::exit(code)
}
