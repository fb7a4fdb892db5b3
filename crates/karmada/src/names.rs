//! Programs by the name they are started with: a link called `karmada-webhook` is `karmada webhook`, so that
//! manifests and command lines written for separate programs keep working.

use std::ffi::OsString;
use std::path::Path;

/// The name of the program and the subcommand it stands for.
const PROGRAMS: &[(&str, &str)] = &[
    ("karmada-agent", "agent"),
    ("karmada-aggregated-apiserver", "aggregated-apiserver"),
    ("karmada-apiserver", "apiserver"),
    ("karmada-controller-manager", "controller-manager"),
    ("karmada-scheduler", "scheduler"),
    ("karmada-webhook", "webhook"),
];

/// The arguments to parse: those given, with the subcommand that the program's own name stands for, unless it is
/// asked about itself.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    let program = PROGRAMS.iter().find(|(program, _)| name.is_some_and(|name| name == *program));
    if let Some((_, subcommand)) = program {
        arguments.insert(1, subcommand.into());
    }
    ask_about_itself(&mut arguments);
    arguments
}

/// Turns what every component answers beside its work, as in `karmada scheduler version`, into the words by
/// which this program does.
fn ask_about_itself(arguments: &mut Vec<OsString>) {
    let [_, component, question, ..] = arguments.as_slice() else { return };
    let program = PROGRAMS.iter().find(|(_, subcommand)| component == subcommand);
    let Some((program, _)) = program else { return };
    match question.to_str() {
        Some("version") => drop(arguments.remove(1)),
        Some("help") => {
            arguments.truncate(2);
            arguments.push("--help".into());
        }
        Some("completion") => {
            arguments.remove(1);
            arguments.insert(2, format!("--program={program}").into());
        }
        _ => {}
    }
}

/// The subcommand that a program is, by the name it is started with.
pub(crate) fn subcommand_of(program: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, subcommand)| *subcommand)
}

/// The subcommand that is the command line for users.
const COMMAND_LINE: &str = "ctl";

/// The command line that was asked for, by the program's name or by the subcommand, and its arguments.
pub(crate) fn command_line(
    given: impl IntoIterator<Item = OsString>,
) -> Option<(karmada_cli::Program, Vec<OsString>)> {
    let mut given = given.into_iter();
    let program = given.next()?;
    let name = Path::new(&program).file_name()?.to_str()?.to_owned();
    let mut arguments: Vec<OsString> = given.collect();
    if let Some(program) = karmada_cli::Program::of_file_name(&name) {
        return Some((program, arguments));
    }
    if arguments.first().is_some_and(|first| first == COMMAND_LINE) {
        arguments.remove(0);
        return Some((karmada_cli::Program::Karmadactl, arguments));
    }
    None
}

/// Names the binary is found under by those who type them.
const LINKS: &[&str] = &["karmada", "karmadactl", "kubectl-karmada"];

/// Makes `folder` hold the binary under the names people type, for their PATH.
pub(crate) fn link(folder: &Path) -> std::io::Result<()> {
    let binary = std::env::current_exe()?;
    std::fs::create_dir_all(folder)?;
    for name in LINKS {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|target| target == binary) {
            continue;
        }
        // Another build may have been linked before; a file that is no link is somebody's own.
        if link.is_symlink() {
            std::fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(&binary, &link)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_cli::Program;

    #[test]
    fn the_command_line_is_found_by_name_and_by_subcommand() {
        let cases: &[(&str, Option<(Program, &str)>)] = &[
            ("/usr/bin/karmadactl get pods", Some((Program::Karmadactl, "get pods"))),
            ("kubectl-karmada get pods", Some((Program::KubectlPlugin, "get pods"))),
            ("karmada ctl get pods", Some((Program::Karmadactl, "get pods"))),
            ("karmada up", None),
        ];
        for (line, expected) in cases {
            let words = line.split(' ').map(OsString::from);
            let found = command_line(words);
            let found = found.map(|(program, rest)| {
                let rest: Vec<String> =
                    rest.iter().map(|w| w.to_string_lossy().into_owned()).collect();
                (program, rest.join(" "))
            });
            assert_eq!(found, expected.map(|(program, rest)| (program, rest.to_owned())), "{line}");
        }
    }

    #[test]
    fn the_name_of_the_program_stands_for_a_subcommand() {
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["karmada-webhook", "--secure-port=1"],
                &["karmada-webhook", "webhook", "--secure-port=1"],
            ),
            (&["/bin/karmada-apiserver"], &["/bin/karmada-apiserver", "apiserver"]),
            (&["/bin/karmada", "webhook"], &["/bin/karmada", "webhook"]),
            (&["karmada-agent", "version", "-o=json"], &["karmada-agent", "version", "-o=json"]),
            (&["karmada", "scheduler", "version"], &["karmada", "version"]),
            (&["karmada-webhook", "help", "more"], &["karmada-webhook", "webhook", "--help"]),
            (
                &["karmada-scheduler", "completion", "bash"],
                &["karmada-scheduler", "completion", "--program=karmada-scheduler", "bash"],
            ),
            (&["karmada", "member", "version"], &["karmada", "member", "version"]),
            (&["karmada-unheard-of", "crds"], &["karmada-unheard-of", "crds"]),
            (&[], &[]),
        ];
        for (given, expected) in cases {
            assert_eq!(arguments(given.iter().map(OsString::from)), *expected);
        }
    }
}
