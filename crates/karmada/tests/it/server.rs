//! The built binary as a process of its own, on a free port and a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Long enough for the slowest machine; nothing is asserted about how long anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A running `karmada` server; it is stopped by its process id when dropped.
pub(crate) struct Server {
    process: Child,
    folder: TempDir,
    args: Vec<String>,
    kubeconfig: &'static str,
}

impl Server {
    /// `karmada apiserver` in the role of a member.
    pub(crate) fn member() -> Self {
        Self::start(&["apiserver", "--role", "member"], "admin.config")
    }

    /// `karmada apiserver` in the role of the plane, with further flags.
    pub(crate) fn plane(flags: &[&str]) -> Self {
        Self::start(&[&["apiserver"], flags].concat(), "admin.config")
    }

    /// The whole control plane.
    pub(crate) fn up() -> Self {
        Self::start(&["up"], "karmada-apiserver.config")
    }

    /// The whole control plane, with further flags.
    pub(crate) fn up_with(flags: &[&str]) -> Self {
        Self::start(&[&["up"], flags].concat(), "karmada-apiserver.config")
    }

    fn start(args: &[&str], kubeconfig: &'static str) -> Self {
        let folder = TempDir::new().expect("make a temporary directory");
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let process = launch(&args, folder.path(), 0);
        let mut server = Self { process, folder, args, kubeconfig };
        server.wait_until_ready();
        server
    }

    /// Starts the ended server again, on the same data and the same port.
    pub(crate) fn start_again(&mut self) {
        let port = self.port();
        self.process = launch(&self.args, self.folder.path(), port);
        self.wait_until_ready();
    }

    /// Ends the process at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("kill karmada");
        self.process.wait().expect("wait for karmada");
    }

    /// Sends a signal by name and waits for the end of the process.
    pub(crate) fn end_by(&mut self, signal: &str) -> ExitStatus {
        let sent = Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status();
        assert!(sent.expect("run kill").success(), "no signal sent");
        eventually("karmada ends", || self.process.try_wait().expect("ask for the process"))
    }

    fn wait_until_ready(&mut self) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("ask for the process") {
                panic!("karmada ended with {status}:\n{}", self.log());
            }
            if self.kubeconfig().is_file() && std::net::TcpStream::connect(self.address()).is_ok() {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not ready:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `host:port`, read from the kubeconfig.
    pub(crate) fn address(&self) -> String {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("read the kubeconfig");
        let address = text.split("https://").nth(1).and_then(|rest| rest.lines().next());
        address.unwrap_or_default().trim_matches(['"', ' ', '/']).to_owned()
    }

    fn port(&self) -> u16 {
        let address = self.address();
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in {address:?}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data().join(self.kubeconfig)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(args: &[String], folder: &Path, port: u16) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"));
    Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(args)
        .args(["--secure-port", &port.to_string(), "--data-dir"])
        .arg(folder.join("data"))
        .stdout(Stdio::null())
        .stderr(log.expect("open the log"))
        .spawn()
        .expect("start karmada")
}

/// Asks again and again until there is an answer, for a bounded time.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a finished command printed, for assertions that show it.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
