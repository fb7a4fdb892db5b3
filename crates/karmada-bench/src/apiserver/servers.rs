//! The servers that are compared, each as processes of its own: ours on its embedded store, ours on etcd,
//! and a real kube-apiserver on etcd. Everything listens on loopback and ends with the measurement.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use karmada_apiserver::pki::{Pki, Settings};
use tempfile::TempDir;

use super::wire::{Address, Ask};
use crate::table::{cpu_seconds_of_process, rss_kb_of_process};

/// How long a server may take to get ready, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const SERVICES: &str = "10.96.0.0/16";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Ours on its own durable store
    Embedded,
    /// Ours on etcd
    Etcd,
    /// kube-apiserver on etcd
    Kubernetes,
}

impl Kind {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Embedded => "ours",
            Self::Etcd => "ours on etcd",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

/// The programs to start.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Programs {
    /// Ours; the one beside this program unless given
    #[arg(long, env = "KARMADA_BENCH_KARMADA", value_name = "FILE")]
    karmada: Option<PathBuf>,
    /// A real one; from the path or the testbed unless given
    #[arg(long, env = "KARMADA_BENCH_KUBE_APISERVER", value_name = "FILE")]
    kube_apiserver: Option<PathBuf>,
    /// etcd; from the path or the testbed unless given
    #[arg(long, env = "KARMADA_TEST_ETCD", value_name = "FILE")]
    etcd: Option<PathBuf>,
}

impl Programs {
    fn karmada(&self) -> Option<PathBuf> {
        let beside = || {
            let own = std::env::current_exe().ok()?;
            // Tests lie one folder deeper than programs.
            own.ancestors()
                .skip(1)
                .take(2)
                .map(|folder| folder.join("karmada"))
                .find(|f| f.is_file())
        };
        self.karmada.clone().or_else(beside).filter(|file| file.is_file())
    }

    fn find(given: Option<&PathBuf>, name: &str) -> Option<PathBuf> {
        if let Some(given) = given {
            return Some(given.clone()).filter(|given| given.is_file());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let testbed =
            std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/testbed/bin"));
        let folders = std::env::split_paths(&path).chain(testbed);
        folders.map(|folder| folder.join(name)).find(|file| file.is_file())
    }

    fn etcd(&self) -> Option<PathBuf> {
        Self::find(self.etcd.as_ref(), "etcd")
    }

    fn kube_apiserver(&self) -> Option<PathBuf> {
        Self::find(self.kube_apiserver.as_ref(), "kube-apiserver")
    }

    /// The name and flag of a program that a server needs and that is not here.
    pub(super) fn missing(&self, kind: Kind) -> Option<&'static str> {
        let ours = || self.karmada().is_none().then_some("karmada (--karmada)");
        let etcd = || self.etcd().is_none().then_some("etcd (--etcd)");
        let real =
            || self.kube_apiserver().is_none().then_some("kube-apiserver (--kube-apiserver)");
        match kind {
            Kind::Embedded => ours(),
            Kind::Etcd => ours().or_else(etcd),
            Kind::Kubernetes => real().or_else(etcd),
        }
    }
}

