//! `attach`: connects to a container that runs.

use crate::context::Context;
use crate::error::Result;
use crate::output;
use crate::streams::{Flags, Session};

pub(crate) const EXAMPLES: &str = "  # See what a pod of member1 writes
  karmadactl attach nginx-7f8fbb96d-4n7dq --operation-scope members --cluster member1

  # The same for a pod of a deployment
  karmadactl attach deployment/nginx --operation-scope members --cluster member1
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// POD or TYPE/NAME
    #[arg(value_name = "POD")]
    what: Vec<String>,
    #[command(flatten)]
    flags: Flags,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let what = args.what.first().ok_or("at least 1 argument is required for attach")?;
    let session = Session::open(ctx, what, &args.flags).await?;
    if args.flags.tty && !args.flags.quiet {
        output::note("If you don't see a command prompt, try pressing enter.");
    }
    session.attach().await
}
