//! The table of commands: a command is a file of its own and a row here.

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use futures::future::BoxFuture;

use crate::Program;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::examples;
use crate::globals::Globals;

/// No line of the help is longer, and no example is as long: those are to be copied.
const WIDTH: usize = 120;

/// Headings of the help, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Basic,
    Registration,
    Management,
    Troubleshooting,
    Advanced,
    Settings,
    Other,
    Hidden,
}

const HEADINGS: &[(Group, &str)] = &[
    (Group::Basic, "Basic Commands"),
    (Group::Registration, "Cluster Registration Commands"),
    (Group::Management, "Cluster Management Commands"),
    (Group::Troubleshooting, "Troubleshooting and Debugging Commands"),
    (Group::Advanced, "Advanced Commands"),
    (Group::Settings, "Settings Commands"),
    (Group::Other, "Other Commands"),
];

type Run = for<'a> fn(&'a Context, &'a ArgMatches) -> BoxFuture<'a, Result<()>>;

pub(crate) struct Row {
    pub(crate) group: Group,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Comment and command lines, as they stand in the help.
    examples: &'static str,
    /// Commands a reader may want next.
    related: &'static [&'static str],
    augment: fn(clap::Command) -> clap::Command,
    pub(crate) run: Run,
}

/// A row from a module that has `Args`, `EXAMPLES` and `run`.
macro_rules! row {
    ($group:ident, $name:literal, $module:ident, $about:literal, $related:expr) => {
        Row {
            group: Group::$group,
            name: $name,
            about: $about,
            examples: crate::$module::EXAMPLES,
            related: $related,
            augment: <crate::$module::Args as clap::Args>::augment_args,
            run: |ctx, matches| {
                Box::pin(async move {
                    let args = crate::$module::Args::from_arg_matches(matches)
                        .map_err(|error| Error::Message(error.to_string()))?;
                    crate::$module::run(ctx, args).await
                })
            },
        }
    };
}

#[rustfmt::skip]
pub(crate) const COMMANDS: &[Row] = &[
    row!(Basic, "explain", explain, "Tell what the fields of a kind mean", &["api-resources"]),
    row!(Basic, "get", get, "Display one or many resources of the control plane and of member clusters", &["describe", "why"]),
    row!(Registration, "join", join, "Register a cluster with the control plane in Push mode", &["unjoin"]),
    row!(Registration, "unjoin", unjoin, "Remove a Push mode cluster from the control plane", &["join"]),
    row!(Basic, "create", create, "Create objects from a file or from flags", &["apply", "delete"]),
    row!(Basic, "delete", delete, "Delete objects by file, by name, by selector or all of a type", &["create"]),
    row!(Basic, "edit", edit, "Change an object in an editor", &["patch"]),
    row!(Management, "cordon", cordon, "Keep new workloads off a cluster", &["uncordon", "taint"]),
    row!(Management, "uncordon", uncordon, "Let new workloads come to a cluster again", &["cordon"]),
    row!(Management, "taint", taint, "Change the taints of clusters", &["cordon", "why-not"]),
    row!(Troubleshooting, "attach", attach, "Connect to a container that runs", &["exec", "logs"]),
    row!(Troubleshooting, "logs", logs, "Print what containers of a member cluster wrote", &["exec", "describe"]),
    row!(Troubleshooting, "exec", exec, "Run a command in a container", &["attach", "logs"]),
    row!(Troubleshooting, "describe", describe, "Show an object in words, with its events", &["get", "why"]),
    row!(Troubleshooting, "interpret", interpret, "Check and try scripts that interpret resources", &["explain", "why"]),
    row!(Troubleshooting, "why", why, "Tell why an object runs where it runs", &["why-not", "describe"]),
    row!(Troubleshooting, "why-not", why_not, "Tell why an object does not run in a cluster", &["why", "taint"]),
    row!(Advanced, "apply", apply, "Make objects as a file describes them, and place them in clusters", &["promote", "why"]),
    row!(Advanced, "promote", promote, "Take a workload of a member under the care of the control plane", &["apply", "why"]),
    row!(Advanced, "top", top, "Show what pods and nodes of members use", &["get"]),
    row!(Advanced, "patch", patch, "Change fields of an object", &["edit", "label"]),
    row!(Settings, "label", label, "Change the labels of an object", &["annotate"]),
    row!(Settings, "annotate", annotate, "Change the annotations of an object", &["label"]),
    row!(Settings, "completion", completion, "Print the shell completion script for bash, zsh or fish", &["options"]),
    row!(Other, "api-resources", api_resources, "Print the resources the server supports", &["api-versions", "explain"]),
    row!(Other, "api-versions", api_versions, "Print the API versions the server supports, as group/version", &["api-resources"]),
    row!(Other, "version", version, "Print the version of this program", &["api-versions"]),
    row!(Hidden, "options", options, "Print the flags that every command takes", &["completion"]),
];

