//! `api-versions`: every `group/version` a server has.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::error::Result;
use crate::output;
use crate::scope::OneServer;

pub(crate) const EXAMPLES: &str = "  # Print the versions the control plane serves
  karmadactl api-versions

  # Print the versions a member serves
  karmadactl api-versions --operation-scope members --cluster member1
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: OneServer,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = args.server.server(ctx).await?;
    let versions: BTreeSet<String> =
        server.resources.all().await?.iter().map(|r| r.gvr.group_version().to_string()).collect();
    output::print(&versions.iter().map(|version| format!("{version}\n")).collect::<String>())
}
