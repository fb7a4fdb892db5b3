//! The override policies there are, and the bindings a change of one of them concerns.

use std::borrow::Cow;
use std::sync::Arc;

use karmada_api::policy::{ClusterOverridePolicy, OverridePolicy, ResourceSelector};
use karmada_api::work::ObjectReference;
use karmada_api::{Binding, OverridingPolicy};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Object;
use karmada_propagation::overrides::{OverrideIndex, Overrides};
use karmada_propagation::selector::{Head, picks};
use karmada_runtime::{Change, Informer, Manager, ObjectKey, Queue};
use parking_lot::RwLock;

use crate::propagation::templates::{self, Kinds};

/// Index of bindings by the kind of their template.
const BY_KIND: &str = "template-kind";

/// The override policies of both scopes.
#[derive(Default)]
pub(super) struct Policies {
    cluster_scoped: RwLock<OverrideIndex>,
    namespaced: RwLock<OverrideIndex>,
}

impl Policies {
    /// The overrides that concern a template.
    pub(super) fn find(&self, template: &Value) -> Overrides {
        Overrides::find(&self.cluster_scoped.read(), &self.namespaced.read(), template)
    }
}

/// Follows the override policies and queues the bindings whose Works they change. Returns the
/// informers to wait for.
pub(super) fn follow<B: Binding>(
    manager: &Manager,
    kinds: &Arc<Kinds>,
    bindings: &Arc<Informer>,
    queue: &Queue<ObjectKey>,
) -> (Arc<Policies>, Vec<Arc<Informer>>) {
    bindings.cache().add_spec_index(BY_KIND, |binding| {
        let binding = binding.typed_for_now::<B>().ok();
        binding.iter().map(|binding| kind_term(&binding.spec().resource)).collect()
    });
    let policies = Arc::new(Policies::default());
    let wake = |namespaced| {
        let (kinds, bindings, queue) = (kinds.clone(), bindings.clone(), queue.clone());
        Wake::<B> { kinds, bindings, queue, namespaced, scope: std::marker::PhantomData }
    };
    let (own, waker) = (policies.clone(), wake(false));
    let cluster_scoped = informer::<ClusterOverridePolicy>(manager);
    manager.keep(cluster_scoped.subscribe(move |change| {
        note::<ClusterOverridePolicy>(&own.cluster_scoped, change);
        waker.on::<ClusterOverridePolicy>(change);
    }));
    let mut informers = vec![cluster_scoped];
    if B::NAMESPACED {
        let (own, waker) = (policies.clone(), wake(true));
        let namespaced = informer::<OverridePolicy>(manager);
        manager.keep(namespaced.subscribe(move |change| {
            note::<OverridePolicy>(&own.namespaced, change);
            waker.on::<OverridePolicy>(change);
        }));
        informers.push(namespaced);
    }
    (policies, informers)
}

fn informer<P: OverridingPolicy>(manager: &Manager) -> Arc<Informer> {
    manager.informers.all(&Gvr::new(P::GROUP, P::VERSION, P::PLURAL))
}

fn note<P: OverridingPolicy>(index: &RwLock<OverrideIndex>, change: &Change) {
    match change {
        Change::Applied { new, .. } => {
            if let Ok(policy) = new.typed::<P>() {
                index.write().insert(&*policy);
            }
        }
        Change::Deleted(policy) => index.write().remove(policy.namespace(), policy.name()),
    }
}

fn kind_term(resource: &ObjectReference) -> String {
    format!("{} {}", resource.api_version, resource.kind)
}

/// Queues the bindings that a policy changes.
struct Wake<B> {
    kinds: Arc<Kinds>,
    bindings: Arc<Informer>,
    queue: Queue<ObjectKey>,
    namespaced: bool,
    scope: std::marker::PhantomData<fn() -> B>,
}

impl<B: Binding> Wake<B> {
    fn on<P: OverridingPolicy>(&self, change: &Change) {
        if let Change::Applied { old: Some(old), new } = change
            && old.meta().generation == new.meta().generation
        {
            return;
        }
        // What the policy no longer selects must lose its overrides.
        let before = match change {
            Change::Applied { old, .. } => old.as_ref(),
            Change::Deleted(_) => None,
        };
        for policy in before.into_iter().chain([change.object()]) {
            if let Ok(parsed) = policy.typed::<P>() {
                self.touch(policy.namespace(), &parsed.spec().resource_selectors);
            }
        }
    }

    fn touch(&self, namespace: &str, selectors: &[ResourceSelector]) {
        let cache = self.bindings.cache();
        let candidates: Vec<Arc<Object>> = if !selectors.is_empty() {
            let kinds = selectors.iter().map(|s| format!("{} {}", s.api_version, s.kind));
            kinds.flat_map(|kind| cache.by_index(BY_KIND, &kind)).collect()
        } else if self.namespaced {
            cache.list_namespace(namespace)
        } else {
            cache.list()
        };
        for object in candidates {
            if self.namespaced && object.namespace() != namespace {
                continue;
            }
            let Ok(binding) = object.typed_for_now::<B>() else { continue };
            if selectors.is_empty() || self.is_selected(selectors, &binding.spec().resource) {
                self.queue.add(ObjectKey::of(&object));
            }
        }
    }

    fn is_selected(&self, selectors: &[ResourceSelector], resource: &ObjectReference) -> bool {
        let template = templates::cached(&self.kinds, resource);
        // Without its labels a template may be selected by any of them; looking at it costs little.
        let by_labels = |selector: &ResourceSelector| {
            selector.name.is_empty() && selector.label_selector.is_some()
        };
        let labels = template.as_ref().map(|template| &template.meta().labels);
        let head = Head {
            api_version: Cow::Borrowed(&resource.api_version),
            kind: &resource.kind,
            namespace: &resource.namespace,
            name: &resource.name,
            labels: match labels {
                Some(labels) => labels,
                None => &(),
            },
        };
        selectors.iter().any(|selector| {
            if labels.is_none() && by_labels(selector) {
                let mut any = selector.clone();
                any.label_selector = None;
                return picks(&any, &head).is_some();
            }
            picks(selector, &head).is_some()
        })
    }
}
