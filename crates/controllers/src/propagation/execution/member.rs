//! One member as the lane sees it: what it has of ours, what was sent to it, and the requests that
//! bring it into line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use karmada_api::{annotations, labels, manifest};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::value::Text;
use karmada_client::{Api, Meta, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::delivery::{Delivery, DeliveryError, NotManaged, deliver};
use karmada_runtime::{
    Change, Hashed, Informer, InformerSpec, ObjectKey, ObjectReference, Priority, Subscription,
};
use parking_lot::Mutex;

use super::lane::Lane;
use crate::members::Member;
use crate::propagation::metrics::{Sent, Tally};
use crate::propagation::templates::{self, Kinds};
use crate::propagation::works::{Load, ManifestHead, WorkView};

/// How long delivery waits for the cache of a kind before it asks the member itself.
const CACHE_PATIENCE: Duration = Duration::from_secs(3);

/// Requests for one object until it is left to a later try.
const ATTEMPTS: usize = 4;

/// Why an object was not delivered, in words that reach conditions and events.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("resource(kind={kind}, {namespace}/{name}) already exists in the cluster {cluster} and the {strategy} strategy value is empty, Karmada will not manage this resource",
        kind = .object.kind, namespace = .object.namespace, name = .object.name, strategy = annotations::CONFLICT_RESOLUTION)]
    NotManaged { cluster: String, object: NotManaged },
    #[error("{0}")]
    Retain(String),
    #[error(transparent)]
    Kind(#[from] templates::Error),
    #[error("{0}")]
    Member(#[from] karmada_client::Error),
    #[error("understand the manifest: {0}")]
    Decode(#[from] serde_json::Error),
    #[error("read what the member serves in {0}: {1}")]
    Unread(GroupVersion, String),
    #[error("the object changes all the time")]
    Contended,
}

/// What became of one manifest.
pub(super) enum Delivered {
    /// The member has it; true if it was sent for that.
    There {
        object: Value,
        wrote: bool,
    },
    Failed {
        message: String,
        template_uid: Option<String>,
    },
    /// Nothing is known about it.
    Unseen,
}

impl Delivered {
    pub(super) fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { message, .. } => Some(message),
            _ => None,
        }
    }

    pub(super) fn wrote(&self) -> bool {
        matches!(self, Self::There { wrote: true, .. })
    }

    pub(super) fn object(&self) -> Option<&Value> {
        match self {
            Self::There { object, .. } => Some(object),
            _ => None,
        }
    }

    /// The template behind the manifest, to tell it what happened.
    pub(super) fn template(&self, head: &ManifestHead) -> Option<ObjectReference> {
        let uid = match self {
            Self::There { object, .. } => object.annotation(annotations::TEMPLATE_UID),
            Self::Failed { template_uid, .. } => template_uid.as_deref(),
            Self::Unseen => None,
        }?;
        // What was made for a cluster has no template that could be told.
        if uid.is_empty() {
            return None;
        }
        Some(ObjectReference {
            api_version: head.api_version.clone(),
            kind: head.kind.clone(),
            namespace: head.metadata.namespace.clone(),
            name: head.metadata.name.clone(),
            uid: uid.to_owned(),
            resource_version: String::new(),
        })
    }
}

/// What was sent for one object, and what the member made of it.
#[derive(Debug, Clone, PartialEq)]
struct Record {
    /// The name of the Work it is of, whatever the object itself says.
    work: Text,
    manifest: u64,
    version: Text,
    uid: Text,
    generation: i64,
    marks: u64,
}

/// The records of all objects in the member, by resource.
#[derive(Default)]
struct Records(BTreeMap<Arc<Gvr>, HashMap<ObjectKey, Record, Hashed>>);

impl Records {
    fn get(&self, gvr: &Gvr, key: &ObjectKey) -> Option<&Record> {
        self.0.get(gvr)?.get(key)
    }

