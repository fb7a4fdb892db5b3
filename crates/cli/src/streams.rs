//! Joins the terminal with a process in a container, and passes on how it ended.

use karmada_apimachinery::object::ObjectExt as _;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncWriteExt as _};

use crate::context::Server;
use crate::error::{Error, Result};
use crate::output;

/// What is connected to.
pub(crate) struct Session<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) params: AttachParams,
}

impl Session<'_> {
    pub(crate) fn api(&self, server: &Server) -> kube::Api<k8s_openapi::api::core::v1::Pod> {
        kube::Api::namespaced(server.client.kube().clone(), self.namespace)
    }
}

/// A connection that was refused, in the server's words where it gave any.
pub(crate) fn refused(error: kube::Error) -> Error {
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
pub(crate) async fn talk(mut process: AttachedProcess, params: &AttachParams) -> Result<()> {
    let status = process.take_status();
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
    let copied = tokio::join!(copy(out, tokio::io::stdout()), copy(err, tokio::io::stderr()));
    copied.0?;
    copied.1?;
    let ended = match status {
        Some(status) => status.await,
        None => None,
    };
    let Some(ended) = ended else { return Ok(()) };
    let ended = serde_json::to_value(&ended).map_err(|error| error.to_string())?;
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
