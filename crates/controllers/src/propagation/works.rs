//! Works as controllers look at them: whole manifests are read only where they are sent, everything
//! else makes do with their names.

use std::sync::Arc;

use bytes::Bytes;
use karmada_api::work::{ObjectReference, Work, WorkStatus};
use karmada_api::{Kind, annotations, labels};
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::readable::Readable;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_propagation::work::{self, Change as WorkChange};
use karmada_runtime::{Informer, Manager, ObjectKey};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("spell the work out")]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Send(#[from] karmada_client::Error),
}

impl WriteError {
    /// Whether somebody else was faster: the cache will show what came of it.
    pub(crate) fn is_lost_race(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_already_exists() || error.is_conflict())
    }
}

/// Index of Works by the permanent id of their binding.
const BY_BINDING: &str = "binding-permanent-id";

pub(crate) fn gvr() -> Gvr {
    Gvr::new(Work::GROUP, Work::VERSION, Work::PLURAL)
}

/// The informer of Works, indexed by binding.
pub(crate) fn informer(manager: &Manager) -> Arc<Informer> {
    let works = manager.informers.all(&gvr());
    works.cache().add_index(BY_BINDING, |work| {
        let labels = &work.meta().labels;
        let ids =
            [labels::RESOURCE_BINDING_PERMANENT_ID, labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID];
        ids.iter().filter_map(|id| labels.get(id)).map(str::to_owned).collect()
    });
    works
}

/// Brings a Work that belongs to no binding to where it should be. Returns whether it had to be
/// written.
pub(crate) async fn write(
    client: &Client,
    existing: Option<&Work>,
    desired: Work,
) -> Result<bool, WriteError> {
    match send(client, existing, work::reconcile(existing, desired)).await {
        // The cache will show it.
        Err(WriteError::Send(error)) if error.is_already_exists() => Ok(false),
        sent => sent,
    }
}

/// Writes what was decided about a Work. Returns whether that took a request.
pub(crate) async fn send(
    client: &Client,
    existing: Option<&Work>,
    change: WorkChange,
) -> Result<bool, WriteError> {
    let api = |work: &Work| client.api(&gvr()).namespaced(&work.metadata.namespace);
    match change {
        WorkChange::Create(work) => match api(&work).create(&to_value(&work)?).await {
            Err(error) if error.is_namespace_terminating() => Ok(false),
            created => Ok(created.map(|_| true)?),
        },
        WorkChange::Update(updated) => {
            let existing = existing.map(to_value).transpose()?.unwrap_or_default();
            let patch = patch(&existing, &to_value(&updated)?);
            api(&updated).merge_patch(&updated.metadata.name, patch).await?;
            Ok(true)
        }
        WorkChange::Nothing | WorkChange::BeingDeleted => Ok(false),
    }
}

/// The same without a patch: an agent with the rights of the original may not patch Works. A status that is written
/// meanwhile is a lost race then.
pub(crate) async fn send_whole(client: &Client, change: WorkChange) -> Result<bool, WriteError> {
    let WorkChange::Update(updated) = change else { return send(client, None, change).await };
    let api = client.api(&gvr()).namespaced(&updated.metadata.namespace);
    api.update(&to_value(&updated)?).await?;
    Ok(true)
}

/// Deletes a Work. Returns whether it had to be asked for.
pub(crate) async fn delete(client: &Client, work: &Object) -> karmada_client::Result<bool> {
    if work.is_being_deleted() {
        return Ok(false);
    }
    // Another one under the same name is not what was decided about.
    let options = DeleteOptions { uid: Some(work.uid().to_owned()), ..DeleteOptions::default() };
    match client.api(&gvr()).namespaced(work.namespace()).delete(work.name(), &options).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
        deleted => deleted.map(|_| true),
    }
}

/// Only what differs is sent, so that a status written meanwhile is no conflict.
fn patch(from: &Value, to: &Value) -> Value {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else { return json!({}) };
    Value::Object(merge::diff(from, to))
}

fn to_value(work: &Work) -> serde_json::Result<Value> {
    let mut value = work.to_value()?;
    value.set(&["apiVersion"], Work::api_version());
    value.set(&["kind"], Work::KIND);
    Ok(value)
}

/// A Work as it is sent. Its manifests, which are most of it, are moved and not written anew.
pub(crate) fn into_value(mut work: Work) -> Value {
    let manifests = std::mem::take(&mut work.spec.workload.manifests);
    let mut value = work.to_value().unwrap_or_default();
    if !manifests.is_empty() {
        value["spec"]["workload"]["manifests"] = Value::Array(manifests.into());
    }
    value
}

/// The Works of a binding, by its permanent id.
pub(crate) fn of_binding(works: &Informer, permanent_id: &str) -> Vec<Arc<Object>> {
    works.cache().by_index(BY_BINDING, permanent_id)
}