/// A process that is ended when this is dropped.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(program: &Path, args: &[String], log: PathBuf) -> anyhow::Result<Self> {
        let output = File::create(&log).context("create a log")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child, log })
    }

    fn ensure_alive(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        anyhow::bail!("it ended ({status}):\n{}", lines.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that answers.
pub(super) struct Running {
    kind: Kind,
    programs: Programs,
    api: Process,
    etcd: Option<(Process, u16)>,
    dir: TempDir,
    pub(super) address: Address,
    /// How long the API server took until it was ready; etcd ran before.
    pub(super) start: Duration,
}

impl Running {
    pub(super) async fn start(kind: Kind, programs: &Programs) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("make a temporary directory")?;
        let etcd = match kind {
            Kind::Embedded => None,
            _ => Some(start_etcd(programs, dir.path()).await?),
        };
        let etcd_port = etcd.as_ref().map(|(_, port)| *port);
        let (api, address, start) = launch(kind, programs, dir.path(), etcd_port).await?;
        let programs = programs.clone();
        Ok(Self { kind, programs, api, etcd, dir, address, start })
    }

    /// Kills the API server and starts it on what it left; returns how long that took until ready.
    pub(super) async fn start_again(&mut self) -> anyhow::Result<Duration> {
        let _ = self.api.child.kill();
        self.api.child.wait().context("wait for a killed server")?;
        let etcd = self.etcd.as_ref().map(|(_, port)| *port);
        let dir = self.dir.path();
        let (api, address, took) = launch(self.kind, &self.programs, dir, etcd).await?;
        self.api = api;
        self.address = address;
        Ok(took)
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        let etcd = self.etcd.as_ref().map(|(process, _)| process.child.id());
        std::iter::once(self.api.child.id()).chain(etcd)
    }

    /// Memory of all processes of the server, in megabytes.
    pub(super) fn memory(&self) -> f64 {
        self.pids().map(rss_kb_of_process).sum::<u64>() as f64 / 1024.0
    }

    /// Processor time of all processes of the server so far, in seconds.
    pub(super) fn cpu(&self) -> f64 {
        self.pids().map(cpu_seconds_of_process).sum()
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

async fn start_etcd(programs: &Programs, dir: &Path) -> anyhow::Result<(Process, u16)> {
    let program = programs.etcd().context("find etcd")?;
    let (port, peers) = (free_port()?, free_port()?);
    let (own, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
    let args = [
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={own}"),
        format!("--advertise-client-urls={own}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--log-level=warn".to_owned(),
    ];
    let mut process = Process::start(&program, &args, dir.join("etcd.log"))?;
    let began = Instant::now();
    while !is_healthy(port) {
        process.ensure_alive().context("etcd")?;
        anyhow::ensure!(began.elapsed() < PATIENCE, "etcd does not get healthy");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok((process, port))
}

/// Asks etcd on the plain port it has for this.
fn is_healthy(port: u16) -> bool {
    let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains("\"health\":\"true\""))
    });
    asked.unwrap_or(false)
}

/// What kube-apiserver cannot make for itself.
fn make_certificates(dir: &Path, port: u16) -> anyhow::Result<()> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let validity = SignedDuration::from_hours(24);
    let settings = Settings::new(Some(dir.join("pki")), validity, [], [local]);
    let pki = Pki::open(settings, Timestamp::now()).context("make certificates")?;
    let server = format!("https://127.0.0.1:{port}");
    std::fs::write(dir.join("admin.config"), pki.admin_kubeconfig("bench", &server))?;
    Ok(())
}

/// Starts the API server; returns when it says that it is ready.
async fn launch(
    kind: Kind,
    programs: &Programs,
    dir: &Path,
    etcd: Option<u16>,
) -> anyhow::Result<(Process, Address, Duration)> {
    let (program, args, kubeconfig) = match kind {
        Kind::Kubernetes => {
            let program = programs.kube_apiserver().context("find kube-apiserver")?;
            // A port of its own for every start: that of the last may be held by what it left open.
            let port = free_port()?;
            make_certificates(dir, port)?;
            (program, kubernetes_flags(dir, port, etcd), dir.join("admin.config"))
        }
        _ => {
            let program = programs.karmada().context("find karmada")?;
            let data = dir.join("data");
            let kubeconfig = data.join("admin.config");
            if kubeconfig.exists() {
                // It is written anew with the port of this start.
                std::fs::remove_file(&kubeconfig).context("remove the last kubeconfig")?;
            }
            (program, our_flags(&data, etcd), kubeconfig)
        }
    };
    let began = Instant::now();
    let mut process = Process::start(&program, &args, dir.join("apiserver.log"))?;
    loop {
        if let Some(address) = ready_at(&kubeconfig).await {
            return Ok((process, address, began.elapsed()));
        }
        process.ensure_alive().with_context(|| kind.title())?;
        anyhow::ensure!(began.elapsed() < PATIENCE, "{} does not get ready", kind.title());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn ready_at(kubeconfig: &Path) -> Option<Address> {
    let address = Address::read(kubeconfig).ok()?;
    let mut wire = address.connect().await.ok()?;
    wire.ask(Ask::get("/readyz")).await.ok()?;
    Some(address)
}

fn our_flags(data: &Path, etcd: Option<u16>) -> Vec<String> {
    let mut flags = vec![
        "apiserver".to_owned(),
        format!("--data-dir={}", data.display()),
        "--secure-port=0".to_owned(),
    ];
    flags.extend(etcd.map(|port| format!("--etcd-servers=http://127.0.0.1:{port}")));
    flags
}

fn kubernetes_flags(dir: &Path, port: u16, etcd: Option<u16>) -> Vec<String> {
    let file =
        |flag: &str, name: &str| format!("--{flag}={}", dir.join("pki").join(name).display());
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", etcd.unwrap_or_default()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // Loopback may not stand in Endpoints; this one is reserved for documentation.
        "--advertise-address=192.0.2.1".to_owned(),
        file("tls-cert-file", "apiserver.crt"),
        file("tls-private-key-file", "apiserver.key"),
        file("client-ca-file", "ca.crt"),
        "--authorization-mode=RBAC".to_owned(),
        format!("--service-cluster-ip-range={SERVICES}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        file("service-account-key-file", "sa.key"),
        file("service-account-signing-key-file", "sa.key"),
    ]
}
