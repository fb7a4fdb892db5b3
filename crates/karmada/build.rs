//! Records what the program is made from, for `karmada version`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KARMADA_GIT_COMMIT");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if let Some(version) = output(&compiler, &["--version"]) {
        println!("cargo::rustc-env=KARMADA_RUST_VERSION={version}");
    }
    let stated = std::env::var("KARMADA_GIT_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = stated.or_else(head_commit) {
        println!("cargo::rustc-env=KARMADA_GIT_COMMIT={commit}");
    }
}

/// The commit that is checked out. Only release builds ask: the others would be built anew with every commit.
fn head_commit() -> Option<String> {
    if std::env::var("PROFILE").ok()? != "release" {
        return None;
    }
    // Written with every commit and every checkout.
    let log = output("git", &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    output("git", &["rev-parse", "HEAD"])
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
