//! Watches over Pull clusters: one whose agent neither renews its lease nor reports for longer
//! than the grace period is Unknown. Push clusters are judged by whoever probes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::cluster::{Cluster, ClusterSyncMode};
use karmada_api::conditions::cluster::{READY, reason};
use karmada_api::meta::{Condition, set_condition};
use karmada_api::names;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_runtime::{InformerSpec, ObjectKey};
use tokio::time::Instant;

use crate::context::Context;

/// What was last seen of an agent.
#[derive(Debug, Default, Clone, PartialEq)]
struct Sign {
    ready: Option<Condition>,
    renewed: Option<String>,
}

struct Watched {
    sign: Sign,
    /// When it last changed.
    at: Instant,
}

pub(super) fn start(context: &Context) {
    let clusters = super::informer(&context.informers);
    let leases = InformerSpec::all(Gvr::new("coordination.k8s.io", "v1", "leases"))
        .namespaced(names::NAMESPACE_CLUSTER);
    let leases = context.informers.get(leases);
    let own = context.clone();
    context.shutdown.spawn_until(async move {
        clusters.wait_synced().await;
        leases.wait_synced().await;
        let mut watched: BTreeMap<String, Watched> = BTreeMap::new();
        loop {
            let mut present = Vec::new();
            for object in clusters.cache().list() {
                let Ok(cluster) = object.typed::<Cluster>() else { continue };
                if cluster.spec.sync_mode != ClusterSyncMode::Pull {
                    continue;
                }
                present.push(object.name().to_owned());
                let lease = ObjectKey::new(names::NAMESPACE_CLUSTER, object.name());
                let lease = leases.cache().get(&lease).map(|lease| lease.value());
                let renewed =
                    lease.and_then(|lease| lease.str_at(&["spec", "renewTime"]).map(str::to_owned));
                let sign = Sign { ready: cluster.condition(READY).cloned(), renewed };
                look_at(&own, &cluster, sign, &mut watched).await;
            }
            watched.retain(|name, _| present.contains(name));
            tokio::time::sleep(own.options.cluster_monitor_period).await;
        }
    });
}

async fn look_at(
    context: &Context,
    cluster: &Arc<Cluster>,
    sign: Sign,
    watched: &mut BTreeMap<String, Watched>,
) {
    let name = cluster.metadata.name.as_str();
    let now = Instant::now();
    let known =
        watched.entry(name.to_owned()).or_insert_with(|| Watched { sign: sign.clone(), at: now });
    if known.sign != sign {
        *known = Watched { sign, at: now };
        return;
    }
    let never_reported = known.sign.ready.is_none();
    let grace = match never_reported {
        true => context.options.cluster_startup_grace_period,
        false => context.options.cluster_monitor_grace_period,
    };
    let is_unknown = known.sign.ready.as_ref().is_some_and(|ready| ready.status == "Unknown");
    if is_unknown || now.duration_since(known.at) <= grace {
        return;
    }
    let condition = silent(never_reported);
    let time = context.clock.now().into();
    let written = super::update_status(&context.client, name, None, |cluster| {
        set_condition(&mut cluster.status.conditions, condition.clone(), time);
    });
    if let Err(error) = written.await {
        tracing::warn!(cluster = name, %error, "mark the cluster as unknown");
    }
}

fn silent(never_reported: bool) -> Condition {
    let (reason, message) = match never_reported {
        true => (
            reason::CLUSTER_STATUS_NEVER_UPDATED,
            "Cluster status controller never posted cluster status.",
        ),
        false => (
            reason::CLUSTER_STATUS_UNKNOWN,
            "Cluster status controller stopped posting cluster status.",
        ),
    };
    Condition {
        r#type: READY.to_owned(),
        status: "Unknown".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    }
}
