//! `exec`: runs a command in a container, through the control plane's proxy for members.

use karmada_apimachinery::object::ObjectExt as _;
use kube::api::AttachParams;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::scope::OneServer;
use crate::streams::{Session, talk};
use crate::{output, pods};

pub(crate) const EXAMPLES: &str = "  # Run a command in a pod of member1
  karmadactl exec nginx-7f8fbb96d-4n7dq --operation-scope members --cluster member1 -- date

  # A shell
  karmadactl exec -it deployment/nginx --operation-scope members --cluster member1 -- sh
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
    /// Only print what the command prints
    #[arg(long, short)]
    quiet: bool,
    /// How long to wait for a pod to run
    #[arg(long, value_name = "DURATION", default_value = "1m0s", hide = true)]
    pod_running_timeout: String,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let what = args.what.first().ok_or("pod, type/name or --filename must be specified")?;
    if args.command.is_empty() {
        return Err(Error::from("you must specify at least one command for the container"));
    }
    if args.what.len() > 1 {
        return Err(Error::from(
            "exec [POD] [COMMAND] is not supported; use exec [POD] -- [COMMAND] instead",
        ));
    }
    let namespace = ctx.namespace().await?;
    let server = args.server.server(ctx).await?;
    let pod = pods::best(pods::find(&server, &namespace, what).await?, what)?;
    if matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")) {
        let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
        return Err(Error::Message(format!(
            "cannot exec into a container in a completed pod; current phase is {phase}"
        )));
    }
    let (container, note) = pods::container(&pod, args.container.as_deref())?;
    if let Some(note) = note.filter(|_| !args.quiet) {
        output::note(&note);
    }
    let params = AttachParams::default()
        .container(container)
        .stdin(args.stdin)
        .stdout(true)
        .stderr(!args.tty)
        .tty(args.tty && args.stdin);
    let session = Session { namespace: &namespace, pod: pod.name(), params };
    let api = session.api(&server);
    let process = api
        .exec(session.pod, args.command.clone(), &session.params)
        .await
        .map_err(crate::streams::refused)?;
    talk(process, &session.params).await
}
