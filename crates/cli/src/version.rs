//! `version`: one line in the form scripts grep.

use crate::context::Context;
use crate::error::Result;
use crate::output;

pub(crate) const EXAMPLES: &str = "  # Print the version
  karmadactl version
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(ctx: &Context, _args: Args) -> Result<()> {
    output::print(&line(ctx.self_name()))
}

// Compat: a Go struct in Go's syntax; parsers look for `GitVersion:"`.
fn line(name: &str) -> String {
    const COMMIT: &str = match option_env!("KARMADA_GIT_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    };
    let short: String = COMMIT.chars().take(9).collect();
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "{name} version: version.Info{{GitVersion:\"v{}\", GitCommit:\"{COMMIT}\", GitShortCommit:\"{short}\", \
         GitTreeState:\"clean\", BuildDate:\"unknown\", GoVersion:\"n/a\", Compiler:\"rustc\", Platform:\"{}/{processor}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_stand_in_the_order_parsers_expect() {
        let line = line("kubectl karmada");
        assert!(line.starts_with("kubectl karmada version: version.Info{GitVersion:\"v"), "{line}");
        let fields = [
            "GitVersion:",
            "GitCommit:",
            "GitShortCommit:",
            "GitTreeState:",
            "BuildDate:",
            "GoVersion:",
            "Compiler:",
            "Platform:",
        ];
        let places: Vec<usize> = fields.iter().map(|field| line.find(field).unwrap()).collect();
        assert!(places.is_sorted(), "{line}");
    }
}
