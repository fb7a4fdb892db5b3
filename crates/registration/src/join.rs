//! Joins a cluster in Push mode: accounts and tokens in the member, credentials and the Cluster in the
//! control plane. What is there already is used, so that a join that broke off can be repeated.

use std::collections::BTreeMap;

use karmada_api::names;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, ListOptions};

use crate::member::{self, Reported};
use crate::{Error, attempting, check_name, cluster_id, clusters, credentials, objects};

/// What is joined, and as what.
#[derive(Debug, Clone, Default)]
pub struct Join {
    pub name: String,
    /// Where credentials are kept, on both sides.
    pub namespace: String,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// What the Cluster is annotated with.
    pub annotations: BTreeMap<String, String>,
    /// Checks everything and changes nothing.
    pub dry_run: bool,
}

impl Join {
    /// A join with the usual namespace.
    pub fn named(name: impl Into<String>) -> Self {
        let namespace = names::NAMESPACE_CLUSTER.to_owned();
        Self { name: name.into(), namespace, ..Self::default() }
    }
}

/// How the control plane reaches the member.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub endpoint: String,
    pub insecure: bool,
    pub proxy_url: String,
}

impl Access {
    /// The way that a connection of this configuration takes.
    pub fn of(config: &kube::Config) -> Self {
        Self {
            endpoint: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            insecure: config.accept_invalid_certs,
            proxy_url: config.proxy_url.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Joins the member that `member` administers. `progress` is told what takes time.
pub async fn join(
    plane: &Client,
    member: &Client,
    access: &Access,
    join: &Join,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    check_name(&join.name)?;
    let id = cluster_id(member).await?;
    refuse_duplicate(plane, &id, &join.name).await?;
    if join.dry_run {
        return Ok(());
    }
    let issued = member::prepare(member, join, Reported::ALL, progress).await?;
    let secrets = credentials::store(plane, join, &issued, None).await?;
    progress(&format!("the cluster object {}", join.name));
    let cluster = create_cluster(plane, access, join, &id, &secrets).await?;
    for secret in secrets.iter() {
        credentials::adopt(plane, secret, &cluster).await?;
    }
    Ok(())
}

async fn refuse_duplicate(plane: &Client, id: &str, name: &str) -> Result<(), Error> {
    let listed = plane.api(&clusters()).list_all(&ListOptions::default()).await;
    let listed = listed.map_err(attempting("list clusters"))?;
    let is_same =
        |cluster: &Value| cluster.name() == name || cluster.str_at(&["spec", "id"]) == Some(id);
    if listed.items.iter().any(|cluster| is_same(&cluster.value())) {
        return Err(Error::Registered { id: id.to_owned(), name: name.to_owned() });
    }
    Ok(())
}

async fn create_cluster(
    plane: &Client,
    access: &Access,
    join: &Join,
    id: &str,
    secrets: &credentials::Kept,
) -> Result<Value, Error> {
    let mut cluster = objects::cluster(&join.name);
    if !join.annotations.is_empty() {
        cluster["metadata"]["annotations"] = json!(join.annotations);
    }
    objects::describe(&mut cluster, access, join, secrets);
    cluster["spec"]["syncMode"] = "Push".into();
    cluster["spec"]["id"] = id.into();
    match plane.api(&clusters()).create(&cluster).await {
        Err(error) if error.is_already_exists() => Err(Error::Exists(join.name.clone())),
        created => {
            created.map_err(attempting(format!("failed to create cluster({}) object", join.name)))
        }
    }
}