pub(crate) fn find(name: &str) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.name == name)
}

/// The whole command line as clap knows it.
pub(crate) fn root(program: Program) -> clap::Command {
    let root = clap::Command::new("karmadactl")
        .bin_name(program.name())
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .allow_external_subcommands(false)
        .term_width(WIDTH);
    let root = Globals::augment_args(root);
    COMMANDS.iter().fold(root, |root, row| root.subcommand(subcommand(row, program)))
}

fn subcommand(row: &Row, program: Program) -> clap::Command {
    let mut after = String::new();
    if !row.examples.is_empty() {
        after = format!("Examples:\n{}", row.examples.trim_end());
    }
    let related: Vec<&str> =
        row.related.iter().filter(|name| find(name).is_some()).copied().collect();
    if !related.is_empty() {
        let separator = if after.is_empty() { "" } else { "\n\n" };
        after = format!("{after}{separator}See also: {}", related.join(", "));
    }
    let after = after.replace("karmadactl ", &format!("{} ", program.name()));
    let command = (row.augment)(clap::Command::new(row.name)).about(row.about).after_help(after);
    with_examples(command, row.name, program).term_width(WIDTH)
}

/// Gives the commands below a command their examples.
fn with_examples(mut command: clap::Command, path: &str, program: Program) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for name in names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(name, |inner| {
            let examples = examples::of(&path).trim_end();
            let related = path.rsplit_once(' ').map(|(parent, _)| parent).unwrap_or_default();
            let after = format!("Examples:\n{examples}\n\nSee also: {related}");
            let after = after.replace("karmadactl ", &format!("{} ", program.name()));
            with_examples(inner.after_help(after), &path, program).term_width(WIDTH)
        });
    }
    command
}

/// The help of the program itself: commands by what they are for.
pub(crate) fn root_help(program: Program) -> String {
    let name = program.name();
    let mut text = format!("{name} controls a Kubernetes Cluster Federation.\n");
    for (group, heading) in HEADINGS {
        let rows: Vec<&Row> = COMMANDS.iter().filter(|row| row.group == *group).collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{heading}:\n"));
        for row in rows {
            text.push_str(&format!("  {:<15} {}\n", row.name, row.about));
        }
    }
    text.push_str(&format!(
        "\nUsage:\n  {name} [command] [options]\n\n\
         Use \"{name} <command> --help\" for more information about a given command.\n\
         Use \"{name} options\" for a list of global command-line options (applies to all commands).\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        root(Program::Karmadactl).debug_assert();
        root(Program::KubectlPlugin).debug_assert();
    }

    #[test]
    fn every_command_says_what_it_is_for_and_how_it_is_used() {
        for row in COMMANDS {
            assert!(!row.about.is_empty() && !row.about.ends_with('.'), "{}", row.name);
            assert!(!row.related.is_empty(), "{} has no relatives", row.name);
            assert!(row.related.iter().all(|name| find(name).is_some()), "{}", row.name);
            assert!(
                row.examples.contains(&format!("karmadactl {}", row.name)),
                "{} has no example",
                row.name
            );
        }
    }

    /// Every help there is, with the path of its command.
    fn helps() -> Vec<(String, String)> {
        fn walk(command: &mut clap::Command, path: &str, found: &mut Vec<(String, String)>) {
            for inner in command.get_subcommands_mut() {
                let path = format!("{path} {}", inner.get_name());
                found.push((path.clone(), inner.render_help().to_string()));
                walk(inner, &path, found);
            }
        }
        let mut root = root(Program::Karmadactl);
        root.build();
        let mut found = Vec::new();
        walk(&mut root, "karmadactl", &mut found);
        found
    }

    #[test]
    fn every_help_has_an_example_and_relatives_and_fits_a_screen() {
        let helps = helps();
        assert!(helps.len() >= 50, "only {}", helps.len());
        for (path, help) in helps {
            assert!(help.lines().any(|line| line.starts_with(&format!("  {path}"))), "{help}");
            assert!(help.contains("See also: "), "{help}");
            for line in help.lines() {
                assert!(line.chars().count() <= WIDTH, "{path}: {line}");
            }
        }
    }

    #[test]
    fn help_speaks_of_the_program_by_the_name_it_has() {
        let help = root(Program::KubectlPlugin)
            .find_subcommand_mut("get")
            .unwrap()
            .render_help()
            .to_string();
        assert!(help.contains("kubectl karmada get"), "{help}");
        assert!(!help.contains("karmadactl"), "{help}");
    }
}
