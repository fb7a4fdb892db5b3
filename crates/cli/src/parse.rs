//! From words to a command: the liberties Go's flags allow, and errors in the words people know.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::Program;
use crate::commands::{self, Row};
use crate::error::Error;
use crate::output::note;
use crate::suggest::nearest;

pub(crate) enum Parsed {
    Run(ArgMatches, &'static Row),
    /// Help that was asked for.
    Print(String),
}

pub(crate) fn parse(
    mut root: clap::Command,
    arguments: Vec<OsString>,
    program: Program,
) -> Result<Parsed, Error> {
    let words = normalise(&root, arguments);
    let asks_help = |word: &OsString| word == "--help" || word == "-h";
    let first = words.first();
    if first.is_none_or(asks_help) || (words.len() == 1 && first.is_some_and(|word| word == "help"))
    {
        return Ok(Parsed::Print(commands::root_help(program)));
    }
    let words = match words.split_first() {
        // `help CMD` is `CMD --help`.
        Some((first, rest)) if first == "help" => {
            rest.iter().cloned().chain(["--help".into()]).collect()
        }
        _ => words,
    };
    let command_line = std::iter::once(OsString::from(program.name())).chain(words.iter().cloned());
    match root.try_get_matches_from_mut(command_line) {
        Ok(matches) => {
            let Some((name, sub)) = matches.subcommand() else {
                return Ok(Parsed::Print(commands::root_help(program)));
            };
            let row = commands::find(name)
                .ok_or_else(|| format!("unknown command \"{name}\" for \"{}\"", program.name()))?;
            Ok(Parsed::Run(sub.clone(), row))
        }
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Ok(Parsed::Print(error.render().to_string()))
            }
            _ => Err(reword(&root, &error, &words, program)),
        },
    }
}

/// The matches of the innermost command, which know every global flag.
pub(crate) fn leaf(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some((_, sub)) => leaf(sub),
        None => matches,
    }
}

/// Takes what Go's flags take: `_` for `-` in names, and `--switch=true` or `=false`.
fn normalise(root: &clap::Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut command = root;
    let mut words = Vec::new();
    let mut given = arguments.into_iter();
    while let Some(word) = given.next() {
        if word == "--" {
            words.push(word);
            words.extend(given);
            break;
        }
        let Some(text) = word.to_str() else {
            words.push(word);
            continue;
        };
        if let Some(inner) = command.find_subcommand(text) {
            command = inner;
        }
        let Some(flag) = text.strip_prefix("--") else {
            words.push(word);
            continue;
        };
        let (name, value) =
            flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let plain = name.replace('_', "-");
        if plain != name {
            note(&format!(
                "warning: {name} is DEPRECATED and will be removed in a future version. Use {plain} instead."
            ));
        }
        let is_switch = || {
            let known = command.get_arguments().chain(root.get_arguments());
            known
                .filter(|arg| arg.get_long() == Some(&plain))
                .any(|arg| matches!(arg.get_action(), clap::ArgAction::SetTrue))
        };
        match value {
            Some("true") if is_switch() => words.push(format!("--{plain}").into()),
            Some("false") if is_switch() => {}
            Some(value) => words.push(format!("--{plain}={value}").into()),
            None => words.push(format!("--{plain}").into()),
        }
    }
    words
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        other => Some(other.to_string()),
    }
}

/// A refusal of clap in the words of Go's flag library.
fn reword(
    root: &clap::Command,
    error: &clap::Error,
    words: &[OsString],
    program: Program,
) -> Error {
    let mut command = root;
    let mut path = program.name().to_owned();
    let wrong = text_of(error, ContextKind::InvalidSubcommand);
    for word in words.iter().filter_map(|word| word.to_str()) {
        // What stands behind a wrong word is not what it seems to be.
        if wrong.as_deref() == Some(word) {
            break;
        }
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            path = format!("{path} {word}");
        }
    }
    let usage = |message: String| Error::Usage { message, command: path.clone() };
    let argument = text_of(error, ContextKind::InvalidArg).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            usage(unknown_flag(command, root, &argument))
        }
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
            if command.get_name() == root.get_name() =>
        {
            let wrong = text_of(error, ContextKind::InvalidSubcommand).unwrap_or(argument);
            unknown_command(&wrong, program)
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = text_of(error, ContextKind::InvalidSubcommand).unwrap_or(argument);
            let known = command.get_subcommands().map(clap::Command::get_name);
            let hint = nearest(&wrong, known)
                .map_or_else(String::new, |found| format!("\n\nDid you mean this?\n\t{found}\n"));
            usage(format!("unknown command \"{wrong}\" for \"{path}\"{hint}"))
        }
        ErrorKind::UnknownArgument => usage(format!("unexpected argument \"{argument}\"")),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let value = text_of(error, ContextKind::InvalidValue).unwrap_or_default();
            let name = flag_name(command, root, &argument);
            if value.is_empty() {
                return usage(format!(
                    "flag needs an argument: {}",
                    argument.split(' ').next().unwrap_or_default()
                ));
            }
            let reason = std::error::Error::source(error).map(ToString::to_string);
            let reason = reason.unwrap_or_else(|| accepted(error));
            usage(format!("invalid argument \"{value}\" for \"{name}\" flag: {reason}"))
        }
        ErrorKind::MissingRequiredArgument => {
            usage(format!("required flag(s) or argument(s) {argument} not set"))
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            usage(first.trim_start_matches("error: ").to_owned())
        }
    }
}

