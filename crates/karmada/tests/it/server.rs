//! The built binary as a process of its own, on a free port and a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::environment::confine;

/// Long enough for the slowest machine; nothing is asserted about how long anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

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

    /// The whole control plane, for many tests of this process: it ends when the process does, however that ends.
    pub(crate) fn up_guarded(flags: &[&str]) -> Self {
        let folder = TempDir::new().expect("make a temporary directory");
        let args: Vec<String> = ["up"].iter().chain(flags).map(|&arg| arg.to_owned()).collect();
        // The guard reads until this process is gone, since what is kept in a static is never dropped.
        let guard = "\"$@\" & server=$!; read -r _; kill $server; wait $server; rm -rf \"$KARMADA_TEST_FOLDER\"";
        let process = confine(&mut Command::new("bash"), &folder.path().join("home"))
            .args(["-c", guard, "bash", env!("CARGO_BIN_EXE_karmada")])
            .args(&args)
            .args(["--secure-port", "0", "--data-dir"])
            .arg(folder.path().join("data"))
            .env("KARMADA_TEST_FOLDER", folder.path())
            .stdin(Stdio::piped())
            .stdout(printed(folder.path(), "out"))
            .stderr(printed(folder.path(), "log"))
            .spawn()
            .expect("start karmada");
        let mut server = Self { process, folder, args, kubeconfig: "karmada-apiserver.config" };
        server.wait_until_ready(0);
        server
    }

    fn start(args: &[&str], kubeconfig: &'static str) -> Self {
        let folder = TempDir::new().expect("make a temporary directory");
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let process = launch(&args, folder.path(), 0);
        let mut server = Self { process, folder, args, kubeconfig };
        server.wait_until_ready(0);
        server
    }

    /// Starts the ended server again, on the same data and the same port.
    pub(crate) fn start_again(&mut self) {
        let (port, before) = (self.port(), self.greetings());
        let began = Instant::now();
        loop {
            self.process = launch(&self.args, self.folder.path(), port);
            if self.becomes_ready(before) {
                return;
            }
            // Somebody else may have been given the port meanwhile.
            let log = self.log();
            let taken = log.contains("listen on") && began.elapsed() < PATIENCE;
            assert!(taken, "karmada ended at its second start:\n{log}");
        }
    }

    /// The same with other flags of `karmada apiserver`.
    pub(crate) fn start_again_with(&mut self, flags: &[&str]) {
        self.args = ["apiserver"].iter().chain(flags).map(|&arg| arg.to_owned()).collect();
        self.start_again();
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

    fn wait_until_ready(&mut self, before: usize) {
        assert!(self.becomes_ready(before), "karmada ended at its start:\n{}", self.log());
    }

    /// Whether the process says that it serves, once more than before, instead of ending. An open port
    /// says nothing: it is taken long before requests are answered.
    fn becomes_ready(&mut self, before: usize) -> bool {
        eventually("karmada is ready", || {
            if self.greetings() > before {
                return Some(true);
            }
            self.process.try_wait().expect("ask for the process").map(|_| false)
        })
    }

    /// How often the programs that ran here have said that they are ready.
    fn greetings(&self) -> usize {
        let greetings = self.read("out").matches("Karmada is ready").count();
        greetings + self.log().lines().filter(|line| line.contains(": serving ")).count()
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
        self.read("log")
    }

    /// What was told to whoever started it.
    pub(crate) fn greeting(&self) -> String {
        self.read("out")
    }

    fn read(&self, file: &str) -> String {
        let bytes = std::fs::read(self.folder.path().join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file for what a server prints.
fn printed(folder: &Path, name: &str) -> std::fs::File {
    let file = std::fs::File::options().create(true).append(true).open(folder.join(name));
    file.expect("open a file for what is printed")
}

fn launch(args: &[String], folder: &Path, port: u16) -> Child {
    confine(&mut Command::new(env!("CARGO_BIN_EXE_karmada")), &folder.join("home"))
        .args(args)
        .args(["--secure-port", &port.to_string(), "--data-dir"])
        .arg(folder.join("data"))
        .stdout(printed(folder, "out"))
        .stderr(printed(folder, "log"))
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

/// The same where asking takes a future.
pub(crate) async fn eventually_awaited<T, F: Future<Output = Option<T>>>(
    what: &str,
    ask: impl Fn() -> F,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
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
