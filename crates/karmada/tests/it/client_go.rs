//! client-go: typed and dynamic informers with the default feature gates, writes in protobuf, server-side apply
//! and leader election, by a small Go program that is compiled where Go is present.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, text};

// Shows: NEG-2, WATCH-3, OPS-1, SSA-1, SSA-2, SSA-5, SSA-6
#[test]
fn client_go_informs_and_elects() {
    let Some(program) = Program::build() else { return };
    let server = Server::member();
    assert_eq!(program.run(&server.kubeconfig(), &[]), "ok\n", "{}", server.log());
}

/// The program, built.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// Builds it; where that cannot be done it is said, and there is none.
    pub(crate) fn build() -> Option<Self> {
        if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED client-go: there is no Go here");
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/client_go");
        let modules = Command::new("go").args(["mod", "download"]).current_dir(&source).output();
        let modules = modules.expect("run go");
        if !modules.status.success() {
            eprintln!("SKIPPED client-go: its modules cannot be had: {}", text(&modules));
            return None;
        }
        let folder = tempfile::tempdir().expect("make a directory");
        let build = Command::new("go")
            .args(["build", "-buildvcs=false", "-mod=readonly", "-o"])
            .arg(folder.path().join("client_go"))
            .arg(".")
            .current_dir(source)
            .output()
            .expect("run go");
        assert!(build.status.success(), "{}", text(&build));
        Some(Self { folder })
    }

    /// Runs it against a server; returns what it printed.
    pub(crate) fn run(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let program = self.folder.path().join("client_go");
        let output = Command::new(program).arg(kubeconfig).args(arguments).output();
        let output = output.expect("run the program");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
