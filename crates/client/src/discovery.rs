//! Which resources a server has, read in two requests where it offers that and kept until it is
//! read anew.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupKind, GroupVersion, Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt;
use tokio::sync::RwLock;

use crate::connect::Client;
use crate::error::{Error, Result};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// A resource a server has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiResource {
    pub gvr: Gvr,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<String>,
    /// What people may type for one object; empty where the server does not say.
    pub singular: String,
    pub short_names: Vec<String>,
    /// Groups of resources it is listed with, such as `all`.
    pub categories: Vec<String>,
}

impl ApiResource {
    pub fn gvk(&self) -> Gvk {
        self.gvr.group_version().with_kind(self.kind.as_str())
    }

    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|supported| supported == verb)
    }
}

/// The resources of one server at one time. Groups and versions are in the server's order of
/// preference.
#[derive(Debug, Default)]
struct Snapshot {
    resources: Vec<ApiResource>,
    by_kind: HashMap<Gvk, usize>,
    by_group_kind: HashMap<GroupKind, usize>,
    /// Group versions that could not be read, with the reason.
    failed: Vec<(GroupVersion, String)>,
    /// The answers this was read from, where they tell everything.
    text: [Bytes; 2],
}

impl Snapshot {
    fn new(resources: Vec<ApiResource>, failed: Vec<(GroupVersion, String)>) -> Self {
        let mut snapshot = Self { failed, ..Self::default() };
        for (place, resource) in resources.iter().enumerate() {
            let gvk = resource.gvk();
            snapshot.by_group_kind.entry(gvk.group_kind()).or_insert(place);
            snapshot.by_kind.entry(gvk).or_insert(place);
        }
        snapshot.resources = resources;
        snapshot
    }
}

/// What was known at one time. Equal to another as long as nothing was read that differs, by
/// whomever.
#[derive(Clone)]
pub struct Edition(Arc<Snapshot>);

impl PartialEq for Edition {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Edition {}

/// Knows the resources of a server. Clones share what is known.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    known: Arc<RwLock<Option<Arc<Snapshot>>>>,
}

