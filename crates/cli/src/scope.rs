//! Which servers a command is about: the control plane, members, or both.

use std::str::FromStr;

use crate::context::{Context, Server, check_clusters, cluster_names};
use crate::error::{Error, Result};
use crate::output;
use crate::suggest::did_you_mean;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Scope {
    #[default]
    Karmada,
    Members,
    All,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_lowercase().as_str() {
            "karmada" => Ok(Self::Karmada),
            "members" => Ok(Self::Members),
            "all" => Ok(Self::All),
            other => {
                let hint = did_you_mean(other, ["karmada", "members", "all"]);
                Err(format!("not support OperationScope: {text}{hint}"))
            }
        }
    }
}

/// Flags of the commands that are about one server.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OneServer {
    /// Where to look: karmada or members
    #[arg(long, short = 's', value_name = "SCOPE", default_value = "karmada")]
    pub(crate) operation_scope: Scope,
    /// The member, with --operation-scope=members
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) cluster: Option<String>,
}

impl OneServer {
    pub(crate) async fn server(&self, ctx: &Context) -> Result<Server> {
        match self.operation_scope {
            Scope::Karmada => {
                warn_of_clusters(self.cluster.as_slice());
                ctx.karmada().await
            }
            Scope::All => Err(Error::from("not support operation scope: all")),
            Scope::Members => {
                let cluster = self.cluster.as_deref().filter(|name| !name.is_empty());
                let cluster = cluster.ok_or("must specify a member cluster")?;
                let karmada = ctx.karmada().await?;
                ctx.member(&karmada, cluster).await
            }
        }
    }
}

/// Compat: the original answers for the control plane, whichever members are named; we say so at least.
fn warn_of_clusters(clusters: &[String]) {
    let named = clusters.join(",");
    if !named.is_empty() {
        output::note(&format!(
            "Warning: this is the control plane's answer; add --operation-scope=members to ask {named}"
        ));
    }
}

/// The servers of a scope, the control plane first, then members by name.
pub(crate) async fn servers(
    ctx: &Context,
    scope: Scope,
    clusters: &[String],
) -> Result<Vec<Server>> {
    let karmada = ctx.karmada().await?;
    if scope == Scope::Karmada {
        warn_of_clusters(clusters);
        return Ok(vec![karmada]);
    }
    let known = cluster_names(&karmada).await?;
    check_clusters(clusters, &known)?;
    let mut servers = Vec::new();
    if scope == Scope::All {
        servers.push(karmada);
    }
    for name in known.iter().filter(|name| clusters.is_empty() || clusters.contains(name)) {
        servers.push(ctx.member_unchecked(name).await?);
    }
    Ok(servers)
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Karmada => "karmada",
            Self::Members => "members",
            Self::All => "all",
        })
    }
}
