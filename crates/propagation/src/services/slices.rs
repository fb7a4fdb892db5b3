//! Endpoint slices on their way from one cluster to others: collected into a Work in the execution namespace of
//! their provider, from there to the consumers of a MultiClusterService or, for a ServiceExport, into the control
//! plane.

use std::collections::BTreeSet;

use karmada_api::meta::Labels;
use karmada_api::work::Work;
use karmada_api::{annotations, finalizers, labels, names};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};

use crate::work::{Change, work_of_its_own};

pub const ENDPOINT_SLICE: &str = "EndpointSlice";

/// On whose behalf slices are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collector {
    MultiClusterService,
    ServiceExport,
}

impl Collector {
    pub const ALL: [Self; 2] = [Self::MultiClusterService, Self::ServiceExport];

    pub fn name(self) -> &'static str {
        match self {
            Self::MultiClusterService => labels::MULTI_CLUSTER_SERVICE,
            Self::ServiceExport => labels::SERVICE_EXPORT,
        }
    }

    /// The labels by which a Work names the service: its namespace, its name.
    pub fn service_labels(self) -> [&'static str; 2] {
        match self {
            Self::MultiClusterService => {
                [labels::MULTI_CLUSTER_SERVICE_NAMESPACE, labels::MULTI_CLUSTER_SERVICE_NAME]
            }
            Self::ServiceExport => [labels::ENDPOINT_SLICE_NAMESPACE, labels::ENDPOINT_SLICE_NAME],
        }
    }

    /// Kept on a collected Work until what was made of it is gone.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::MultiClusterService => finalizers::ENDPOINT_SLICE_DISPATCH,
            Self::ServiceExport => finalizers::ENDPOINT_SLICE,
        }
    }
}

/// What is known of a slice in its own cluster.
#[derive(Debug, Clone, Copy)]
pub enum Slice<'a> {
    There(&'a Value),
    Gone,
    /// The cluster could not be asked.
    Unknown,
}

/// Whether a collector wants a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Wanted,
    Unwanted,
    /// Nobody knows now: it stays as it is.
    Unsaid,
}

/// What both collectors say about a slice.
#[derive(Debug, Clone, Copy)]
pub struct Claims {
    pub multi_cluster_service: Claim,
    pub service_export: Claim,
}

impl Claims {
    fn of(&self, collector: Collector) -> Claim {
        match collector {
            Collector::MultiClusterService => self.multi_cluster_service,
            Collector::ServiceExport => self.service_export,
        }
    }
}

/// What becomes of the Work of a slice.
#[derive(Debug, PartialEq)]
pub enum Collection {
    Keep(Change),
    Delete,
}

/// Decides about the Work of a slice. It goes when the slice is gone for sure or nobody wants it any more; a
/// cluster that cannot be asked loses nothing.
pub fn collect(
    cluster: &str,
    slice: Slice<'_>,
    claims: &Claims,
    existing: Option<&Work>,
) -> Collection {
    let held = existing.map(collectors_of).unwrap_or_default();
    if existing.is_some() && held.is_empty() {
        // A slice that somebody propagates has a Work of the same name.
        return Collection::Keep(Change::Nothing);
    }
    if existing.is_some_and(|work| work.metadata.deletion_timestamp.is_some()) {
        return Collection::Keep(Change::BeingDeleted);
    }
    let keeps = |collector: &Collector| match claims.of(*collector) {
        Claim::Wanted => true,
        Claim::Unwanted => false,
        Claim::Unsaid => held.contains(collector),
    };
    let kept: BTreeSet<Collector> = Collector::ALL.into_iter().filter(keeps).collect();
    match (slice, existing) {
        (Slice::Gone, Some(_)) => Collection::Delete,
        (_, Some(_)) if kept.is_empty() => Collection::Delete,
        (Slice::There(slice), existing) if !kept.is_empty() => {
            Collection::Keep(renew(cluster, slice, &kept, existing))
        }
        (Slice::Unknown, Some(existing)) => {
            let mut updated = existing.clone();
            note_collectors(&mut updated.metadata.labels, &kept, None);
            Collection::Keep(update(existing, updated))
        }
        _ => Collection::Keep(Change::Nothing),
    }
}

