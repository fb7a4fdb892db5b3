//! The end of a Work: its objects leave the member, or stay there without our marks. Nothing is
//! given up because a member could not be asked.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::{annotations, finalizers};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt as _};
use karmada_client::{Api, DeleteOptions, Object, Propagation};
use karmada_propagation::delivery::{Farewell, farewell, may_delete, release};
use karmada_runtime::{Action, ObjectKey};

use super::lane::{Error, Lane};
use super::member::{Refusal, Site};
use super::ready;
use crate::propagation::metrics::Sent;
use crate::propagation::templates;
use crate::propagation::works::{ManifestHead, WorkView};

impl Lane {
    pub(super) async fn farewell(
        self: &Arc<Self>,
        work: &Object,
        view: &WorkView,
        cluster: &Cluster,
    ) -> Result<Action, Error> {
        let key = ObjectKey::of(work);
        let has_finalizer = |name: &String| name == finalizers::EXECUTION;
        if !work.meta().finalizers.iter().any(has_finalizer) {
            return Ok(Action::AwaitChange);
        }
        let preserve = view.spec.preserve_resources_on_deletion == Some(true);
        let leaving = cluster.metadata.deletion_timestamp.is_some();
        // A cluster that is ready is not given up, though it may not be connected yet.
        match (farewell(preserve, ready(cluster), leaving), self.site()) {
            (Farewell::Leave, _) => {}
            (how @ (Farewell::Delete | Farewell::Release), Some(site)) => {
                for head in &view.spec.workload.manifests {
                    let said = self.say_farewell(&site, &key, head, how).await;
                    said.map_err(|source| Error::Farewell {
                        object: format!("{} {}", head.kind, head.key()),
                        source,
                    })?;
                }
            }
            _ => {
                let action = self.wait(&key);
                // What changed before this was noted is not told again.
                let stands = |cluster: &Cluster| {
                    (ready(cluster), cluster.metadata.deletion_timestamp.is_some())
                };
                let now = self.running.cluster(&self.cluster);
                if now.is_some_and(|now| stands(&now) != stands(cluster)) {
                    self.wake();
                }
                return Ok(action);
            }
        }
        if !self.release(work).await? {
            self.deliver_after(key, Duration::from_millis(20));
            return Ok(Action::AwaitChange);
        }
        self.forget(&key);
        Ok(Action::AwaitChange)
    }

    async fn say_farewell(
        &self,
        site: &Site,
        work: &ObjectKey,
        head: &ManifestHead,
        how: Farewell,
    ) -> Result<(), Refusal> {
        let Some(gvr) = self.resource_in(site, head).await? else {
            // Neither the control plane nor the member has such a kind: nothing can be left of it.
            return Ok(());
        };
        let key = head.key();
        let api = site.api(&gvr, &key);
        // What the cache lacks may still be there.
        let observed: Option<Value> = match site.cached(&gvr, &key) {
            Some(cached) => Some(cached.value()),
            None => api.find(&key.name).await?,
        };
        site.forget(&gvr, &key);
        let Some(object) = observed.filter(|object| is_of(object, work)) else { return Ok(()) };
        let gone = send_away(&api, work, object, how).await;
        if how == Farewell::Delete {
            let sent = if gone.is_ok() { Sent::Deleted } else { Sent::NotDeleted };
            site.tally(self, &gvr, head).count(sent);
        }
        gone
    }
    /// The resource of a kind; one that the control plane forgot may live on in the member.
    async fn resource_in(&self, site: &Site, head: &ManifestHead) -> Result<Option<Gvr>, Refusal> {
        let gvk = head.gvk();
        match self.running.kinds.gvr_of(&gvk).await {
            Ok(gvr) => Ok(Some(gvr)),
            Err(templates::Error::UnknownKind(_)) => {
                let discovery = &site.member.discovery;
                if let Some(found) = discovery.resource_of(&gvk).await? {
                    return Ok(Some(found.gvr));
                }
                // What could not be read may serve it all the same.
                let (_, failed) = discovery.preferred().await?;
                match failed.into_iter().find(|(version, _)| *version == gvk.group_version()) {
                    Some((version, reason)) => Err(Refusal::Unread(version, reason)),
                    None => Ok(None),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the finalizer; false if somebody wrote between and the cache has yet to show it.
    async fn release(&self, work: &Object) -> Result<bool, Error> {
        let finalizers = work.meta().finalizers.iter();
        let kept: Vec<_> = finalizers.filter(|name| *name != finalizers::EXECUTION).collect();
        let api = self.api(work);
        // The version makes sure that no finalizer added meanwhile is lost.
        let released = if self.running.context.options.agent_of.is_some() {
            // Compat: the original's roles let an agent update Works, not patch them.
            let mut released = work.value();
            released.set(&["metadata", "finalizers"], json!(kept));
            api.update(&released).await
        } else {
            let version = work.resource_version();
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": kept}});
            api.merge_patch(work.name(), patch).await
        };
        match released {
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) if !error.is_not_found() => Err(Error::Release(error)),
            _ => Ok(true),
        }
    }
}

async fn send_away(
    api: &Api,
    work: &ObjectKey,
    mut object: Value,
    how: Farewell,
) -> Result<(), Refusal> {
    for attempt in 0.. {
        let answer = if how == Farewell::Release {
            api.update(&release(&object)).await
        } else {
            let options = DeleteOptions {
                // Jobs would leave their pods behind otherwise.
                propagation: Some(Propagation::Background),
                uid: Some(object.uid().to_owned()),
                ..DeleteOptions::default()
            };
            api.delete(object.name(), &options).await
        };
        match answer {
            Ok(_) => break,
            Err(error) if error.is_not_found() => break,
            // The cache may show one that is gone, in the place of another.
            Err(error) if error.is_conflict() && attempt == 0 => {
                let found = api.find(object.name()).await?;
                let Some(found) = found.filter(|object| is_of(object, work)) else { break };
                object = found;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the object is ours, and was put there by this Work.
fn is_of(object: &Value, work: &ObjectKey) -> bool {
    let names = |key: &str, value: &str| object.annotation(key).is_none_or(|named| named == value);
    may_delete(object)
        && names(annotations::WORK_NAMESPACE, &work.namespace)
        && names(annotations::WORK_NAME, &work.name)
}
