//! Lists member clusters twice: with the types of this crate, and without any.
//!
//! ```text
//! KUBECONFIG=karmada-apiserver.config cargo run -p karmada-api --example list_clusters
//! ```
//!
//! `kube` brings the connection; the kinds come from `karmada-api`. [`kube::core::Object`] puts metadata around
//! a spec and a status, so any kind of this crate can be read and written through a typed `Api`.

use karmada_api::Kind;
use karmada_api::cluster::{Cluster, ClusterSpec, ClusterStatus};
use karmada_api::conditions::cluster::READY;
use karmada_api::meta::find_condition;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Object};

/// A cluster as the typed client sees it.
type TypedCluster = Object<ClusterSpec, ClusterStatus>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = kube::Client::try_default().await?;
    println!("typed:\n  {}", typed(client.clone()).await?.join("\n  "));
    println!("dynamic:\n  {}", dynamic(client).await?.join("\n  "));
    Ok(())
}

/// One line per cluster, read into the types of this crate.
pub(crate) async fn typed(client: kube::Client) -> kube::Result<Vec<String>> {
    let clusters: Api<TypedCluster> = Api::all_with(client, &resource_of::<Cluster>());
    let clusters = clusters.list(&ListParams::default()).await?;
    Ok(clusters.iter().map(describe).collect())
}

/// One line per cluster, read without knowing its type.
pub(crate) async fn dynamic(client: kube::Client) -> kube::Result<Vec<String>> {
    let clusters: Api<DynamicObject> = Api::all_with(client, &resource_of::<Cluster>());
    let clusters = clusters.list(&ListParams::default()).await?;
    let line = |cluster: &DynamicObject| {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        format!("{name} mode={}", cluster.data["spec"]["syncMode"].as_str().unwrap_or_default())
    };
    Ok(clusters.iter().map(line).collect())
}

/// The names under which the API serves a kind.
fn resource_of<K: Kind>() -> ApiResource {
    let kind = GroupVersionKind::gvk(K::GROUP, K::VERSION, K::KIND);
    ApiResource::from_gvk_with_plural(&kind, K::PLURAL)
}

/// Name, mode, readiness and version of a cluster.
fn describe(cluster: &TypedCluster) -> String {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let status = cluster.status.clone().unwrap_or_default();
    let ready = find_condition(&status.conditions, READY);
    let ready = ready.map_or("Unknown", |condition| &condition.status);
    let version = &status.kubernetes_version;
    format!("{name} mode={} ready={ready} version={version}", cluster.spec.sync_mode)
}