    fn get_mut(&mut self, gvr: &Gvr, key: &ObjectKey) -> Option<&mut Record> {
        self.0.get_mut(gvr)?.get_mut(key)
    }

    fn insert(&mut self, (gvr, key): Place, record: Record) {
        self.0.entry(gvr).or_default().insert(key, record);
    }

    fn remove(&mut self, gvr: &Gvr, key: &ObjectKey) -> Option<Record> {
        self.0.get_mut(gvr)?.remove(key)
    }

    fn keys(&self, gvr: &Gvr) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(gvr).into_iter().flat_map(HashMap::keys)
    }
}

/// The objects of one resource that carry our mark.
struct Followed {
    gvr: Arc<Gvr>,
    tally: Arc<Tally>,
    informer: Arc<Informer>,
    /// Set once the cache can be trusted, or was waited for long enough.
    open: AtomicBool,
    parked: Mutex<BTreeSet<ObjectKey>>,
    subscription: Mutex<Option<Subscription>>,
}

impl Followed {
    /// Whether the cache can be asked; if not, the Work is brought back when it can.
    fn lets_in(&self, work: &ObjectKey) -> bool {
        if !self.open.load(Ordering::Acquire) {
            self.parked.lock().insert(work.clone());
        }
        self.open.load(Ordering::Acquire)
    }
}

/// What an object was before, and what it is now.
type Seen = (Option<Arc<Object>>, Arc<Object>);

/// An object in the member.
type Place = (Arc<Gvr>, ObjectKey);

pub(super) struct Site {
    pub(super) member: Arc<Member>,
    followed: Mutex<BTreeMap<Gvr, Arc<Followed>>>,
    records: Mutex<Records>,
    /// Objects that are being sent, and what came back of them before the answer did.
    sending: Mutex<HashMap<Place, Vec<Seen>, Hashed>>,
}

/// Keeps what comes back of an object from being looked at before the answer tells which of it is ours.
struct Sending<'a> {
    site: &'a Site,
    place: &'a Place,
}

impl Sending<'_> {
    /// Ends it; returns whether anything came that is not what was remembered.
    fn end(self) -> bool {
        let seen = self.site.sending.lock().remove(self.place).unwrap_or_default();
        let mut records = self.site.records.lock();
        let mut record = records.get_mut(&self.place.0, &self.place.1);
        let mut differs = false;
        for (old, new) in &seen {
            differs |= match &mut record {
                Some(record) => record.take_in(old.as_ref(), new),
                None => true,
            };
        }
        differs
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.site.sending.lock().remove(self.place);
    }
}

/// One manifest of a Work.
struct Parcel<'a> {
    work: &'a ObjectKey,
    text: &'a Bytes,
    hash: u64,
}

