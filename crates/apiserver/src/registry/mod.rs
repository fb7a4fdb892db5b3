//! The table of everything served. Routing, discovery and OpenAPI are derived from it.
//!
//! Readers take a [`Snapshot`]; adding or removing a resource publishes a new one.

mod builtin;
mod conversion;
mod custom;
mod remote;
mod strategy;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupKind, GroupResource, GroupVersion, Gvk};
use karmada_apimachinery::status::Status;
use karmada_signal::{Follow, Signal};
use parking_lot::Mutex;

use crate::cache::Cache;

pub use builtin::BuiltIn;
pub use conversion::ConversionWebhook;
pub use custom::{Converter, Converters, Custom};
pub use remote::{Learned, Place, Remote};
pub use strategy::{Column, Propagation, Rules, Strategy};

/// Where the objects of a resource are kept. All versions of a resource share one.
pub struct Storage {
    /// What all keys start with, trailing slash included.
    pub prefix: String,
    pub group: String,
    pub version: String,
    pub cache: Arc<Cache>,
}

impl Storage {
    /// The key of an object in the store.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if namespace.is_empty() {
            format!("{}{name}", self.prefix)
        } else {
            format!("{}{namespace}/{name}", self.prefix)
        }
    }
}

/// Who brought a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    BuiltIn,
    /// A CustomResourceDefinition.
    Custom,
    /// The embedding program.
    Native,
}

/// A path below an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSubresource {
    pub name: String,
    /// Group and version of `kind` where they differ from the parent's, else empty.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// One resource in one version, as requests meet it.
pub struct Served {
    pub gvk: Gvk,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<ServedSubresource>,
    pub source: Source,
    pub storage_version_hash: Option<String>,
    /// Absent for what is only answered, never kept: reviews and bindings.
    pub storage: Option<Arc<Storage>>,
    pub strategy: Arc<dyn Strategy>,
    /// What users of this version are told with every answer.
    pub deprecation: Option<String>,
    /// Why creating is refused although the resource is served, as while its definition goes away.
    pub create_refusal: Option<String>,
}

impl Served {
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.as_str(), self.plural.as_str())
    }

    pub fn group_kind(&self) -> GroupKind {
        self.gvk.group_kind()
    }

    /// The kind under the group it is stored in, which is the one that refusals of built-in kinds name.
    pub fn stored_group_kind(&self) -> GroupKind {
        let mut kind = self.gvk.group_kind();
        if let Some(storage) = self.storage.as_ref().filter(|_| self.source == Source::BuiltIn) {
            kind.group = storage.group.clone();
        }
        kind
    }

    pub fn api_version(&self) -> String {
        self.gvk.api_version()
    }

    /// Compat: some refusals name the type that the kind has inside Kubernetes.
    pub(crate) fn native_name(&self) -> String {
        let package = match self.gvk.group.as_str() {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or(group),
        };
        match self.source {
            Source::Custom => "*unstructured.Unstructured".to_owned(),
            _ => format!("*{package}.{}", self.gvk.kind),
        }
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether rules apply to the stored version: built-in kinds of one group are judged as they are
    /// stored, all others as they were sent.
    pub fn is_judged_as_stored(&self) -> bool {
        self.source == Source::BuiltIn
            && self.storage.as_ref().is_none_or(|storage| storage.group == self.gvk.group)
    }

    /// Whether objects are stored in the version served, so that stored bytes can be sent as they are.
    pub fn serves_stored_bytes(&self) -> bool {
        !self.strategy.keeps_former_versions()
            && self.storage.as_ref().is_some_and(|storage| {
                storage.group == self.gvk.group && storage.version == self.gvk.version
            })
    }

    /// Rewrites a stored object into the version served.
    pub async fn from_storage(&self, object: &mut Value) -> Result<(), Status> {
        self.all_from_storage(std::slice::from_mut(object)).await
    }

    /// Rewrites stored objects into the version served, by one call where a webhook does it.
    pub async fn all_from_storage(&self, objects: &mut [Value]) -> Result<(), Status> {
        if self.serves_stored_bytes() {
            return Ok(());
        }
        self.convert(objects, &self.gvk.group, &self.gvk.version).await
    }

    /// Rewrites an object of the version served into the version stored.
    pub async fn to_storage(&self, object: &mut Value) -> Result<(), Status> {
        match &self.storage {
            Some(storage) if !self.serves_stored_bytes() => {
                self.convert(std::slice::from_mut(object), &storage.group, &storage.version).await
            }
            _ => Ok(()),
        }
    }

    /// Rewrites objects into a version, by whoever does that for their kind.
    pub(crate) async fn convert(
        &self,
        objects: &mut [Value],
        group: &str,
        version: &str,
    ) -> Result<(), Status> {
        if let Some(webhook) = self.strategy.conversion_webhook() {
            let api_version = GroupVersion::new(group, version).to_string();
            webhook.convert(objects, &api_version).await.map_err(Status::unexplained)?;
        }
        for object in objects {
            self.strategy.convert(object, group, version);
        }
        Ok(())
    }
}

