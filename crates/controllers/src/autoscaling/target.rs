//! What is scaled: any kind with a scale subresource.

use karmada_api::hpa::CrossVersionObjectReference;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupVersion;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_client::{Api, Client, Discovery, Result};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("scaleTargetRef.apiVersion {0:?} is no group and version; write it as apps/v1")]
    Version(String),
    #[error(
        "no kind {kind} is served in {api_version}; install its definition or correct scaleTargetRef"
    )]
    NotServed { api_version: String, kind: String },
    #[error("find out what is served")]
    Discover(#[source] karmada_client::Error),
}

/// Requests about the kind that a reference names, in a namespace.
pub(super) async fn api_of(
    client: &Client,
    discovery: &Discovery,
    reference: &CrossVersionObjectReference,
    namespace: &str,
) -> std::result::Result<Api, Error> {
    let CrossVersionObjectReference { api_version, kind, .. } = reference;
    let version = GroupVersion::parse(api_version);
    let version = version.ok_or_else(|| Error::Version(api_version.clone()))?;
    let found = discovery.resource_of(&version.with_kind(kind.as_str())).await;
    let resource = found
        .map_err(Error::Discover)?
        .ok_or_else(|| Error::NotServed { api_version: api_version.clone(), kind: kind.clone() })?;
    Ok(client.api(&resource.gvr).namespaced(namespace))
}

/// The scale of a workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale(Value);

impl Scale {
    pub(super) async fn read(api: &Api, name: &str) -> Result<Self> {
        api.get_subresource(name, "scale").await.map(Self)
    }

    fn count(&self, part: &str) -> i32 {
        let count = self.0.i64_at(&[part, "replicas"]).unwrap_or_default();
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// Replicas that are asked for.
    pub(super) fn wanted(&self) -> i32 {
        self.count("spec")
    }

    /// Replicas that exist.
    pub(super) fn running(&self) -> i32 {
        self.count("status")
    }

    /// How the pods are found; empty if that is not told.
    pub(super) fn selector(&self) -> &str {
        self.0.str_at(&["status", "selector"]).unwrap_or_default()
    }

    /// Asks for so many replicas, unless that is what is asked for.
    pub(super) async fn set(mut self, api: &Api, replicas: i32) -> Result<()> {
        if self.wanted() == replicas && self.0.at(&["spec", "replicas"]).is_some() {
            return Ok(());
        }
        self.0.set(&["spec", "replicas"], replicas);
        api.update_subresource(&self.0, "scale").await.map(drop)
    }
}
