//! gRPC over HTTP/2 to one of several servers: it stays with the one that answers and goes on to
//! the next when it does not. What failed is told apart by whether a server can have acted on it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;

/// How long one server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);

/// How often a silent connection is tried; a server that does not answer counts as gone. Servers
/// refuse clients that ask more often than every five seconds.
const ALIVE: Duration = Duration::from_secs(10);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Streams are held up by their own readers, never by those of others.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No server has seen the request.
    Unsent(String),
    /// A server may have acted on the request.
    Lost(String),
    /// The server answered with an error.
    Refused { code: u32, message: String },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(why) | Self::Lost(why) => f.write_str(why),
            Self::Refused { message, .. } => f.write_str(message),
        }
    }
}

#[derive(Clone)]
struct Live {
    sender: SendRequest<Body>,
    endpoint: usize,
    /// Tells connections apart.
    number: usize,
}

/// The way to the servers.
pub(crate) struct Channel {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// What every request carries besides the headers of gRPC.
    headers: &'static [(&'static str, &'static str)],
    live: Mutex<Option<Live>>,
    /// The server to try first.
    next: AtomicUsize,
    connections: AtomicUsize,
}

impl Channel {
    pub(crate) fn new(endpoints: Vec<Endpoint>, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        Self {
            endpoints,
            tls,
            headers: &[],
            live: Mutex::default(),
            next: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        }
    }

    /// Adds headers that servers of this kind know.
    pub(crate) fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    /// Sends one message and waits for the one that answers it.
    pub(crate) async fn call(
        &self,
        path: &'static str,
        message: Bytes,
        patience: Duration,
    ) -> Result<Bytes, Failure> {
        let live = self.connection().await?;
        let body = http_body_util::Full::new(frame(&message)).boxed_unsync();
        let number = live.number;
        let answered = tokio::time::timeout(patience, self.exchange(live, path, body)).await;
        let outcome = answered
            .unwrap_or_else(|_| Err(Failure::Lost(format!("no answer within {patience:?}"))));
        if outcome.as_ref().is_err_and(is_the_servers_fault) {
            self.leave(number).await;
        }
        outcome
    }

    async fn exchange(&self, live: Live, path: &'static str, body: Body) -> Result<Bytes, Failure> {
        let mut messages = self.open(live, path, body).await?;
        let answer = messages.next().await?;
        // The status of the call stands behind the message.
        match messages.next().await? {
            None => answer.ok_or_else(|| Failure::Lost("the answer is empty".to_owned())),
            Some(_) => Err(Failure::Lost("there is more than one answer".to_owned())),
        }
    }

    async fn open(&self, live: Live, path: &'static str, body: Body) -> Result<Messages, Failure> {
        let Live { mut sender, endpoint, .. } = live;
        let gone = |error: hyper::Error| Failure::Unsent(format!("connection: {}", chain(&error)));
        sender.ready().await.map_err(gone)?;
        let origin = self.endpoints.get(endpoint).map(Endpoint::origin).unwrap_or_default();
        let request = Request::post(format!("{origin}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "karmada");
        let request = self
            .headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value))
            .body(body)
            .map_err(|error| Failure::Unsent(error.to_string()))?;
        let answer = sender.try_send_request(request).await.map_err(|mut error| {
            let text = chain(error.error());
            // What is handed back was never sent.
            match error.take_message() {
                Some(_) => Failure::Unsent(text),
                None => Failure::Lost(text),
            }
        })?;
        if answer.status() != http::StatusCode::OK {
            return Err(Failure::Lost(format!("the server answered {}", answer.status())));
        }
        let (parts, body) = answer.into_parts();
        if let Some(refusal) = refusal(&parts.headers) {
            return Err(refusal);
        }
        Ok(Messages { body, buffer: BytesMut::new() })
    }

    /// Opens a stream of messages in both directions.
    pub(crate) async fn stream(&self, path: &'static str, first: Bytes) -> Result<Duplex, Failure> {
        let live = self.connection().await?;
        let number = live.number;
        let (outgoing, queue): (UnboundedSender<Bytes>, UnboundedReceiver<Bytes>) = unbounded();
        // The receiver is at hand: this cannot fail.
        let _ = outgoing.unbounded_send(first);
        let frames = queue.map(|message| Ok(Frame::data(frame(&message))));
        let body = StreamBody::new(frames).boxed_unsync();
        let opened = tokio::time::timeout(CONNECT, self.open(live, path, body)).await;
        let opened =
            opened.unwrap_or_else(|_| Err(Failure::Lost("the server does not answer".to_owned())));
        match opened {
            Ok(incoming) => Ok(Duplex { outgoing, incoming, number }),
            Err(failure) => {
                self.leave(number).await;
                Err(failure)
            }
        }
    }

