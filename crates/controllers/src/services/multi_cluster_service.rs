//! Serves MultiClusterServices of type CrossCluster: takes the Service of the same name from whatever policy held it,
//! binds it to providers and consumers, and leaves a Work with every provider that asks for its slices. What
//! happens to the slices is the business of `collection` and `endpoint_slice_dispatch`.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::conditions::multi_cluster_service::{SERVICE_APPLIED, reason};
use karmada_api::features::Gate;
use karmada_api::meta::Kind as _;
use karmada_api::networking::MultiClusterService;
use karmada_api::work::{ResourceBinding, Work};
use karmada_api::{annotations, event_reason, finalizers, labels, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, Object};
use karmada_propagation::binding::ForeignOwner;
use karmada_propagation::services::slices::{self, Claim, Claims, Collector, Slice};
use karmada_propagation::services::{self, clusters_of};
use karmada_propagation::work;
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Queue, Recorder};
use parking_lot::Mutex;

use super::{
    AGAIN, BY_SERVICE, Role, Standing, all_clusters, chain, condition, gvr, named_service, role_of,
    standing, standing_in, tell_skipped, works_of_services, write_condition,
};
use crate::context::Context;
use crate::propagation::detector::matters;
use crate::propagation::works;

const NAME: &str = "multiclusterservice-controller";
const APPLIED: &str = "Service is propagated to target clusters.";

