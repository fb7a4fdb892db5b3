//! `attach`: connects to a container that runs.

use karmada_apimachinery::object::ObjectExt as _;
use kube::api::AttachParams;

use crate::context::Context;
use crate::error::Result;
use crate::scope::OneServer;
use crate::streams::{Session, refused, talk};
use crate::{output, pods};

pub(crate) const EXAMPLES: &str = "  # See what a pod of member1 writes
  karmadactl attach nginx-7f8fbb96d-4n7dq --operation-scope members --cluster member1
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// POD or TYPE/NAME
    #[arg(value_name = "POD")]
    what: Vec<String>,
    #[command(flatten)]
    server: OneServer,
    /// The container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Pass stdin to the container
    #[arg(long, short = 'i')]
    stdin: bool,
    /// Stdin is a terminal
    #[arg(long, short = 't')]
    tty: bool,
    /// Only print what the container prints
    #[arg(long, short)]
    quiet: bool,
    /// How long to wait for a pod to run
    #[arg(long, value_name = "DURATION", default_value = "1m0s", hide = true)]
    pod_running_timeout: String,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let what = args.what.first().ok_or("at least 1 argument is required for attach")?;
    let namespace = ctx.namespace().await?;
    let server = args.server.server(ctx).await?;
    let pod = pods::best(pods::find(&server, &namespace, what).await?, what)?;
    let (container, note) = pods::container(&pod, args.container.as_deref())?;
    if let Some(note) = note.filter(|_| !args.quiet) {
        output::note(&note);
    }
    if args.tty && !args.quiet {
        output::note("If you don't see a command prompt, try pressing enter.");
    }
    let params = AttachParams::default()
        .container(container)
        .stdin(args.stdin)
        .stdout(true)
        .stderr(!args.tty)
        .tty(args.tty && args.stdin);
    let session = Session { namespace: &namespace, pod: pod.name(), params };
    let process =
        session.api(&server).attach(session.pod, &session.params).await.map_err(refused)?;
    talk(process, &session.params).await
}
