//! The flags that name the management cluster of a Cluster API, whose clusters are joined by themselves.

use std::path::PathBuf;

use karmada_api::names::component;
use karmada_controllers::cluster_api::ClusterApi;

use crate::component::connect;

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
        let path = self.cluster_api_kubeconfig.as_deref();
        // Compat: an empty path is none.
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else { return Ok(None) };
        let context = self.cluster_api_context.as_deref();
        let client = connect("--cluster-api-kubeconfig", path, context).await?;
        Ok(Some(ClusterApi::new(client.with_user_agent(component::CONTROLLER_MANAGER))))
    }
}