/// An API group and where it stands in discovery: higher comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPlace {
    pub version: String,
    pub group_priority: i32,
    pub version_priority: i32,
}

/// Group versions of other servers, by group and version.
pub type Remotes = BTreeMap<(String, String), Arc<Remote>>;

/// One consistent view of the table.
#[derive(Default)]
pub struct Snapshot {
    /// In order of group, version and name.
    resources: Vec<Arc<Served>>,
    /// The same by name, those of a group in the order of its versions: every write looks up a few.
    by_name: HashMap<String, Vec<Arc<Served>>>,
    /// Groups in discovery order; versions in order of preference.
    groups: Vec<(String, Vec<String>)>,
    /// What other servers answer for, by group and version.
    remotes: Remotes,
    pub generation: u64,
    /// Aggregated discovery of the core group and of the others, with their tags: made when first
    /// asked for, since every member is asked every few seconds.
    pub(crate) discovery: [OnceLock<(Bytes, String)>; 2],
}

impl Snapshot {
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        let named = self.by_name.get(plural)?;
        named.iter().find(|served| served.gvk.group == group && served.gvk.version == version)
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|(name, _)| name == group)
    }

    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.versions(group).iter().any(|own| own == version)
    }

    /// Groups in discovery order, the core group among them as the empty name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(name, _)| name.as_str())
    }

    /// The versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> &[String] {
        self.groups.iter().find(|(name, _)| name == group).map_or(&[], |(_, versions)| versions)
    }

    /// The other server that answers for a group version, if it is not this one.
    pub fn remote(&self, group: &str, version: &str) -> Option<&Arc<Remote>> {
        if self.remotes.is_empty() {
            return None;
        }
        self.remotes.get(&(group.to_owned(), version.to_owned()))
    }

    /// Everything other servers answer for.
    pub fn remotes(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.remotes.values()
    }

    /// The resources of a group version, by name.
    pub fn resources(&self, group: &str, version: &str) -> Vec<&Arc<Served>> {
        let of = |served: &Arc<Served>| {
            (served.gvk.group.as_str(), served.gvk.version.as_str()).cmp(&(group, version))
        };
        let from = self.resources.partition_point(|served| of(served).is_lt());
        self.resources[from..].iter().take_while(|served| of(served).is_eq()).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.resources.iter()
    }

    /// The resource of a kind in its preferred version.
    pub fn find_resource(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.by_name.get(plural)?.iter().find(|served| served.gvk.group == group)
    }

    /// The resource that serves a kind.
    pub fn find_kind(&self, gvk: &Gvk) -> Option<&Arc<Served>> {
        self.resources.iter().find(|served| served.gvk == *gvk)
    }
}

/// What is known of one group version beside its resources.
#[derive(Default)]
struct Table {
    resources: BTreeMap<(String, String, String), Arc<Served>>,
    places: BTreeMap<(String, String), (i32, i32)>,
    remotes: Remotes,
}

/// The table itself; cheap to read, seldom written.
#[derive(Default)]
pub struct Registry {
    table: Mutex<Table>,
    snapshot: ArcSwap<Snapshot>,
    changed: Signal<u64>,
}

impl Registry {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Tells of every published change.
    pub fn changes(&self) -> Follow<u64> {
        self.changed.follow()
    }

