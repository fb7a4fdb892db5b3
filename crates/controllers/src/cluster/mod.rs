//! Keeps Clusters true to the clusters they stand for.
//!
//! | module | what it keeps true |
//! |---|---|
//! | [`lease`] | the agent of a Pull cluster shows that it lives |
//! | [`lifecycle`] | execution namespace, finalizer, taints by condition, removal |
//! | [`monitor`] | a Pull cluster whose agent fell silent is Unknown |
//! | [`remedy`] | the actions that Remedies ask for |
//! | [`status`] | health, version, APIs, capacity, one lane per cluster |
//! | [`unified_auth`] | who may reach through to a member may be impersonated there |

mod capacity;
mod health;
mod lease;
pub(crate) mod lifecycle;
mod metrics;
mod modeling;
mod monitor;
pub(crate) mod remedy;
pub(crate) mod status;
pub(crate) mod unified_auth;

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::meta::Kind as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_client::{Api, Client};
use karmada_runtime::{Informer, Informers};

fn gvr() -> Gvr {
    Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL)
}

fn informer(informers: &Informers) -> Arc<Informer> {
    informers.all(&gvr())
}

fn api(client: &Client) -> Api {
    client.api(&gvr())
}

/// How often a status is written anew when somebody else was faster.
const ATTEMPTS: usize = 5;

/// Writes the status that `change` makes of the stored one, if it makes another one of it.
async fn update_status(
    client: &Client,
    name: &str,
    known: Option<&karmada_client::Object>,
    change: impl Fn(&mut Cluster),
) -> Result<(), karmada_client::Error> {
    // Most looks find nothing new, and the list of APIs is long: it is not decoded for those.
    if let Some(before) = known.and_then(|known| known.typed::<Cluster>().ok()) {
        let mut after = Cluster::clone(&before);
        change(&mut after);
        if after.status == before.status {
            return Ok(());
        }
    }
    let api = api(client);
    let mut stored = match known {
        Some(known) => known.value(),
        None => api.get(name).await?,
    };
    for attempt in 1.. {
        let Ok(before) = Cluster::from_value(&stored) else { return Ok(()) };
        let mut after = before.clone();
        change(&mut after);
        if after.status == before.status {
            return Ok(());
        }
        stored.set(&["status"], karmada_apimachinery::to_value(&after.status).unwrap_or_default());
        match api.update_subresource(&stored, "status").await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                stored = api.get(name).await?;
            }
            Err(error) if error.is_not_found() => return Ok(()),
            written => return written.map(drop),
        }
    }
    Ok(())
}
