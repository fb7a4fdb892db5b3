//! `completion`: scripts by which a shell completes the words of a program. Those of `karmadactl` are its own, which
//! asks the control plane for names too.

use anyhow::Context as _;
use clap::Command;

use crate::{names, stdout};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: Shell,
    /// The program to complete, if it goes by the name of a component
    #[arg(long, hide = true)]
    program: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What every component answers beside its work.
const QUESTIONS: [&str; 3] = ["completion", "help", "version"];

/// `root` is the whole command line of this program.
pub(crate) fn run(args: &Args, root: &Command) -> anyhow::Result<()> {
    let (program, words) = match &args.program {
        None => (root.get_name(), subcommands(root)),
        Some(program) => {
            let found = names::subcommand_of(program).and_then(|own| root.find_subcommand(own));
            let component = found.with_context(|| format!("no program is called {program:?}"))?;
            (program.as_str(), words_of(component))
        }
    };
    Ok(stdout::print(&script(args.shell, program, &words))?)
}

fn subcommands(root: &Command) -> Vec<String> {
    let shown = root.get_subcommands().filter(|own| !own.is_hide_set());
    shown.map(|own| own.get_name().to_owned()).collect()
}

fn words_of(component: &Command) -> Vec<String> {
    let flags = component.get_arguments().filter(|flag| !flag.is_hide_set());
    let flags = flags.filter_map(|flag| flag.get_long().map(|long| format!("--{long}")));
    QUESTIONS.iter().map(|question| (*question).to_owned()).chain(flags).collect()
}

fn script(shell: Shell, program: &str, words: &[String]) -> String {
    let bash = || {
        let (function, words) = (program.replace('-', "_"), words.join(" "));
        format!(
            "_{function}() {{\n    COMPREPLY=($(compgen -W \"{words}\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\n\
             complete -o default -F _{function} {program}\n"
        )
    };
    match shell {
        Shell::Bash => format!("# bash completion for {program}\n{}", bash()),
        Shell::Zsh => {
            format!("#compdef {program}\nautoload -U +X bashcompinit && bashcompinit\n{}", bash())
        }
        Shell::Fish => {
            let line = |word: &String| match word.strip_prefix("--") {
                Some(flag) => format!("complete -c {program} -l {flag}\n"),
                None => format!("complete -c {program} -n __fish_use_subcommand -a {word}\n"),
            };
            let lines: String = words.iter().map(line).collect();
            format!("# fish completion for {program}\n{lines}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_is_told_the_words_of_the_program() {
        let words = ["version".to_owned(), "--secure-port".to_owned()];
        let cases = [
            (Shell::Bash, "compgen -W \"version --secure-port\""),
            (Shell::Bash, "complete -o default -F _karmada_webhook karmada-webhook\n"),
            (Shell::Zsh, "#compdef karmada-webhook\n"),
            (Shell::Fish, "complete -c karmada-webhook -l secure-port\n"),
        ];
        for (shell, part) in cases {
            let script = script(shell, "karmada-webhook", &words);
            assert!(script.contains(part), "{part} is not in\n{script}");
        }
    }
}
