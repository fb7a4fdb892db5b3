//! `cargo xtask golden import DIR` takes recordings of a real API server into the repository,
//! `cargo xtask golden scenarios DIR` those of the original control plane.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder};

const TARGET: &str = "crates/karmada/tests/golden";
const SCENARIOS: &str = "crates/karmada/tests/scenarios";

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    match args {
        [verb, folder] if verb == "import" => import(Path::new(folder)),
        [verb, folder] if verb == "scenarios" => import_scenarios(Path::new(folder)),
        _ => bail!("usage: cargo xtask golden import|scenarios DIR"),
    }
}

/// Compresses every recording of a folder; the same input gives the same bytes.
fn import(folder: &Path) -> anyhow::Result<()> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(TARGET);
    fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(".jsonl") {
            continue;
        }
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        compress(&content, &target.join(format!("{name}.gz")))?;
    }
    Ok(())
}

fn compress(content: &[u8], file: &Path) -> anyhow::Result<()> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.try_finish()).context("compress")?;
    let compressed = encoder.finish().context("compress")?;
    fs::write(file, compressed).with_context(|| format!("write {}", file.display()))
}

/// Puts all scenarios of a folder into one file, one per line in the order of their names.
fn import_scenarios(folder: &Path) -> anyhow::Result<()> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCENARIOS);
    fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    let setup = folder.join("setup.json");
    let content = fs::read(&setup).with_context(|| format!("read {}", setup.display()))?;
    compress(&content, &target.join("setup.json.gz"))?;
    let scenarios = folder.join("scenarios");
    let entries =
        fs::read_dir(&scenarios).with_context(|| format!("list {}", scenarios.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut lines = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|ext| ext == "json")) {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let scenario: serde_json::Value =
            serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))?;
        writeln!(lines, "{scenario}").context("write a line")?;
    }
    compress(&lines, &target.join("scenarios.jsonl.gz"))
}
