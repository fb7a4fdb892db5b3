//! Lets a cluster go: deletes the Cluster, waits until everything of it is gone, then cleans up in
//! the member. By force it does not wait for a cluster that no longer answers.

use std::time::Duration;

use karmada_api::names;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client, DeleteOptions, ListOptions};

use crate::{Error, attempting, clusters, core, rbac};

const POLL: Duration = Duration::from_millis(250);
/// How often the wait is told.
const TELL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Unjoin {
    pub name: String,
    pub namespace: String,
    /// Takes what is stuck away when the wait is over.
    pub force: bool,
    pub wait: Duration,
    pub dry_run: bool,
}

impl Unjoin {
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: names::NAMESPACE_CLUSTER.to_owned(),
            force: false,
            wait: Duration::from_secs(60),
            dry_run: false,
        }
    }
}

/// Lets the cluster go. Without a connection to the member nothing is cleaned up there.
pub async fn unjoin(
    plane: &Client,
    member: Option<&Client>,
    unjoin: &Unjoin,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    let name = unjoin.name.as_str();
    let api = plane.api(&clusters());
    let cluster = api.find(name).await.map_err(attempting(format!("get the cluster {name}")))?;
    let cluster = cluster.ok_or_else(|| Error::NoCluster(name.to_owned()))?;
    if cluster.str_at(&["spec", "syncMode"]) == Some("Pull") {
        return Err(Error::IsPull(name.to_owned()));
    }
    if unjoin.dry_run {
        return Ok(());
    }
    dismiss(plane, name, cluster.uid()).await?;
    match await_gone(&api, unjoin, progress).await {
        Err(Error::StillThere { .. }) if unjoin.force => {
            release(plane, name).await?;
            progress("Forced deletion is complete.");
        }
        gone => gone?,
    }
    let Some(member) = member else { return Ok(()) };
    match clean_member(member, unjoin).await {
        Err(error) if unjoin.force => {
            progress(&format!("The member was not cleaned up: {error}"));
            Ok(())
        }
        cleaned => cleaned,
    }
}

/// Asks for this very Cluster to go. What it has in the member goes first, which takes its time.
pub async fn dismiss(plane: &Client, name: &str, uid: &str) -> Result<(), Error> {
    let uid = Some(uid.to_owned());
    delete_by(&plane.api(&clusters()), name, &DeleteOptions { uid, ..DeleteOptions::default() })
        .await
}

/// Deletes an object unless it is gone already.
async fn delete(api: &Api, name: &str) -> Result<(), Error> {
    delete_by(api, name, &DeleteOptions::default()).await
}

async fn delete_by(api: &Api, name: &str, options: &DeleteOptions) -> Result<(), Error> {
    match api.delete(name, options).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(source) => Err(attempting(format!("delete the {} {name}", api.gvr().resource))(source)),
    }
}

async fn await_gone(
    api: &Api,
    unjoin: &Unjoin,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    let name = unjoin.name.as_str();
    let gone = async {
        let mut told = tokio::time::Instant::now();
        loop {
            let found = api.find(name).await;
            if found.map_err(attempting(format!("get the cluster {name}")))?.is_none() {
                return Ok(());
            }
            if told.elapsed() >= TELL {
                progress(&format!("Waiting for the cluster object {name} to be deleted"));
                told = tokio::time::Instant::now();
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(unjoin.wait, gone).await {
        Ok(gone) => gone,
        Err(_) => Err(Error::StillThere { name: name.to_owned(), seconds: unjoin.wait.as_secs() }),
    }
}

/// Takes the finalizers off everything that keeps the Cluster from going.
async fn release(plane: &Client, name: &str) -> Result<(), Error> {
    let space = names::execution_space(name);
    let works = plane.api(&Gvr::new("work.karmada.io", "v1alpha1", "works")).namespaced(&space);
    let listed = works.list_all(&ListOptions::default()).await;
    for work in listed.map_err(attempting(format!("list the works in {space}")))?.items {
        drop_finalizers(&works, work.name()).await?;
    }
    delete(&plane.api(&core("namespaces")), &space).await?;
    drop_finalizers(&plane.api(&clusters()), name).await
}

async fn drop_finalizers(api: &Api, name: &str) -> Result<(), Error> {
    match api.merge_patch(name, json!({"metadata": {"finalizers": null}})).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(source) => {
            Err(attempting(format!("release the {} {name}", api.gvr().resource))(source))
        }
    }
}

async fn clean_member(member: &Client, unjoin: &Unjoin) -> Result<(), Error> {
    let account = names::service_account(&unjoin.name);
    let role = names::cluster_role(&account);
    delete(&member.api(&rbac("clusterrolebindings")), &role).await?;
    delete(&member.api(&rbac("clusterroles")), &role).await?;
    let accounts = member.api(&core("serviceaccounts")).namespaced(&unjoin.namespace);
    delete(&accounts, &account).await?;
    delete(&member.api(&core("namespaces")), &unjoin.namespace).await
}
