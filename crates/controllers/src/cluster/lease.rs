//! Shows that the agent of a Pull cluster lives: renews the Lease that bears the cluster's name.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::names;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::time::format_micro_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Backoff, Informer, ObjectKey};

use crate::context::Context;

/// The pause after a failure, at first.
const PAUSE: Duration = Duration::from_millis(200);

/// Renews the lease until the future is dropped.
pub(super) async fn renew(context: Context, clusters: Arc<Informer>, name: String) {
    let options = &context.options;
    let period =
        options.cluster_lease_duration.mul_f64(options.cluster_lease_renew_interval_fraction);
    let mut backoff = Backoff::new(PAUSE, period, &name);
    loop {
        let cluster = clusters.cache().get(&ObjectKey::cluster(name.as_str()));
        let seconds = options.cluster_lease_duration.as_secs();
        let spec = json!({
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": format_micro_time(context.clock.now()),
        });
        let pause = match write(&context.client, &name, spec, cluster.as_deref()).await {
            Ok(()) => {
                backoff.reset();
                period
            }
            Err(error) => {
                tracing::warn!(cluster = name, %error, "renew the lease of the cluster");
                backoff.next_delay()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Writes the lease; one that has to be made goes with its Cluster.
async fn write(
    client: &Client,
    name: &str,
    spec: Value,
    cluster: Option<&Object>,
) -> Result<(), karmada_client::Error> {
    let leases = client.api(&Gvr::new("coordination.k8s.io", "v1", "leases"));
    let leases = leases.namespaced(names::NAMESPACE_CLUSTER);
    // Compat: the original's roles let an agent get, create and update leases, not patch them.
    if let Some(mut lease) = leases.find(name).await? {
        for (field, value) in spec.as_object().into_iter().flatten() {
            lease.set(&["spec", field], value.clone());
        }
        return leases.update(&lease).await.map(drop);
    }
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": names::NAMESPACE_CLUSTER},
        "spec": spec,
    });
    if let Some(cluster) = cluster {
        let owner = json!({
            "apiVersion": cluster.gvk().api_version(),
            "kind": cluster.gvk().kind,
            "name": name,
            "uid": cluster.uid(),
        });
        lease.set(&["metadata", "ownerReferences"], vec![owner]);
    }
    leases.create(&lease).await.map(drop)
}