impl Discovery {
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    async fn known(&self) -> Result<Arc<Snapshot>> {
        if let Some(known) = &*self.known.read().await {
            return Ok(known.clone());
        }
        let mut known = self.known.write().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let snapshot = Arc::new(self.read(None).await?.unwrap_or_default());
        *known = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Reads everything anew. Clones may do so too: whoever wants to know whether anything changed
    /// compares the edition with the one it looked at.
    pub async fn refresh(&self) -> Result<Edition> {
        let before = self.known.read().await.clone();
        match (self.read(before.as_deref()).await?, before) {
            (None, Some(before)) => Ok(Edition(before)),
            (read, _) => {
                let snapshot = Arc::new(read.unwrap_or_default());
                *self.known.write().await = Some(snapshot.clone());
                Ok(Edition(snapshot))
            }
        }
    }

    /// Returns all resources, the preferred version of each group first.
    pub async fn resources(&self) -> Result<Vec<ApiResource>> {
        Ok(self.known().await?.resources.clone())
    }

    /// Returns each resource once, in the version its group prefers, together with the group
    /// versions that could not be read.
    pub async fn preferred(&self) -> Result<(Vec<ApiResource>, Vec<(GroupVersion, String)>)> {
        let known = self.known().await?;
        let mut seen = std::collections::HashSet::new();
        let first = |resource: &&ApiResource| seen.insert(resource.gvr.group_resource());
        Ok((known.resources.iter().filter(first).cloned().collect(), known.failed.clone()))
    }

    /// Finds the resource of a kind, reading anew once if the kind is not known.
    pub async fn resource_of(&self, gvk: &Gvk) -> Result<Option<ApiResource>> {
        self.look_up(|known| known.by_kind.get(gvk).copied()).await
    }

    /// Finds the resource of a kind in the version its group prefers.
    pub async fn resource_of_group_kind(&self, kind: &GroupKind) -> Result<Option<ApiResource>> {
        self.look_up(|known| known.by_group_kind.get(kind).copied()).await
    }

    async fn look_up(
        &self,
        find: impl Fn(&Snapshot) -> Option<usize>,
    ) -> Result<Option<ApiResource>> {
        let known = self.known().await?;
        if let Some(place) = find(&known) {
            return Ok(known.resources.get(place).cloned());
        }
        self.refresh().await?;
        let known = self.known().await?;
        Ok(find(&known).and_then(|place| known.resources.get(place).cloned()))
    }

    /// Reads what is served; nothing if that is in the same words as before.
    async fn read(&self, before: Option<&Snapshot>) -> Result<Option<Snapshot>> {
        let (core, groups) = futures::try_join!(
            self.client.get_text("/api", AGGREGATED),
            self.client.get_text("/apis", AGGREGATED)
        )?;
        let text = [core, groups];
        if before.is_some_and(|before| before.text == text) {
            return Ok(None);
        }
        let parse = |place: usize, path: &str| -> Result<Value> {
            let attempt = format!("GET {path}");
            serde_json::from_slice(&text[place]).map_err(|source| Error::Decode { attempt, source })
        };
        let (core, groups) = (parse(0, "/api")?, parse(1, "/apis")?);
        if core.kind() == "APIGroupDiscoveryList" && groups.kind() == "APIGroupDiscoveryList" {
            let (mut resources, mut failed) = (Vec::new(), Vec::new());
            for group in core.list_at(&["items"]).iter().chain(groups.list_at(&["items"])) {
                read_group(group, &mut resources, &mut failed);
            }
            return Ok(Some(Snapshot { text, ..Snapshot::new(resources, failed) }));
        }
        // The rest is not in these answers, so they tell nothing about what changed.
        self.read_one_by_one(&core, &groups).await.map(Some)
    }

    /// The way of servers without aggregated discovery: one request per group version.
    async fn read_one_by_one(&self, core: &Value, groups: &Value) -> Result<Snapshot> {
        let mut paths = Vec::new();
        for version in core.list_at(&["versions"]).iter().filter_map(Value::as_str) {
            paths.push((GroupVersion::new("", version), format!("/api/{version}")));
        }
        for group in groups.list_at(&["groups"]) {
            let preferred = group.str_at(&["preferredVersion", "groupVersion"]).unwrap_or_default();
            let all = group.list_at(&["versions"]).iter();
            let others = all.filter_map(|version| version.str_at(&["groupVersion"]));
            let ordered =
                std::iter::once(preferred).chain(others.filter(|other| *other != preferred));
            for text in ordered.filter(|text| !text.is_empty()) {
                let Some(version) = GroupVersion::parse(text) else { continue };
                paths.push((version, format!("/apis/{text}")));
            }
        }
        let (mut resources, mut failed) = (Vec::new(), Vec::new());
        for (version, path) in paths {
            match self.client.get_path(&path, "application/json").await {
                Ok(list) => read_legacy(&version, &list, &mut resources),
                Err(error) => failed.push((version, error.to_string())),
            }
        }
        Ok(Snapshot::new(resources, failed))
    }
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn read_group(
    group: &Value,
    resources: &mut Vec<ApiResource>,
    failed: &mut Vec<(GroupVersion, String)>,
) {
    for version in group.list_at(&["versions"]) {
        let named = version.str_at(&["version"]).unwrap_or_default();
        let named = GroupVersion::new(group.name(), named);
        if version.str_at(&["freshness"]) == Some("Stale") {
            failed.push((named.clone(), "stale GroupVersion discovery".to_owned()));
        }
        for resource in version.list_at(&["resources"]) {
            let plural = resource.str_at(&["resource"]).unwrap_or_default();
            let kind = resource.str_at(&["responseKind", "kind"]).unwrap_or_default();
            let subresources = resource.list_at(&["subresources"]).iter();
            let subresources = subresources.filter_map(|sub| sub.str_at(&["subresource"]));
            resources.push(ApiResource {
                gvr: Gvr::new(named.group.as_str(), named.version.as_str(), plural),
                kind: kind.to_owned(),
                namespaced: resource.str_at(&["scope"]) == Some("Namespaced"),
                verbs: texts(resource.list_at(&["verbs"])),
                subresources: subresources.map(str::to_owned).collect(),
                singular: resource.str_at(&["singularResource"]).unwrap_or_default().to_owned(),
                short_names: texts(resource.list_at(&["shortNames"])),
                categories: texts(resource.list_at(&["categories"])),
            });
        }
    }
}

fn read_legacy(version: &GroupVersion, list: &Value, resources: &mut Vec<ApiResource>) {
    let begin = resources.len();
    for entry in list.list_at(&["resources"]) {
        let name = entry.str_at(&["name"]).unwrap_or_default();
        if let Some((parent, subresource)) = name.split_once('/') {
            let of_this = resources.iter_mut().skip(begin);
            if let Some(resource) = of_this.into_iter().find(|known| known.gvr.resource == parent) {
                resource.subresources.push(subresource.to_owned());
            }
            continue;
        }
        resources.push(ApiResource {
            gvr: Gvr::new(version.group.as_str(), version.version.as_str(), name),
            kind: entry.kind().to_owned(),
            namespaced: entry.bool_at(&["namespaced"]).unwrap_or_default(),
            verbs: texts(entry.list_at(&["verbs"])),
            subresources: Vec::new(),
            singular: entry.str_at(&["singularName"]).unwrap_or_default().to_owned(),
            short_names: texts(entry.list_at(&["shortNames"])),
            categories: texts(entry.list_at(&["categories"])),
        });
    }
}
