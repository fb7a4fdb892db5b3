//! The other end of a command, over a WebSocket or over SPDY.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::{self, Body};
use tokio::sync::mpsc;

use super::{spdy, websocket};

/// Names the protocols of a client that speaks SPDY.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const COMMANDS: [&str; 1] = ["v4.channel.k8s.io"];
/// How long a client may take to open the streams it asked for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) enum Terminal {
    WebSocket(Box<websocket::Terminal>),
    Spdy(Streams),
}

/// Answers the handshake; the session begins once the client's connection is ours.
pub(super) fn accept<F>(
    connection: Connection,
    session: impl FnOnce(Terminal) -> F + Send + 'static,
) -> Result<Response<Body>, Status>
where
    F: Future<Output = ()> + Send,
{
    match Protocol::of(&connection)? {
        Protocol::WebSocket => websocket::accept(connection, &websocket::COMMANDS, |socket| {
            session(Terminal::WebSocket(Box::new(websocket::Terminal(socket))))
        }),
        Protocol::Spdy => {
            let wanted = Wanted::by(&connection);
            accept_spdy(connection, &COMMANDS, async move |streams| {
                match tokio::time::timeout(PATIENCE, Streams::gather(streams, wanted)).await {
                    Ok(Some(streams)) => session(Terminal::Spdy(streams)).await,
                    _ => tracing::debug!("the streams of a command were not opened"),
                }
            })
        }
    }
}

/// What a client wants to switch to.
pub(super) enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    pub(super) fn of(connection: &Connection) -> Result<Self, Status> {
        match connection.wants_upgrade() {
            Some(wanted) if wanted.eq_ignore_ascii_case("websocket") => Ok(Self::WebSocket),
            Some(wanted) if wanted.eq_ignore_ascii_case("SPDY/3.1") => Ok(Self::Spdy),
            _ => Err(Status::bad_request("Upgrade request required")),
        }
    }
}

/// Switches a connection to SPDY; the session gets the streams as the client opens them.
pub(super) fn accept_spdy<F>(
    mut connection: Connection,
    protocols: &[&'static str],
    session: impl FnOnce(mpsc::Receiver<spdy::Stream>) -> F + Send + 'static,
) -> Result<Response<Body>, Status>
where
    F: Future<Output = ()> + Send,
{
    let protocol = websocket::agreed(connection.request.headers(), STREAM_PROTOCOL, protocols)?;
    let upgrade = connection.upgrade();
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => session(spdy::serve(TokioIo::new(upgraded))).await,
            Err(error) => tracing::debug!(%error, "no connection to take over"),
        }
    });
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    Ok(response)
}

/// The streams a command was asked for with.
struct Wanted {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Wanted {
    fn by(connection: &Connection) -> Self {
        let query = connection.query();
        let is_set = |name: &str| query.flag(name) == Some(true);
        let tty = is_set("tty");
        Self {
            stdin: is_set("stdin"),
            stdout: is_set("stdout"),
            // A terminal has one output.
            stderr: is_set("stderr") && !tty,
        }
    }
}

/// The streams of one command.
pub(super) struct Streams {
    stdin: Option<mpsc::Receiver<Bytes>>,
    stdout: Option<spdy::Output>,
    stderr: Option<spdy::Output>,
    error: spdy::Output,
    /// Keeps the connection open for the command's time.
    _more: mpsc::Receiver<spdy::Stream>,
}

impl Streams {
    /// Waits until the client has opened all of them.
    async fn gather(mut opened: mpsc::Receiver<spdy::Stream>, wanted: Wanted) -> Option<Self> {
        let mut found: HashMap<String, spdy::Stream> = HashMap::new();
        let needed = [
            ("error", true),
            ("stdin", wanted.stdin),
            ("stdout", wanted.stdout),
            ("stderr", wanted.stderr),
        ];
        while needed.iter().any(|(name, needed)| *needed && !found.contains_key(*name)) {
            let stream = opened.recv().await?;
            let name = stream.headers.get("streamtype").cloned().unwrap_or_default();
            found.insert(name, stream);
        }
        Some(Self {
            stdin: found.remove("stdin").map(|stream| stream.input),
            stdout: found.remove("stdout").map(|stream| stream.output),
            stderr: found.remove("stderr").map(|stream| stream.output),
            error: found.remove("error")?.output,
            _more: opened,
        })
    }
}

impl Terminal {
    /// Waits for what the client types; nothing when it types no more.
    pub(super) async fn read(&mut self) -> Option<Bytes> {
        match self {
            Self::WebSocket(terminal) => terminal.read().await,
            Self::Spdy(streams) => streams.stdin.as_mut()?.recv().await,
        }
    }

    /// Shows something; whether anybody is still there to see it.
    pub(super) async fn print(&mut self, text: &[u8]) -> bool {
        match self {
            Self::WebSocket(terminal) => terminal.print(text).await,
            Self::Spdy(streams) => send(streams.stdout.as_ref(), text).await,
        }
    }

    pub(super) async fn complain(&mut self, text: &[u8]) -> bool {
        match self {
            Self::WebSocket(terminal) => terminal.complain(text).await,
            Self::Spdy(streams) => send(streams.stderr.as_ref(), text).await,
        }
    }

    /// Tells how the command ended and closes the connection.
    pub(super) async fn exit(self, code: i32) {
        match self {
            Self::WebSocket(terminal) => terminal.exit(code).await,
            Self::Spdy(streams) => {
                streams.error.send(exit_status(code).to_string().as_bytes()).await;
                let outputs = [streams.stdout.as_ref(), streams.stderr.as_ref()];
                for output in outputs.into_iter().flatten().chain([&streams.error]) {
                    output.end().await;
                }
            }
        }
    }
}

async fn send(output: Option<&spdy::Output>, text: &[u8]) -> bool {
    match output {
        Some(output) => output.send(text).await,
        None => true,
    }
}

/// How a command ended, as clients are told.
pub(super) fn exit_status(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}
