//! Keeps the pods of a StatefulSet: one per ordinal, each with a name and claims of its own, made
//! and replaced in order unless order does not matter.

mod decide;
mod identity;

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::{Client, DeleteOptions, Object, Result as ClientResult};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey};

use self::decide::{Known, decide};
use self::identity::{claims_of, ordinal_of, render_pod};
use super::ownership::index_by_controller;
use super::pods::{Pod, Pods, selector_of};
use super::revision::{History, Revision, revisions};
use super::status::{Error, settle, write_status};

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    sets: Arc<Informer>,
    revisions: Arc<Informer>,
    claims: Arc<Informer>,
    pods: Pods,
}

pub(crate) fn start(manager: &Manager) {
    let gvr = Gvr::new("apps", "v1", "statefulsets");
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        sets: manager.informers.all(&gvr),
        gvr,
        revisions: manager.informers.all(&revisions()),
        claims: manager.informers.all(&Gvr::new("", "v1", "persistentvolumeclaims")),
        pods: Pods::new(manager, "statefulset-controller"),
    });
    index_by_controller(ctx.revisions.cache());
    let controller = Controller::new("statefulset", &manager.metrics).workers(5);
    manager.keep(ctx.sets.feed(controller.queue()));
    ctx.pods.wake_owners(manager, &ctx.sets, "StatefulSet", controller.queue());
    let inputs = vec![
        ctx.sets.clone(),
        ctx.pods.informer.clone(),
        ctx.revisions.clone(),
        ctx.claims.clone(),
    ];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(set) = ctx.sets.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if !ctx.pods.expectations.met(&key) {
        return Ok(Action::AwaitChange);
    }
    ctx.sync(&set).await.map_err(|source| Error::new("StatefulSet", &key, source))
}

impl Ctx {
    async fn sync(&self, set: &Object) -> ClientResult<Action> {
        let value = set.value();
        let is_member = |pod: &Object| ordinal_of(set.name(), pod.name()).is_some();
        let selector = selector_of(&value);
        let mut pods =
            self.pods.claim_accepted(set, &self.gvr, &selector, None, &is_member).await?;
        pods.retain(|pod| is_member(&pod.object));
        let history =
            History { client: &self.client, owners: &self.gvr, cache: self.revisions.cache() };
        let collisions = value.i64_at(&["status", "collisionCount"]).unwrap_or_default();
        let revisions = history.sync(set, &value["spec"], collisions).await?;
        let current_name = value.str_at(&["status", "currentRevision"]).unwrap_or_default();
        let current =
            revisions.all.iter().find(|r| r.name() == current_name).unwrap_or(&revisions.update);
        let known = Known {
            set: &value,
            pods: &pods,
            current: current.name(),
            update: revisions.update.name(),
            collisions: revisions.collisions,
            now: self.clock.now(),
        };
        let plan = decide(&known);
        for pod in &plan.delete {
            self.delete(set, &value, pod).await?;
        }
        for (ordinal, revision) in &plan.create {
            let template =
                if revision == current.name() { current } else { &revisions.update }.template();
            self.create(set, &value, *ordinal, &template, revision).await?;
        }
        let api = self.client.api(&self.gvr).namespaced(set.namespace());
        write_status(&api, set, plan.status).await?;
        let in_use = |revision: &Revision| {
            let named = [current.name(), revisions.update.name()].contains(&revision.name());
            named || pods.iter().any(|pod| decide::revision_of(pod) == revision.name())
        };
        let limit = value.i64_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        history.truncate(&revisions.all, in_use, usize::try_from(limit).unwrap_or(0)).await?;
        Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
    }

    async fn create(
        &self,
        set: &Object,
        value: &Value,
        ordinal: i64,
        template: &Value,
        revision: &str,
    ) -> ClientResult<()> {
        let pod = render_pod(set, value, ordinal, template, revision);
        for claim in claims_of(set, value, ordinal) {
            let key = ObjectKey::of_value(&claim);
            if self.claims.cache().get(&key).is_some() {
                continue;
            }
            let api = self.client.api(self.claims_gvr()).namespaced(set.namespace());
            let about =
                format!("Claim {} Pod {} in StatefulSet {}", key.name, pod.name(), set.name());
            match api.create(&claim).await {
                Ok(_) => {
                    let message = format!("create {about} success");
                    self.pods.recorder.normal(set, "SuccessfulCreate", message);
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => {
                    let message = format!("create {about} failed error: {error}");
                    self.pods.recorder.warning(set, "FailedCreate", message);
                    return Err(error);
                }
            }
        }
        let about = format!("Pod {} in StatefulSet {}", pod.name(), set.name());
        match self.pods.api(set.namespace()).create(&pod).await {
            Ok(created) => {
                self.pods.expectations.wrote(&ObjectKey::of(set), &created);
                let message = format!("create {about} successful");
                self.pods.recorder.normal(set, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                let message = format!("create {about} failed error: {error}");
                self.pods.recorder.warning(set, "FailedCreate", message);
                Err(error)
            }
        }
    }

    fn claims_gvr(&self) -> &Gvr {
        &self.claims.spec().gvr
    }

    async fn delete(&self, set: &Object, value: &Value, pod: &Pod) -> ClientResult<()> {
        self.let_claims_go(set, value, pod).await?;
        let options = DeleteOptions { uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
        let about = format!("Pod {} in StatefulSet {}", pod.name(), set.name());
        match self.pods.api(set.namespace()).delete(pod.name(), &options).await {
            Ok(deleted) => {
                self.pods.expectations.wrote(&ObjectKey::of(set), &deleted);
                let message = format!("delete {about} successful");
                self.pods.recorder.normal(set, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => {
                let message = format!("delete {about} failed error: {error}");
                self.pods.recorder.warning(set, "FailedDelete", message);
                Err(error)
            }
        }
    }

    /// Claims of pods that are scaled away go with them, where that was asked for.
    async fn let_claims_go(&self, set: &Object, value: &Value, pod: &Pod) -> ClientResult<()> {
        let policy = ["spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"];
        let Some(ordinal) = ordinal_of(set.name(), pod.name()) else { return Ok(()) };
        if value.str_at(&policy) != Some("Delete") || decide::range_of(value).contains(&ordinal) {
            return Ok(());
        }
        for claim in claims_of(set, value, ordinal) {
            let api = self.client.api(self.claims_gvr()).namespaced(set.namespace());
            let owner = karmada_apimachinery::json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()}]}});
            settle(api.merge_patch(claim.name(), owner).await)?;
        }
        Ok(())
    }
}
