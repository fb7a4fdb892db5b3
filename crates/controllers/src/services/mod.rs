//! Services across clusters: pods of one cluster serve those of another.
//!
//! | module | what it keeps true |
//! |---|---|
//! | [`multi_cluster_service`] | the service is where its providers and consumers are, and its slices are wanted from the providers |
//! | [`collection`] | slices that are wanted stand in Works in the execution namespace of the cluster that has them |
//! | [`endpoint_slice_dispatch`] | slices collected for a MultiClusterService reach its consumers |
//! | [`endpoint_slice`] | slices collected for a ServiceExport are shown in the control plane |
//! | [`service_import`] | a service stands for every ServiceImport, and goes where that goes |

pub(crate) mod collection;
pub(crate) mod endpoint_slice;
pub(crate) mod endpoint_slice_dispatch;
pub(crate) mod multi_cluster_service;
pub(crate) mod service_import;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::{ApiEnablementStatus, Cluster};
use karmada_api::meta::{Condition, set_condition};
use karmada_api::networking::MultiClusterService;
use karmada_api::wire::Time;
use karmada_api::{Kind, annotations, event_reason, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_client::{Client, Object, Patch, PatchOptions};
use karmada_propagation::services::slices::{Collector, ENDPOINT_SLICE};
use karmada_runtime::{Informer, Manager, ObjectKey, Recorder};

use crate::propagation::works::{self, ManifestHead};

/// When to look again after somebody else was faster; the caches show by then what came of it.
const AGAIN: Duration = Duration::from_millis(20);

/// Index of Works by the MultiClusterService they name.
const BY_SERVICE: &str = "multi-cluster-service";
/// Index of Works by execution namespace and the service they name.
const BY_PLACE: &str = "service-in-cluster";
/// Index of dispatched Works by the collected Work they were made of.
const BY_SOURCE: &str = "collected-work";

const SLICE_VERSION: &str = "discovery.k8s.io/v1";

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

fn slices() -> Gvr {
    Gvr::new("discovery.k8s.io", "v1", "endpointslices")
}

/// The informer of Works, indexed by what they have to do with services.
fn works_of_services(manager: &Manager) -> Arc<Informer> {
    let works = works::informer(manager);
    works.cache().add_index(BY_SERVICE, |work| {
        let service = named_service(work, Collector::MultiClusterService);
        service.map(|service| service.to_string()).into_iter().collect()
    });
    works.cache().add_index(BY_PLACE, |work| {
        let named = Collector::ALL.into_iter().filter_map(|by| named_service(work, by));
        let places: BTreeSet<_> = named.map(|service| place(work.namespace(), &service)).collect();
        places.into_iter().collect()
    });
    works.cache().add_index(BY_SOURCE, |work| {
        source_of(work).map(|source| source.to_string()).into_iter().collect()
    });
    works
}

/// A service in the cluster of an execution namespace, as [`BY_PLACE`] spells it.
fn place(space: &str, service: &ObjectKey) -> String {
    format!("{space} {service}")
}

/// The service a Work names on behalf of a collector.
fn named_service(work: &Object, collector: Collector) -> Option<ObjectKey> {
    let [namespace, name] = collector.service_labels();
    let labels = &work.meta().labels;
    Some(ObjectKey::new(labels.get(namespace)?, labels.get(name)?))
}

/// What a Work has to do with a service.
#[derive(Debug, Clone, PartialEq)]
enum Role {
    /// It tells a provider that the slices of the service are wanted.
    Service,
    /// It holds a slice of the cluster it stands for.
    Collected { slice: ObjectKey },
    /// It brings a slice of the provider to the cluster it stands for.
    Dispatched { provider: String, slice: ObjectKey },
}

/// The part a Work plays; none if it names no service.
fn role_of(work: &Object) -> Option<Role> {
    Collector::ALL.into_iter().find_map(|collector| named_service(work, collector))?;
    let view = works::view(work).ok()?;
    let manifests = &view.spec.workload.manifests;
    if manifests.iter().any(|head| head.kind == MultiClusterService::KIND) {
        return Some(Role::Service);
    }
    let head = manifests.iter().find(|head| is_slice(head))?;
    let Some(provider) = work.meta().annotations.get(annotations::PROVISION_CLUSTER) else {
        return Some(Role::Collected { slice: head.key() });
    };
    let prefix = names::dispatched_endpoint_slice(provider, "");
    let name = head.metadata.name.strip_prefix(&prefix)?;
    let slice = ObjectKey::new(head.metadata.namespace.as_str(), name);
    Some(Role::Dispatched { provider: provider.to_owned(), slice })
}

fn is_slice(head: &ManifestHead) -> bool {
    head.kind == ENDPOINT_SLICE && head.api_version == SLICE_VERSION
}

/// The collected Work a dispatched one was made of, whatever the latter is called.
fn source_of(work: &Object) -> Option<ObjectKey> {
    work.meta().annotations.get(annotations::PROVISION_CLUSTER)?;
    match role_of(work)? {
        Role::Dispatched { provider, slice } => Some(collected_key(&provider, &slice)),
        _ => None,
    }
}

/// Where the Work of a slice stands that was collected in a cluster.
fn collected_key(cluster: &str, slice: &ObjectKey) -> ObjectKey {
    let name = names::work(ENDPOINT_SLICE, &slice.name, &slice.namespace);
    ObjectKey::new(names::execution_space(cluster), name)
}

/// Whether a cluster can take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Missing,
    NotReady,
    WithoutSlices,
    Fit,
}

