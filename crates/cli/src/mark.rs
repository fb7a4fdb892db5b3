//! `label` and `annotate`: one implementation over the map they change.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};
use karmada_client::{Patch, PatchOptions};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output::{self, PrintFlags};
use crate::subjects::{DryRun, DryRunFlag, Selection, Subject};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE NAME…, then KEY=VALUE to set and KEY- to remove
    #[arg(value_name = "TYPE NAME KEY=VALUE")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    print: PrintFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// All objects of the type
    #[arg(long)]
    all: bool,
    /// Look in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Selector (label query) to filter on
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Selector (field query) to filter on
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    field_selector: String,
    /// Print what is there
    #[arg(long)]
    list: bool,
    /// Change the objects of the files and print them, without asking a server
    #[arg(long)]
    local: bool,
    /// Replace values that differ
    #[arg(long)]
    overwrite: bool,
    /// Change only an object of this version
    #[arg(long, value_name = "VERSION")]
    resource_version: Option<String>,
    /// Who is recorded as the writer
    #[arg(long, value_name = "NAME")]
    field_manager: Option<String>,
}

/// Which map, and the words about it.
pub(crate) struct Words {
    pub(crate) field: &'static str,
    pub(crate) command: &'static str,
    pub(crate) done: &'static str,
    pub(crate) removed: &'static str,
    pub(crate) unchanged: &'static str,
}

type Change = (String, Option<String>);

pub(crate) async fn run(ctx: &Context, args: Args, words: &Words) -> Result<()> {
    let (what, changes) = split(&args.what)?;
    if changes.is_empty() && !args.list {
        let one = words.field.trim_end_matches('s');
        return Err(Error::Message(format!("at least one {one} update is required")));
    }
    if args.local {
        return local(&args, words, &changes).await;
    }
    let server = ctx.karmada().await?;
    let selection = Selection {
        files: args.files.clone(),
        what: &what,
        label_selector: &args.selector,
        field_selector: &args.field_selector,
        all: args.all,
        all_namespaces: args.all_namespaces,
    };
    let mut errors = Vec::new();
    for subject in selection.subjects(ctx, &server).await? {
        let done = if args.list && changes.is_empty() {
            list(&server, &subject, words).await
        } else {
            one(&server, &subject, &args, words, &changes).await
        };
        errors.extend(done.err());
    }
    Error::combine(errors)
}

/// Parts what names objects from what changes them.
fn split(all: &[String]) -> Result<(Vec<String>, Vec<Change>)> {
    let is_change = |word: &String| word.contains('=') || (word.ends_with('-') && word.len() > 1);
    let first = all.iter().position(is_change).unwrap_or(all.len());
    let (what, words) = all.split_at(first);
    let mut changes = Vec::new();
    for word in words {
        let change = match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => match word.strip_suffix('-') {
                Some(key) => (key.to_owned(), None),
                None => {
                    return Err(Error::Message(format!(
                        "all resources must be specified before changes: {word}"
                    )));
                }
            },
        };
        if change.0.is_empty() {
            return Err(Error::Message(format!("invalid key in {word:?}")));
        }
        changes.push(change);
    }
    Ok((what.to_vec(), changes))
}

async fn list(server: &Server, subject: &Subject, words: &Words) -> Result<()> {
    let live = subject.live(server).await?;
    let pairs = live.map_at(&["metadata", words.field]).into_iter().flatten();
    let lines: String = pairs
        .map(|(key, value)| format!("{key}={}\n", value.as_str().unwrap_or_default()))
        .collect();
    output::print(&lines)
}