/// Index of MultiClusterServices by the clusters they name; [`ALL`] for those that name none.
const BY_CLUSTER: &str = "service-clusters";
/// No cluster has this name.
const ALL: &str = "*";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the service, its binding or its works")]
    Decode(#[from] serde_json::Error),
    #[error("write the work for cluster {cluster}")]
    WriteWork { cluster: String, source: works::WriteError },
    #[error("delete the work {work}")]
    DeleteWork { work: ObjectKey, source: karmada_client::Error },
    #[error("change the finalizer")]
    Finalizer(#[source] karmada_client::Error),
    #[error("claim the service")]
    Claim(#[source] karmada_client::Error),
    #[error(transparent)]
    ForeignOwner(#[from] ForeignOwner),
    #[error("write the binding of the service")]
    Bind(#[source] karmada_client::Error),
    #[error("release the service")]
    Release(#[source] karmada_client::Error),
    #[error("write the status")]
    Status(#[source] karmada_client::Error),
}

impl Error {
    /// Whether somebody else was faster: another look at the caches is all it takes.
    fn is_lost_race(&self) -> bool {
        match self {
            Self::WriteWork { source, .. } => source.is_lost_race(),
            Self::Finalizer(error)
            | Self::Claim(error)
            | Self::Bind(error)
            | Self::Release(error)
            | Self::Status(error) => error.is_conflict() || error.is_already_exists(),
            _ => false,
        }
    }
}

struct Ctx {
    client: Client,
    clock: Clock,
    events: Recorder,
    services: Arc<Informer>,
    templates: Arc<Informer>,
    bindings: Arc<Informer>,
    works: Arc<Informer>,
    clusters: Arc<Informer>,
    /// Services about which there is something to tell even if nothing has to be written. After a restart there
    /// is nothing.
    touched: Mutex<HashSet<ObjectKey>>,
    /// Services whose template changed, which the binding has to say.
    edited: Mutex<HashSet<ObjectKey>>,
}

fn templates() -> Gvr {
    Gvr::new("", "v1", "services")
}

/// The informer of MultiClusterServices, indexed by cluster.
pub(super) fn informer(context: &Context) -> Arc<Informer> {
    let services = context.informers.all(&gvr::<MultiClusterService>());
    services.cache().add_index(BY_CLUSTER, |service| {
        let Ok(service) = service.typed::<MultiClusterService>() else { return Vec::new() };
        let named = [&service.spec.provider_clusters, &service.spec.consumer_clusters];
        let names = named.iter().copied().flatten().map(|cluster| cluster.name.clone());
        let all = named.iter().any(|clusters| clusters.is_empty()).then(|| ALL.to_owned());
        names.chain(all).collect::<BTreeSet<_>>().into_iter().collect()
    });
    services
}

/// The MultiClusterServices a cluster has to do with.
pub(super) fn services_in(services: &Informer, cluster: &str) -> Vec<Arc<Object>> {
    let terms = [cluster, ALL];
    terms.iter().flat_map(|term| services.cache().by_index(BY_CLUSTER, term)).collect()
}

/// Whether a change of a Cluster is one of what it can take part in.
pub(super) fn changes_standing(change: &Change) -> bool {
    match change {
        Change::Applied { old: Some(old), new } => standing(Some(old)) != standing(Some(new)),
        _ => true,
    }
}

pub(crate) fn start(context: &Context) {
    if !context.gates.is_on(Gate::MultiClusterService) {
        return;
    }
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.recorder(NAME),
        services: informer(context),
        templates: context.informers.all(&templates()),
        bindings: context.informers.all(&gvr::<ResourceBinding>()),
        works: works_of_services(context),
        clusters: context.informers.all(&gvr::<Cluster>()),
        touched: Mutex::default(),
        edited: Mutex::default(),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.services.subscribe(move |change| own.on_service(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.templates.subscribe(move |change| own.on_template(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.clusters.subscribe(move |change| {
        if changes_standing(change) {
            for service in services_in(&own.services, change.object().name()) {
                own.touch(&own.clusters, ObjectKey::of(&service), &queue);
            }
        }
    }));
    let queue = controller.queue().clone();
    context.keep(ctx.bindings.subscribe(move |change| {
        let Change::Deleted(binding) = change else { return };
        let marks = &binding.meta().annotations;
        if let Some(name) = marks.get(annotations::MULTI_CLUSTER_SERVICE_NAME) {
            queue.add(ObjectKey::new(binding.namespace(), name));
        }
    }));
    let queue = controller.queue().clone();
    // Works that are found at the start may be of a service that went while nobody looked.
    context.keep(ctx.works.subscribe(move |change| {
        let is_news = !matches!(change, Change::Applied { old: Some(_), .. });
        let service = named_service(change.object(), Collector::MultiClusterService);
        if let Some(service) = service.filter(|_| is_news) {
            queue.add(service);
        }
    }));
    let inputs = [&ctx.services, &ctx.templates, &ctx.bindings, &ctx.works, &ctx.clusters];
    let inputs = inputs.map(Arc::clone).to_vec();
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.services.cache().get(&key);
    let service = object.as_ref().map(|o| o.typed::<MultiClusterService>()).transpose()?;
    let is_served = |service: &Arc<MultiClusterService>| {
        service.metadata.deletion_timestamp.is_none() && services::is_cross_cluster(service)
    };
    let result = match (&object, service.filter(is_served)) {
        (Some(object), Some(service)) => ctx.serve(&key, object, &service).await,
        (object, _) => ctx.retire(&key, object.as_deref()).await,
    };
    match result {
        Err(error) if error.is_lost_race() => Ok(Action::Requeue(AGAIN)),
        done => done.map(|()| Action::AwaitChange),
    }
}

/// What is to be done about the Works of a service.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// Providers that can be asked for slices.
    ask: Vec<String>,
    /// Providers that cannot, and why.
    skipped: Vec<(String, Standing)>,
    /// Works that ask a cluster which is no provider any more.
    withdraw: Vec<ObjectKey>,
    /// Works with slices that nobody asks for any more.
    release: Vec<ObjectKey>,
}

/// Providers that cannot be reached keep what they have: their slices may be the only ones there are.
fn plan<'a>(
    providers: &BTreeSet<String>,
    standing: impl Fn(&str) -> Standing,
    works: impl Iterator<Item = (&'a Object, Role)>,
) -> Plan {
    let mut plan = Plan::default();
    for provider in providers {
        match standing(provider) {
            Standing::Fit => plan.ask.push(provider.clone()),
            why => plan.skipped.push((provider.clone(), why)),
        }
    }
    for (work, role) in works {
        let cluster = names::cluster_of_execution_space(work.namespace()).unwrap_or_default();
        if providers.contains(cluster) {
            continue;
        }
        match role {
            Role::Service => plan.withdraw.push(ObjectKey::of(work)),
            Role::Collected { .. } => plan.release.push(ObjectKey::of(work)),
            Role::Dispatched { .. } => {}
        }
    }
    plan
}

impl Ctx {
    /// Queues a service, about which there is something to tell if its cause is news.
    fn touch(&self, cause: &Informer, service: ObjectKey, queue: &Queue<ObjectKey>) {
        if cause.is_synced() {
            self.touched.lock().insert(service.clone());
        }
        queue.add(service);
    }

    fn on_service(&self, change: &Change, queue: &Queue<ObjectKey>) {
        match change {
            Change::Applied { old: Some(old), new } if !matters(old, new) => {}
            Change::Applied { new, .. } => self.touch(&self.services, ObjectKey::of(new), queue),
            Change::Deleted(service) => queue.add(ObjectKey::of(service)),
        }
    }

    fn on_template(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let template = change.object();
        let key = ObjectKey::of(template);
        // A claim is looked at even if whoever made it is gone.
        if self.services.cache().get(&key).is_none() && !is_claimed(template) {
            return;
        }
        match change {
            Change::Applied { old: Some(old), new } if !matters(old, new) => return,
            Change::Applied { old: Some(_), .. } => drop(self.edited.lock().insert(key.clone())),
            _ => {}
        }
        self.touch(&self.templates, key, queue);
    }

    async fn serve(
        &self,
        key: &ObjectKey,
        object: &Object,
        service: &MultiClusterService,
    ) -> Result<(), Error> {
        if !has_finalizer(object) {
            // The change brings the service back here.
            return self.set_finalizer(object, true).await;
        }
        let touched = self.touched.lock().remove(key);
        let brought = self.bring(key, object, service, touched).await;
        let told = match &brought {
            Ok(Some(changed)) => Ok(*changed),
            Ok(None) => Err(format!("services \"{}\" not found", key.name)),
            Err(error) if error.is_lost_race() => {
                // Whatever was done until then is told when all is done.
                self.touched.lock().insert(key.clone());
                return brought.map(drop);
            }
            Err(error) => Err(chain(error)),
        };
        let new = match &told {
            Ok(_) => condition(SERVICE_APPLIED, true, reason::SERVICE_APPLIED_SUCCEED, APPLIED),
            Err(why) => condition(SERVICE_APPLIED, false, reason::SERVICE_APPLIED_FAILED, why),
        };
        let written = write_condition(&self.client, object, new, self.clock.now().into()).await;
        if let Err(error) = written {
            // It is told when the condition says so.
            self.touched.lock().insert(key.clone());
            return Err(Error::Status(error));
        }
        match told {
            Ok(changed) if changed || touched => {
                self.events.normal(object, event_reason::SYNC_SERVICE_SUCCEED, APPLIED);
            }
            Err(why) if touched || brought.is_err() => {
                self.events.warning(object, event_reason::SYNC_SERVICE_FAILED, why);
            }
            _ => {}
        }
        brought.map(drop)
    }

    /// Brings works, claim and binding to where they should be. Returns whether that took a write, or nothing
    /// if there is no service to expose.
    async fn bring(
        &self,
        key: &ObjectKey,
        object: &Object,
        service: &MultiClusterService,
        touched: bool,
    ) -> Result<Option<bool>, Error> {
        let all = || all_clusters(&self.clusters);
        let providers = clusters_of(&service.spec.provider_clusters, all);
        let consumers = clusters_of(&service.spec.consumer_clusters, all);
        let known = self.works_of(key);
        let works = known.iter().filter_map(|work| Some((&**work, role_of(work)?)));
        let plan = plan(&providers, |cluster| standing_in(&self.clusters, cluster), works);
        if touched {
            tell_skipped(&self.events, object, &plan.skipped, ("Provider", "MultiClusterService"));
        }
        let mut changed = false;
        let content = object.content();
        for provider in &plan.ask {
            let name = names::work(MultiClusterService::KIND, &key.name, &key.namespace);
            let place = ObjectKey::new(names::execution_space(provider), name);
            let existing = self.works.cache().get(&place);
            let existing: Option<Work> = existing.map(|work| work.read()).transpose()?;
            let desired = services::service_work(&content, provider, existing.as_ref());
            let change = work::reconcile(existing.as_ref(), desired);
            let written = works::send(&self.client, existing.as_ref(), change).await;
            changed |=
                written.map_err(|source| Error::WriteWork { cluster: provider.clone(), source })?;
        }
        changed |= self.withdraw(&plan).await?;
        let template =
            self.templates.cache().get(key).filter(|service| !service.is_being_deleted());
        let Some(template) = template else { return Ok(None) };
        let mut template = template.content();
        if let Some(patch) = services::claim_patch(&template, service) {
            let api = self.client.api(&templates()).namespaced(&key.namespace);
            template = api.merge_patch(&key.name, patch).await.map_err(Error::Claim)?;
            changed = true;
        }
        let clusters = providers.union(&consumers).cloned().collect();
        changed |= self.bind(key, services::service_binding(service, &template, clusters)).await?;
        Ok(Some(changed))
    }

    fn works_of(&self, service: &ObjectKey) -> Vec<Arc<Object>> {
        self.works.cache().by_index(BY_SERVICE, &service.to_string())
    }

    /// Takes back what is no longer asked for; collected slices stay if an export wants them too.
    async fn withdraw(&self, plan: &Plan) -> Result<bool, Error> {
        let mut changed = false;
        let works = plan.withdraw.iter().chain(&plan.release);
        for work in works.filter_map(|key| self.works.cache().get(key)) {
            let cluster = names::cluster_of_execution_space(work.namespace()).unwrap_or_default();
            let existing: Work = work.read()?;
            let claims =
                Claims { multi_cluster_service: Claim::Unwanted, service_export: Claim::Unsaid };
            let fate = match role_of(&work) {
                Some(Role::Collected { .. }) => {
                    slices::collect(cluster, Slice::Unknown, &claims, Some(&existing))
                }
                _ => slices::Collection::Delete,
            };
            changed |= match fate {
                slices::Collection::Keep(change) => {
                    let sent = works::send(&self.client, Some(&existing), change).await;
                    let cluster = cluster.to_owned();
                    sent.map_err(|source| Error::WriteWork { cluster, source })?
                }
                slices::Collection::Delete => {
                    let deleted = works::delete(&self.client, &work).await;
                    let work = ObjectKey::of(&work);
                    deleted.map_err(|source| Error::DeleteWork { work, source })?
                }
            };
        }
        Ok(changed)
    }

    fn binding_api(&self, namespace: &str) -> Api {
        self.client.api(&gvr::<ResourceBinding>()).namespaced(namespace)
    }

    /// Writes the binding of the service. Returns whether it had to be.
    async fn bind(&self, key: &ObjectKey, desired: ResourceBinding) -> Result<bool, Error> {
        let api = self.binding_api(&key.namespace);
        let place = ObjectKey::new(key.namespace.clone(), desired.metadata.name.as_str());
        let Some(object) = self.bindings.cache().get(&place) else {
            api.create_owned(desired.to_value()?).await.map_err(Error::Bind)?;
            self.edited.lock().remove(key);
            return Ok(true);
        };
        let existing = object.typed_for_now::<ResourceBinding>()?;
        let Some(mut updated) = services::update_binding(&existing, &desired)? else {
            return Ok(false);
        };
        let is_edited = self.edited.lock().contains(key);
        if !is_edited {
            // Versions also move with the status.
            let version = &existing.spec.resource.resource_version;
            updated.spec.resource.resource_version.clone_from(version);
            if updated == *existing {
                return Ok(false);
            }
            updated.spec.resource.clone_from(&desired.spec.resource);
        }
        let (from, to) = (existing.to_value()?, updated.to_value()?);
        let mut patch = match (from.as_object(), to.as_object()) {
            (Some(from), Some(to)) => Value::Object(merge::diff(from, to)),
            _ => json!({}),
        };
        patch["metadata"]["resourceVersion"] = object.resource_version().into();
        api.merge_patch(object.name(), patch).await.map_err(Error::Bind)?;
        self.edited.lock().remove(key);
        Ok(true)
    }

    /// Undoes what was done for a service that is not, or no longer, exposed to other clusters. The binding stays,
    /// as it does when a policy goes, and with it the service in the members.
    async fn retire(&self, key: &ObjectKey, object: Option<&Object>) -> Result<(), Error> {
        self.touched.lock().remove(key);
        self.edited.lock().remove(key);
        let binding = ObjectKey::new(key.namespace.clone(), names::binding("Service", &key.name));
        if let Some(binding) = self.bindings.cache().get(&binding) {
            self.release(self.binding_api(&key.namespace), &binding).await?;
        }
        if let Some(template) = self.templates.cache().get(key) {
            let api = self.client.api(&templates()).namespaced(&key.namespace);
            self.release(api, &template).await?;
        }
        let known = self.works_of(key);
        let works = known.iter().filter_map(|work| Some((&**work, role_of(work)?)));
        let plan = plan(&BTreeSet::new(), |_| Standing::Missing, works);
        self.withdraw(&plan).await?;
        match object {
            Some(object) if has_finalizer(object) => self.set_finalizer(object, false).await,
            _ => Ok(()),
        }
    }

    async fn release(&self, api: Api, object: &Object) -> Result<(), Error> {
        let Some(patch) = services::release_patch(&object.content()) else { return Ok(()) };
        match api.merge_patch(object.name(), patch).await {
            Err(error) if !error.is_not_found() => Err(Error::Release(error)),
            _ => Ok(()),
        }
    }

    async fn set_finalizer(&self, object: &Object, wanted: bool) -> Result<(), Error> {
        let others = object.meta().finalizers.iter().map(String::as_str);
        let others = others.filter(|name| *name != finalizers::MULTI_CLUSTER_SERVICE);
        let own = wanted.then_some(finalizers::MULTI_CLUSTER_SERVICE);
        let patch = json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "finalizers": others.chain(own).collect::<Vec<_>>(),
        }});
        let api = self.client.api(&gvr::<MultiClusterService>()).namespaced(object.namespace());
        match api.merge_patch(object.name(), patch).await {
            Err(error) if !error.is_not_found() => Err(Error::Finalizer(error)),
            _ => Ok(()),
        }
    }
}

fn is_claimed(template: &Object) -> bool {
    template.meta().labels.get(labels::CLAIMED_BY) == Some(labels::MULTI_CLUSTER_SERVICE)
}

fn has_finalizer(object: &Object) -> bool {
    object.meta().finalizers.iter().any(|name| name == finalizers::MULTI_CLUSTER_SERVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clusters_that_are_no_providers_any_more_lose_their_works() {
        let work = |cluster: &str, name: &str| {
            let value = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {"name": name, "namespace": format!("karmada-es-{cluster}")}});
            Object::from_value(&value).unwrap()
        };
        let collected = || Role::Collected { slice: ObjectKey::new("ns", "web-x") };
        let slice = ObjectKey::new("ns", "web-x");
        let dispatched = Role::Dispatched { provider: "m1".to_owned(), slice };
        let works = [
            (work("fit", "ask"), Role::Service),
            (work("lost", "ask"), Role::Service),
            (work("lost", "slice"), collected()),
            (work("former", "ask"), Role::Service),
            (work("former", "slice"), collected()),
            (work("former", "from-fit"), dispatched),
        ];
        let providers = ["fit", "lost", "old", "nowhere"].map(str::to_owned).into();
        let standing = |cluster: &str| match cluster {
            "fit" => Standing::Fit,
            "lost" => Standing::NotReady,
            "old" => Standing::WithoutSlices,
            _ => Standing::Missing,
        };
        let works = works.iter().map(|(work, role)| (work, role.clone()));
        let skipped = [
            ("lost", Standing::NotReady),
            ("nowhere", Standing::Missing),
            ("old", Standing::WithoutSlices),
        ];
        let expected = Plan {
            ask: vec!["fit".to_owned()],
            skipped: skipped.map(|(cluster, why)| (cluster.to_owned(), why)).to_vec(),
            withdraw: vec![ObjectKey::new("karmada-es-former", "ask")],
            release: vec![ObjectKey::new("karmada-es-former", "slice")],
        };
        assert_eq!(plan(&providers, standing, works), expected);
    }
}
