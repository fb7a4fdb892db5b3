//! Derives the tables in `crates/kinds/data` from the published schemas, the protobuf messages and the Go
//! types of Kubernetes. The inputs are not part of the repository: `--inputs DIR` holds
//! `kubernetes-schema.json` and `kubernetes-protobuf.json`, `--go DIR` the `k8s.io` modules.

mod go_types;
mod tables;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde_json::Value;

const DATA: &str = "crates/kinds/data";

struct Options {
    inputs: Option<PathBuf>,
    go: Option<PathBuf>,
    check: bool,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = parse(args)?;
    let (Some(inputs), Some(go)) = (&options.inputs, &options.go) else {
        println!("gen: skipped, needs --inputs DIR and --go DIR (or GEN_INPUTS and GEN_GO)");
        return Ok(());
    };
    let schema = read_json(&inputs.join("kubernetes-schema.json"))?;
    let protobuf = read_json(&inputs.join("kubernetes-protobuf.json"))?;
    let structs = go_types::read(go)?;
    let outputs = [
        ("definitions.json.gz", tables::definitions(&schema, &structs)?),
        ("messages.json.gz", tables::messages(&schema, &protobuf, &structs)?),
    ];
    let mut stale = Vec::new();
    for (name, table) in outputs {
        let path = Path::new(DATA).join(name);
        if options.check {
            if unpack(&path).ok().as_ref() != Some(&table) {
                stale.push(name);
            }
        } else {
            fs::write(&path, pack(&table)?).with_context(|| format!("write {}", path.display()))?;
            println!("gen: wrote {}", path.display());
        }
    }
    if !stale.is_empty() {
        bail!("stale, run `cargo xtask gen`: {}", stale.join(", "));
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<Options> {
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut options =
        Options { inputs: from_env("GEN_INPUTS"), go: from_env("GEN_GO"), check: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut directory = || args.next().map(PathBuf::from).with_context(|| format!("{arg} DIR"));
        match arg.as_str() {
            "--inputs" => options.inputs = Some(directory()?),
            "--go" => options.go = Some(directory()?),
            "--check" => options.check = true,
            other => bail!("gen: unknown argument {other:?}"),
        }
    }
    Ok(options)
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))
}

/// Packs without a time stamp, so that equal tables make equal files.
fn pack(table: &Value) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    out.write_all(&serde_json::to_vec(table)?)?;
    Ok(out.finish()?)
}

fn unpack(path: &Path) -> Result<Value> {
    let mut text = Vec::new();
    GzDecoder::new(fs::File::open(path)?).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
