//! Rolls a Deployment from one template to the next: a ReplicaSet per template, scaled up and down
//! within the limits its author set.

mod conditions;
mod rollout;
mod sets;

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey, Recorder};

use super::bursts::Bursts;
use super::expectations::Expectations;
use super::ownership::{Claimer, accepts_all, controller_of, index_by_controller};
use super::pods::selector_of;
use rollout::Scaling;
use sets::{Generations, ReplicaSet};

#[derive(Debug, thiserror::Error)]
#[error("{attempt} {deployment}")]
pub(super) struct Error {
    attempt: &'static str,
    deployment: ObjectKey,
    source: karmada_client::Error,
}

pub(super) struct Ctx {
    client: Client,
    clock: Clock,
    deployments: Arc<Informer>,
    sets: Arc<Informer>,
    pods: Arc<Informer>,
    expectations: Arc<Expectations>,
    recorder: Recorder,
}

pub(super) fn gvr() -> Gvr {
    Gvr::new("apps", "v1", "deployments")
}

pub(super) fn sets_gvr() -> Gvr {
    Gvr::new("apps", "v1", "replicasets")
}

pub(crate) fn start(manager: &Manager) {
    let (deployments, sets) = (manager.informers.all(&gvr()), manager.informers.all(&sets_gvr()));
    let pods = manager.informers.all(&Gvr::new("", "v1", "pods"));
    index_by_controller(sets.cache());
    index_by_controller(pods.cache());
    let controller = Controller::new("deployment-controller", &manager.metrics).workers(2);
    let bursts: Arc<Bursts> = Arc::default();
    let (own, queue) = (bursts.clone(), controller.queue().clone());
    manager.keep(deployments.subscribe(move |change| own.changed(change, &queue)));
    let expectations: Arc<Expectations> = Arc::default();
    let (seen, known, queue) =
        (expectations.clone(), deployments.clone(), controller.queue().clone());
    manager.keep(sets.subscribe(move |change| {
        seen.see(change.object());
        let set = change.object();
        match controller_of(set.meta()).filter(|owner| owner.kind == "Deployment") {
            Some(owner) => {
                bursts.wake(ObjectKey::new(set.namespace(), owner.name.as_str()), &queue);
            }
            None => {
                for deployment in known.cache().list_namespace(set.namespace()) {
                    if selector_of(&deployment.content()).matches_map(&set.meta().labels) {
                        queue.add(ObjectKey::of(&deployment));
                    }
                }
            }
        }
    }));
    wake_recreations(manager, &pods, &sets, &deployments, controller.queue());
    let inputs = vec![deployments.clone(), sets.clone(), pods.clone()];
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        deployments,
        sets,
        pods,
        expectations,
        recorder: manager.recorder("deployment-controller"),
    });
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

/// A Deployment that recreates its pods goes on when the last of the old ones is gone.
fn wake_recreations(
    manager: &Manager,
    pods: &Arc<Informer>,
    sets: &Arc<Informer>,
    deployments: &Arc<Informer>,
    queue: &karmada_runtime::Queue<ObjectKey>,
) {
    let (sets, deployments, queue) = (sets.clone(), deployments.clone(), queue.clone());
    manager.keep(pods.subscribe(move |change| {
        let karmada_runtime::Change::Deleted(pod) = change else { return };
        let Some(set) = controller_of(pod.meta()).filter(|owner| owner.kind == "ReplicaSet") else {
            return;
        };
        let set = sets.cache().get(&ObjectKey::new(pod.namespace(), set.name.as_str()));
        let Some(owner) = set.as_ref().and_then(|set| controller_of(set.meta())) else { return };
        let key = ObjectKey::new(pod.namespace(), owner.name.as_str());
        let recreates = |deployment: Arc<Object>| {
            deployment.content().str_at(&["spec", "strategy", "type"]) == Some("Recreate")
        };
        if deployments.cache().get(&key).is_some_and(recreates) {
            queue.add(key);
        }
    }));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.deployments.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if !ctx.expectations.met(&key) {
        return Ok(Action::AwaitChange);
    }
    let deployment = object.content();
    let run = Run { ctx: &ctx, key: &key, object: &object, deployment: &deployment };
    let sets = run.claim().await?;
    if object.is_being_deleted() {
        let generations = Generations::sort(&deployment, sets);
        return run.write_status(&generations, None).await;
    }
    let paused = deployment.bool_at(&["spec", "paused"]) == Some(true);
    let mut generations = Generations::sort(&deployment, sets);
    if !run.revise(&mut generations, paused).await? {
        return Ok(Action::AwaitChange);
    }
    let plan = if paused || rollout::is_scaling_event(&deployment, &generations) {
        rollout::scale_in_proportion(&deployment, &generations)
    } else if deployment.str_at(&["spec", "strategy", "type"]) == Some("Recreate") {
        rollout::recreate(&deployment, &generations, ctx.runs_old_pods(&generations))
    } else {
        rollout::roll(&deployment, &generations)
    };
    for scaling in &plan {
        run.scale(&mut generations, scaling).await?;
    }
    if plan.is_empty() && !paused {
        run.clean_up(&generations).await?;
    }
    run.write_status(&generations, Some(paused)).await
}

