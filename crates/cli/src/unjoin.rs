//! `unjoin`: removes a Push mode cluster.

use std::path::PathBuf;
use std::time::Duration;

use karmada_client::ListOptions;
use karmada_registration::{self as registration, Unjoin};

use crate::context::{Context, clusters};
use crate::error::Result;
use crate::globals::parse_duration;
use crate::join::{member, one_name};
use crate::output;
use crate::suggest::did_you_mean;

pub(crate) const EXAMPLES: &str = "  # Remove the cluster 'member1' from the control plane
  karmadactl unjoin member1

  # The same, and clean up in the member too
  karmadactl unjoin member1 --cluster-kubeconfig=member1.config
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The cluster to remove
    #[arg(value_name = "CLUSTER_NAME")]
    names: Vec<String>,
    /// Where credentials are kept
    #[arg(long, default_value = "karmada-cluster", value_name = "NAME")]
    cluster_namespace: String,
    /// The context of the member's kubeconfig to use; its current one unless given
    #[arg(long, default_value = "", value_name = "NAME")]
    cluster_context: String,
    /// The kubeconfig of the member, to clean up there as well
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Remove the cluster even if it does not answer any more
    #[arg(long)]
    force: bool,
    /// How long to wait until the cluster is gone
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = parse_duration)]
    wait: Duration,
    /// Check everything and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let name = one_name(&args.names)?;
    registration::check_name(name)?;
    if args.wait.is_zero() {
        // Compat: the blanks stand in the original's sentence.
        return Err(" --wait 0s  must be a positive duration, e.g. 1m0s ".into());
    }
    let plane = ctx.karmada().await?.client;
    let member = match &args.cluster_kubeconfig {
        Some(path) => Some(member(path, &args.cluster_context).await?.0),
        None => None,
    };
    let unjoin = Unjoin {
        name: name.to_owned(),
        namespace: args.cluster_namespace,
        force: args.force,
        wait: args.wait,
        dry_run: args.dry_run,
    };
    match registration::unjoin(&plane, member.as_ref(), &unjoin, &output::note).await {
        Err(error @ registration::Error::NoCluster(_)) => {
            let known = plane.api(&clusters()).list_all(&ListOptions::default()).await?;
            let hint = did_you_mean(name, known.items.iter().map(|item| item.name()));
            Err(format!("{error}{hint}").into())
        }
        outcome => Ok(outcome?),
    }
}