/// The binding a Work names as its own, with its kind's plural.
pub(crate) fn binding_of(work: &Object) -> Option<(ObjectKey, bool)> {
    let marks = &work.meta().annotations;
    if let Some(name) = marks.get(annotations::RESOURCE_BINDING_NAME) {
        let namespace = marks.get(annotations::RESOURCE_BINDING_NAMESPACE)?;
        return Some((ObjectKey::new(namespace, name), true));
    }
    let name = marks.get(annotations::CLUSTER_RESOURCE_BINDING_NAME)?;
    Some((ObjectKey::cluster(name), false))
}

/// A Work without the bodies of its manifests. Small enough to be kept beside the cached text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkView {
    pub(crate) spec: ViewSpec,
    pub(crate) status: WorkStatus,
}

karmada_apimachinery::readable!(WorkView);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ViewSpec {
    pub(crate) workload: ViewWorkload,
    pub(crate) suspend_dispatching: Option<bool>,
    pub(crate) preserve_resources_on_deletion: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ViewWorkload {
    pub(crate) manifests: Vec<ManifestHead>,
}

/// Which object a manifest is about.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestHead {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: HeadName,
}

#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(default)]
pub(crate) struct HeadName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ManifestHead {
    /// Group and version; none of either if it is no API version.
    pub(crate) fn group_version(&self) -> (&str, &str) {
        match self.api_version.split_once('/') {
            None => ("", &self.api_version),
            Some((group, version)) if !version.contains('/') => (group, version),
            Some(_) => ("", ""),
        }
    }

    pub(crate) fn gvk(&self) -> Gvk {
        let (group, version) = self.group_version();
        Gvk::new(group, version, self.kind.as_str())
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.metadata.namespace.as_str(), self.metadata.name.as_str())
    }

    pub(crate) fn is(&self, reference: &ObjectReference) -> bool {
        self.api_version == reference.api_version
            && self.kind == reference.kind
            && self.metadata.namespace == reference.namespace
            && self.metadata.name == reference.name
    }
}

/// The view of a cached Work.
pub(crate) fn view(work: &Object) -> serde_json::Result<Arc<WorkView>> {
    work.typed_for_now()
}

/// A Work whose manifests are to be sent: each is one text, as it is written.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) view: WorkView,
    pub(crate) manifests: Vec<Bytes>,
}

impl Readable for Load {
    fn from_text(text: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Whole<'a> {
            #[serde(borrow)]
            spec: Spec<'a>,
            #[serde(default)]
            status: WorkStatus,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec<'a> {
            #[serde(borrow, default)]
            workload: Workload<'a>,
            suspend_dispatching: Option<bool>,
            preserve_resources_on_deletion: Option<bool>,
        }
        #[derive(Deserialize, Default)]
        struct Workload<'a> {
            #[serde(borrow, default)]
            manifests: Vec<&'a RawValue>,
        }
        let Whole { spec, status } = serde_json::from_slice(text)?;
        let Spec { workload, suspend_dispatching, preserve_resources_on_deletion } = spec;
        let texts = || workload.manifests.iter().map(|manifest| manifest.get());
        let heads: serde_json::Result<_> = texts().map(serde_json::from_str).collect();
        let workload = ViewWorkload { manifests: heads? };
        let spec = ViewSpec { workload, suspend_dispatching, preserve_resources_on_deletion };
        let manifests = texts().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        Ok(Self { view: WorkView { spec, status }, manifests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_is_sent_as_it_would_be_written() {
        let mut work = Work::default();
        work.metadata.name = "w".to_owned();
        assert_eq!(into_value(work.clone()), work.to_value().unwrap());
        work.spec.workload.manifests = vec![json!({"kind": "ConfigMap", "data": {"a": "1"}})];
        assert_eq!(into_value(work.clone()), work.to_value().unwrap());
    }

    #[test]
    fn a_view_names_the_objects_and_the_bodies_stay_text() {
        let value = json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "w", "namespace": "karmada-es-m1", "annotations": {
                "resourcebinding.karmada.io/namespace": "ns", "resourcebinding.karmada.io/name": "b"}},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": "ns", "name": "web"}, "spec": {"replicas": 1}}]}},
        });
        let work = Object::from_value(&value).unwrap();
        let head = view(&work).unwrap().spec.workload.manifests[0].clone();
        assert_eq!(head.gvk(), Gvk::new("apps", "v1", "Deployment"));
        assert_eq!(head.key().to_string(), "ns/web");
        let load: Load = work.read_without_record().unwrap();
        assert_eq!(load.view.spec.workload.manifests, [head]);
        let manifest: Value = serde_json::from_slice(&load.manifests[0]).unwrap();
        assert_eq!(manifest, value["spec"]["workload"]["manifests"][0]);
        assert_eq!(binding_of(&work), Some((ObjectKey::new("ns", "b"), true)));
    }
}
