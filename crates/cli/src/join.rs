//! `join`: registers a cluster in Push mode.

use std::collections::BTreeMap;
use std::path::PathBuf;

use karmada_client::Client;
use karmada_registration::{self as registration, Access, Join};

use crate::context::{Context, Impersonation, load_kubeconfig, to_config};
use crate::error::{Error, Result};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "  # Join the cluster 'member1' that a kubeconfig leads to
  karmadactl join member1 --cluster-kubeconfig=member1.config

  # The same, with the context to use in it
  karmadactl join member1 --cluster-kubeconfig=all.config --cluster-context=member1
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The name the cluster gets
    #[arg(value_name = "CLUSTER_NAME")]
    names: Vec<String>,
    /// Where credentials are kept, in the control plane and in the member
    #[arg(long, default_value = "karmada-cluster", value_name = "NAME")]
    cluster_namespace: String,
    /// The context of the member's kubeconfig to use; its current one unless given
    #[arg(long, default_value = "", value_name = "NAME")]
    cluster_context: String,
    /// The kubeconfig of the member
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// The provider the cluster runs at
    #[arg(long, default_value = "", value_name = "NAME")]
    cluster_provider: String,
    /// The region the cluster is in
    #[arg(long, default_value = "", value_name = "NAME")]
    cluster_region: String,
    /// The zones the cluster spans
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    cluster_zones: Vec<String>,
    /// The user to act as in the control plane
    #[arg(long, value_name = "USER", default_value = "", hide_default_value = true)]
    karmada_as: String,
    /// A group to act as in the control plane; may be given several times
    #[arg(long, value_name = "GROUP")]
    karmada_as_group: Vec<String>,
    /// The uid to act as in the control plane
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true)]
    karmada_as_uid: String,
    /// Check everything and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let name = one_name(&args.names)?;
    registration::check_name(name)?;
    // The control plane's own kubeconfig is what would be found otherwise.
    let Some(path) = args.cluster_kubeconfig.as_deref() else {
        return Err(
            "--cluster-kubeconfig is required: the kubeconfig of the cluster to join".into()
        );
    };
    if args.cluster_namespace == "karmada-system" {
        output::note(
            "karmada-system holds the control plane; --cluster-namespace should be another namespace",
        );
    }
    let (member, access) = member(path, &args.cluster_context).await?;
    let somebody = Impersonation {
        user: &args.karmada_as,
        groups: &args.karmada_as_group,
        uid: &args.karmada_as_uid,
    };
    let plane = ctx.karmada_as(&somebody).await?.client;
    let join = Join {
        name: name.to_owned(),
        namespace: args.cluster_namespace,
        provider: args.cluster_provider,
        region: args.cluster_region,
        zones: args.cluster_zones,
        annotations: BTreeMap::new(),
        dry_run: args.dry_run,
    };
    let waiting = std::sync::Mutex::new(None);
    // Dropped with the next step, or when all is done.
    let tell = |step: &str| {
        if let Ok(mut waiting) = waiting.lock() {
            *waiting = Some(progress::wait_for(step));
        }
    };
    registration::join(&plane, &member, &access, &join, &tell).await?;
    drop(waiting);
    if args.dry_run {
        return Ok(());
    }
    output::print(&format!("cluster({name}) is joined successfully\n"))
}

/// The one name a registration is about.
pub(crate) fn one_name(names: &[String]) -> Result<&str> {
    match names {
        [] => Err("cluster name is required".into()),
        [name] => Ok(name),
        _ => Err("only the cluster name is allowed as an argument".into()),
    }
}

/// The way into a member as its administrator, and how the control plane gets there.
pub(crate) async fn member(path: &std::path::Path, context: &str) -> Result<(Client, Access)> {
    let unusable = |error: Error| {
        Error::Message(format!("failed to get joining cluster config. error: {error}"))
    };
    let kubeconfig = load_kubeconfig(Some(path)).map_err(unusable)?;
    let kubeconfig = kubeconfig.ok_or_else(|| unusable("it is empty".into()))?;
    let config = to_config(kubeconfig, Some(context)).await.map_err(unusable)?;
    let access = Access::of(&config);
    let client = Client::from_config(config)?.with_user_agent("karmadactl");
    Ok((client, access))
}

impl From<registration::Error> for Error {
    fn from(error: registration::Error) -> Self {
        match error {
            registration::Error::Request { attempt, source } => Self::Request { attempt, source },
            other => Self::Message(other.to_string()),
        }
    }
}
