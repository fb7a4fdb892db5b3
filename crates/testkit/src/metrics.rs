//! Stands in for a metrics adapter: the control plane serves `metrics.k8s.io` from what its members tell.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::StatusCode;
use karmada_api::annotations;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::connect::{Connected, Connection};
use karmada_apiserver::http::body;
use karmada_apiserver::registry::VersionPlace;
use karmada_apiserver::{Computed, Server};
use karmada_client::{Client, ListOptions};

use crate::route::Sims;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// Members that do not answer by then are left out.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn serve(server: &Server, sims: &Sims) {
    let sims = sims.clone();
    let connect = move |connection: Connection| -> Connected {
        let sims = sims.clone();
        let selector = connection.query().get("labelSelector").unwrap_or_default().to_owned();
        let namespace = connection.namespace.clone();
        async move {
            let items = measure(&sims, &namespace, selector).await;
            let list = json!({"kind": "PodMetricsList", "apiVersion": format!("{GROUP}/{VERSION}"),
                "metadata": {}, "items": items});
            Ok(body::json(StatusCode::OK, &list))
        }
        .boxed()
    };
    server.handle().compute(Computed {
        gvk: Gvk::new(GROUP, VERSION, "PodMetrics"),
        plural: "pods".to_owned(),
        singular: String::new(),
        namespaced: true,
        place: VersionPlace {
            version: VERSION.to_owned(),
            group_priority: 100,
            version_priority: 100,
        },
        answer: Arc::new(connect),
    });
}

/// What all members tell about the pods that are asked for.
async fn measure(sims: &Sims, namespace: &str, label_selector: String) -> Vec<Value> {
    let members: Vec<_> =
        sims.lock().iter().map(|(name, sim)| (name.clone(), sim.network())).collect();
    let options = ListOptions { label_selector, ..ListOptions::default() };
    let mut items = Vec::new();
    for (cluster, network) in members {
        let adapter = Identity::new("system:metrics-adapter", ["system:masters"]);
        let client = Client::in_process(network.acting_as(adapter));
        let pods = client.api(&Gvr::new(GROUP, VERSION, "pods")).namespaced(namespace);
        let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, pods.list(&options)).await else {
            continue;
        };
        for item in list.items {
            let mut item = item.value();
            let place = ["metadata", "annotations", annotations::QUERY_FROM_CLUSTER];
            item.set(&place, cluster.as_str());
            items.push(item);
        }
    }
    items
}
