//! What hooks must know of the API server, and what they write there: customizations, quotas and their use.

use std::sync::Arc;

use karmada_admission::QuotaUse;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::features::{Gate, Gates};
use karmada_api::meta::Kind;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Client, Error, ListOptions, Object, Result};
use karmada_runtime::{Informer, Informers};

pub(super) struct Plane {
    client: Client,
    customizations: Arc<Informer>,
    /// Followed only while quotas are enforced.
    quotas: Option<Arc<Informer>>,
}

/// Whether objects may come from the cache, or have to be read from the server now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Cached,
    Read,
}

/// What became of an attempt to write the use of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// The quota changed since it was read.
    Outdated,
}

impl Plane {
    pub(super) fn new(informers: Informers, gates: &Gates) -> Self {
        let enforced = gates.is_on(Gate::FederatedQuotaEnforcement);
        Self {
            client: informers.client().clone(),
            customizations: informers.all(&gvr::<ResourceInterpreterCustomization>()),
            quotas: enforced.then(|| informers.all(&gvr::<FederatedResourceQuota>())),
        }
    }

    pub(super) async fn customizations(&self) -> Result<Vec<ResourceInterpreterCustomization>> {
        let objects = if self.customizations.is_synced() {
            self.customizations.cache().list()
        } else {
            self.read::<ResourceInterpreterCustomization>("").await?
        };
        Ok(typed(&objects))
    }

    /// The quotas of a namespace; none unless they are enforced.
    pub(super) async fn quotas(
        &self,
        namespace: &str,
        freshness: Freshness,
    ) -> Result<Vec<FederatedResourceQuota>> {
        let Some(informer) = &self.quotas else { return Ok(Vec::new()) };
        let objects = match freshness {
            Freshness::Cached if informer.is_synced() => informer.cache().list_namespace(namespace),
            _ => self.read::<FederatedResourceQuota>(namespace).await?,
        };
        Ok(typed(&objects))
    }

    async fn read<K: Kind>(&self, namespace: &str) -> Result<Vec<Arc<Object>>> {
        let api = self.client.api(&gvr::<K>()).namespaced(namespace);
        Ok(api.list_all(&ListOptions::default()).await?.items)
    }

    /// Writes what `quota` counts from now on, unless it changed since it was read.
    pub(super) async fn write_use(
        &self,
        quota: &FederatedResourceQuota,
        used: &QuotaUse,
    ) -> Result<Written> {
        let mut quota = quota.clone();
        quota.status.overall_used.clone_from(&used.overall_used);
        let object: Value = quota.to_value().unwrap_or_default();
        let api = self.client.api(&gvr::<FederatedResourceQuota>()).namespaced(&used.namespace);
        match api.update_subresource(&object, "status").await {
            Ok(_) => Ok(Written::Done),
            Err(error) if error.is_conflict() => Ok(Written::Outdated),
            // A quota that is gone limits nothing.
            Err(error) if error.is_not_found() => Ok(Written::Done),
            Err(error) => Err(error),
        }
    }
}

/// The message of an error with its causes.
pub(super) fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

fn typed<K: Kind>(objects: &[Arc<Object>]) -> Vec<K> {
    let read = |object: &Arc<Object>| match object.typed::<K>() {
        Ok(kind) => Some((*kind).clone()),
        Err(error) => {
            tracing::warn!(kind = K::KIND, name = object.name(), %error, "object skipped");
            None
        }
    };
    objects.iter().filter_map(read).collect()
}