impl Ctx {
    /// Whether pods of older templates are still there, on their way out included.
    fn runs_old_pods(&self, generations: &Generations) -> bool {
        let runs = |set: &ReplicaSet| {
            let pods = super::ownership::owned_by(self.pods.cache(), &set.object);
            pods.iter().any(|pod| !super::pods::Pod::of(pod).is_finished())
        };
        generations.old.iter().any(runs)
    }
}

/// One look at one Deployment.
pub(super) struct Run<'a> {
    ctx: &'a Ctx,
    key: &'a ObjectKey,
    object: &'a Object,
    deployment: &'a Value,
}

impl Run<'_> {
    fn failed(&self, attempt: &'static str) -> impl FnOnce(karmada_client::Error) -> Error + use<> {
        let deployment = self.key.clone();
        move |source| Error { attempt, deployment, source }
    }

    fn sets_api(&self) -> karmada_client::Api {
        self.ctx.client.api(&sets_gvr()).namespaced(&self.key.namespace)
    }

    async fn claim(&self) -> Result<Vec<ReplicaSet>, Error> {
        let claimer = Claimer {
            owners: self.ctx.client.api(&gvr()).namespaced(&self.key.namespace),
            objects: self.sets_api(),
            cache: self.ctx.sets.cache(),
            finalizer: None,
            accepts: &accepts_all,
        };
        let claimed = claimer.claim(self.object, &selector_of(self.deployment)).await;
        let claimed = claimed.map_err(self.failed("claim the replica sets of"))?;
        Ok(claimed.iter().map(ReplicaSet::of).collect())
    }

    /// Makes sure that the present template has a ReplicaSet with the newest revision; a paused
    /// Deployment gets no new one. Whether the rest can go on now.
    async fn revise(&self, generations: &mut Generations, paused: bool) -> Result<bool, Error> {
        let number = generations.next_revision();
        match &generations.new {
            Some(set) => {
                if let Some(annotations) = sets::due_annotations(self.deployment, set, number) {
                    let min_ready = self.deployment.i64_at(&["spec", "minReadySeconds"]);
                    let patch = json!({
                        "metadata": {"annotations": annotations},
                        "spec": {"minReadySeconds": min_ready.unwrap_or_default()},
                    });
                    let patched = self.sets_api().merge_patch(set.name(), patch).await;
                    let patched = patched.map_err(self.failed("revise the replica set of"))?;
                    self.ctx.expectations.wrote(self.key, &patched);
                    generations.replace(&patched);
                }
            }
            None if paused => return Ok(true),
            None => match self.create_set(generations, number).await? {
                Some(created) => generations.adopt_new(&created),
                None => return Ok(false),
            },
        }
        self.note_revision(generations).await?;
        Ok(true)
    }

    async fn create_set(
        &self,
        generations: &Generations,
        number: i64,
    ) -> Result<Option<Value>, Error> {
        let set = sets::render(self.object, self.deployment, generations, number);
        match self.sets_api().create(&set).await {
            Ok(created) => {
                self.ctx.expectations.wrote(self.key, &created);
                let size = created.i64_at(&["spec", "replicas"]).unwrap_or_default();
                if size > 0 {
                    let message = format!("Scaled up replica set {} from 0 to {size}", set.name());
                    self.ctx.recorder.normal(self.object, "ScalingReplicaSet", message);
                }
                Ok(Some(created))
            }
            Err(error) if error.is_already_exists() => self.collide(&set).await.map(|()| None),
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                let message =
                    format!("Failed to create new replica set \"{}\": {error}", set.name());
                self.ctx.recorder.warning(self.object, "ReplicaSetCreateError", message);
                Err(self.failed("create the replica set of")(error))
            }
        }
    }

    /// Somebody else has a set of that name: the hash is drawn again with a count.
    async fn collide(&self, set: &Value) -> Result<(), Error> {
        let found = self.sets_api().find(set.name()).await;
        let found = found.map_err(self.failed("read the replica set of"))?;
        let ours = |found: &Value| {
            let owners = found.list_at(&["metadata", "ownerReferences"]);
            owners.iter().any(|owner| owner["uid"] == self.object.uid())
                && sets::same_template(found.at(&["spec", "template"]), self.deployment)
        };
        if found.as_ref().is_none_or(ours) {
            // The cache will show it.
            return Ok(());
        }
        let count = self.deployment.i64_at(&["status", "collisionCount"]).unwrap_or_default() + 1;
        let patch = json!({"status": {"collisionCount": count}});
        self.patch_status(patch).await
    }

    /// The revision of the Deployment is that of its newest ReplicaSet.
    async fn note_revision(&self, generations: &Generations) -> Result<(), Error> {
        let Some(revision) = generations.new.as_ref().map(|set| set.revision().to_string()) else {
            return Ok(());
        };
        if self.deployment.annotation(sets::REVISION) == Some(&revision) {
            return Ok(());
        }
        // Written with the status, as Kubernetes does: elsewhere an annotation is a new generation.
        self.patch_status(json!({"metadata": {"annotations": {sets::REVISION: revision}}})).await
    }

    async fn scale(&self, generations: &mut Generations, to: &Scaling) -> Result<(), Error> {
        let annotations = sets::size_annotations(self.deployment);
        let patch =
            json!({"metadata": {"annotations": annotations}, "spec": {"replicas": to.size}});
        let patched = self.sets_api().merge_patch(&to.name, patch).await;
        let patched = patched.map_err(self.failed("scale a replica set of"))?;
        self.ctx.expectations.wrote(self.key, &patched);
        generations.replace(&patched);
        if to.from != to.size {
            let direction = if to.size > to.from { "up" } else { "down" };
            let message = format!(
                "Scaled {direction} replica set {} from {} to {}",
                to.name, to.from, to.size
            );
            self.ctx.recorder.normal(self.object, "ScalingReplicaSet", message);
        }
        Ok(())
    }

    /// Deletes the oldest unused ReplicaSets once the rollout is complete.
    async fn clean_up(&self, generations: &Generations) -> Result<(), Error> {
        if !conditions::is_complete(self.deployment, generations) {
            return Ok(());
        }
        let limit = self.deployment.i64_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        for set in generations.beyond(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let options = DeleteOptions {
                uid: Some(set.object.uid().to_owned()),
                ..DeleteOptions::default()
            };
            match self.sets_api().delete(set.name(), &options).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    return Err(self.failed("clean up the replica sets of")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn write_status(
        &self,
        generations: &Generations,
        paused: Option<bool>,
    ) -> Result<Action, Error> {
        let now = self.ctx.clock.now();
        let (status, again) = conditions::status_of(self.deployment, generations, paused, now);
        if self.deployment.at(&["status"]) != Some(&status) {
            let mut fields = status;
            for field in [
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
            ] {
                if fields.get(field).is_none() {
                    fields[field] = Value::Null;
                }
            }
            self.patch_status(json!({"status": fields})).await?;
        }
        Ok(again.map_or(Action::AwaitChange, Action::Requeue))
    }

    async fn patch_status(&self, mut patch: Value) -> Result<(), Error> {
        patch["metadata"]["uid"] = self.object.uid().into();
        let api = self.ctx.client.api(&gvr()).namespaced(&self.key.namespace);
        match api.merge_patch_status(&self.key.name, patch).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                Err(self.failed("write the status of")(error))
            }
            _ => Ok(()),
        }
    }
}
