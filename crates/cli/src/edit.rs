//! `edit`: opens objects in an editor and sends what was changed.

use std::process::Command;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, decode};
use karmada_client::{Patch, PatchOptions};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output;
use crate::subjects::{Selection, Subject};

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
}

const HEADER: &str = "\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

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
    let file = Draft::new(&args.output)?;
    loop {
        let edited = file.edit(&text)?;
        let content: String = edited
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        if content.trim().is_empty() || content == body {
            output::note("Edit cancelled, no changes made.");
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
    let edited = decode::yaml_untyped(content.as_bytes()).map_err(|error| error.to_string())?.value;
    if edited.name() != subject.name || edited.gvk() != live.gvk() {
        return Err(Error::from("at least one of apiVersion, kind and name was changed"));
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
    let options =
        PatchOptions { field_manager: args.field_manager.clone(), ..PatchOptions::default() };
    let api = subject.api(server);
    api.patch_subresource(&subject.name, &args.subresource, &Patch::Merge(patch), &options).await?;
    output::print(&format!("{} edited\n", subject.line_name()))
}

/// A file of one's own that is gone when the editing is over.
struct Draft(std::path::PathBuf);

impl Draft {
    fn new(extension: &str) -> Result<Self> {
        let name = format!("karmadactl-edit-{}.{extension}", std::process::id());
        Ok(Self(std::env::temp_dir().join(name)))
    }

    fn edit(&self, text: &str) -> Result<String> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        // Objects may hold secrets.
        options.write(true).create(true).truncate(true).mode(0o600);
        std::io::Write::write_all(&mut options.open(&self.0)?, text.as_bytes())?;
        let from_env = |name: &str| std::env::var(name).ok().filter(|editor| !editor.is_empty());
        let editor = from_env("KUBE_EDITOR")
            .or_else(|| from_env("EDITOR"))
            .unwrap_or_else(|| "vi".to_owned());
        let status = Command::new("sh")
            .args(["-c", &format!("{editor} \"$0\"")])
            .arg(&self.0)
            .status()
            .map_err(|error| format!("unable to launch the editor \"{editor}\": {error}"))?;
        if !status.success() {
            return Err(Error::Message(format!(
                "there was a problem with the editor \"{editor}\""
            )));
        }
        Ok(std::fs::read_to_string(&self.0)?)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = std::fs::remove_file(&self.0);
    }
}
