//! The flags that name the management cluster of a Cluster API, whose clusters are joined by themselves.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use karmada_api::names::component;
use karmada_client::Client;
use karmada_controllers::cluster_api::ClusterApi;

/// Flags of the controllers, wherever they run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterApiArgs {
    /// The kubeconfig of a Cluster API's management cluster: what it has provisioned is joined
    #[arg(long, value_name = "FILE")]
    cluster_api_kubeconfig: Option<PathBuf>,
    /// The context of that kubeconfig to use; its current one unless given
    #[arg(long, value_name = "NAME")]
    cluster_api_context: Option<String>,
}

impl ClusterApiArgs {
    /// The management cluster, if one is named. Whether it answers shows later.
    pub(crate) async fn connect(&self) -> anyhow::Result<Option<ClusterApi>> {
        let Some(path) = given(self.cluster_api_kubeconfig.as_deref()) else { return Ok(None) };
        let context = self.cluster_api_context.as_deref().filter(|context| !context.is_empty());
        let client = Client::from_kubeconfig(path, context).await;
        let client = client.with_context(|| format!("--cluster-api-kubeconfig {}", path.display()));
        let client = client?.with_user_agent(component::CONTROLLER_MANAGER);
        Ok(Some(ClusterApi::new(client)))
    }
}

/// Compat: an empty path is none.
fn given(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.as_os_str().is_empty())
}
