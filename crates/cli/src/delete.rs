//! `delete`: removes objects, and waits until they are gone.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{DeleteOptions, Propagation};

use crate::context::{Context, Server};
use crate::error::{Attempt as _, Error, Result};
use crate::files::FileFlags;
use crate::globals::parse_duration;
use crate::resources::kind_and_group;
use crate::subjects::{DryRun, DryRunFlag, Selection, Subject};
use crate::{output, progress, raw};

pub(crate) const EXAMPLES: &str = "  # Delete what a file describes
  karmadactl delete -f nginx.yaml

  # Delete a policy; what it placed stays where it is
  karmadactl delete propagationpolicy nginx-propagation

  # Delete all deployments of a namespace
  karmadactl delete deployments --all -n test
";

/// How often an object is looked for while waiting for its end.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE[,TYPE…] [NAME…], or TYPE/NAME…
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
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
    /// All objects of the types
    #[arg(long)]
    all: bool,
    /// Look in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// What becomes of dependents: background, foreground or orphan
    #[arg(long, value_name = "POLICY", num_args = 0..=1, require_equals = true, default_value = "background",
        default_missing_value = "background", value_parser = ["background", "foreground", "orphan", "true", "false"], hide_possible_values = true)]
    cascade: String,
    /// Delete at once, without waiting for an orderly end
    #[arg(long)]
    force: bool,
    /// Seconds given for an orderly end; negative leaves it to the object
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true, hide_default_value = true)]
    grace_period: i64,
    /// Succeed if a named object does not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// Send a DELETE to this address of the server as it is
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    /// Ask before deleting
    #[arg(long, short)]
    interactive: bool,
    /// Give one second for an orderly end
    #[arg(long)]
    now: bool,
    /// Output format: name
    #[arg(long, short, value_name = "FORMAT", default_value = "", hide_default_value = true, value_parser = ["", "name"])]
    output: String,
    /// How long to wait for the end; zero is as long as it takes
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true, value_parser = parse_duration)]
    timeout: Duration,
    /// Wait until the objects are gone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = ctx.karmada().await?;
    if let Some(path) = &args.raw {
        return raw::send(&server, http::Method::DELETE, path, &args.files).await;
    }
    let selection = Selection {
        files: args.files.clone(),
        what: &args.what,
        label_selector: &args.selector,
        field_selector: &args.field_selector,
        all: args.all,
        all_namespaces: args.all_namespaces,
    };
    let subjects = selection.subjects(ctx, &server).await?;
    if subjects.is_empty() {
        output::note("No resources found");
        return Ok(());
    }
    if args.interactive && !confirm(&subjects)? {
        output::note("deletion is cancelled");
        return Ok(());
    }
    let mut errors = Vec::new();
    let mut ending = Vec::new();
    for subject in &subjects {
        match delete(&server, subject, &args).await {
            Ok(Some(uid)) => ending.push((subject, uid)),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    if args.wait && args.dry_run.dry_run == DryRun::None {
        let all = async {
            for (subject, uid) in &ending {
                gone(&server, subject, uid).await?;
            }
            Ok::<(), Error>(())
        };
        let waited = match args.timeout.is_zero() {
            true => all.await,
            false => tokio::time::timeout(args.timeout, all)
                .await
                .unwrap_or_else(|_| Err(Error::from("timed out waiting for the condition"))),
        };
        errors.extend(waited.err());
    }
    Error::combine(errors)
}

fn confirm(subjects: &[Subject]) -> Result<bool> {
    output::note("You are about to delete the following resource(s):");
    subjects.iter().for_each(|subject| output::note(&subject.line_name()));
    output::note("Do you want to continue? (y/N): ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Asks for the end of one object; returns its uid, to see it gone.
async fn delete(server: &Server, subject: &Subject, args: &Args) -> Result<Option<String>> {
    let grace = match args.grace_period {
        seconds if seconds >= 0 => u64::try_from(seconds).ok(),
        _ if args.now => Some(1),
        _ if args.force => Some(0),
        _ => None,
    };
    let propagation = match args.cascade.as_str() {
        "orphan" | "false" => Propagation::Orphan,
        "foreground" => Propagation::Foreground,
        _ => Propagation::Background,
    };
    let mut uid = String::new();
    if args.dry_run.dry_run == DryRun::None {
        let options = DeleteOptions {
            propagation: Some(propagation),
            grace_period_seconds: grace,
            ..DeleteOptions::default()
        };
        let answer = subject.api(server).delete(&subject.name, &options).await;
        let answer = answer.attempting(|| subject.attempt("deleting"));
        let forgiven = args.ignore_not_found || args.all || !args.selector.is_empty();
        match answer {
            Ok(answer) => {
                let stated = answer.str_at(&["details", "uid"]).unwrap_or_else(|| answer.uid());
                uid = stated.to_owned();
            }
            Err(error) if error.is_not_found() && forgiven => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    output::print(&line(subject, args, grace))?;
    Ok(Some(uid))
}

fn line(subject: &Subject, args: &Args, grace: Option<u64>) -> String {
    if args.output == "name" {
        return format!("{}\n", subject.line_name());
    }
    let word = if grace == Some(0) { "force deleted" } else { "deleted" };
    let place = match subject.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" from {namespace} namespace"),
    };
    let suffix = args.dry_run.dry_run.suffix();
    format!("{} \"{}\" {word}{place}{suffix}\n", kind_and_group(&subject.resource), subject.name)
}

/// Waits until the object, or at least this life of it, is gone.
async fn gone(server: &Server, subject: &Subject, uid: &str) -> Result<()> {
    let _waiting = progress::wait_for(format!("the end of {}", subject.line_name()));
    loop {
        match subject.api(server).find(&subject.name).await? {
            None => return Ok(()),
            Some(live) if !uid.is_empty() && live.uid() != uid => return Ok(()),
            Some(_) => tokio::time::sleep(LOOK).await,
        }
    }
}
