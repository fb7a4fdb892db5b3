//! What cargo knows of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the workspace root").to_owned()
}

/// A package of this workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    /// Normal and build dependencies by package name (development ones left out).
    pub(crate) dependencies: Vec<String>,
}

pub(crate) fn members() -> Result<Vec<Member>> {
    let metadata: Value = serde_json::from_str(&cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--no-deps",
    ])?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    Ok(packages.iter().map(member).collect())
}

fn member(value: &Value) -> Member {
    let dependencies = value["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
        .collect();
    Member { name: value["name"].as_str().unwrap_or_default().to_owned(), dependencies }
}

/// A crate from a registry that ends up in some build of ours.
pub(crate) struct ThirdParty {
    pub(crate) name: String,
    pub(crate) licence: String,
}

pub(crate) fn third_parties() -> Result<Vec<ThirdParty>> {
    let tree =
        cargo(&["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}|{l}"])?;
    // Crates of ours are shown with their path.
    let mut lines: Vec<&str> = tree.lines().filter(|line| !line.contains(" (/")).collect();
    lines.sort_unstable();
    lines.dedup();
    Ok(lines.into_iter().filter_map(third_party).collect())
}

fn third_party(line: &str) -> Option<ThirdParty> {
    let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
    let name = package.split_whitespace().next()?;
    Some(ThirdParty { name: name.to_owned(), licence: licence.to_owned() })
}

fn cargo(args: &[&str]) -> Result<String> {
    let output =
        Command::new(env!("CARGO")).args(args).current_dir(root()).output().context("run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed:\n{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