impl Site {
    pub(super) fn new(member: Arc<Member>) -> Self {
        Self {
            member,
            followed: Mutex::default(),
            records: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    /// Delivers every manifest of a Work; nothing if a cache has to be filled first.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        key: &ObjectKey,
        load: &Load,
    ) -> Option<Vec<Delivered>> {
        let mut delivery = Vec::with_capacity(load.manifests.len());
        for (head, text) in load.view.spec.workload.manifests.iter().zip(&load.manifests) {
            let gvr = match lane.running.kinds.gvr_of(&head.gvk()).await {
                Ok(gvr) => gvr,
                Err(error) => {
                    delivery.push(failed(&Refusal::from(error), text));
                    continue;
                }
            };
            let followed = self.follow(lane, &gvr, head);
            if !followed.lets_in(key) {
                return None;
            }
            let parcel = Parcel { work: key, text, hash: HASHED.hash_one(&text[..]) };
            let place = (followed.gvr.clone(), head.key());
            let delivered = self.deliver_one(lane, &place, &followed, parcel).await;
            delivery.push(delivered.unwrap_or_else(|error| failed(&error, text)));
        }
        Some(delivery)
    }

    /// Follows the objects of a Work without sending any; false if a cache has to be filled first, which
    /// brings the Work back.
    pub(super) async fn attend(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        key: &ObjectKey,
        view: &WorkView,
    ) -> Result<bool, templates::Error> {
        for head in &view.spec.workload.manifests {
            match lane.running.kinds.gvr_of(&head.gvk()).await {
                Ok(gvr) if !self.follow(lane, &gvr, head).lets_in(key) => return Ok(false),
                // Nothing is known about the objects of a kind that is gone.
                Ok(_) | Err(templates::Error::UnknownKind(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    async fn deliver_one(
        &self,
        lane: &Lane,
        place: &Place,
        followed: &Followed,
        parcel: Parcel<'_>,
    ) -> Result<Delivered, Refusal> {
        let ((gvr, key), informer) = (place, &followed.informer);
        let cached = informer.cache().get(key);
        let record = self.records.lock().get(gvr, key).cloned();
        if let (Some(record), Some(cached)) = (&record, &cached)
            && record.manifest == parcel.hash
            && record.version == cached.resource_version()
        {
            followed.tally.count(Sent::Unchanged);
            return Ok(Delivered::There { object: cached.content(), wrote: false });
        }
        let api = self.api(gvr, key);
        // A cache that is older than our own last write would have us send it again.
        let is_old = match (&record, &cached) {
            (Some(record), Some(cached)) => is_older(cached.resource_version(), &record.version),
            (Some(_), None) => true,
            (None, _) => !informer.is_synced(),
        };
        let observed =
            if is_old { api.find(&key.name).await? } else { cached.map(|c| c.content()) };
        self.sending.lock().insert(place.clone(), Vec::new());
        let sending = Sending { site: self, place };
        let is_new = observed.is_none();
        let delivered = self.send(lane, &api, place, &parcel, observed).await;
        followed.tally.count(sent(is_new, &delivered));
        if sending.end() {
            lane.look(parcel.work.clone());
        }
        delivered
    }

    /// Sends what the member should have, given what it has.
    async fn send(
        &self,
        lane: &Lane,
        api: &Api,
        place: &Place,
        parcel: &Parcel<'_>,
        mut observed: Option<Value>,
    ) -> Result<Delivered, Refusal> {
        if observed.is_none() {
            // Nothing is to be compared with, so the manifest goes out as it is.
            match api.create_text(parcel.text.clone()).await {
                Ok(object) => {
                    self.remember(place.clone(), parcel, &object);
                    return Ok(Delivered::There { object, wrote: true });
                }
                Err(error) => observed = find_in_the_way(api, &place.1.name, error).await?,
            }
        }
        let desired: Value = Value::from_text(parcel.text)?;
        for _ in 0..ATTEMPTS {
            let interpreter = &lane.running.context.interpreter;
            let answer = match decide(&desired, observed.as_ref(), interpreter, &lane.cluster)? {
                Delivery::Nothing => {
                    let object = observed.unwrap_or_default();
                    self.remember(place.clone(), parcel, &object);
                    return Ok(Delivered::There { object, wrote: false });
                }
                Delivery::Create(object) => api.create_owned(object).await,
                Delivery::Update(object) => api.update(&object).await,
            };
            match answer {
                Ok(object) => {
                    let before = observed.as_ref().map(ObjectExt::resource_version);
                    let wrote = before != Some(object.resource_version());
                    self.remember(place.clone(), parcel, &object);
                    return Ok(Delivered::There { object, wrote });
                }
                Err(error) if error.is_already_exists() || error.is_conflict() => {
                    observed = api.find(&place.1.name).await?;
                }
                Err(error) if error.is_not_found() && observed.is_some() => observed = None,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::Contended)
    }

    pub(super) fn api(&self, gvr: &Gvr, key: &ObjectKey) -> Api {
        self.member.client.api(gvr).namespaced(&key.namespace).slim()
    }

    fn remember(&self, place: Place, parcel: &Parcel<'_>, object: &Value) {
        let record = Record {
            work: parcel.work.name.clone(),
            manifest: parcel.hash,
            version: object.resource_version().into(),
            uid: object.uid().into(),
            generation: object.i64_at(&["metadata", "generation"]).unwrap_or_default(),
            marks: marks_of(object),
        };
        self.records.lock().insert(place, record);
    }

    pub(super) fn forget(&self, gvr: &Gvr, key: &ObjectKey) {
        self.records.lock().remove(gvr, key);
    }

    /// What is counted of a resource that is seldom sent.
    pub(super) fn tally(&self, lane: &Lane, gvr: &Gvr, head: &ManifestHead) -> Arc<Tally> {
        let followed = self.followed.lock().get(gvr).map(|followed| followed.tally.clone());
        followed.unwrap_or_else(|| lane.running.traffic.tally(&lane.cluster, head))
    }

    /// The object as the cache has it.
    pub(super) fn cached(&self, gvr: &Gvr, key: &ObjectKey) -> Option<Arc<Object>> {
        let followed = self.followed.lock().get(gvr).cloned()?;
        followed.informer.cache().get(key)
    }

    /// What the caches show of the objects of a Work, and whether one of them was changed by
    /// somebody else.
    pub(super) fn look(&self, kinds: &Kinds, view: &WorkView) -> (Vec<Delivered>, bool) {
        let mut drifted = false;
        let heads = view.spec.workload.manifests.iter();
        let seen = heads.map(|head| {
            let Some(resource) = kinds.known(&head.gvk()) else { return Delivered::Unseen };
            let key = head.key();
            let Some(object) = self.cached(&resource.gvr, &key) else { return Delivered::Unseen };
            let records = self.records.lock();
            let record = records.get(&resource.gvr, &key);
            drifted |= record.is_some_and(|record| record.is_disturbed(object.meta()));
            drop(records);
            Delivered::There { object: object.content(), wrote: false }
        });
        (seen.collect(), drifted)
    }

    /// Starts following a resource of the member, if nobody does yet.
    fn follow(self: &Arc<Self>, lane: &Arc<Lane>, gvr: &Gvr, head: &ManifestHead) -> Arc<Followed> {
        if let Some(followed) = self.followed.lock().get(gvr) {
            return followed.clone();
        }
        let ours = format!("{}={}", labels::MANAGED, labels::TRUE);
        let spec = InformerSpec::all(gvr.clone()).labelled(ours).slim();
        let informer = self.member.informers.get(spec);
        let gvr = Arc::new(gvr.clone());
        let followed = Arc::new(Followed {
            gvr: gvr.clone(),
            tally: lane.running.traffic.tally(&lane.cluster, head),
            informer: informer.clone(),
            open: AtomicBool::new(informer.is_synced()),
            parked: Mutex::default(),
            subscription: Mutex::default(),
        });
        let mut all = self.followed.lock();
        if let Some(followed) = all.get(&gvr) {
            return followed.clone();
        }
        all.insert(Gvr::clone(&gvr), followed.clone());
        drop(all);
        let (site, own, of) = (Arc::downgrade(self), Arc::downgrade(lane), gvr.clone());
        let subscription = informer.subscribe(move |change| {
            if let (Some(site), Some(lane)) = (site.upgrade(), own.upgrade()) {
                site.on_object(&lane, &of, change);
            }
        });
        *followed.subscription.lock() = Some(subscription);
        let (site, own, of) = (Arc::downgrade(self), Arc::downgrade(lane), gvr.clone());
        informer.after_every_list(move || {
            if let (Some(site), Some(lane)) = (site.upgrade(), own.upgrade())
                && site.misses_any(&of)
            {
                lane.deliver_all();
            }
        });
        let (opened, own) = (followed.clone(), Arc::downgrade(lane));
        self.member.shutdown.spawn_until(async move {
            // A resource the member does not serve is never in sync; asking it tells why.
            drop(tokio::time::timeout(CACHE_PATIENCE, opened.informer.wait_synced()).await);
            opened.open.store(true, Ordering::Release);
            let Some(lane) = own.upgrade() else { return };
            for work in std::mem::take(&mut *opened.parked.lock()) {
                lane.deliver(work, Priority::Normal);
            }
        });
        followed
    }

    /// Whether something was delivered that the cache does not have. Nobody tells of the end of what
    /// the member never showed.
    fn misses_any(&self, gvr: &Gvr) -> bool {
        let Some(followed) = self.followed.lock().get(gvr).cloned() else { return false };
        let records = self.records.lock();
        records.keys(gvr).any(|key| followed.informer.cache().get(key).is_none())
    }

    /// Takes in that an object in the member changed. Must be quick.
    fn on_object(&self, lane: &Lane, gvr: &Arc<Gvr>, change: &Change) {
        let place = (gvr.clone(), ObjectKey::of(change.object()));
        match change {
            Change::Applied { old, new } => {
                if let Some(seen) = self.sending.lock().get_mut(&place) {
                    return seen.push((old.clone(), new.clone()));
                }
                let known = self.records.lock().get_mut(gvr, &place.1).map(|record| {
                    record.take_in(old.as_ref(), new).then(|| lane.work(&record.work))
                });
                let known = match known {
                    Some(None) => return,
                    known => known.flatten(),
                };
                // The first look at everything comes with the delivery of the Works.
                if known.is_none() && !self.is_synced(gvr) {
                    return;
                }
                let first = || named_work(lane, old.as_ref().unwrap_or(new));
                if let Some(work) = known.or_else(first).or_else(|| named_work(lane, new)) {
                    lane.look(work);
                }
            }
            Change::Deleted(object) => {
                let known = self.records.lock().remove(gvr, &place.1);
                let known = known.map(|record| lane.work(&record.work));
                if let Some(work) = known.or_else(|| named_work(lane, object))
                    && lane.running.works.cache().get(&work).is_some()
                {
                    lane.deliver(work, Priority::Normal);
                }
            }
        }
    }

    fn is_synced(&self, gvr: &Gvr) -> bool {
        let followed = self.followed.lock().get(gvr).cloned();
        followed.is_some_and(|followed| followed.informer.is_synced())
    }
}

impl Record {
    /// Takes in what became of the object, and returns whether that is worth a look.
    fn take_in(&mut self, old: Option<&Arc<Object>>, new: &Object) -> bool {
        let meta = new.meta();
        if self.version == meta.resource_version {
            // Our own write; its answer told all about it.
            return false;
        }
        // Where the status is a part of the object like any other, versions and generations do not tell
        // whether anything else changed.
        let may_be_status = meta.generation == 0 || meta.generation != self.generation;
        let is_next = |old: &&Arc<Object>| {
            self.version == old.meta().resource_version && self.uid == meta.uid
        };
        if may_be_status
            && let Some(old) = old.filter(is_next)
            && without_status(old) == without_status(new)
        {
            self.version = meta.resource_version.clone();
            self.generation = meta.generation;
            self.marks = marks(meta.labels.iter(), meta.annotations.iter());
        }
        true
    }

    /// Whether the object is another one, an older one, or changed in anything but its status.
    fn is_disturbed(&self, meta: &Meta) -> bool {
        if self.version == meta.resource_version {
            return false;
        }
        // Kinds without a generation do not say what changed.
        self.uid != meta.uid
            || meta.generation == 0
            || meta.generation != self.generation
            || is_older(&meta.resource_version, &self.version)
            || marks(meta.labels.iter(), meta.annotations.iter()) != self.marks
    }
}

fn sent(is_new: bool, delivered: &Result<Delivered, Refusal>) -> Sent {
    match (is_new, delivered) {
        (true, Ok(_)) => Sent::Created,
        (true, Err(_)) => Sent::NotCreated,
        (false, Ok(delivered)) if delivered.wrote() => Sent::Updated,
        (false, Ok(_)) => Sent::Unchanged,
        (false, Err(_)) => Sent::NotUpdated,
    }
}

/// What a refused creation met. Ports, quotas and webhooks are asked before anybody notices that the
/// name is taken, so any refusal may be that of something which is there.
async fn find_in_the_way(
    api: &Api,
    name: &str,
    refusal: karmada_client::Error,
) -> Result<Option<Value>, Refusal> {
    if refusal.is_already_exists() || refusal.is_conflict() {
        return Ok(api.find(name).await?);
    }
    // Where there is no namespace, nothing is in it.
    if refusal.api().is_none() || refusal.is_not_found() {
        return Err(refusal.into());
    }
    match api.find(name).await {
        Ok(Some(found)) => Ok(Some(found)),
        _ => Err(refusal.into()),
    }
}

fn failed(error: &Refusal, manifest: &[u8]) -> Delivered {
    let object = Value::from_text(manifest).unwrap_or_default();
    let template_uid = object.annotation(annotations::TEMPLATE_UID).map(str::to_owned);
    Delivered::Failed { message: error.to_string(), template_uid }
}

fn decide(
    desired: &Value,
    observed: Option<&Value>,
    interpreter: &Interpreter,
    cluster: &str,
) -> Result<Delivery, Refusal> {
    let retain = |desired: &Value, observed: &Value| {
        let retained = interpreter.retain(desired.clone(), observed);
        retained.map_err(|error| error.to_string())
    };
    let retains = interpreter.hook_enabled(&desired.gvk(), Operation::Retain);
    let retain = retains.then_some(&retain as &dyn Fn(&Value, &Value) -> Result<Value, String>);
    deliver(desired, observed, retain).map_err(|error| match error {
        DeliveryError::NotManaged(object) => {
            Refusal::NotManaged { cluster: cluster.to_owned(), object }
        }
        DeliveryError::Retain(problem) => Refusal::Retain(problem),
    })
}

fn without_status(object: &Object) -> Value {
    let mut content = object.content();
    manifest::prune(&mut content);
    content
}

/// The Work of this lane that an object names.
fn named_work(lane: &Lane, object: &Object) -> Option<ObjectKey> {
    let marks = &object.meta().annotations;
    let namespace = marks.get(annotations::WORK_NAMESPACE)?;
    let is_ours = karmada_api::names::cluster_of_execution_space(namespace) == Some(&lane.cluster);
    is_ours.then_some(ObjectKey::new(namespace, marks.get(annotations::WORK_NAME)?))
}

/// Whether a version was given out before another one by the same server.
fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

/// What texts are told apart by. It means nothing to another process.
static HASHED: LazyLock<Hashed> = LazyLock::new(Hashed::default);

/// The same number for an object and for its metadata as a cache reads it: names are in order in both.
fn marks_of(object: &Value) -> u64 {
    let pairs = |name: &str| {
        let entries = object.map_at(&["metadata", name]).into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    };
    marks(pairs("labels"), pairs("annotations"))
}

fn marks<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
) -> u64 {
    // Each side has a number of its own, so that nothing can change sides unnoticed.
    HASHED.hash_one([number(labels), number(annotations)])
}

fn number<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hasher = HASHED.build_hasher();
    pairs.for_each(|pair| pair.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn marks_are_the_same_however_they_are_read_and_differ_by_side() {
        let all = [
            json!({"labels": {"b": "2", "a": "1"}, "annotations": {"z": "", "y": "{}"}}),
            json!({"labels": {"a": "1"}, "annotations": {"b": "2", "z": "", "y": "{}"}}),
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"a1": ""}}),
            json!({"annotations": {"a": "1"}}),
            json!({}),
        ];
        let numbers = all.map(|metadata| {
            let value = json!({"metadata": metadata});
            let object = Object::from_value(&value).unwrap();
            let (labels, annotations) = (&object.meta().labels, &object.meta().annotations);
            assert_eq!(marks_of(&value), marks(labels.iter(), annotations.iter()));
            marks_of(&value)
        });
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
    }
}
