//! Real etcd servers on the loopback interface, started for a test and ended with it. Where there
//! is no etcd, tests that need one say so and pass.

#![allow(dead_code, reason = "shared by tests of several crates, none of which uses all of it")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use karmada_store::{Etcd, EtcdOptions, TlsFiles};
use tempfile::TempDir;

/// Long enough for the slowest machine; nothing is asserted about how long anything takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A cluster of etcd.
pub(crate) struct Servers {
    members: Vec<Member>,
    options: Launch,
}

struct Launch {
    program: PathBuf,
    folder: TempDir,
    host: String,
    token: u16,
    tls: Vec<String>,
}

struct Member {
    process: Child,
    client_port: u16,
}

/// The etcd to use: `KARMADA_TEST_ETCD`, the one on the path, or the one of the testbed.
fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KARMADA_TEST_ETCD") {
        return Some(named.into()).filter(|named: &PathBuf| named.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let testbed = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/testbed/bin"));
    let folders = std::env::split_paths(&path).chain(testbed);
    let found = folders.map(|folder| folder.join("etcd")).find(|file| file.is_file())?;
    is_new_enough(&found).then_some(found)
}

/// What Debian 12 ships is not: its watches may claim progress they have not made.
fn is_new_enough(program: &Path) -> bool {
    let Ok(output) = Command::new(program).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    let mut parts = version.unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let version: (u32, u32, u32) = (part(), part(), part());
    version >= (3, 5, 13)
}

/// Says it past the capture of the test harness, once.
fn say_skipped() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let text = "SKIPPED tests on etcd: there is no etcd 3.5.13 or later here; put one on the path or name it by KARMADA_TEST_ETCD\n";
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// A block of ports nobody else in this process has.
fn ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    NEXT.fetch_add(20, Ordering::Relaxed)
}

/// An address of the loopback network that belongs to this process alone, so that the ports of a
/// server that is down stay free until it comes back.
fn host() -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{}.{middle}.{low}", 64 + (high & 0x3F))
}

impl Servers {
    /// Starts as many servers as asked for; nothing if there is no etcd here.
    pub(crate) fn start(count: u16) -> Option<Self> {
        Self::start_with(count, &[])
    }

    /// The same with flags of TLS; addresses begin with `https` then.
    pub(crate) fn start_with(count: u16, tls: &[String]) -> Option<Self> {
        let Some(program) = find() else {
            say_skipped();
            return None;
        };
        let folder = TempDir::new().expect("make a temporary directory");
        let options = Launch { program, folder, host: host(), token: ports(), tls: tls.to_vec() };
        let start = |place| Member {
            process: options.launch(place, count),
            client_port: options.client_port(place),
        };
        let members = (0..count).map(start).collect();
        Some(Self { members, options })
    }

    /// The addresses of all servers.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let scheme = self.options.scheme();
        let address =
            |member: &Member| format!("{scheme}://{}:{}", self.options.host, member.client_port);
        self.members.iter().map(address).collect()
    }

    /// A store on these servers; it waits until they serve.
    pub(crate) async fn store(&self, prefix: &str) -> Etcd {
        self.store_with(prefix, TlsFiles::default()).await
    }

    pub(crate) async fn store_with(&self, prefix: &str, tls: TlsFiles) -> Etcd {
        let options = EtcdOptions {
            servers: self.addresses(),
            prefix: prefix.to_owned(),
            local_prefix: String::new(),
            tls,
        };
        let began = Instant::now();
        loop {
            match Etcd::open(&options).await {
                Ok(store) => return store,
                Err(error) if began.elapsed() > PATIENCE => panic!("{error}\n{}", self.log()),
                Err(_) => {}
            }
        }
    }

    /// Ends a server at once, as `kill -9` does.
    pub(crate) fn kill(&mut self, place: u16) {
        let member = &mut self.members[usize::from(place)];
        member.process.kill().expect("kill etcd");
        member.process.wait().expect("wait for etcd");
    }

    /// Starts a server that was ended, on its own data.
    pub(crate) fn start_again(&mut self, place: u16) {
        let count = self.members.len() as u16;
        self.members[usize::from(place)].process = self.options.launch(place, count);
    }

    /// Stops a server without ending it, or lets it go on.
    /// Stops a server as a debugger would. Its threads take notice one after the other, so this
    /// waits for the last of them.
    pub(crate) fn freeze(&self, place: u16) {
        self.signal(place, "STOP");
        let tasks = format!("/proc/{}/task", self.members[usize::from(place)].process.id());
        let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.expect("a thread").path().join("stat"));
            let stat = stat.unwrap_or_default();
            // The state stands behind the name, which may hold anything.
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let deadline = Instant::now() + PATIENCE;
        while !std::fs::read_dir(&tasks).expect("threads").all(is_stopped) {
            assert!(Instant::now() < deadline, "the server does not stop");
            std::thread::yield_now();
        }
    }

    pub(crate) fn go_on(&self, place: u16) {
        self.signal(place, "CONT");
    }

    fn signal(&self, place: u16, signal: &str) {
        let pid = self.members[usize::from(place)].process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("run kill").success(), "no signal sent");
    }

    fn log(&self) -> String {
        let read = |place: usize| {
            let file = self.options.folder.path().join(format!("{place}.log"));
            std::fs::read_to_string(file).unwrap_or_default()
        };
        (0..self.members.len()).map(read).collect()
    }
}

impl Launch {
    fn scheme(&self) -> &'static str {
        if self.tls.is_empty() { "http" } else { "https" }
    }

    fn client_port(&self, place: u16) -> u16 {
        self.token + 2 * place
    }

    fn peer(&self, place: u16) -> String {
        format!("http://{}:{}", self.host, self.client_port(place) + 1)
    }

    fn launch(&self, place: u16, count: u16) -> Child {
        let client = format!("{}://{}:{}", self.scheme(), self.host, self.client_port(place));
        let peers = (0..count).map(|other| format!("m{other}={}", self.peer(other)));
        let log = self.folder.path().join(format!("{place}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log);
        let log = log.expect("open a log file");
        Command::new(&self.program)
            .args(["--name", &format!("m{place}")])
            .args(["--data-dir", &self.folder.path().join(format!("m{place}")).to_string_lossy()])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &self.peer(place)])
            .args(["--initial-advertise-peer-urls", &self.peer(place)])
            .args(["--initial-cluster", &peers.collect::<Vec<_>>().join(",")])
            .args(["--initial-cluster-token", &format!("t{}", self.token)])
            .args(["--log-level", "warn"])
            // A busy machine must not look like a broken one: elections are for servers that are
            // gone, and processes are killed here, not machines.
            .args(["--heartbeat-interval", "500", "--election-timeout", "5000"])
            .arg("--unsafe-no-fsync")
            .args(&self.tls)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start etcd")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for member in &mut self.members {
            // Both fail only if the process has ended already.
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}
