//! `patch`: changes fields of objects.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, decode, patch as patches};
use karmada_client::{Patch, PatchOptions};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output::{self, PrintFlags};
use crate::subjects::{DryRun, DryRunFlag, Selection, Subject};

pub(crate) const EXAMPLES: &str = "  # Say where a cluster is
  karmadactl patch cluster member1 -p '{\"spec\":{\"provider\":\"kind\"}}'

  # Move a workload; kinds of Karmada need --type merge or json
  karmadactl patch pp nginx --type merge -p '{\"spec\":{\"placement\":{\"clusterAffinity\":{\"clusterNames\":[\"member2\"]}}}}'
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE NAME…
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    print: PrintFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// The patch, in JSON or YAML
    #[arg(long, short, value_name = "PATCH", default_value = "", hide_default_value = true)]
    patch: String,
    /// A file with the patch
    #[arg(long, value_name = "FILE")]
    patch_file: Option<String>,
    /// Kind of patch
    #[arg(long = "type", value_name = "TYPE", default_value = "strategic", value_parser = ["strategic", "merge", "json"])]
    kind: String,
    /// The subresource to patch, such as status or scale
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    subresource: String,
    /// Patch the objects of the files and print them, without asking a server
    #[arg(long)]
    local: bool,
    /// Who is recorded as the writer
    #[arg(long, value_name = "NAME", default_value = "kubectl-patch", hide_default_value = true)]
    field_manager: String,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let text = match &args.patch_file {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Error::Message(format!("unable to read patch file: {path}: {error}"))
        })?,
        None => args.patch.clone(),
    };
    if text.trim().is_empty() {
        return Err(Error::from(
            "must specify --patch or --patch-file containing the contents of the patch",
        ));
    }
    let patch = decode::yaml_untyped(text.as_bytes())
        .map_err(|error| Error::Message(format!("unable to parse \"{text}\": {error}")))?
        .value;
    if args.local {
        return local(&args, &patch).await;
    }
    let server = ctx.karmada().await?;
    let selection =
        Selection { files: args.files.clone(), what: &args.what, ..Selection::default() };
    let mut errors = Vec::new();
    for subject in selection.subjects(ctx, &server).await? {
        errors.extend(one(&server, &subject, &args, &patch).await.err());
    }
    Error::combine(errors)
}

async fn one(server: &Server, subject: &Subject, args: &Args, patch: &Value) -> Result<()> {
    let live = subject.live(server).await?;
    let dry_run = args.dry_run.dry_run;
    let after = if dry_run == DryRun::Client {
        apply_here(&live, patch, &args.kind)?
    } else {
        let sent = match args.kind.as_str() {
            "merge" => Patch::Merge(patch.clone()),
            "json" => Patch::Json(patch.clone()),
            _ => Patch::Strategic(patch.clone()),
        };
        let options = PatchOptions {
            field_manager: args.field_manager.clone(),
            dry_run: dry_run == DryRun::Server,
            ..PatchOptions::default()
        };
        let api = subject.api(server);
        let answer = api.patch_subresource(&subject.name, &args.subresource, &sent, &options).await;
        answer.map_err(|error| advise(error, args))?
    };
    match args.print.format()? {
        Some(format) => output::print(&output::render(&format, &args.print, &after)?),
        None => {
            let change = if after == live { " (no change)" } else { "" };
            output::print(&format!("{} patched{change}{}\n", subject.line_name(), dry_run.suffix()))
        }
    }
}

/// Custom kinds know no strategic patch; say what they know.
fn advise(error: karmada_client::Error, args: &Args) -> Error {
    match error.api() {
        Some(refusal) if refusal.code == 415 && args.kind == "strategic" => {
            Error::Message(format!("{refusal}; custom resources take --type merge or --type json"))
        }
        _ => error.into(),
    }
}

fn apply_here(object: &Value, patch: &Value, kind: &str) -> Result<Value> {
    let patched = match kind {
        "merge" => patches::merge::apply(object, patch),
        "json" => patches::json::apply(object, patch),
        _ => {
            let gvk = object.gvk();
            patches::strategic::apply(
                object,
                patch,
                karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind),
            )
        }
    };
    patched.map_err(|status| Error::Message(status.message.clone()))
}

async fn local(args: &Args, patch: &Value) -> Result<()> {
    let format = args.print.format()?.unwrap_or(output::Format::Yaml);
    for document in args.files.read().await? {
        let after = apply_here(&document.object, patch, &args.kind)?;
        output::print(&output::render(&format, &args.print, &after)?)?;
    }
    Ok(())
}
