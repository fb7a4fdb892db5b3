//! Lists the API server itself behind the Service `kubernetes`, where the server does not: it
//! listens on the loopback device, which endpoints may not name.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Result};
use karmada_runtime::Manager;

use super::slices::slices;

/// An address set aside for examples: nobody inside a simulated cluster connects to it.
const ADDRESS: &str = "192.0.2.1";

pub(crate) fn start(manager: &Manager) {
    let client = manager.client.clone();
    manager.shutdown.spawn_until(async move {
        if let Err(error) = publish(&client).await {
            tracing::warn!(%error, "the API server is not listed behind its Service");
        }
    });
}

async fn publish(client: &Client) -> Result<()> {
    let core = |plural: &str| client.api(&Gvr::new("", "v1", plural)).namespaced("default");
    let Some(service) = core("services").find("kubernetes").await? else { return Ok(()) };
    let [endpoints, slice] = render(&service);
    for (api, object) in
        [(core("endpoints"), endpoints), (client.api(&slices()).namespaced("default"), slice)]
    {
        if api.find("kubernetes").await?.is_none() {
            api.create(&object).await?;
        }
    }
    Ok(())
}

fn render(service: &Value) -> [Value; 2] {
    let port = service.list_at(&["spec", "ports"]).first();
    let port = port.and_then(|port| port.i64_at(&["targetPort"])).unwrap_or(6443);
    let ports = json!([{"name": "https", "protocol": "TCP", "port": port}]);
    [
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": ports}],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
            "ports": ports,
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_name_the_port_of_the_service() {
        let [endpoints, slice] = render(&json!({"spec": {"ports": [{"targetPort": 7443}]}}));
        assert_eq!(endpoints["subsets"][0]["ports"], slice["ports"]);
        assert_eq!(slice["ports"][0]["port"], 7443);
    }
}
