//! Serves a member over HTTPS. While the member is cut off its port is closed, so that clients are
//! refused by the machine itself.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use karmada_apiserver::http::listener::{self, Patience, TlsConfig};
use karmada_runtime::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::faults::{Faults, Link};
use crate::network::Network;
use crate::sim::Error;

/// How long open requests may take after shutdown has begun.
const DRAIN: Duration = Duration::from_secs(2);
const REBIND: Duration = Duration::from_millis(100);

/// A port that is ours.
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
}

pub(crate) async fn bind(address: SocketAddr) -> Result<Bound, Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { address, listener })
}

/// Serves until the shutdown, through partitions.
pub(crate) async fn serve(
    bound: Bound,
    tls: TlsConfig,
    network: Network,
    faults: Faults,
    shutdown: Shutdown,
) {
    let mut listener = Some(bound.listener);
    let connections = GracefulShutdown::new();
    loop {
        let Some(open) = listener.take() else {
            let healed = faults.until(|now| now.link != Link::Partitioned);
            tokio::select! {
                () = shutdown.triggered() => break,
                _ = healed => {}
            }
            match TcpListener::bind(bound.address).await {
                Ok(again) => listener = Some(again),
                Err(error) => {
                    tracing::warn!(%error, address = %bound.address, "listen again");
                    tokio::time::sleep(REBIND).await;
                }
            }
            continue;
        };
        let accepted = tokio::select! {
            () = shutdown.triggered() => break,
            // Dropping the listener closes the port.
            _ = faults.until(|now| now.link == Link::Partitioned) => continue,
            accepted = open.accept() => accepted,
        };
        listener = Some(open);
        match accepted {
            Ok((stream, _)) => {
                let acceptor = TlsAcceptor::from(tls.load_full());
                let connection = Connection { acceptor, network: network.clone() };
                shutdown.spawn_until(connection.run(stream, faults.clone(), connections.watcher()));
            }
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(REBIND).await;
            }
        }
    }
    drop(tokio::time::timeout(DRAIN, connections.shutdown()).await);
}

struct Connection {
    acceptor: TlsAcceptor,
    network: Network,
}

impl Connection {
    async fn run(
        self,
        stream: TcpStream,
        faults: Faults,
        watcher: hyper_util::server::graceful::Watcher,
    ) {
        // Not even the handshake is answered from a black hole.
        faults.until(|now| now.link != Link::BlackHole).await;
        let network = self.network;
        let answer = move |request| {
            let network = network.clone();
            async move { network.answer(request).await }
        };
        let arrived = (stream, Patience::default());
        let served = listener::connection(arrived, self.acceptor, watcher, answer);
        tokio::select! {
            ended = served => if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            },
            _ = faults.until(|now| now.link == Link::Partitioned) => {}
        }
    }
}
