//! The Python client for Kubernetes: list, watch, create, patch, scale, pages, dynamic.

use std::process::Command;

use crate::server::{Server, text};

// Shows: WATCH-1, LIST-2, SUB-2
#[test]
fn the_python_client_takes_the_server_for_kubernetes() {
    let Ok(python) = std::env::var("KARMADA_TEST_PYTHON") else {
        eprintln!(
            "SKIPPED Python client: KARMADA_TEST_PYTHON names no interpreter (./test sets it)"
        );
        return;
    };
    let server = Server::member();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/python_client.py");
    let output = Command::new(python)
        .arg(script)
        .arg(server.kubeconfig())
        .output()
        .expect("run the Python client");
    assert!(output.status.success(), "{}\n{}", text(&output), server.log());
}