/// Who has a Work collected; nobody if it is not a collected one.
pub fn collectors_of(work: &Work) -> BTreeSet<Collector> {
    if work.metadata.annotations.contains_key(annotations::PROVISION_CLUSTER) {
        return BTreeSet::new();
    }
    let names_service = |collector: &Collector| {
        let [_, name] = collector.service_labels();
        work.metadata.labels.contains_key(name)
    };
    Collector::ALL.into_iter().filter(names_service).collect()
}

fn renew(
    cluster: &str,
    slice: &Value,
    kept: &BTreeSet<Collector>,
    existing: Option<&Work>,
) -> Change {
    let mut desired = work_of_its_own(slice.clone(), slice.uid(), cluster, existing);
    desired.spec.suspend_dispatching = Some(true);
    desired.metadata.finalizers = kept.iter().map(|c| c.finalizer().to_owned()).collect();
    let service = slice.label(labels::SLICE_SERVICE_NAME).unwrap_or_default();
    let service = Some((slice.namespace(), service));
    let Some(existing) = existing else {
        note_collectors(&mut desired.metadata.labels, kept, service);
        return Change::Create(Box::new(desired));
    };
    let mut updated = existing.clone();
    note_collectors(&mut updated.metadata.labels, kept, service);
    for finalizer in desired.metadata.finalizers {
        // Those of collectors that left are taken off by who cleans up after them.
        if !updated.metadata.finalizers.contains(&finalizer) {
            updated.metadata.finalizers.push(finalizer);
        }
    }
    updated.spec = desired.spec;
    update(existing, updated)
}

fn update(existing: &Work, updated: Work) -> Change {
    if updated == *existing { Change::Nothing } else { Change::Update(Box::new(updated)) }
}

/// Makes labels say for whom a slice is collected, and of which service it is if that is known.
fn note_collectors(
    labels: &mut Labels,
    collectors: &BTreeSet<Collector>,
    service: Option<(&str, &str)>,
) {
    for collector in Collector::ALL {
        let [namespace, name] = collector.service_labels();
        match service {
            _ if !collectors.contains(&collector) => {
                labels.remove(namespace);
                labels.remove(name);
            }
            Some(service) => {
                labels.insert(namespace.to_owned(), service.0.to_owned());
                labels.insert(name.to_owned(), service.1.to_owned());
            }
            None => {}
        }
    }
    // Compat: the original joins them in any order.
    let wanted: BTreeSet<&str> = collectors.iter().map(|collector| collector.name()).collect();
    let noted = labels.get(labels::ENDPOINT_SLICE_WORK_MANAGED_BY).map(String::as_str);
    if noted.unwrap_or_default().split('.').collect::<BTreeSet<_>>() != wanted {
        let joined = wanted.into_iter().collect::<Vec<_>>().join(".");
        labels.insert(labels::ENDPOINT_SLICE_WORK_MANAGED_BY.to_owned(), joined);
    }
}

/// The slice a collected Work is about.
pub fn slice_of(work: &Work) -> Option<&Value> {
    work.spec.workload.manifests.iter().find(|manifest| manifest.kind() == ENDPOINT_SLICE)
}

