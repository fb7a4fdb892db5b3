//! `karmadactl`: one file per command, listed in one table ([`commands`]). Speaks the Kubernetes API and nothing
//! else, to a control plane of ours as to any other; members are reached through the control plane's proxy.
//!
//! A command gathers, hands values to a rendering function that does no I/O, and prints what comes back. Wording,
//! columns and exit codes are those people know from kubectl and Karmada.

mod annotate;
mod api_resources;
mod api_versions;
mod apply;
mod attach;
mod columns;
mod commands;
mod completion;
mod context;
mod cordon;
mod create;
mod delete;
mod describe;
mod download;
mod draft;
mod edit;
mod error;
mod examples;
mod exec;
mod explain;
mod files;
mod get;
mod globals;
mod interpret;
mod join;
mod label;
mod logs;
mod mark;
mod options;
mod output;
mod parse;
mod patch;
mod pods;
mod progress;
mod promote;
mod raw;
mod resources;
mod scope;
mod streams;
mod subjects;
mod suggest;
mod taint;
mod terminal;
mod top;
mod transport;
mod uncordon;
mod unjoin;
mod version;
mod why;
mod why_not;

use std::ffi::OsString;
use std::io::Write as _;

use context::Context;
use error::Error;

/// What the program is called in help, examples and generated commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Karmadactl,
    /// Started by kubectl as its plugin `kubectl-karmada`.
    KubectlPlugin,
}

impl Program {
    /// The program a file of this name is.
    pub fn of_file_name(name: &str) -> Option<Self> {
        match name {
            "karmadactl" => Some(Self::Karmadactl),
            "kubectl-karmada" | "kubectl_karmada" => Some(Self::KubectlPlugin),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Karmadactl => "karmadactl",
            Self::KubectlPlugin => "kubectl karmada",
        }
    }
}

/// How much of its doings the program logs, read before anything else is: the value of `-v`.
pub fn verbosity(arguments: &[OsString]) -> u8 {
    let mut words = arguments.iter().filter_map(|word| word.to_str()).take_while(|w| *w != "--");
    while let Some(word) = words.next() {
        let inline = ["--v=", "-v="].iter().find_map(|flag| word.strip_prefix(flag));
        let value =
            inline.or_else(|| if ["-v", "--v"].contains(&word) { words.next() } else { None });
        if let Some(level) = value.and_then(|value| value.parse().ok()) {
            return level;
        }
    }
    0
}

/// Runs one command line; the arguments begin behind the program's name. Returns the exit code.
pub async fn run(program: Program, arguments: Vec<OsString>) -> i32 {
    let root = commands::root(program);
    let (matches, row) = match parse::parse(root, arguments, program) {
        Ok(parse::Parsed::Run(matches, row)) => (matches, row),
        Ok(parse::Parsed::Print(text)) => return finish(output::print(&text)),
        Err(error) => return finish(Err(error)),
    };
    let context = match Context::new(program, parse::leaf(&matches)) {
        Ok(context) => context,
        Err(error) => return finish(Err(error)),
    };
    let interrupted = tokio::signal::ctrl_c();
    let result = tokio::select! {
        result = (row.run)(&context, &matches) => result,
        () = progress::show() => Ok(()),
        // Whoever ends a watch has seen enough.
        Ok(()) = interrupted => Ok(()),
    };
    progress::clear();
    match result {
        Err(error) => finish(Err(with_nearest_cluster(&context, error).await)),
        done => finish(done),
    }
}

/// An error about a cluster that does not exist, with the name of one that does.
async fn with_nearest_cluster(context: &Context, error: Error) -> Error {
    const BEFORE: &str = "clusters.cluster.karmada.io \"";
    const AFTER: &str = "\" not found";
    let text = error.render();
    let name = text.split_once(BEFORE).and_then(|(_, rest)| rest.split_once(AFTER));
    let Some((name, "\n")) = name else { return error };
    let Ok(karmada) = context.karmada().await else { return error };
    let known = context::cluster_names(&karmada).await.unwrap_or_default();
    match suggest::did_you_mean(name, known.iter().map(String::as_str)).as_str() {
        "" => error,
        hint => Error::Plain(format!("{}{hint}", text.trim_end())),
    }
}

fn finish(result: Result<(), Error>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(Error::Exit(code)) => code,
        // The reader has gone, as `head` does.
        Err(Error::Print(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            // Nothing can be told to someone whose stderr is gone.
            let _ = write!(std::io::stderr(), "{}", error.render());
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_is_read_from_every_form_of_the_flag() {
        for (line, expected) in [
            ("get pods", 0),
            ("-v 6 get pods", 6),
            ("get pods -v=4", 4),
            ("get --v=9 pods", 9),
            ("exec p -- sh -v 3", 0),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(verbosity(&words), expected, "{line}");
        }
    }
}
