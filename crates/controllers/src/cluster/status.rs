//! Looks at every Push cluster, or as an agent at its own: is it healthy, which version and APIs has it, what
//! can its nodes take. Each cluster has a lane of its own, so that a slow one delays no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use karmada_api::cluster::{APIEnablement, APIResource, Cluster, ClusterStatus};
use karmada_api::conditions::cluster::{COMPLETE_API_ENABLEMENTS, READY, reason};
use karmada_api::features::Gate;
use karmada_api::finalizers;
use karmada_api::meta::{Condition, set_condition};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, Edition, Object};
use karmada_runtime::{Backoff, Change, Informer, ObjectKey, Shutdown, Subscription};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::capacity::Capacity;
use super::health::{self, Dampener, Health};
use super::lease;
use super::metrics::ClusterMetrics;
use crate::context::Context;
use crate::members::{Member, MemberChange, Unreachable};

/// The pause after a failure, at first.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("nodes and pods of {0} are not known yet")]
    NotSynced(String),
    #[error("write the status of {cluster}")]
    Write { cluster: String, source: karmada_client::Error },
}

/// The lanes, by cluster.
type Lanes = Arc<Mutex<BTreeMap<String, Lane>>>;

struct Lane {
    wake: Arc<Notify>,
    shutdown: Shutdown,
}

pub(crate) fn start(context: &Context) {
    let clusters = super::informer(&context.informers);
    let lanes = Lanes::default();
    let metrics = ClusterMetrics::new(&context.metrics);
    let (own, known, open) = (context.clone(), clusters.clone(), lanes.clone());
    // Weak, since the informer would keep itself alive through its own handler.
    let known = Arc::downgrade(&known);
    context.keep(clusters.subscribe(move |change| {
        let name = change.object().name();
        let mut lanes = open.lock();
        let Change::Applied { old, new } = change else {
            if let Some(lane) = lanes.remove(name) {
                lane.shutdown.trigger();
            }
            metrics.forget(name);
            return;
        };
        if let Ok(cluster) = new.typed::<Cluster>() {
            metrics.show(&cluster);
        }
        if let Some(lane) = lanes.get(name) {
            if old.as_ref().is_none_or(|old| is_news(old, new)) {
                lane.wake.notify_one();
            }
            return;
        }
        let Some(clusters) = known.upgrade() else { return };
        let lane = Lane { wake: Arc::default(), shutdown: own.shutdown.child() };
        let watch = Watch::new(&own, clusters, name, metrics.clone(), lane.shutdown.clone());
        let work = watch.run(lane.wake.clone());
        // A cluster is looked at by one task for as long as it is joined.
        lane.shutdown.spawn_until(work);
        lanes.insert(name.to_owned(), lane);
    }));
    context.members.subscribe(move |change| {
        let (MemberChange::Joined(member) | MemberChange::Returned(member)) = change else {
            return;
        };
        if let Some(lane) = lanes.lock().get(&member.name) {
            lane.wake.notify_one();
        }
    });
}

/// Whether anything changed that a look depends on.
fn is_news(old: &Object, new: &Object) -> bool {
    old.meta().generation != new.meta().generation
        || old.meta().finalizers != new.meta().finalizers
        || old.uid() != new.uid()
}

/// Sums of one connection's nodes and pods.
struct Count {
    /// The connection it counts for.
    member: Arc<Member>,
    capacity: Arc<Mutex<Capacity>>,
    inputs: [Arc<Informer>; 2],
    _subscriptions: [Subscription; 2],
}

impl Count {
    fn start(member: Arc<Member>) -> Self {
        let capacity: Arc<Mutex<Capacity>> = Arc::default();
        let nodes = member.informers.all(&Gvr::new("", "v1", "nodes"));
        let pods = member.informers.all(&Gvr::new("", "v1", "pods"));
        let (of_nodes, of_pods) = (capacity.clone(), capacity.clone());
        let subscriptions = [
            nodes.subscribe(move |change| of_nodes.lock().node_changed(change)),
            pods.subscribe(move |change| of_pods.lock().pod_changed(change)),
        ];
        Self { member, capacity, inputs: [nodes, pods], _subscriptions: subscriptions }
    }
}

/// The lane of one cluster.
struct Watch {
    context: Context,
    clusters: Arc<Informer>,
    name: String,
    dampener: Dampener,
    count: Option<Count>,
    /// The APIs as they were read last, and what they were read from.
    apis: Option<(Edition, Apis)>,
    backoff: Backoff,
    metrics: ClusterMetrics,
    /// Whether the lease of the agent is renewed already.
    is_leased: bool,
    shutdown: Shutdown,
}

impl Watch {
    fn new(
        context: &Context,
        clusters: Arc<Informer>,
        name: &str,
        metrics: ClusterMetrics,
        shutdown: Shutdown,
    ) -> Self {
        let longest = context.options.cluster_status_update_frequency;
        Self {
            context: context.clone(),
            clusters,
            name: name.to_owned(),
            dampener: Dampener::default(),
            count: None,
            apis: None,
            backoff: Backoff::new(PAUSE, longest, name),
            metrics,
            is_leased: false,
            shutdown,
        }
    }

