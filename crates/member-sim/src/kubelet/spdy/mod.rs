//! SPDY/3.1 as kubectl speaks it: the client opens streams that say in a header what they are for.
//! Older kubectl runs commands over it; every kubectl forwards ports over it, newer ones inside a
//! WebSocket.

mod frame;
mod headers;

use std::collections::HashMap;
use std::io;

use bytes::Bytes;
use frame::Frame;
use headers::Headers;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Frames that may wait to be written, pieces that may wait to be read, streams to be taken.
const WAITING: usize = 64;
/// The longest piece written at once.
const PIECE: usize = 32 << 10;
/// Streams a connection may have open at a time.
const STREAMS: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("a frame of {0} bytes")]
    TooLong(u32),
    #[error("a frame that ends too soon")]
    TooShort,
    #[error("not SPDY/3.1")]
    Version,
    #[error("headers that cannot be read")]
    Headers,
    #[error("too many streams")]
    TooMany,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A stream the client opened.
pub(super) struct Stream {
    pub(super) headers: Headers,
    pub(super) input: mpsc::Receiver<Bytes>,
    pub(super) output: Output,
}

/// The way back to the client.
#[derive(Clone)]
pub(super) struct Output {
    id: u32,
    frames: mpsc::Sender<Vec<u8>>,
}

impl Output {
    /// Sends something; whether anybody is still there.
    pub(super) async fn send(&self, data: &[u8]) -> bool {
        for piece in data.chunks(PIECE) {
            if self.frames.send(frame::data(self.id, piece, false)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Says that nothing more comes.
    pub(super) async fn end(&self) {
        // A client that has gone needs no farewell.
        let _ = self.frames.send(frame::data(self.id, &[], true)).await;
    }
}

/// Serves a connection for as long as it lasts; the streams come through the channel.
pub(super) fn serve(
    connection: impl AsyncRead + AsyncWrite + Send + 'static,
) -> mpsc::Receiver<Stream> {
    let (opened, streams) = mpsc::channel(WAITING);
    let (frames, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
    let (mut read, mut write) = tokio::io::split(connection);
    tokio::spawn(async move {
        // Ends when nobody takes streams any more and all that were taken are done.
        while let Some(frame) = waiting.recv().await {
            let written = write.write_all(&frame).await;
            // TLS keeps what is written until it is told that nothing follows for now.
            let flushed = if waiting.is_empty() { write.flush().await } else { Ok(()) };
            if written.and(flushed).is_err() {
                return;
            }
        }
        // The connection is over either way.
        let _ = write.shutdown().await;
    });
    let (taken, weak) = (opened.clone(), frames.downgrade());
    tokio::spawn(async move {
        taken.closed().await;
        drop(frames);
    });
    tokio::spawn(async move {
        if let Err(error) = receive(&mut read, opened, weak).await {
            tracing::debug!(%error, "a SPDY connection ended");
        }
    });
    streams
}

async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    opened: mpsc::Sender<Stream>,
    frames: mpsc::WeakSender<Vec<u8>>,
) -> Result<(), Error> {
    let mut headers = headers::Reader::new();
    let mut inputs: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    let mut is_first = true;
    while let Some(frame) = frame::read(from).await? {
        let Some(frames) = frames.upgrade() else { return Ok(()) };
        match frame {
            Frame::Open { stream, ends, block } => {
                let headers = headers.read(&block)?;
                if inputs.len() >= STREAMS {
                    return Err(Error::TooMany);
                }
                let (sender, input) = mpsc::channel(WAITING);
                if !ends {
                    inputs.insert(stream, sender);
                }
                let block = headers::empty_block(std::mem::take(&mut is_first));
                if frames.send(frame::reply(stream, &block)).await.is_err() {
                    return Ok(());
                }
                let output = Output { id: stream, frames };
                // Where nobody takes streams any more, those that are open may finish.
                let _ = opened.send(Stream { headers, input, output }).await;
            }
            Frame::Data { stream, ends, data } => {
                let gone = match inputs.get(&stream) {
                    Some(input) if !data.is_empty() => input.send(data).await.is_err(),
                    _ => false,
                };
                if ends || gone {
                    inputs.remove(&stream);
                }
            }
            Frame::Reset { stream } => drop(inputs.remove(&stream)),
            Frame::Ping { id } => {
                if frames.send(frame::ping(id)).await.is_err() {
                    return Ok(());
                }
            }
            Frame::Other => {}
        }
    }
    Ok(())
}
