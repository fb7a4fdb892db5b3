//! Keeps the map true: every crate is in ARCHITECTURE.md, dependencies point down, licences are
//! known, banned crates stay out, no integration test file is forgotten.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::metadata::{Member, ThirdParty, members, root, third_parties};

/// The layers, lowest first; a crate may use crates of lower layers, and of its own layer only
/// those listed before it.
const LAYERS: &[&[&str]] = &[
    &["karmada-apimachinery", "karmada-api"],
    &[
        "karmada-cel",
        "karmada-kinds",
        "karmada-scheduler-core",
        "karmada-propagation",
        "karmada-interpreter",
        "karmada-admission",
    ],
    &[
        "karmada-packing",
        "karmada-handover",
        "karmada-signal",
        "karmada-store",
        "karmada-client",
        "karmada-runtime",
        "karmada-apiserver",
    ],
    &["karmada-kube-controllers", "karmada-registration", "karmada-plane"],
    &["karmada-member-sim", "karmada-controllers", "karmada-scheduler", "karmada-cli"],
    &["karmada-testkit"],
    &["karmada"],
    &["karmada-fuzz", "karmada-bench", "xtask"],
];

/// Pure cores: may not depend on anything that does I/O or schedules tasks.
const PURE: &[&str] = &[
    "karmada-apimachinery",
    "karmada-api",
    "karmada-cel",
    "karmada-kinds",
    "karmada-scheduler-core",
    "karmada-propagation",
    "karmada-interpreter",
    "karmada-admission",
];
const IMPURE: &[&str] = &["tokio", "hyper", "kube", "rusqlite", "rustls", "karmada-store"];

/// Crates kept out, and what to use instead.
const BANNED: &[(&str, &str)] = &[
    ("ring", "aws-lc-rs is the one crypto provider"),
    ("openssl-sys", "rustls with aws-lc-rs"),
    ("chrono", "jiff is the one time crate"),
    ("serde_yaml", "serde-saphyr is the one YAML crate"),
    ("native-tls", "rustls with aws-lc-rs"),
];

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// More crates than this in the lock file needs a reason.
const MAX_PACKAGES: usize = 400;

pub(crate) fn run(_args: &[String]) -> Result<()> {
    let members = members()?;
    let mut problems = Vec::new();
    check_map(&members, &mut problems)?;
    check_layers(&members, &mut problems);
    let crates = check_third_parties(&mut problems)?;
    check_test_files(&mut problems)?;
    check_names(&mut problems)?;
    if problems.is_empty() {
        println!("tidy: {} crates of ours, {crates} others, all in order", members.len());
        return Ok(());
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    bail!("{} problems", problems.len())
}

fn check_map(members: &[Member], problems: &mut Vec<String>) -> Result<()> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).context("read ARCHITECTURE.md")?;
    for member in members {
        let named = format!("`{}`", member.name.trim_start_matches("karmada-"));
        if !map.contains(&named) {
            problems.push(format!("ARCHITECTURE.md does not name crate {named}"));
        }
    }
    Ok(())
}

fn check_layers(members: &[Member], problems: &mut Vec<String>) {
    let order: Vec<&str> = LAYERS.concat();
    let rank = |name: &str| order.iter().position(|known| *known == name);
    for member in members {
        let Some(own) = rank(&member.name) else {
            problems.push(format!("{} has no place in xtask's LAYERS", member.name));
            continue;
        };
        for dependency in &member.dependencies {
            if rank(dependency).is_some_and(|other| other >= own) {
                problems.push(format!("{} depends upwards on {dependency}", member.name));
            }
            if PURE.contains(&&*member.name) && IMPURE.contains(&&**dependency) {
                problems.push(format!("pure crate {} depends on {dependency}", member.name));
            }
        }
    }
}

fn check_third_parties(problems: &mut Vec<String>) -> Result<usize> {
    let crates = third_parties()?;
    for ThirdParty { name, licence } in &crates {
        if let Some((_, instead)) = BANNED.iter().find(|(banned, _)| banned == name) {
            problems.push(format!("banned crate {name}: {instead}"));
        }
        if !licence_is_known(licence) {
            problems.push(format!("{name} has licence {licence:?}"));
        }
    }
    if crates.len() > MAX_PACKAGES {
        problems.push(format!("{} crates, the ceiling is {MAX_PACKAGES}", crates.len()));
    }
    Ok(crates.len())
}

/// Reads an SPDX expression without nesting of `AND` inside `OR` beyond parentheses: one
/// acceptable alternative is enough, all parts of a conjunction must be acceptable.
fn licence_is_known(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    let known = |part: &str| LICENCES.contains(&part.trim());
    flat.split(" OR ").any(|choice| choice.split(" AND ").all(known))
}

/// `tests/it/main.rs` must name every file beside it.
fn check_test_files(problems: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path().join("tests/it");
        if !folder.is_dir() {
            continue;
        }
        let main = fs::read_to_string(folder.join("main.rs"))
            .with_context(|| format!("read main.rs in {}", folder.display()))?;
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let is_module =
                path.extension().is_some_and(|e| e == "rs") || path.join("mod.rs").is_file();
            if is_module && stem != "main" && !main.contains(&format!("mod {stem};")) {
                problems.push(format!("{} is not named in main.rs", path.display()));
            }
        }
    }
    Ok(())
}

/// Names that say nothing are not used for modules.
fn check_names(problems: &mut Vec<String>) -> Result<()> {
    for path in rust_files(&root().join("crates"))? {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["util", "utils", "helper", "helpers", "common", "misc"].contains(&stem) {
            problems.push(format!("{}: name the file after its subject", path.display()));
        }
    }
    Ok(())
}

pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::licence_is_known;

    #[test]
    fn a_licence_needs_one_acceptable_alternative() {
        for (expression, known) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("ISC AND GPL-2.0", false),
            ("", false),
        ] {
            assert_eq!(licence_is_known(expression), known, "{expression}");
        }
    }
}
