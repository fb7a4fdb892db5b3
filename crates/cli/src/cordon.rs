//! `cordon` and `uncordon`: keeps new workloads off a cluster, or lets them come again.

use karmada_apimachinery::Value;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;

use crate::context::{Context, cluster, clusters};
use crate::error::{Error, Result};
use crate::output;

pub(crate) const EXAMPLES: &str = "  # Keep new workloads off member1
  karmadactl cordon member1

  # Only say what would happen
  karmadactl cordon member1 --dry-run
";

/// The taint a cordoned cluster has.
const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The cluster
    #[arg(value_name = "CLUSTER")]
    clusters: Vec<String>,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

/// Which of the two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Cordon,
    Uncordon,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    apply(ctx, args, Wish::Cordon).await
}

pub(crate) async fn apply(ctx: &Context, args: Args, wish: Wish) -> Result<()> {
    let name = match args.clusters.as_slice() {
        [] => return Err(Error::from("cluster name is required")),
        [name] => name,
        _ => return Err(Error::from("more than one cluster name is not supported")),
    };
    let karmada = ctx.karmada().await?;
    let stored = cluster(&karmada, name).await?;
    let word = if wish == Wish::Cordon { "cordoned" } else { "uncordoned" };
    let Some(taints) = change(&stored, wish) else {
        return output::print(&format!("{name} cluster already {word}\n"));
    };
    if !args.dry_run {
        // With the version it was read in: a taint added meanwhile must not be lost.
        let patch = json!({
            "metadata": {"resourceVersion": stored.resource_version()}, "spec": {"taints": taints},
        });
        karmada.client.api(&clusters()).merge_patch(name, patch).await?;
    }
    output::print(&format!("{name} cluster {word}\n"))
}

/// The taints the cluster should have, unless it has them.
fn change(cluster: &Value, wish: Wish) -> Option<Value> {
    let is_ours = |taint: &Value| {
        taint.str_at(&["key"]) == Some(UNSCHEDULABLE)
            && taint.str_at(&["effect"]) == Some("NoSchedule")
    };
    let taints = cluster.list_at(&["spec", "taints"]);
    match (wish, taints.iter().any(is_ours)) {
        (Wish::Cordon, false) => {
            let ours = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
            Some(taints.iter().cloned().chain([ours]).collect())
        }
        (Wish::Uncordon, true) => {
            Some(taints.iter().filter(|taint| !is_ours(taint)).cloned().collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_changed_once_and_keeps_its_other_taints() {
        let plain = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
        let taints = change(&plain, Wish::Cordon).unwrap();
        assert_eq!(taints.as_array().map(|it| it.len()), Some(2));
        let cordoned = json!({"spec": {"taints": taints}});
        assert_eq!(change(&cordoned, Wish::Cordon), None);
        assert_eq!(change(&cordoned, Wish::Uncordon), Some(plain["spec"]["taints"].clone()));
        assert_eq!(change(&plain, Wish::Uncordon), None);
    }
}
