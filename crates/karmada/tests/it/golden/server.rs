//! The built binary on a free port, and the credential the recordings were made with.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use karmada_apiserver::pki::certificate::{Authority, CLIENT_AUTH, LeafRequest};
use tempfile::TempDir;

use crate::environment::confine;

const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Member,
    Plane,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Plane => "plane",
        }
    }
}

/// A running server; its process ends with it.
pub(super) struct Server {
    process: Child,
    _folder: TempDir,
    pub(super) port: u16,
    pub(super) ca_pem: String,
    pub(super) certificate_pem: String,
    pub(super) key_pem: String,
}

impl Server {
    pub(super) async fn start(role: Role) -> Self {
        let folder = TempDir::new().expect("make a temporary directory");
        let data = folder.path().join("data");
        let log = std::fs::File::create(folder.path().join("log")).expect("create the log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        let process = confine(&mut command, &folder.path().join("home"))
            .args(["apiserver", "--store", "memory", "--secure-port", "0", "--role", role.name()])
            .arg("--data-dir")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start karmada");
        let began = Instant::now();
        let kubeconfig = loop {
            match std::fs::read_to_string(data.join("admin.config")) {
                Ok(text) if text.contains("server: ") => break text,
                _ if began.elapsed() > PATIENCE => panic!("the server did not become ready"),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let address = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: "));
        let port = address.and_then(|address| address.rsplit(':').next()?.trim().parse().ok());
        let read = |name: &str| {
            std::fs::read_to_string(data.join("pki").join(name)).expect("read a certificate")
        };
        let authority =
            Authority::from_pem(&read("ca.crt"), &read("ca.key")).expect("open the authority");
        let now = Timestamp::now();
        let leaf = authority
            .issue_leaf(&LeafRequest {
                common_name: "golden-admin",
                organizations: &["system:masters"],
                usage: CLIENT_AUTH,
                alternative_names: &[],
                not_before: now - SignedDuration::from_hours(1),
                not_after: now + SignedDuration::from_hours(24),
            })
            .expect("issue a client certificate");
        Self {
            process,
            _folder: folder,
            port: port.expect("the kubeconfig names a port"),
            ca_pem: read("ca.crt"),
            certificate_pem: leaf.certificate_pem,
            key_pem: leaf.key_pem,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
