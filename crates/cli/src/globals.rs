//! Flags every command takes.

use std::path::PathBuf;
use std::time::Duration;

/// How the control plane is found, and flags of the logging that other tools know.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Globals {
    /// Path to the kubeconfig file to use for requests to the Karmada API
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file to use
    #[arg(
        long,
        global = true,
        alias = "context",
        value_name = "NAME",
        help_heading = "Connection"
    )]
    pub(crate) karmada_context: Option<String>,

    /// The namespace of the request
    #[arg(long, short, global = true, value_name = "NAME", help_heading = "Connection")]
    pub(crate) namespace: Option<String>,

    /// How long to wait for one answer of a server, such as 1s or 2m; 0 waits as long as it takes
    #[arg(long, global = true, value_name = "DURATION", default_value = "0", hide_default_value = true,
        value_parser = parse_duration, help_heading = "Connection")]
    pub(crate) request_timeout: Duration,

    /// Log level; 4 and above show decisions, 6 and above every request
    #[arg(
        long = "v",
        short = 'v',
        global = true,
        value_name = "LEVEL",
        default_value = "0",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    pub(crate) verbosity: u8,

    #[command(flatten)]
    ignored: Ignored,
}

// Compat: scripts pass flags of the logging library of the original; they are taken and have no effect here.
#[derive(Debug, Clone, Default, clap::Args)]
struct Ignored {
    #[arg(long, global = true, hide = true)]
    add_dir_header: bool,
    #[arg(long, global = true, hide = true)]
    alsologtostderr: bool,
    #[arg(long, global = true, hide = true)]
    alsologtostderrthreshold: Option<String>,
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true)]
    legacy_stderr_threshold_behavior: Option<Option<String>>,
    #[arg(long, global = true, hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_dir: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_file: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_file_max_size: Option<String>,
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true)]
    logtostderr: Option<Option<String>>,
    #[arg(long, global = true, hide = true)]
    one_output: bool,
    #[arg(long, global = true, hide = true)]
    skip_headers: bool,
    #[arg(long, global = true, hide = true)]
    skip_log_headers: bool,
    #[arg(long, global = true, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long, global = true, hide = true)]
    vmodule: Option<String>,
}

/// A duration as Go writes it; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed = karmada_apimachinery::time::parse_go_duration(text)?;
    Duration::try_from(parsed).map_err(|_| format!("time: negative duration {text:?}"))
}
