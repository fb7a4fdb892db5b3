//! A running `karmada webhook` with certificates of its own, and a client that speaks TLS to it.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::pki::certificate::{Authority, LeafRequest, SERVER_AUTH, ip_address};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::environment::without_personal_settings;
use crate::server::PATIENCE;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_karmada");

/// An authority and the directory of the serving certificate it signed.
pub(crate) struct Certificates {
    pub(crate) directory: TempDir,
    authority: Authority,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let key = Authority::generate_key().unwrap();
        let now = Timestamp::now();
        let (begin, end) =
            (now - SignedDuration::from_hours(1), now + SignedDuration::from_hours(24));
        let authority = Authority::self_signed("hooks", &key, begin, end).unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("ca.crt"), authority.certificate_pem()).unwrap();
        let certificates = Self { directory, authority };
        certificates.issue();
        certificates
    }

    /// Writes a new serving certificate and returns it.
    pub(crate) fn issue(&self) -> Vec<u8> {
        let now = Timestamp::now();
        let leaf = self
            .authority
            .issue_leaf(&LeafRequest {
                common_name: "karmada-webhook",
                organizations: &[],
                usage: SERVER_AUTH,
                alternative_names: &[ip_address(Ipv4Addr::LOCALHOST.into())],
                not_before: now - SignedDuration::from_hours(1),
                not_after: now + SignedDuration::from_hours(12),
            })
            .unwrap();
        std::fs::write(self.directory.path().join("tls.crt"), &leaf.certificate_pem).unwrap();
        std::fs::write(self.directory.path().join("tls.key"), &leaf.key_pem).unwrap();
        leaf.certificate.to_vec()
    }

    pub(crate) fn authority_file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }
}

/// A program that logs where it serves; it ends with the value.
pub(crate) struct Process {
    child: Child,
    addresses: Vec<(String, SocketAddr)>,
}

impl Process {
    /// Starts the program and waits until it has logged `last`.
    pub(crate) fn start(arguments: &[&str], last: &str) -> Self {
        let mut child = without_personal_settings(&mut Command::new(BINARY))
            .args(["--log-format=json", "--log-level=info"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut addresses = Vec::new();
        let mut seen = String::new();
        loop {
            let Some(Ok(line)) = log.next() else { panic!("it ended before {last:?}:\n{seen}") };
            seen.push_str(&format!("{line}\n"));
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            let fields = &entry["fields"];
            let message = fields["message"].as_str().unwrap_or_default().to_owned();
            if let Some(address) = fields["address"].as_str() {
                addresses.push((message.clone(), address.parse().unwrap()));
            }
            if message == last {
                break;
            }
        }
        // Nobody waits for a reader that does not read.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, addresses }
    }

    pub(crate) fn address(&self, message: &str) -> SocketAddr {
        self.addresses.iter().find(|(logged, _)| logged == message).unwrap().1
    }
}

impl Process {
    /// Asks the program to end and waits until it has.
    pub(super) fn terminate(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) struct Webhook {
    pub(crate) certificates: Certificates,
    process: Process,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) text: String,
    pub(crate) certificate: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Webhook {
    /// Starts a webhook whose API server does not answer.
    pub(crate) fn alone(flags: &[&str]) -> Self {
        let certificates = Certificates::new();
        let kubeconfig = certificates.directory.path().join("nobody.config");
        let nobody = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {}}],
        });
        std::fs::write(&kubeconfig, nobody.to_string()).unwrap();
        Self::start(certificates, &kubeconfig, flags)
    }

    pub(crate) fn start(certificates: Certificates, kubeconfig: &Path, flags: &[&str]) -> Self {
        let directory = format!("--cert-dir={}", certificates.directory.path().display());
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let mut arguments = vec![
            "webhook",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=0",
            &directory,
            &kubeconfig,
        ];
        arguments.extend(flags);
        Self { certificates, process: Process::start(&arguments, "serving hooks") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address("serving hooks")
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    pub(crate) fn metrics_address(&self) -> SocketAddr {
        self.process.address("serving health and metrics")
    }

    /// Posts JSON and returns the answer as JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.send(path, Some("application/json"), body.to_string().into_bytes()).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        answer.json()
    }

    pub(crate) async fn send(&self, path: &str, kind: Option<&str>, body: Vec<u8>) -> Answer {
        self.send_over(rustls::DEFAULT_VERSIONS, path, kind, body).await.unwrap()
    }

    pub(crate) async fn send_over(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        path: &str,
        kind: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Answer, std::io::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificates.authority.certificate().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = self.address();
        let stream = TcpStream::connect(address).await?;
        let stream =
            TlsConnector::from(Arc::new(config)).connect(address.ip().into(), stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        let mut request = http::Request::post(path).header("host", "hooks");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let (code, text) = exchange(stream, request).await;
        Ok(Answer { code, text, certificate })
    }
}

/// Reads a path over plain HTTP.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let request = http::Request::get(path).header("host", "hooks");
    exchange(stream, request.body(Full::default()).unwrap()).await
}

async fn exchange(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    request: http::Request<Full<Bytes>>,
) -> (u16, String) {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Runs the program to its end and returns what it printed.
pub(crate) fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = without_personal_settings(&mut Command::new(program)).args(arguments).output();
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The documents of a YAML text.
pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    let parse =
        |text: &str| karmada_apimachinery::decode::yaml_untyped(text.as_bytes()).unwrap().value;
    yaml.split("\n---\n").map(parse).collect()
}

/// Asks again until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
