//! The streams of a command over a WebSocket, as `v4.channel.k8s.io` and `v5.channel.k8s.io` lay
//! them: the first byte of a message names the channel.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use karmada_apimachinery::status::Status;
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::{self, Body};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

/// How the streams of a command can be laid.
pub(super) const COMMANDS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// How long a client may take to close its side.
const FAREWELL: Duration = Duration::from_secs(5);
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// Names a channel that the client has closed; since v5.
const CLOSE: u8 = 255;

/// A connection that was switched.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The other end of a command.
pub(super) struct Terminal(pub(super) Socket);

/// Answers the handshake; the session begins once the client's connection is ours.
pub(super) fn accept<F>(
    mut connection: Connection,
    protocols: &[&'static str],
    session: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response<Body>, Status>
where
    F: Future<Output = ()> + Send,
{
    let headers = connection.request.headers();
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let key = key.ok_or_else(|| Status::bad_request("Sec-WebSocket-Key is missing"))?;
    let protocol = agreed(headers, header::SEC_WEBSOCKET_PROTOCOL, protocols)?;
    let upgrade = connection.upgrade();
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let io = TokioIo::new(upgraded);
                let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
                session(socket).await;
            }
            Err(error) => tracing::debug!(%error, "no connection to take over"),
        }
    });
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    }
    Ok(response)
}

/// The first of our protocols that the client offers too.
pub(super) fn agreed(
    headers: &HeaderMap,
    offers: header::HeaderName,
    ours: &[&'static str],
) -> Result<&'static str, Status> {
    let offered: Vec<&str> = headers
        .get_all(offers)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    ours.iter().copied().find(|protocol| offered.contains(protocol)).ok_or_else(|| {
        Status::bad_request(format!("one of the protocols {} is needed", ours.join(", ")))
    })
}

impl Terminal {
    /// Waits for what the client types; nothing when it types no more.
    pub(super) async fn read(&mut self) -> Option<Bytes> {
        while let Some(Ok(message)) = self.0.next().await {
            let data = match message {
                Message::Binary(data) => data,
                Message::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
                Message::Close(_) => return None,
                _ => continue,
            };
            match data.first() {
                Some(&STDIN) if data.len() > 1 => return Some(data.slice(1..)),
                Some(&CLOSE) if data.get(1) == Some(&STDIN) => return None,
                // Resizing changes nothing for us.
                _ => {}
            }
        }
        None
    }

    async fn send(&mut self, channel: u8, data: &[u8]) -> bool {
        let mut message = Vec::with_capacity(data.len() + 1);
        message.push(channel);
        message.extend_from_slice(data);
        self.0.send(Message::Binary(message.into())).await.is_ok()
    }

    /// Shows something; whether anybody is still there to see it.
    pub(super) async fn print(&mut self, text: &[u8]) -> bool {
        text.is_empty() || self.send(STDOUT, text).await
    }

    pub(super) async fn complain(&mut self, text: &[u8]) -> bool {
        text.is_empty() || self.send(STDERR, text).await
    }

    /// Tells how the command ended and closes the connection.
    pub(super) async fn exit(mut self, code: i32) {
        let status = super::terminal::exit_status(code);
        self.send(ERROR, status.to_string().as_bytes()).await;
        // Without a code clients take the end for a failure.
        let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        drop(self.0.close(Some(normal)).await);
        // The client closes its side; what it still sends is of no interest.
        let rest = async { while let Some(Ok(_)) = self.0.next().await {} };
        drop(tokio::time::timeout(FAREWELL, rest).await);
    }
}