    async fn run(mut self, wake: Arc<Notify>) {
        loop {
            let pause = match self.look().await {
                Ok(pause) => {
                    self.backoff.reset();
                    pause
                }
                Err(error) => {
                    let source = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(cluster = self.name, %error, source, "look at the cluster");
                    Some(self.backoff.next_delay())
                }
            };
            match pause {
                None => wake.notified().await,
                Some(pause) => tokio::select! {
                    biased;
                    () = wake.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                },
            }
        }
    }

    /// Looks once; returns when to look again, unless something changes before.
    async fn look(&mut self) -> Result<Option<Duration>, Error> {
        let Some(object) = self.clusters.cache().get(&ObjectKey::cluster(self.name.as_str()))
        else {
            return Ok(None);
        };
        let Ok(cluster) = object.typed::<Cluster>() else { return Ok(None) };
        let options = &self.context.options;
        let is_reachable = options.agent_of.is_some() || cluster.spec.secret_ref.is_some();
        let is_ours = options.serves(&cluster) && is_reachable;
        if !is_ours || !object.meta().finalizers.iter().any(|f| f == finalizers::CLUSTER) {
            return Ok(None);
        }
        let began = tokio::time::Instant::now();
        let looked = self.look_at(&object, &cluster).await;
        self.metrics.looked(&self.name, began.elapsed());
        looked
    }

    /// Looks at a cluster that is ours.
    async fn look_at(
        &mut self,
        object: &Object,
        cluster: &Cluster,
    ) -> Result<Option<Duration>, Error> {
        let period = self.context.options.cluster_status_update_frequency;
        let member = match self.context.members.get(&self.name) {
            Ok(member) => member,
            // It is looked at as soon as it is known.
            Err(Unreachable::Unknown(_)) => return Ok(None),
            Err(error) => {
                let message = format!("failed to create a ClusterClient: {error}");
                let observed = health::ready("False", reason::STATUS_COLLECTION_FAILED, message);
                let ready = self.filter(cluster, observed);
                self.write(object, vec![ready], None).await?;
                return Ok(Some(period));
            }
        };
        let health = health::probe(&member.client, period).await;
        let ready = self.filter(cluster, health.condition());
        if health != Health::Ready || !ready.is_true() {
            self.write(object, vec![ready], None).await?;
            return Ok(Some(period));
        }
        // An agent that once found its cluster well goes on to show that it lives, however the cluster fares.
        if self.context.options.agent_of.is_some() && !std::mem::replace(&mut self.is_leased, true)
        {
            let renewing =
                lease::renew(self.context.clone(), self.clusters.clone(), self.name.clone());
            self.shutdown.spawn_until(renewing);
        }
        let (status, complete) = self.collect(cluster, member).await?;
        self.write(object, vec![complete, ready], Some(status)).await?;
        Ok(Some(period))
    }

    fn filter(&mut self, cluster: &Cluster, observed: Condition) -> Condition {
        let options = &self.context.options;
        let (success, failure) =
            (options.cluster_success_threshold, options.cluster_failure_threshold);
        self.dampener.filter(cluster.condition(READY), observed, success, failure)
    }

    /// Reads what a healthy cluster is like. What cannot be read stays as it was.
    async fn collect(
        &mut self,
        cluster: &Cluster,
        member: Arc<Member>,
    ) -> Result<(ClusterStatus, Condition), Error> {
        let mut status = cluster.status.clone();
        let (version, apis) =
            futures::join!(version(&member.client), read_apis(&member, &mut self.apis));
        if let Some(version) = version {
            status.kubernetes_version = version;
        }
        let complete = merge_apis(&mut status.api_enablements, apis);
        if self.context.options.enable_cluster_resource_modeling {
            if self.count.as_ref().is_none_or(|count| !Arc::ptr_eq(&count.member, &member)) {
                self.count = Some(Count::start(member));
            }
            let Some(count) = &self.count else { return Ok((status, complete)) };
            let synced =
                futures::future::join_all(count.inputs.iter().map(|input| input.wait_synced()));
            let patience = self.context.options.cluster_cache_sync_timeout;
            if tokio::time::timeout(patience, synced).await.is_err() {
                return Err(Error::NotSynced(self.name.clone()));
            }
            let models = match self.context.gates.is_on(Gate::CustomizedClusterResourceModeling) {
                true => cluster.spec.resource_models.as_slice(),
                false => &[],
            };
            let capacity = count.capacity.lock();
            status.node_summary = Some(capacity.node_summary());
            status.resource_summary = Some(capacity.resource_summary(models));
        }
        Ok((status, complete))
    }

    /// Publishes what was found, if it is anything new.
    async fn write(
        &self,
        object: &Object,
        conditions: Vec<Condition>,
        found: Option<ClusterStatus>,
    ) -> Result<(), Error> {
        let now = self.context.clock.now().into();
        super::update_status(&self.context.client, &self.name, Some(object), |cluster| {
            if let Some(found) = &found {
                cluster.status.kubernetes_version.clone_from(&found.kubernetes_version);
                cluster.status.api_enablements.clone_from(&found.api_enablements);
                cluster.status.node_summary.clone_from(&found.node_summary);
                cluster.status.resource_summary.clone_from(&found.resource_summary);
            }
            for condition in &conditions {
                set_condition(&mut cluster.status.conditions, condition.clone(), now);
            }
        })
        .map(|written| {
            written.map_err(|source| Error::Write { cluster: self.name.clone(), source })
        })
        .await
    }
}

