//! Sets the faults of a member that runs in another process: a socket in the file system, which no
//! fault of the network closes. A request is a line per fault; the answer is one line that says what
//! is wrong with the member then.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use karmada_runtime::Shutdown;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::faults::{Fault, Faults};

/// A list of faults longer than this is no list of faults.
const LONGEST: u64 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("reach the member at {path} (does it run?)")]
    Connect { path: String, source: io::Error },
    #[error("talk to the member")]
    Talk(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
}

/// Opens the socket; one that an earlier process left behind is replaced.
pub(crate) fn serve(path: &Path, faults: Faults, shutdown: &Shutdown) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let (own, path) = (shutdown.clone(), path.to_owned());
    shutdown.spawn(async move {
        loop {
            let stream = tokio::select! {
                () = own.triggered() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = stream else { continue };
            let faults = faults.clone();
            own.spawn_until(async move {
                if let Err(error) = answer(stream, &faults).await {
                    tracing::debug!(%error, "control connection ended");
                }
            });
        }
        drop(std::fs::remove_file(path));
    });
    Ok(())
}

async fn answer(mut stream: UnixStream, faults: &Faults) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut text = String::new();
    read.take(LONGEST).read_to_string(&mut text).await?;
    // All or nothing: a list with a mistake changes nothing.
    let parsed: Result<Vec<Fault>, _> =
        text.lines().filter(|line| !line.is_empty()).map(str::parse).collect();
    let reply = match parsed {
        Err(error) => format!("error: {error}\n"),
        Ok(list) => {
            list.into_iter().for_each(|fault| faults.set(fault));
            format!("{}\n", faults.current())
        }
    };
    write.write_all(reply.as_bytes()).await?;
    write.shutdown().await
}

/// Sets faults of the member behind a socket; returns what is wrong with it then. No fault at all
/// just asks.
pub async fn set_faults(path: &Path, faults: &[String]) -> Result<String, ControlError> {
    let connected = UnixStream::connect(path).await;
    let mut stream = connected
        .map_err(|source| ControlError::Connect { path: path.display().to_string(), source })?;
    let mut reply = String::new();
    let mut talk = async || {
        stream.write_all(faults.join("\n").as_bytes()).await?;
        stream.shutdown().await?;
        stream.read_to_string(&mut reply).await
    };
    talk().await.map_err(ControlError::Talk)?;
    match reply.trim().strip_prefix("error: ") {
        Some(error) => Err(ControlError::Refused(error.to_owned())),
        None => Ok(reply.trim().to_owned()),
    }
}
