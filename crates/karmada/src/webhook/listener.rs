//! Accepts TLS connections and speaks HTTP/1.1 or HTTP/2 on them, whichever the client chose.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use karmada_runtime::Shutdown;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::certificate::Certificate;
use super::endpoint::Endpoint;

/// How long a client may take for the handshake and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_secs(32);
/// The pause after a connection that could not be accepted, for instance for want of files.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until the shutdown begins, then lets open requests finish.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
    endpoint: Arc<Endpoint>,
    shutdown: Shutdown,
) {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.triggered() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        certificate.refresh();
        let acceptor = TlsAcceptor::from(tls.clone());
        let (endpoint, watcher) = (endpoint.clone(), connections.watcher());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, endpoint, watcher).await {
                tracing::debug!(error, "connection ended");
            }
        });
    }
    connections.shutdown().await;
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    endpoint: Arc<Endpoint>,
    watcher: Watcher,
) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let service = service_fn(move |request: Request<Incoming>| {
        let endpoint = endpoint.clone();
        async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}