fn standing(cluster: Option<&Object>) -> Standing {
    let Some(Ok(cluster)) = cluster.map(Object::typed::<Cluster>) else { return Standing::Missing };
    if !cluster.is_ready() {
        return Standing::NotReady;
    }
    match cluster.api_enablement(SLICE_VERSION, ENDPOINT_SLICE) {
        ApiEnablementStatus::Enabled => Standing::Fit,
        _ => Standing::WithoutSlices,
    }
}

fn standing_in(clusters: &Informer, name: &str) -> Standing {
    standing(clusters.cache().get(&ObjectKey::cluster(name)).as_deref())
}

fn all_clusters(clusters: &Informer) -> BTreeSet<String> {
    clusters.cache().keys().into_iter().map(|key| key.name.into()).collect()
}

/// Tells which clusters cannot take part, and why: the part they would play, and what they would be sent.
fn tell_skipped(
    events: &Recorder,
    service: &Object,
    skipped: &[(String, Standing)],
    (part, cargo): (&str, &str),
) {
    for (cluster, why) in skipped {
        let cluster = format!("{part} cluster {cluster}");
        let (reason, note) = match why {
            Standing::Missing => {
                (event_reason::CLUSTER_NOT_FOUND, format!("{cluster} is not found"))
            }
            Standing::NotReady => (
                event_reason::SYNC_SERVICE_FAILED,
                format!("{cluster} is not ready, skip to propagate {cargo}"),
            ),
            Standing::WithoutSlices => (
                event_reason::API_INCOMPATIBLE,
                format!("{cluster} does not support {ENDPOINT_SLICE}"),
            ),
            Standing::Fit => continue,
        };
        events.warning(service, reason, note);
    }
}

