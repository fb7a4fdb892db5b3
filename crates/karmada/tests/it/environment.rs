//! What a program started by a test sees of the machine: a home of its own and nothing that whoever
//! runs the tests has set for themselves.

use std::path::Path;
use std::process::Command;

/// Settings of people that would change what a program does. kubectl keeps what it found out about a
/// server in its home, by address; ports come back, so homes must not be shared.
const PERSONAL: &[&str] = &[
    "KUBECONFIG",
    "KARMADA_LOG",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "KUBECACHEDIR",
    "EDITOR",
    "LANGUAGE",
];

/// Gives the command a home of its own.
pub(crate) fn confine<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    std::fs::create_dir_all(home).expect("make a home");
    without_personal_settings(command).env("HOME", home)
}

pub(crate) fn without_personal_settings(command: &mut Command) -> &mut Command {
    for name in PERSONAL {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}

/// Whether there is a kubectl to be found by name; says so where there is none.
pub(crate) fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no kubectl on PATH (./test finds one)");
    }
    found
}