    /// Says where a group version stands in discovery.
    pub fn place(&self, group: &str, place: VersionPlace) {
        let mut table = self.table.lock();
        let priorities = (place.group_priority, place.version_priority);
        table.places.insert((group.to_owned(), place.version), priorities);
    }

    /// The discovery priorities of a group version: (group, version).
    pub fn priorities(&self, group: &str, version: &str) -> (i32, i32) {
        let table = self.table.lock();
        table.places.get(&(group.to_owned(), version.to_owned())).copied().unwrap_or(CRD_PLACE)
    }

    /// Replaces some resources by others and publishes the result at once.
    pub fn replace(&self, remove: &[Arc<Served>], add: Vec<Arc<Served>>) {
        let mut table = self.table.lock();
        for served in remove {
            table.resources.remove(&row(served));
        }
        for served in add {
            table.resources.insert(row(&served), served);
        }
        self.publish(&table);
    }

    /// Replaces what other servers answer for; nothing happens if it is the same.
    pub fn replace_remotes(&self, remotes: Remotes) {
        let mut table = self.table.lock();
        if table.remotes != remotes {
            table.remotes = remotes;
            self.publish(&table);
        }
    }

    fn publish(&self, table: &Table) {
        let generation = self.snapshot.load().generation + 1;
        self.snapshot.store(Arc::new(publish(table, generation)));
        self.changed.set(generation);
    }
}

/// Where groups of definitions stand: behind all built-in ones.
const CRD_PLACE: (i32, i32) = (1000, 100);

fn row(served: &Served) -> (String, String, String) {
    (served.gvk.group.clone(), served.gvk.version.clone(), served.plural.clone())
}

fn publish(table: &Table, generation: u64) -> Snapshot {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, version, _) in table.resources.keys() {
        versions.entry(group).or_default().insert(version);
    }
    for (group, version) in table.remotes.keys() {
        versions.entry(group).or_default().insert(version);
    }
    let place = |group: &str, version: &str| {
        let key = (group.to_owned(), version.to_owned());
        if let Some(remote) = table.remotes.get(&key) {
            return (remote.group_priority, remote.version_priority);
        }
        table.places.get(&key).copied().unwrap_or(CRD_PLACE)
    };
    let mut groups: Vec<(i32, String, Vec<String>)> = versions
        .into_iter()
        .map(|(group, versions)| {
            let priority = versions.iter().map(|v| place(group, v).0).max().unwrap_or_default();
            let mut versions: Vec<String> = versions.into_iter().map(str::to_owned).collect();
            versions.sort_by(|a, b| {
                place(group, b).1.cmp(&place(group, a).1).then_with(|| compare_versions(b, a))
            });
            (priority, group.to_owned(), versions)
        })
        .collect();
    groups.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut by_name: HashMap<String, Vec<Arc<Served>>> = HashMap::new();
    for (_, group, versions) in &groups {
        for version in versions {
            let first = (group.clone(), version.clone(), String::new());
            let following = table.resources.range(first..).map(|(_, served)| served);
            let is_in = |served: &&Arc<Served>| {
                served.gvk.group == *group && served.gvk.version == *version
            };
            for served in following.take_while(is_in) {
                by_name.entry(served.plural.clone()).or_default().push(served.clone());
            }
        }
    }
    Snapshot {
        by_name,
        resources: table.resources.values().cloned().collect(),
        groups: groups.into_iter().map(|(_, group, versions)| (group, versions)).collect(),
        remotes: table.remotes.clone(),
        generation,
        discovery: Default::default(),
    }
}

/// Orders versions as Kubernetes prefers them: `v2` over `v1` over `v1beta2` over `v1alpha1`, the rest by name.
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// (maturity, major, minor) of `v1beta2`: released versions have the highest maturity.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let digits = version.strip_prefix('v')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (major, rest) = digits.split_at(end);
    let major: u64 = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (maturity, minor) = [("alpha", 0), ("beta", 1)]
        .iter()
        .find_map(|(word, m)| Some((*m, rest.strip_prefix(word)?)))?;
    Some((maturity, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_versions_come_first() {
        let mut versions = ["v1alpha1", "foo", "v1beta1", "v2", "v10", "v1", "v1beta2", "bar"];
        versions.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo"]);
    }
}