/// The Work that brings a collected slice to a consumer of a MultiClusterService.
pub fn dispatched_work(
    slice: &Value,
    service: &str,
    provider: &str,
    consumer: &str,
    existing: Option<&Work>,
) -> Work {
    let mut object = slice.clone();
    let name = names::dispatched_endpoint_slice(provider, slice.name());
    // What the provider noted on its slice says nothing in another cluster.
    object.set(
        &["metadata"],
        json!({
            "name": name,
            "namespace": slice.namespace(),
            "labels": {
                labels::SLICE_SERVICE_NAME: service,
                labels::SLICE_MANAGED_BY: labels::SLICE_MANAGED_BY_DISPATCH,
            },
            "annotations": {annotations::PROVISION_CLUSTER: provider},
        }),
    );
    let mut work = work_of_its_own(object, "", consumer, existing);
    let marks = &mut work.metadata;
    marks.annotations.insert(annotations::PROVISION_CLUSTER.to_owned(), provider.to_owned());
    let [namespace_label, name_label] = Collector::MultiClusterService.service_labels();
    marks.labels.insert(namespace_label.to_owned(), slice.namespace().to_owned());
    marks.labels.insert(name_label.to_owned(), service.to_owned());
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Claims =
        Claims { multi_cluster_service: Claim::Unwanted, service_export: Claim::Unwanted };
    const SERVICE: Claims = Claims { multi_cluster_service: Claim::Wanted, ..NONE };
    const EXPORT: Claims = Claims { service_export: Claim::Wanted, ..NONE };
    const BOTH: Claims = Claims { service_export: Claim::Wanted, ..SERVICE };
    const UNSAID: Claims =
        Claims { multi_cluster_service: Claim::Unsaid, service_export: Claim::Unsaid };

    fn slice(address: &str) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-x", "namespace": "ns", "uid": "s", "resourceVersion": "3",
                "labels": {"kubernetes.io/service-name": "web"}, "annotations": {"t": "1"},
                "ownerReferences": [{"kind": "Service", "name": "web"}]},
            "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}],
        })
    }

    fn collected(claims: &Claims) -> Work {
        match collect("m1", Slice::There(&slice("10.0.0.1")), claims, None) {
            Collection::Keep(Change::Create(work)) => *work,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_collected_slice_says_for_whom_it_is() {
        let cases = [
            (SERVICE, "MultiClusterService", vec![finalizers::ENDPOINT_SLICE_DISPATCH]),
            (EXPORT, "ServiceExport", vec![finalizers::ENDPOINT_SLICE]),
            (
                BOTH,
                "MultiClusterService.ServiceExport",
                vec![finalizers::ENDPOINT_SLICE_DISPATCH, finalizers::ENDPOINT_SLICE],
            ),
        ];
        for (claims, managed_by, finalizers) in cases {
            let work = collected(&claims);
            assert_eq!(work.metadata.name, names::work("EndpointSlice", "web-x", "ns"));
            assert_eq!(work.metadata.namespace, "karmada-es-m1");
            assert_eq!(work.metadata.labels[labels::ENDPOINT_SLICE_WORK_MANAGED_BY], managed_by);
            assert_eq!(work.metadata.finalizers, finalizers);
            assert_eq!(work.spec.suspend_dispatching, Some(true));
            for collector in collectors_of(&work) {
                let [namespace, name] = collector.service_labels();
                assert_eq!(work.metadata.labels[namespace], "ns");
                assert_eq!(work.metadata.labels[name], "web");
            }
        }
        let none = collect("m1", Slice::There(&slice("10.0.0.1")), &NONE, None);
        assert_eq!(none, Collection::Keep(Change::Nothing));
    }

    #[test]
    fn a_collected_slice_goes_when_it_is_gone_or_unwanted_and_not_on_doubt() {
        #[derive(Debug, PartialEq)]
        enum Fate {
            Stays,
            Goes,
            For(Vec<Collector>),
        }
        use Collector::{MultiClusterService, ServiceExport};
        let (there, work) = (slice("10.0.0.1"), collected(&BOTH));
        let cases = [
            ("still wanted", Slice::There(&there), BOTH, Fate::Stays),
            ("gone", Slice::Gone, BOTH, Fate::Goes),
            ("gone, and nobody says more", Slice::Gone, UNSAID, Fate::Goes),
            ("unwanted", Slice::There(&there), NONE, Fate::Goes),
            ("unwanted in a silent cluster", Slice::Unknown, NONE, Fate::Goes),
            ("a silent cluster", Slice::Unknown, BOTH, Fate::Stays),
            ("nobody says anything", Slice::Unknown, UNSAID, Fate::Stays),
            ("one leaves", Slice::There(&there), SERVICE, Fate::For(vec![MultiClusterService])),
            ("one leaves a silent cluster", Slice::Unknown, EXPORT, Fate::For(vec![ServiceExport])),
        ];
        for (title, slice, claims, expected) in cases {
            let fate = match collect("m1", slice, &claims, Some(&work)) {
                Collection::Delete => Fate::Goes,
                Collection::Keep(Change::Nothing) => Fate::Stays,
                Collection::Keep(Change::Update(work)) => {
                    assert_eq!(
                        work.metadata.finalizers.len(),
                        2,
                        "{title}: who cleans up drops it"
                    );
                    Fate::For(collectors_of(&work).into_iter().collect())
                }
                other => panic!("{title}: {other:?}"),
            };
            assert_eq!(fate, expected, "{title}");
        }
    }

    #[test]
    fn a_work_of_somebody_else_under_the_name_is_left_alone() {
        let mut own = collected(&SERVICE);
        own.metadata.labels.clear();
        let mut dispatched = collected(&SERVICE);
        let provider = (annotations::PROVISION_CLUSTER.to_owned(), "m2".to_owned());
        dispatched.metadata.annotations.extend([provider]);
        for existing in [own, dispatched] {
            for slice in [Slice::There(&slice("10.0.0.9")), Slice::Gone, Slice::Unknown] {
                let fate = collect("m1", slice, &SERVICE, Some(&existing));
                assert_eq!(fate, Collection::Keep(Change::Nothing));
            }
        }
    }

    #[test]
    fn the_order_in_which_the_original_names_collectors_is_no_reason_to_write() {
        let mut work = collected(&BOTH);
        let other_order = "ServiceExport.MultiClusterService".to_owned();
        let managed_by = labels::ENDPOINT_SLICE_WORK_MANAGED_BY.to_owned();
        work.metadata.labels.insert(managed_by, other_order);
        let fate = collect("m1", Slice::There(&slice("10.0.0.1")), &BOTH, Some(&work));
        assert_eq!(fate, Collection::Keep(Change::Nothing));
        let fate = collect("m1", Slice::There(&slice("10.0.0.2")), &BOTH, Some(&work));
        let Collection::Keep(Change::Update(updated)) = fate else { panic!("{fate:?}") };
        assert_eq!(updated.metadata, work.metadata);
    }

    #[test]
    fn a_dispatched_slice_names_its_provider_and_nothing_of_it_is_left_over() {
        let source = collected(&SERVICE);
        let work = dispatched_work(slice_of(&source).unwrap(), "web", "m1", "m2", None);
        let shown = karmada_apimachinery::to_value(&work).unwrap();
        assert_eq!(
            shown["metadata"],
            json!({
                "name": names::dispatched_endpoint_slice_work("m1", "web-x", "ns"),
                "namespace": "karmada-es-m2",
                "finalizers": ["karmada.io/execution-controller"],
                "labels": {
                    "multiclusterservice.karmada.io/namespace": "ns",
                    "multiclusterservice.karmada.io/name": "web",
                },
                "annotations": {"endpointslice.karmada.io/provision-cluster": "m1"},
            })
        );
        let manifest = &shown["spec"]["workload"]["manifests"][0];
        assert_eq!(manifest.name(), "m1-web-x");
        assert_eq!(
            manifest["metadata"]["labels"],
            json!({
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
                "karmada.io/managed": "true",
            })
        );
        assert_eq!(manifest.annotation("endpointslice.karmada.io/provision-cluster"), Some("m1"));
        assert_eq!(manifest.annotation("t"), None);
        assert_eq!(manifest["endpoints"], slice("10.0.0.1")["endpoints"]);
        assert_eq!(shown["spec"]["suspendDispatching"], Value::Null);
    }
}