/// Takes a finalizer off a Work, if it is there.
async fn drop_finalizer(
    client: &Client,
    work: &Object,
    finalizer: &str,
) -> karmada_client::Result<()> {
    let finalizers = work.meta().finalizers.iter();
    let kept: Vec<_> = finalizers.filter(|name| *name != finalizer).collect();
    if kept.len() == work.meta().finalizers.len() {
        return Ok(());
    }
    // The version makes sure that no finalizer added meanwhile is lost.
    let patch = json!({"metadata": {
        "resourceVersion": work.resource_version(), "finalizers": kept}});
    let api = client.api(&works::gvr()).namespaced(work.namespace());
    match api.merge_patch(work.name(), patch).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Sets a condition of a MultiClusterService, unless it says so already or has changed since it was
/// read.
async fn write_condition(
    client: &Client,
    object: &Object,
    condition: Condition,
    now: Time,
) -> karmada_client::Result<()> {
    let Ok(service) = object.typed::<MultiClusterService>() else { return Ok(()) };
    let mut conditions = service.status.conditions.clone();
    if !set_condition(&mut conditions, condition, now) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "status": {"conditions": conditions},
    }));
    let api = client.api(&gvr::<MultiClusterService>()).namespaced(object.namespace());
    match api.patch_subresource(object.name(), "status", &patch, &PatchOptions::default()).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn condition(kind: &str, is_true: bool, reason: &str, message: &str) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    }
}

/// An error with all its causes, for conditions and events.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::Value;

    use super::*;

    fn work(labels: Value, annotations: Value, kind: &str, name: &str) -> Object {
        let version = if kind == ENDPOINT_SLICE { SLICE_VERSION } else { "v1" };
        let value = json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "w", "namespace": "karmada-es-m2", "labels": labels,
                "annotations": annotations},
            "spec": {"workload": {"manifests": [{"apiVersion": version, "kind": kind,
                "metadata": {"namespace": "ns", "name": name}}]}},
        });
        Object::from_value(&value).unwrap()
    }

    #[test]
    fn works_are_known_by_what_they_hold_and_not_by_their_names() {
        let service = json!({"multiclusterservice.karmada.io/namespace": "ns",
            "multiclusterservice.karmada.io/name": "web"});
        let export = json!({"endpointslice.karmada.io/namespace": "ns",
            "endpointslice.karmada.io/name": "web"});
        let from_m1 = json!({"endpointslice.karmada.io/provision-cluster": "m1"});
        let collected = || Some(Role::Collected { slice: ObjectKey::new("ns", "web-x") });
        let slice = ObjectKey::new("ns", "web-x");
        let dispatched = Some(Role::Dispatched { provider: "m1".to_owned(), slice });
        let cases = [
            (
                work(service.clone(), json!({}), MultiClusterService::KIND, "web"),
                Some(Role::Service),
            ),
            (work(service.clone(), json!({}), ENDPOINT_SLICE, "web-x"), collected()),
            (work(export, json!({}), ENDPOINT_SLICE, "web-x"), collected()),
            (work(service.clone(), from_m1.clone(), ENDPOINT_SLICE, "m1-web-x"), dispatched),
            (work(service.clone(), from_m1.clone(), ENDPOINT_SLICE, "web-x"), None),
            (work(json!({}), json!({}), ENDPOINT_SLICE, "web-x"), None),
            (work(service.clone(), json!({}), "ConfigMap", "web"), None),
        ];
        for (work, expected) in &cases {
            assert_eq!(role_of(work), *expected);
        }
        let source = source_of(&work(service, from_m1, ENDPOINT_SLICE, "m1-web-x"));
        assert_eq!(source, Some(collected_key("m1", &ObjectKey::new("ns", "web-x"))));
    }

    #[test]
    fn a_cluster_takes_part_if_it_is_ready_and_knows_slices() {
        let cluster = |ready: &str, kind: &str| {
            let value = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "m1"},
                "status": {
                    "conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": ""}],
                    "apiEnablements": [{"groupVersion": "discovery.k8s.io/v1",
                        "resources": [{"name": "r", "kind": kind}]}],
                },
            });
            Object::from_value(&value).unwrap()
        };
        assert_eq!(standing(None), Standing::Missing);
        assert_eq!(standing(Some(&cluster("Unknown", ENDPOINT_SLICE))), Standing::NotReady);
        assert_eq!(standing(Some(&cluster("True", "Other"))), Standing::WithoutSlices);
        assert_eq!(standing(Some(&cluster("True", ENDPOINT_SLICE))), Standing::Fit);
    }
}
