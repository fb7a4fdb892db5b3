//! A socket in the data directory by which commands of the same user have a running process do what
//! only it can do: take a backup of its store, or bring one back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use karmada_store::{Snapshot, Store};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};

use crate::backup;

const SOCKET: &str = "karmada.sock";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Order {
    Backup { file: PathBuf },
    Restore { file: PathBuf },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply {
    Done(String),
    Failed(String),
}

/// What orders are carried out on.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data_dir: PathBuf,
}

/// Listens until the process ends. The directory must be held by this process.
pub(crate) fn serve(subject: Subject) {
    let path = subject.data_dir.join(SOCKET);
    // One that is there belonged to a process that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = match listen(&path) {
        Ok(listener) => listener,
        Err(error) => {
            warn!(%error, path = %path.display(), "no backups while running");
            return;
        }
    };
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let subject = subject.clone();
                    tokio::spawn(async move {
                        if let Err(error) = answer(stream, &subject).await {
                            warn!(%error, "an order was not answered");
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "accept an order");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            }
        }
    });
}

fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, private)?;
    Ok(listener)
}

async fn answer(stream: UnixStream, subject: &Subject) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let order: Order = serde_json::from_str(&line)?;
    let reply = match carry_out(order, subject).await {
        Ok(done) => Reply::Done(done),
        Err(error) => Reply::Failed(format!("{error:#}")),
    };
    let text = serde_json::to_string(&reply)? + "\n";
    stream.write_all(text.as_bytes()).await?;
    Ok(())
}

async fn carry_out(order: Order, subject: &Subject) -> anyhow::Result<String> {
    match order {
        Order::Backup { file } => {
            let done = backup::take(&*subject.store, Some(&subject.data_dir), &file).await?;
            info!(file = %file.display(), "backup taken");
            Ok(done)
        }
        Order::Restore { file } => {
            let snapshot = tokio::task::spawn_blocking(move || Snapshot::read(&file)).await??;
            let done = backup::bring_back(&*subject.store, &snapshot).await?;
            info!(rv = snapshot.revision, "backup brought back");
            Ok(done)
        }
    }
}

/// Has the process that holds the directory carry out an order; nothing if there is none.
pub(crate) async fn order(data_dir: &Path, order: &Order) -> anyhow::Result<Option<String>> {
    let path = data_dir.join(SOCKET);
    let Ok(stream) = UnixStream::connect(&path).await else { return Ok(None) };
    let mut stream = BufReader::new(stream);
    let text = serde_json::to_string(order)? + "\n";
    stream.write_all(text.as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await.context("wait for the running process")?;
    match serde_json::from_str(&line).context("the running process ended")? {
        Reply::Done(done) => Ok(Some(done)),
        Reply::Failed(why) => bail!("{why}"),
    }
}