fn accepted(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => format!("must be one of {}", values.join(", ")),
        _ => "not a valid value".to_owned(),
    }
}

fn unknown_command(wrong: &str, program: Program) -> Error {
    let known = commands::COMMANDS.iter().map(|row| row.name);
    let hint = match wrong {
        "init" | "deinit" | "addons" => {
            "\n\n`karmada up` starts a control plane; installing one into Kubernetes is not there yet.".to_owned()
        }
        "token" | "register" | "unregister" => {
            format!("\n\nPull mode is not there yet; `{} join` registers a cluster.", program.name())
        }
        _ => nearest(wrong, known)
            .map_or_else(String::new, |found| format!("\n\nDid you mean this?\n\t{found}")),
    };
    Error::Message(format!("unknown command \"{wrong}\" for \"{}\"{hint}", program.name()))
}

fn unknown_flag(command: &clap::Command, root: &clap::Command, argument: &str) -> String {
    let Some(name) = argument.strip_prefix("--") else {
        let letter = argument.chars().nth(1).unwrap_or('-');
        return format!("unknown shorthand flag: '{letter}' in {argument}");
    };
    let known = command.get_arguments().chain(root.get_arguments()).filter_map(clap::Arg::get_long);
    let hint = nearest(name, known)
        .map_or_else(String::new, |found| format!(" (did you mean --{found}?)"));
    format!("unknown flag: --{name}{hint}")
}

/// `-s, --operation-scope`.
fn flag_name(command: &clap::Command, root: &clap::Command, argument: &str) -> String {
    let word = argument.split([' ', '=']).next().unwrap_or(argument);
    let long = word.trim_start_matches('-');
    let found = command
        .get_arguments()
        .chain(root.get_arguments())
        .find(|arg| arg.get_long() == Some(long));
    match found.and_then(clap::Arg::get_short) {
        Some(short) => format!("-{short}, --{long}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from).collect();
        let root = commands::root(Program::Karmadactl);
        match parse(root, words, Program::Karmadactl) {
            Ok(Parsed::Run(_, row)) => format!("runs {}", row.name),
            Ok(Parsed::Print(text)) => text.lines().next().unwrap_or_default().to_owned(),
            Err(error) => error.render(),
        }
    }

    #[test]
    fn mistakes_are_told_as_people_know_them() {
        for (line, expected) in [
            ("nosuchcommand", "error: unknown command \"nosuchcommand\" for \"karmadactl\"\n"),
            (
                "gett",
                "error: unknown command \"gett\" for \"karmadactl\"\n\nDid you mean this?\n\tget\n",
            ),
            (
                "get deploy --operation-scope wrong",
                "error: invalid argument \"wrong\" for \"-s, --operation-scope\" flag: not support OperationScope: wrong\n\
                 See 'karmadactl get --help' for usage.\n",
            ),
            (
                "token create",
                "error: unknown command \"token\" for \"karmadactl\"\n\n\
                 Pull mode is not there yet; `karmadactl join` registers a cluster.\n",
            ),
            (
                "create deploymet x",
                "error: unknown command \"deploymet\" for \"karmadactl create\"\n\nDid you mean this?\n\tdeployment\n\n\
                 See 'karmadactl create --help' for usage.\n",
            ),
            (
                "get -Z pods",
                "error: unknown shorthand flag: 'Z' in -Z\nSee 'karmadactl get --help' for usage.\n",
            ),
            (
                "get --operation-scop all",
                "error: unknown flag: --operation-scop (did you mean --operation-scope?)\n\
                 See 'karmadactl get --help' for usage.\n",
            ),
        ] {
            assert_eq!(outcome(line), expected, "{line}");
        }
    }

    #[test]
    fn flags_are_taken_in_every_form_go_takes() {
        for line in [
            "get pods --watch=true",
            "get pods --watch=false -o wide",
            "--kubeconfig x get pods",
            "get pods --operation_scope=all -C a,b",
            "get -nkube-system pods -o=json",
            "get pods -v=4 --logtostderr=false",
        ] {
            assert_eq!(outcome(line), "runs get", "{line}");
        }
    }

    #[test]
    fn help_is_printed_on_request_and_when_nothing_is_asked() {
        for line in ["", "help", "--help", "-h"] {
            assert_eq!(
                outcome(line),
                "karmadactl controls a Kubernetes Cluster Federation.",
                "{line}"
            );
        }
        for line in ["top", "create secret"] {
            assert!(!outcome(line).starts_with("error"), "{line}: {}", outcome(line));
        }
        assert!(outcome("help get").starts_with("Display one or many"), "{}", outcome("help get"));
    }
}
