//! `options`: the flags every command takes.

use clap::Args as _;

use crate::context::Context;
use crate::error::Result;
use crate::globals::Globals;
use crate::{columns, output};

pub(crate) const EXAMPLES: &str = "  # Print flags inherited by all commands
  karmadactl options
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(ctx: &Context, _args: Args) -> Result<()> {
    output::print(&render(ctx.self_name()))
}

fn render(name: &str) -> String {
    let command = Globals::augment_args(clap::Command::new("options"));
    let lines: Vec<Vec<String>> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .map(|arg| {
            let short =
                arg.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            vec![format!("  {short}--{}", arg.get_long().unwrap_or_default()), help]
        })
        .collect();
    format!(
        "The following options can be passed to any command:\n\n{}\nUse \"{name} <command> --help\" for more \
         information about a given command.\n",
        columns::lay_out(&lines)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_global_flag_is_listed() {
        let text = super::render("karmadactl");
        for flag in ["    --kubeconfig", "    --karmada-context", "-n, --namespace", "-v, --v"] {
            assert!(text.contains(flag), "{flag} is not in {text}");
        }
    }
}
