//! client-go: a shared informer with the default feature gates, writes in protobuf and leader
//! election, by a small Go program that is compiled where Go is present.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, text};

// Shows: NEG-2, WATCH-3, OPS-1
#[test]
fn client_go_informs_and_elects() {
    if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED client-go: there is no Go here");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/client_go");
    let modules = Command::new("go").args(["mod", "download"]).current_dir(&source).output();
    let modules = modules.expect("run go");
    if !modules.status.success() {
        eprintln!("SKIPPED client-go: its modules cannot be had: {}", text(&modules));
        return;
    }
    let server = Server::member();
    let program = server.scratch().join("client_go");
    let build = Command::new("go")
        .args(["build", "-buildvcs=false", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output()
        .expect("run go");
    assert!(build.status.success(), "{}", text(&build));
    let output = Command::new(program).arg(server.kubeconfig()).output().expect("run the program");
    assert!(output.status.success(), "{}\n{}", text(&output), server.log());
}
