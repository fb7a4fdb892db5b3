//! Joins the terminal with a process in a container, and passes on how it ended: what `exec` and `attach` share.

use std::time::Duration;

use futures::{Sink, SinkExt as _};
use k8s_openapi::api::core::v1::Pod;
use karmada_apimachinery::object::ObjectExt as _;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use tokio::io::{AsyncRead, AsyncWriteExt as _};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::globals::parse_duration;
use crate::scope::OneServer;
use crate::{output, pods, terminal};

/// Flags of the commands that talk to a container.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Flags {
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
    pub(crate) tty: bool,
    /// Only print what the container prints
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// How long to wait for a pod to run
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1m0s", hide = true)]
    pod_running_timeout: Duration,
}

/// A container that can be talked to.
pub(crate) struct Session {
    api: kube::Api<Pod>,
    pod: String,
    params: AttachParams,
}

impl Session {
    /// Finds the pod and container that are meant, and waits for the pod to run.
    pub(crate) async fn open(ctx: &Context, what: &str, flags: &Flags) -> Result<Self> {
        let namespace = ctx.namespace().await?;
        let server = flags.server.server(ctx).await?;
        let pod = pods::best(pods::find(&server, &namespace, what).await?, what)?;
        let pod = pods::await_running(&server, pod, flags.pod_running_timeout).await?;
        if let Some(phase @ ("Succeeded" | "Failed")) = pod.str_at(&["status", "phase"]) {
            return Err(Error::Message(format!(
                "cannot exec into a container in a completed pod; current phase is {phase}"
            )));
        }
        let (container, note) = pods::container(&pod, flags.container.as_deref())?;
        if let Some(note) = note.filter(|_| !flags.quiet) {
            output::note(&note);
        }
        let mut tty = flags.tty && flags.stdin;
        if tty && !terminal::is_terminal() {
            if !flags.quiet {
                output::note(
                    "Unable to use a TTY - input is not a terminal or the right kind of file",
                );
            }
            tty = false;
        }
        let params = AttachParams::default()
            .container(container)
            .stdin(flags.stdin)
            .stdout(true)
            .stderr(!tty)
            .tty(tty);
        let api = kube::Api::namespaced(server.client.kube().clone(), &namespace);
        Ok(Self { api, pod: pod.name().to_owned(), params })
    }

    /// Runs a command in the container until it ends.
    pub(crate) async fn exec(self, command: &[String]) -> Result<()> {
        let process = self.api.exec(&self.pod, command.to_vec(), &self.params).await;
        talk(process.map_err(refused)?, &self.params).await
    }

    /// Joins what runs in the container already.
    pub(crate) async fn attach(self) -> Result<()> {
        let process = self.api.attach(&self.pod, &self.params).await;
        talk(process.map_err(refused)?, &self.params).await
    }
}

/// A connection that was refused, in the server's words where it gave any.
fn refused(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => {
            Error::Plain(format!("Error from server ({}): {}", status.reason, status.message))
        }
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(&other);
            while let Some(next) = cause {
                text = format!("{text}: {next}");
                cause = next.source();
            }
            Error::Message(format!("unable to upgrade connection: {text}"))
        }
    }
}

/// Copies all streams until the process ends.
async fn talk(mut process: AttachedProcess, params: &AttachParams) -> Result<()> {
    let status = process.take_status();
    let raw = params.tty.then(terminal::Raw::enter);
    if params.tty
        && let Some(sizes) = process.terminal_size()
    {
        tokio::spawn(tell_sizes(sizes));
    }
    if params.stdin
        && let Some(mut remote) = process.stdin()
    {
        tokio::spawn(async move {
            // Either end may close first; the status tells how it went.
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut remote).await;
            let _ = remote.shutdown().await;
        });
    }
    let out = process.stdout();
    let err = process.stderr();
    let copy =
        async { tokio::join!(copy(out, tokio::io::stdout()), copy(err, tokio::io::stderr())) };
    let copied = tokio::select! {
        copied = copy => copied,
        // Whoever ends this program gets the terminal back as it was.
        signal = terminal::told_to_end(), if params.tty => {
            drop(raw);
            return Err(Error::Exit(128 + signal));
        }
    };
    drop(raw);
    copied.0?;
    copied.1?;
    let ended = match status {
        Some(status) => status.await,
        None => None,
    };
    let Some(ended) = ended else { return Ok(()) };
    let ended = karmada_apimachinery::to_value(&ended).map_err(|error| error.to_string())?;
    if ended.str_at(&["status"]) != Some("Failure") {
        return Ok(());
    }
    let causes = ended.list_at(&["details", "causes"]);
    let code = causes.iter().find(|cause| cause.str_at(&["reason"]) == Some("ExitCode"));
    match code.and_then(|cause| cause.str_at(&["message"])).and_then(|code| code.parse().ok()) {
        Some(code) => {
            output::note(&format!("command terminated with exit code {code}"));
            Err(Error::Exit(code))
        }
        None => Err(Error::Message(
            ended.str_at(&["message"]).unwrap_or("the command failed").to_owned(),
        )),
    }
}

/// Tells the program how large the window is, now and whenever that changes.
async fn tell_sizes(mut sizes: impl Sink<TerminalSize> + Unpin) {
    let mut changes = terminal::size_changes();
    loop {
        if let Some((width, height)) = terminal::size()
            && sizes.send(TerminalSize { width, height }).await.is_err()
        {
            // A program that has ended needs no size.
            return;
        }
        let Some(changes) = &mut changes else { return };
        if changes.recv().await.is_none() {
            return;
        }
    }
}

async fn copy(
    from: Option<impl AsyncRead + Unpin>,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) -> Result<()> {
    if let Some(mut from) = from {
        tokio::io::copy(&mut from, &mut to).await?;
        to.flush().await?;
    }
    Ok(())
}