async fn one(
    server: &Server,
    subject: &Subject,
    args: &Args,
    words: &Words,
    changes: &[Change],
) -> Result<()> {
    let live = subject.live(server).await?;
    let (patch, verb) = plan(&live, words, changes, args.overwrite)?;
    let dry_run = args.dry_run.dry_run;
    let after = match dry_run {
        DryRun::Client => karmada_apimachinery::patch::merge::apply(&live, &patch)
            .map_err(|status| Error::Message(status.message.clone()))?,
        _ => {
            let mut patch = patch;
            if let Some(version) = &args.resource_version {
                patch.set(&["metadata", "resourceVersion"], version.as_str());
            }
            let manager =
                args.field_manager.clone().unwrap_or_else(|| format!("kubectl-{}", words.command));
            let options = PatchOptions {
                field_manager: manager,
                dry_run: dry_run == DryRun::Server,
                ..PatchOptions::default()
            };
            subject.api(server).patch(&subject.name, &Patch::Merge(patch), &options).await?
        }
    };
    match args.print.format()? {
        Some(format) => output::print(&output::render(&format, &args.print, &after)?),
        None => output::print(&format!("{} {verb}{}\n", subject.line_name(), dry_run.suffix())),
    }
}

/// The merge patch, and the word for what it does.
fn plan(
    live: &Value,
    words: &Words,
    changes: &[Change],
    overwrite: bool,
) -> Result<(Value, &'static str)> {
    let empty = Map::new();
    let present = live.map_at(&["metadata", words.field]).unwrap_or(&empty);
    let mut map = Map::new();
    let (mut sets, mut removes) = (false, false);
    for (key, value) in changes {
        let old = present.get(key).and_then(Value::as_str);
        match value {
            Some(new) if old == Some(new) => {}
            Some(new) => {
                if let Some(old) = old.filter(|_| !overwrite) {
                    return Err(Error::Message(format!(
                        "'{key}' already has a value ({old}), and --overwrite is false"
                    )));
                }
                sets = true;
                map.insert(key.clone(), new.as_str().into());
            }
            None if old.is_some() => {
                removes = true;
                map.insert(key.clone(), Value::Null);
            }
            None => output::note(&format!("{} \"{key}\" not found.", words.command)),
        }
    }
    let verb = match (sets, removes) {
        (false, false) => words.unchanged,
        (false, true) => words.removed,
        _ => words.done,
    };
    Ok((json!({"metadata": {words.field: map}}), verb))
}

async fn local(args: &Args, words: &Words, changes: &[Change]) -> Result<()> {
    let format = args.print.format()?.unwrap_or(output::Format::Yaml);
    for document in args.files.read().await? {
        let (patch, _) = plan(&document.object, words, changes, args.overwrite)?;
        let after = karmada_apimachinery::patch::merge::apply(&document.object, &patch)
            .map_err(|status| Error::Message(status.message.clone()))?;
        output::print(&output::render(&format, &args.print, &after)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_changes_are_told_apart() {
        let words: Vec<String> =
            ["deploy", "a", "x=1", "y-"].iter().map(|&w| w.to_owned()).collect();
        let (what, changes) = split(&words).unwrap();
        assert_eq!(what, ["deploy", "a"]);
        assert_eq!(changes, [("x".to_owned(), Some("1".to_owned())), ("y".to_owned(), None)]);
    }

    #[test]
    fn values_are_replaced_only_on_request() {
        let words = &crate::label::WORDS;
        let live = json!({"metadata": {"labels": {"a": "1"}}});
        let set = |value: &str| vec![("a".to_owned(), Some(value.to_owned()))];
        assert_eq!(plan(&live, words, &set("1"), false).unwrap().1, "not labeled");
        let refused = plan(&live, words, &set("2"), false).unwrap_err();
        assert_eq!(refused.to_string(), "'a' already has a value (1), and --overwrite is false");
        assert_eq!(plan(&live, words, &set("2"), true).unwrap().1, "labeled");
        let (patch, verb) = plan(&live, words, &[("a".to_owned(), None)], false).unwrap();
        assert_eq!((patch, verb), (json!({"metadata": {"labels": {"a": null}}}), "unlabeled"));
    }
}