    async fn connection(&self) -> Result<Live, Failure> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.sender.is_closed()) {
            return Ok(live.clone());
        }
        let mut problems = Vec::new();
        let first = self.next.load(Ordering::Relaxed);
        for turn in 0..self.endpoints.len() {
            let place = (first + turn) % self.endpoints.len();
            let Some(endpoint) = self.endpoints.get(place) else { continue };
            let connected = tokio::time::timeout(CONNECT, self.connect(endpoint)).await;
            match connected.unwrap_or_else(|_| Err("no answer".to_owned())) {
                Ok(sender) => {
                    let number = self.connections.fetch_add(1, Ordering::Relaxed);
                    self.next.store(place, Ordering::Relaxed);
                    let live = Live { sender, endpoint: place, number };
                    return Ok(slot.insert(live).clone());
                }
                Err(why) => problems.push(format!("{endpoint}: {why}")),
            }
        }
        Err(Failure::Unsent(problems.join("; ")))
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<SendRequest<Body>, String> {
        let (host, port, secure) = match endpoint {
            Endpoint::Net { host, port, tls } => (host, *port, *tls),
            Endpoint::Socket(path) => {
                let socket = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
                return shake_hands(socket).await;
            }
        };
        let tcp =
            TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = self.tls.as_ref().filter(|_| secure) else {
            return shake_hands(tcp).await;
        };
        let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(tls.clone())
            .connect(name, tcp)
            .await
            .map_err(|error| format!("TLS: {error}"))?;
        shake_hands(stream).await
    }

    /// Gives a connection up, and the server with it, unless that has happened already.
    pub(crate) async fn leave(&self, number: usize) {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| live.number == number) {
            self.next.store(live.endpoint + 1, Ordering::Relaxed);
            *slot = None;
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.endpoints.iter().map(Endpoint::to_string)).finish()
    }
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Body>, String> {
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| chain(&error))?;
    // It ends with an error when the server goes; whoever uses it is told by the sender.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Whether another server may do better.
fn is_the_servers_fault(failure: &Failure) -> bool {
    const UNAVAILABLE: u32 = 14;
    match failure {
        Failure::Unsent(_) | Failure::Lost(_) => true,
        Failure::Refused { code, .. } => *code == UNAVAILABLE,
    }
}

/// A stream both sides write to.
#[derive(Debug)]
pub(crate) struct Duplex {
    outgoing: UnboundedSender<Bytes>,
    incoming: Messages,
    pub(crate) number: usize,
}

impl Duplex {
    /// Sends a message; if the stream is broken, the next answer says so.
    pub(crate) fn send(&self, message: Bytes) {
        drop(self.outgoing.unbounded_send(message));
    }

    /// The next message; none when the server has ended the stream. Giving up waiting loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        self.incoming.next().await
    }
}

#[derive(Debug)]
struct Messages {
    body: Incoming,
    buffer: BytesMut,
}

impl Messages {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(message) = take_frame(&mut self.buffer)? {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| Failure::Lost(chain(&error)))?;
            match frame.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(frame) => {
                    if let Some(refusal) = frame.trailers_ref().and_then(refusal) {
                        return Err(refusal);
                    }
                }
            }
        }
    }
}

/// A message as gRPC frames it: not compressed, with its length.
fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

fn take_frame(buffer: &mut BytesMut) -> Result<Option<Bytes>, Failure> {
    let [compressed, a, b, c, d, ..] = buffer[..] else { return Ok(None) };
    if compressed != 0 {
        return Err(Failure::Lost("the server compresses without being asked to".to_owned()));
    }
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if buffer.len() < length + 5 {
        return Ok(None);
    }
    buffer.advance(5);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The error that headers or trailers tell of, if they do.
fn refusal(headers: &HeaderMap) -> Option<Failure> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status")?.parse().unwrap_or(2);
    if code == 0 {
        return None;
    }
    let message = percent_decode(text("grpc-message").unwrap_or("no reason given"));
    Some(Failure::Refused { code, message })
}

fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = (byte == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// An error with what led to it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_they_end() {
        let mut buffer = BytesMut::new();
        buffer.extend_from_slice(&frame(b"one"));
        buffer.extend_from_slice(&frame(b""));
        buffer.extend_from_slice(&frame(b"two")[..6]);
        assert_eq!(take_frame(&mut buffer).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(take_frame(&mut buffer).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(take_frame(&mut buffer).unwrap(), None);
        buffer.extend_from_slice(b"wo");
        assert_eq!(take_frame(&mut buffer).unwrap().as_deref(), Some(&b"two"[..]));
        buffer.extend_from_slice(&[1, 0, 0, 0, 0]);
        assert!(take_frame(&mut buffer).is_err());
    }

    #[test]
    fn errors_of_a_server_are_told_in_its_words() {
        let mut headers = HeaderMap::new();
        assert_eq!(refusal(&headers), None);
        headers.insert("grpc-status", "0".parse().unwrap());
        assert_eq!(refusal(&headers), None);
        headers.insert("grpc-status", "14".parse().unwrap());
        headers.insert("grpc-message", "etcdserver: no%20leader 100%".parse().unwrap());
        let message = "etcdserver: no leader 100%".to_owned();
        assert_eq!(refusal(&headers), Some(Failure::Refused { code: 14, message }));
    }
}