async fn version(client: &Client) -> Option<String> {
    let version = client.get_path("/version", "application/json").await.ok()?;
    Some(version.str_at(&["gitVersion"])?.to_owned())
}

/// The APIs of a cluster, and the group versions that could not be read.
#[derive(Clone)]
struct Apis {
    found: Vec<APIEnablement>,
    failed: Vec<String>,
}

async fn read_apis(member: &Member, last: &mut Option<(Edition, Apis)>) -> Option<Apis> {
    let read = async {
        // Others read anew too, when they miss a kind: what changed may not have changed just now.
        let edition = member.discovery.refresh().await?;
        if let Some((_, apis)) = last.as_ref().filter(|(seen, _)| *seen == edition) {
            return Ok(Err(apis.clone()));
        }
        let read = (member.discovery.resources().await?, member.discovery.preferred().await?.1);
        Ok(Ok((edition, read)))
    };
    let (edition, (resources, failed)) = match read.await {
        Ok(Ok(read)) => read,
        Ok(Err(known)) => return Some(known),
        Err::<_, karmada_client::Error>(error) => {
            tracing::warn!(cluster = member.name, %error, "read the APIs of the cluster");
            return None;
        }
    };
    let mut by_version: BTreeMap<String, Vec<APIResource>> = BTreeMap::new();
    for resource in resources {
        let listed = APIResource { name: resource.gvr.resource.clone(), kind: resource.kind };
        by_version.entry(resource.gvr.group_version().to_string()).or_default().push(listed);
    }
    let found = by_version.into_iter().map(|(group_version, mut resources)| {
        resources.sort_by(|one, other| one.name.cmp(&other.name));
        APIEnablement { group_version, resources }
    });
    let failed = failed.into_iter().map(|(version, _)| version.to_string());
    let apis = Apis { found: found.collect(), failed: failed.collect() };
    *last = Some((edition, apis.clone()));
    Some(apis)
}

/// Takes over what was found. What could not be read stays as it was: an API that is missing for
/// a moment must not send workloads elsewhere.
fn merge_apis(known: &mut Vec<APIEnablement>, read: Option<Apis>) -> Condition {
    let condition = |status: &str, reason: &str, message: String| Condition {
        r#type: COMPLETE_API_ENABLEMENTS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    };
    let read = read.filter(|read| !read.found.is_empty());
    let Some(Apis { mut found, failed }) = read else {
        let message = "collected empty APIEnablements from the cluster".to_owned();
        return condition("False", reason::API_ENABLEMENTS_EMPTY, message);
    };
    if failed.is_empty() {
        *known = found;
        let message = "collected complete APIEnablements from the cluster".to_owned();
        return condition("True", reason::API_ENABLEMENTS_COMPLETE, message);
    }
    let count = found.len();
    for earlier in known.iter() {
        let is_missing = !found.iter().any(|api| api.group_version == earlier.group_version);
        if is_missing && failed.contains(&earlier.group_version) {
            found.push(earlier.clone());
        }
    }
    found.sort_by(|one, other| one.group_version.cmp(&other.group_version));
    *known = found;
    let message = format!("might collect partial APIEnablements({count}) from the cluster");
    condition("False", reason::API_ENABLEMENTS_PARTIAL, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apis(versions: &[&str]) -> Vec<APIEnablement> {
        let one = |version: &&str| APIEnablement {
            group_version: (*version).to_owned(),
            resources: Vec::new(),
        };
        versions.iter().map(one).collect()
    }

    #[test]
    fn what_could_not_be_read_stays_as_it_was() {
        type Names = &'static [&'static str];
        type Read = (Names, Names);
        // (known, read: found and failed, known then, reason)
        let cases: [(Names, Option<Read>, Names, &str); 5] = [
            (&[], Some((&["apps/v1", "v1"], &[])), &["apps/v1", "v1"], "Complete"),
            (&["apps/v1", "v1"], None, &["apps/v1", "v1"], "Empty"),
            (&["apps/v1", "v1"], Some((&[], &[])), &["apps/v1", "v1"], "Empty"),
            (&["a/v1", "gone/v1", "v1"], Some((&["v1"], &["a/v1"])), &["a/v1", "v1"], "Partial"),
            (&["a/v1", "v1"], Some((&["v1"], &[])), &["v1"], "Complete"),
        ];
        for (before, read, after, reason) in cases {
            let mut known = apis(before);
            let read = read.map(|(found, failed)| Apis {
                found: apis(found),
                failed: failed.iter().map(|f| (*f).to_owned()).collect(),
            });
            assert_eq!(merge_apis(&mut known, read).reason, reason);
            assert_eq!(known, apis(after), "{before:?}");
        }
    }
}
