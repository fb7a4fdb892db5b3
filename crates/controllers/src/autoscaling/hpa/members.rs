//! What the clusters have of a workload: its replicas and its pods. A cluster that cannot be asked is left
//! out; the others speak for it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use karmada_api::core::ResourceList;
use karmada_api::event_reason;
use karmada_api::wire::Time;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::selector::LabelSelector;
use karmada_client::Object;
use karmada_runtime::{Informer, chain};
use serde::Deserialize;
use tokio::time::timeout;

use super::replicas::{Container, Pod, PodId, Ready};
use crate::autoscaling::target::Scale;
use crate::members::{Members, Unreachable};

/// How long a cluster may take to answer before it is left out this time.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    #[error("read the scale")]
    Scale(#[source] karmada_client::Error),
}

/// What all clusters that answered have together.
#[derive(Default)]
pub(super) struct Gathered {
    /// Replicas that they have been given, and that exist.
    pub(super) assigned: i32,
    pub(super) running: i32,
    /// How the pods are found.
    pub(super) selector: Option<LabelSelector>,
    pub(super) pods: Vec<Pod>,
    /// The pods as the clusters show them.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// Asks all clusters at once.
pub(super) async fn gather(
    members: &Members,
    clusters: &[String],
    gvr: &Gvr,
    namespace: &str,
    name: &str,
) -> Gathered {
    let asked = clusters.iter().map(|cluster| ask(members, cluster, gvr, namespace, name));
    let mut gathered = Gathered::default();
    for (cluster, answer) in clusters.iter().zip(join_all(asked).await) {
        match answer {
            Ok((scale, pods)) => gathered.add(cluster, &scale, &pods, namespace),
            Err(error) => tracing::debug!(cluster, error = chain(&error), "cluster left out"),
        }
    }
    gathered
}

async fn ask(
    members: &Members,
    cluster: &str,
    gvr: &Gvr,
    namespace: &str,
    name: &str,
) -> Result<(Scale, Arc<Informer>), Error> {
    let member = members.get(cluster)?;
    let pods = member.informers.all(&Gvr::new("", "v1", "pods"));
    let api = member.client.api(gvr).namespaced(namespace);
    let answer = timeout(PATIENCE, async {
        pods.wait_synced().await;
        Scale::read(&api, name).await
    });
    let scale = answer.await.map_err(|_| Error::Late)?.map_err(Error::Scale)?;
    Ok((scale, pods))
}

impl Gathered {
    fn add(&mut self, cluster: &str, scale: &Scale, pods: &Informer, namespace: &str) {
        self.assigned = self.assigned.saturating_add(scale.wanted());
        self.running = self.running.saturating_add(scale.running());
        let selector = match LabelSelector::parse(scale.selector()) {
            Ok(_) if scale.selector().is_empty() => {
                let said = format!("the scale in {cluster} says no selector");
                return self.warnings.push((event_reason::SELECTOR_REQUIRED, said));
            }
            Ok(selector) => selector,
            Err(problem) => {
                let said = format!("the selector of the scale in {cluster}: {problem}");
                return self.warnings.push((event_reason::INVALID_SELECTOR, said));
            }
        };
        for object in pods.cache().list_namespace(namespace) {
            if selector.matches_map(&object.meta().labels) {
                self.pods.push(read_pod(cluster, &object));
                self.objects.push(object);
            }
        }
        self.selector.get_or_insert(selector);
    }
}

/// What is read of a pod.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PodView {
    spec: SpecView,
    status: StatusView,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpecView {
    containers: Vec<ContainerView>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerView {
    name: String,
    resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StatusView {
    phase: String,
    start_time: Option<Time>,
    conditions: Vec<ConditionView>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ConditionView {
    r#type: String,
    status: String,
    last_transition_time: Option<Time>,
}

fn read_pod(cluster: &str, object: &Object) -> Pod {
    let view: PodView = object.text().with(|text| serde_json::from_slice(text)).unwrap_or_default();
    let ready = view.status.conditions.into_iter().find(|condition| condition.r#type == "Ready");
    let container =
        |own: ContainerView| Container { name: own.name, requests: own.resources.requests };
    Pod {
        id: PodId { cluster: cluster.to_owned(), name: object.name().to_owned() },
        phase: view.status.phase,
        is_leaving: object.is_being_deleted(),
        started: view.status.start_time.map(|time| time.0),
        ready: ready.map(|condition| Ready {
            status: condition.status,
            since: condition.last_transition_time.map(|time| time.0).unwrap_or_default(),
        }),
        containers: view.spec.containers.into_iter().map(container).collect(),
    }
}
