//! `exec`: runs a command in a container, through the control plane's proxy for members.

use karmada_apimachinery::object::ObjectExt as _;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::streams::{Flags, Session};

pub(crate) const EXAMPLES: &str = "  # Run a command in a pod of member1
  karmadactl exec nginx-7f8fbb96d-4n7dq --operation-scope members --cluster member1 -- date

  # A shell in a pod of a deployment
  karmadactl exec -it deployment/nginx --operation-scope members --cluster member1 -- sh
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// POD or TYPE/NAME
    #[arg(value_name = "POD")]
    what: Vec<String>,
    /// A file with the pod, or with the workload whose pod is meant
    #[arg(long, short, value_name = "FILE")]
    filename: Option<String>,
    #[command(flatten)]
    flags: Flags,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let what = match (&args.filename, args.what.first()) {
        (Some(file), None) => subject_of(file).await?,
        (None, Some(what)) => what.clone(),
        (Some(_), Some(_)) => return Err(Error::from("--filename and a pod exclude each other")),
        (None, None) => {
            return Err(Error::from("pod, type/name or --filename must be specified"));
        }
    };
    if args.command.is_empty() {
        return Err(Error::from("you must specify at least one command for the container"));
    }
    if args.what.len() > 1 {
        return Err(Error::from(
            "exec [POD] [COMMAND] is not supported; use exec [POD] -- [COMMAND] instead",
        ));
    }
    Session::open(ctx, &what, &args.flags).await?.exec(&args.command).await
}

/// `deployment/nginx`, as a file has it.
async fn subject_of(file: &str) -> Result<String> {
    let files = FileFlags { filename: vec![file.to_owned()], ..FileFlags::default() };
    let documents = files.read().await?;
    let object = documents.first().map(|document| &document.object).ok_or("no objects passed")?;
    Ok(format!("{}/{}", object.kind().to_lowercase(), object.name()))
}
