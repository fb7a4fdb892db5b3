//! A key service for tests: real gRPC on a real socket, with keys that can be changed and moods. It
//! reads and writes messages on its own, so that what both sides mean by them is compared.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::task::{AbortHandle, JoinSet};

/// What a plugin does, and what it was asked.
pub(crate) struct Mood {
    pub(crate) key_id: String,
    /// The key that encrypts, if it is not the one the status tells of.
    pub(crate) secret_key: Option<String>,
    pub(crate) healthz: String,
    pub(crate) version: String,
    /// Answers nothing.
    pub(crate) hangs: bool,
    pub(crate) statuses: usize,
    pub(crate) encrypted: usize,
    pub(crate) decrypted: usize,
}

/// A plugin that runs until it is dropped or stopped.
pub(crate) struct KmsPlugin {
    /// What the server is told.
    pub(crate) endpoint: String,
    socket: PathBuf,
    mood: Arc<Mutex<Mood>>,
    serving: Option<AbortHandle>,
}

const NOTE: (&str, &[u8]) = ("note.kms.example.com", b"bring this back");

impl KmsPlugin {
    pub(crate) fn start(socket: PathBuf) -> Self {
        let mood = Mood {
            key_id: "key-1".to_owned(),
            secret_key: None,
            healthz: "ok".to_owned(),
            version: "v2".to_owned(),
            hangs: false,
            statuses: 0,
            encrypted: 0,
            decrypted: 0,
        };
        let endpoint = match socket.to_str().unwrap().strip_prefix('\0') {
            Some(name) => format!("unix:///@{name}"),
            None => format!("unix://{}", socket.display()),
        };
        let mood = Arc::new(Mutex::new(mood));
        let mut plugin = Self { endpoint, socket, mood, serving: None };
        plugin.come_back();
        plugin
    }

    pub(crate) fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap()
    }

    /// Goes without a word: connections break and the socket is gone.
    pub(crate) fn die(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        drop(std::fs::remove_file(&self.socket));
    }

    pub(crate) fn come_back(&mut self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let mood = self.mood.clone();
        let serving = tokio::spawn(async move {
            // What is in the set ends with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let mood = mood.clone();
                connections.spawn(async move {
                    let answer = service_fn(|request| answer(request, mood.clone()));
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        self.serving = Some(serving.abort_handle());
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.die();
    }
}

type Answer = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    mood: Arc<Mutex<Mood>>,
) -> Result<Response<Answer>, Infallible> {
    let path = request.uri().path().to_owned();
    let framed = request.into_body().collect().await.unwrap().to_bytes();
    let message = fields(&framed[5..]);
    if mood.lock().unwrap().hangs {
        std::future::pending::<()>().await;
    }
    let outcome = {
        let mut mood = mood.lock().unwrap();
        match path.as_str() {
            "/v2.KeyManagementService/Status" => Ok(mood.status()),
            "/v2.KeyManagementService/Encrypt" => Ok(mood.encrypt(&message)),
            "/v2.KeyManagementService/Decrypt" => mood.decrypt(&message),
            other => Err(format!("there is no {other}")),
        }
    };
    let (code, why, message) = match outcome {
        Ok(message) => ("0", String::new(), message),
        Err(why) => ("2", why, Vec::new()),
    };
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = match code {
        "0" => [&[0][..], &length, &message].concat(),
        _ => Vec::new(),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers.insert("grpc-message", HeaderValue::from_str(&why).unwrap());
    let body = Full::new(Bytes::from(framed)).with_trailers(async { Some(Ok(trailers)) });
    let answer = Response::builder().header("content-type", "application/grpc");
    Ok(answer.body(body.boxed_unsync()).unwrap())
}

impl Mood {
    fn status(&mut self) -> Vec<u8> {
        self.statuses += 1;
        let texts = [&self.version, &self.healthz, &self.key_id];
        let written = texts.iter().zip(1..).map(|(text, number)| field(number, text.as_bytes()));
        written.collect::<Vec<_>>().concat()
    }

    fn encrypt(&mut self, request: &BTreeMap<u8, Vec<Vec<u8>>>) -> Vec<u8> {
        self.encrypted += 1;
        assert_eq!(request[&2][0].len(), 36, "requests have names");
        let key_id = self.secret_key.as_ref().unwrap_or(&self.key_id);
        let note = [field(1, NOTE.0.as_bytes()), field(2, NOTE.1)].concat();
        let sealed = scramble(key_id, &request[&1][0]);
        [field(1, &sealed), field(2, key_id.as_bytes()), field(3, &note)].concat()
    }

    fn decrypt(&mut self, request: &BTreeMap<u8, Vec<Vec<u8>>>) -> Result<Vec<u8>, String> {
        self.decrypted += 1;
        let key_id = String::from_utf8(request[&3][0].clone()).unwrap();
        if !key_id.starts_with("key-") {
            return Err(format!("there is no key {key_id}"));
        }
        let note = fields(&request[&4][0]);
        if note[&1][0] != NOTE.0.as_bytes() || note[&2][0] != NOTE.1 {
            return Err("the note is missing".to_owned());
        }
        Ok(field(1, &scramble(&key_id, &request[&1][0])))
    }
}

/// Encrypts and decrypts; good enough to tell keys apart.
fn scramble(key_id: &str, text: &[u8]) -> Vec<u8> {
    text.iter().zip(key_id.bytes().cycle()).map(|(byte, key)| byte ^ key).collect()
}

/// A field of bytes as protocol buffers write it.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut written = vec![number << 3 | 2];
    while length >= 0x80 {
        written.push(length as u8 | 0x80);
        length >>= 7;
    }
    written.push(length as u8);
    [&written, bytes].concat()
}

/// The fields of a message; a number is a field of one byte.
pub(crate) fn fields(mut message: &[u8]) -> BTreeMap<u8, Vec<Vec<u8>>> {
    let mut fields: BTreeMap<u8, Vec<Vec<u8>>> = BTreeMap::new();
    while let [tag, rest @ ..] = message {
        let (mut length, mut read) = (0, 0);
        loop {
            length |= usize::from(rest[read] & 0x7F) << (7 * read);
            read += 1;
            if rest[read - 1] < 0x80 {
                break;
            }
        }
        let rest = &rest[read..];
        let (content, rest) = match tag & 7 {
            0 => (vec![length as u8], rest),
            2 => (rest[..length].to_vec(), &rest[length..]),
            other => panic!("fields of type {other} are not used"),
        };
        fields.entry(tag >> 3).or_default().push(content);
        message = rest;
    }
    fields
}
