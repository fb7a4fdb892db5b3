//! `cargo xtask golden import DIR`: takes recordings of a real API server into the repository.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder};

const TARGET: &str = "crates/karmada/tests/golden";

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    match args {
        [verb, folder] if verb == "import" => import(Path::new(folder)),
        _ => bail!("usage: cargo xtask golden import DIR"),
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
        let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        encoder.write_all(&content).and_then(|()| encoder.try_finish()).context("compress")?;
        let compressed = encoder.finish().context("compress")?;
        let file = target.join(format!("{name}.gz"));
        fs::write(&file, compressed).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
