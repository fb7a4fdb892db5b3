//! Accepts TLS connections and speaks HTTP/1.1 or HTTP/2 on them, whichever the client chose.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use super::gather::Gather;
use crate::auth::PeerCerts;
use crate::http::body::Body;
use crate::server::Handle;

/// How long a client may take for the handshake, and for the head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub handshake: Duration,
    pub head: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(10), head: Duration::from_secs(90) }
    }
}

/// How long open requests may take after shutdown has begun.
const DRAIN: Duration = Duration::from_secs(5);
/// A client that went without a word is noticed within a minute, also where there is nothing to tell it:
/// watches over HTTP/1.1 have no pings of their own.
const SILENCE: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
const MAX_STREAMS: u32 = 1000;
const MAX_HEADERS: u32 = 1 << 20;

/// Where a connection comes from, known to every request on it.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub std::net::SocketAddr);

/// The server side of TLS; swapping it affects connections made from then on.
pub type TlsConfig = Arc<ArcSwap<rustls::ServerConfig>>;

/// Serves until the server stops, then lets open requests finish.
pub async fn serve(listener: TcpListener, tls: TlsConfig, handle: Handle) {
    let (stop, patience) = (handle.stopped(), handle.patience());
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(tls.load_full());
        let handle = handle.clone();
        let watcher = connections.watcher();
        tokio::spawn(async move {
            let answer = move |request| {
                let handle = handle.clone();
                async move { Ok::<_, std::convert::Infallible>(handle.answer(request).await) }
            };
            if let Err(error) = connection((stream, patience), acceptor, watcher, answer).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    let drained = tokio::time::timeout(DRAIN, connections.shutdown()).await;
    if drained.is_err() {
        tracing::debug!("some requests were still open at shutdown");
    }
}

/// Why a connection ended.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Serves one connection. Where `answer` fails, the connection is cut.
pub async fn connection<A, F, E>(
    (stream, patience): (TcpStream, Patience),
    acceptor: TlsAcceptor,
    watcher: hyper_util::server::graceful::Watcher,
    answer: A,
) -> Result<(), Error>
where
    A: Fn(http::Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<http::Response<Body>, E>> + Send + 'static,
    E: Into<Error> + 'static,
{
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    let address = PeerAddress(stream.peer_addr()?);
    let stream = tokio::time::timeout(patience.handshake, acceptor.accept(stream)).await??;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Arc::new(PeerCerts::new(chain.iter().map(|c| c.clone().into_owned()).collect()));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut request = request.map(|body| body.map_err(std::io::Error::other).boxed_unsync());
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(address);
        answer(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        .adaptive_window(true)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let speaks_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Gather::new(Opening::new(stream, patience.head), speaks_h2);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let connection = connection.into_owned();
    watcher.watch(connection).await
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let probing =
        TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY).with_retries(PROBES);
    SockRef::from(stream).set_tcp_keepalive(&probing)
}

/// As many bytes as tell which protocol a client speaks.
const GREETING: usize = 24;

/// A connection that ends unless the client begins to speak: which protocol it is has to be seen before
/// the time limits of that protocol hold.
struct Opening<S> {
    stream: S,
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Opening<S> {
    fn new(stream: S, patience: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Self { stream, missing: GREETING, deadline }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.missing == 0 {
            return read;
        }
        self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
        if read.is_pending() && self.deadline.poll_unpin(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_probed_for_clients_that_are_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (stream, _) = accepted.unwrap();
        keep_alive(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), SILENCE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_EVERY);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }
}
