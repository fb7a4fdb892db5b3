//! `edit`: opens objects in an editor and sends what was changed.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, decode};
use karmada_client::{Patch, PatchOptions};

use crate::context::{Context, Server};
use crate::draft::{CANCELLED, Draft, HEADER, content};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output;
use crate::subjects::{LAST_APPLIED, Selection, Subject, validation};

pub(crate) const EXAMPLES: &str = "  # Edit a policy
  karmadactl edit propagationpolicy nginx

  # With an editor of your choice
  KUBE_EDITOR=nano karmadactl edit deployment/nginx
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    /// Edit as yaml or json
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml", value_parser = ["yaml", "json"])]
    output: String,
    /// Print the patch that is sent
    #[arg(long)]
    output_patch: bool,
    /// The subresource to edit
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    subresource: String,
    /// Who is recorded as the writer
    #[arg(long, value_name = "NAME", default_value = "kubectl-edit", hide_default_value = true)]
    field_manager: String,
    /// Remember the object for a later apply
    #[arg(long)]
    save_config: bool,
    /// What to do about fields that are unknown: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
    /// Edit with line endings of Windows
    #[arg(long)]
    windows_line_endings: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = ctx.karmada().await?;
    let selection =
        Selection { files: args.files.clone(), what: &args.what, ..Selection::default() };
    for subject in selection.subjects(ctx, &server).await? {
        one(&server, &subject, &args).await?;
    }
    Ok(())
}

async fn one(server: &Server, subject: &Subject, args: &Args) -> Result<()> {
    let live = subject.live(server).await?;
    let mut shown = live.clone();
    shown.remove_at(&["metadata", "managedFields"]);
    let body =
        if args.output == "json" { output::json_text(&shown) } else { output::yaml_text(&shown) };
    let mut text = format!("{HEADER}{body}");
    let file = Draft::new(&args.output, args.windows_line_endings);
    loop {
        let edited = file.edit(&text)?;
        let content = content(&edited);
        if content.trim().is_empty() || content == body {
            output::note(CANCELLED);
            return Ok(());
        }
        match send(server, subject, args, &live, &shown, &content).await {
            Ok(()) => return Ok(()),
            // The editor opens again with the reason, unless nothing was changed since.
            Err(error) if edited != text => {
                let reason: String =
                    error.render().lines().map(|line| format!("# {line}\n")).collect();
                output::note(error.render().trim_end());
                text = format!("{HEADER}{reason}#\n{content}");
                if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

async fn send(
    server: &Server,
    subject: &Subject,
    args: &Args,
    live: &Value,
    shown: &Value,
    content: &str,
) -> Result<()> {
    let mut edited =
        decode::yaml_untyped(content.as_bytes()).map_err(|error| error.to_string())?.value;
    if edited.name() != subject.name || edited.gvk() != live.gvk() {
        return Err(Error::from("at least one of apiVersion, kind and name was changed"));
    }
    if args.save_config {
        edited.remove_at(&["metadata", "annotations", LAST_APPLIED]);
        let text = format!("{edited}\n");
        edited.set(&["metadata", "annotations", LAST_APPLIED], text);
    }
    let (Some(from), Some(to)) = (shown.as_object(), edited.as_object()) else {
        return Err(Error::from("the edited text is no object"));
    };
    let mut patch = Value::Object(karmada_apimachinery::patch::merge::diff(from, to));
    if args.output_patch {
        output::print(&format!("Patch: {patch}\n"))?;
    }
    // Lists are sent whole, so nothing may have changed since they were read.
    patch.set(&["metadata", "resourceVersion"], live.resource_version());
    let options = PatchOptions {
        field_manager: args.field_manager.clone(),
        field_validation: validation(&args.validate)?,
        ..PatchOptions::default()
    };
    let api = subject.api(server);
    api.patch_subresource(&subject.name, &args.subresource, &Patch::Merge(patch), &options).await?;
    output::print(&format!("{} edited\n", subject.line_name()))
}
