//! Programs by the name they are started with: a link called `karmada-webhook` is `karmada webhook`, so that
//! manifests and command lines written for separate programs keep working.

use std::ffi::OsString;
use std::path::Path;

/// The name of the program and the subcommand it stands for.
const PROGRAMS: &[(&str, &str)] =
    &[("karmada-apiserver", "apiserver"), ("karmada-webhook", "webhook")];

/// The arguments to parse: those given, with the subcommand that the program's own name stands for.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    let program = PROGRAMS.iter().find(|(program, _)| name.is_some_and(|name| name == *program));
    if let Some((_, subcommand)) = program {
        arguments.insert(1, subcommand.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_stands_for_a_subcommand() {
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["karmada-webhook", "--secure-port=1"],
                &["karmada-webhook", "webhook", "--secure-port=1"],
            ),
            (&["/bin/karmada-apiserver"], &["/bin/karmada-apiserver", "apiserver"]),
            (&["/bin/karmada", "webhook"], &["/bin/karmada", "webhook"]),
            (&["karmada-unheard-of", "crds"], &["karmada-unheard-of", "crds"]),
            (&[], &[]),
        ];
        for (given, expected) in cases {
            assert_eq!(arguments(given.iter().map(OsString::from)), *expected);
        }
    }
}
