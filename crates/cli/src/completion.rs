//! `completion`: scripts that complete commands and flags, and ask the control plane for kinds, names and clusters.

use crate::commands::{COMMANDS, Group, root};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::{Program, output};

pub(crate) const EXAMPLES: &str = "  # Complete in this shell
  source <(karmadactl completion bash)

  # Complete in every zsh
  karmadactl completion zsh > \"${fpath[1]}/_karmadactl\"
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL")]
    shell: Vec<String>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let shell = match args.shell.as_slice() {
        [] => return Err(Error::from("Shell not specified.")),
        [shell] => shell.as_str(),
        _ => return Err(Error::from("Too many arguments. Expected only the shell type.")),
    };
    let script = match shell {
        "bash" => bash(),
        "zsh" => format!("#compdef karmadactl\n{}", zsh()),
        "fish" => fish(),
        other => return Err(Error::Message(format!("Unsupported shell type \"{other}\"."))),
    };
    let file = if ctx.program == Program::KubectlPlugin { "kubectl-karmada" } else { "karmadactl" };
    output::print(&script.replace("karmadactl", file))
}

/// A command and its long flags.
fn words() -> Vec<(&'static str, &'static str, String)> {
    let root = root(Program::Karmadactl);
    let shared: Vec<String> =
        root.get_arguments().filter(|a| !a.is_hide_set()).filter_map(flag).collect();
    COMMANDS
        .iter()
        .filter(|row| row.group != Group::Hidden)
        .map(|row| {
            let own =
                root.find_subcommand(row.name).into_iter().flat_map(clap::Command::get_arguments);
            let own = own.filter(|arg| !arg.is_hide_set()).filter_map(flag);
            let inner =
                root.find_subcommand(row.name).into_iter().flat_map(clap::Command::get_subcommands);
            let inner = inner.map(|inner| inner.get_name().to_owned());
            let all: Vec<String> = inner.chain(own).chain(shared.iter().cloned()).collect();
            (row.name, row.about, all.join(" "))
        })
        .collect()
}

fn flag(arg: &clap::Arg) -> Option<String> {
    arg.get_long().map(|long| format!("--{long}"))
}

/// What the words of a line can be, asked from the program itself.
const ASK: &str = r#"
__karmadactl_candidates() {
    # $1: the command, $2: the word before, $3: how many words stand behind the command, $4: the kind typed
    case "$2" in
        -C|--cluster|--clusters) karmadactl get clusters -o name 2>/dev/null | cut -d/ -f2; return ;;
        -s|--operation-scope) echo karmada members all; return ;;
        -n|--namespace) karmadactl get namespaces -o name 2>/dev/null | cut -d/ -f2; return ;;
        --karmada-context) sed -n 's/^- *name: *//p' "${KUBECONFIG:-$HOME/.kube/config}" 2>/dev/null; return ;;
        -o|--output) echo json yaml kyaml name wide jsonpath= custom-columns=; return ;;
    esac
    case "$1" in
        get|describe|delete|edit|label|annotate|patch|explain|why|why-not|promote)
            if [ "$3" -eq 0 ]; then karmadactl api-resources --no-headers -o name 2>/dev/null
            else karmadactl get "$4" -o name 2>/dev/null | cut -d/ -f2; fi ;;
        cordon|uncordon|unjoin) karmadactl get clusters -o name 2>/dev/null | cut -d/ -f2 ;;
        completion) echo bash zsh fish ;;
    esac
}
"#;

fn bash() -> String {
    let names: Vec<&str> = words().iter().map(|(name, _, _)| *name).collect();
    let cases: String = words()
        .iter()
        .map(|(name, _, flags)| format!("        {name}) echo \"{flags}\" ;;\n"))
        .collect();
    format!(
        r#"# bash completion for karmadactl
{ASK}
__karmadactl_flags() {{
    case "$1" in
{cases}    esac
}}

_karmadactl() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="" kind="" count=0 i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{COMP_WORDS[i]}}" in
            -*) ;;
            *) if [ -z "$command" ]; then command="${{COMP_WORDS[i]}}"
               else [ -n "$kind" ] || kind="${{COMP_WORDS[i]}}"; count=$((count + 1)); fi ;;
        esac
    done
    if [ -z "$command" ]; then
        COMPREPLY=($(compgen -W "{}" -- "$current"))
    elif [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$(__karmadactl_flags "$command")" -- "$current"))
    else
        COMPREPLY=($(compgen -W "$(__karmadactl_candidates "$command" "$before" "$count" "$kind")" -- "$current"))
    fi
}}
complete -o default -F _karmadactl karmadactl
"#,
        names.join(" ")
    )
}

fn zsh() -> String {
    format!("autoload -U +X bashcompinit && bashcompinit\n{}", bash())
}

fn fish() -> String {
    let mut script = "# fish completion for karmadactl\ncomplete -c karmadactl -f\n".to_owned();
    let clusters = "(karmadactl get clusters -o name 2>/dev/null | string replace -r '.*/' '')";
    for (name, about, flags) in words() {
        let about = about.replace('\'', "");
        script.push_str(&format!(
            "complete -c karmadactl -n __fish_use_subcommand -a {name} -d '{about}'\n"
        ));
        for flag in flags.split(' ').filter_map(|flag| flag.strip_prefix("--")) {
            let candidates = match flag {
                "cluster" | "clusters" => format!(" -x -a \"{clusters}\""),
                "operation-scope" => " -x -a 'karmada members all'".to_owned(),
                _ => String::new(),
            };
            script.push_str(&format!("complete -c karmadactl -n '__fish_seen_subcommand_from {name}' -l {flag}{candidates}\n"));
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_every_command_and_its_flags() {
        for script in [bash(), zsh(), fish()] {
            for row in COMMANDS.iter().filter(|row| row.group != Group::Hidden) {
                assert!(script.contains(row.name), "{}", row.name);
            }
            assert!(script.contains("operation-scope"));
        }
    }
}
