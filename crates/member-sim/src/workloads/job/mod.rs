//! Runs the pods of a Job until enough of them succeeded or too many failed, and counts each of
//! them exactly once: a finalizer keeps a pod until it is counted.

mod conditions;
mod decide;
mod indexes;
mod policy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::join_all;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object, Patch, PatchOptions, Result as ClientResult};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey};

use self::decide::{INDEX, INDEX_FAILURES, NewPod, Plan, TRACKING, decide, is_tracked};
use super::expectations::Expectations;
use super::ownership::controller_of;
use super::pods::{Pod, Pods, from_template, selector_of};
use super::status::{Error, settle};

pub(super) use self::conditions::has_ended;

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    jobs: Arc<Informer>,
    pods: Pods,
    /// How much of its own writes to jobs the cache shows.
    written: Arc<Expectations>,
}

pub(crate) fn start(manager: &Manager) {
    let gvr = Gvr::new("batch", "v1", "jobs");
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        jobs: manager.informers.all(&gvr),
        gvr,
        pods: Pods::new(manager, "job-controller"),
        written: Arc::default(),
    });
    let controller = Controller::new("job", &manager.metrics).workers(5);
    let (queue, written) = (controller.queue().clone(), ctx.written.clone());
    manager.keep(ctx.jobs.subscribe(move |change| {
        written.see(change.object());
        queue.add(ObjectKey::of(change.object()));
    }));
    ctx.pods.wake_owners(manager, &ctx.jobs, "Job", controller.queue());
    let inputs = vec![ctx.jobs.clone(), ctx.pods.informer.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let failed = |source| Error::new("Job", &key, source);
    let Some(job) = ctx.jobs.cache().get(&key) else {
        ctx.release_leftovers(&key, None).await.map_err(failed)?;
        return Ok(Action::AwaitChange);
    };
    if !ctx.pods.expectations.met(&key) || !ctx.written.met(&key) {
        return Ok(Action::AwaitChange);
    }
    ctx.sync(&job, &key).await.map_err(failed)
}

impl Ctx {
    async fn sync(&self, job: &Object, key: &ObjectKey) -> ClientResult<Action> {
        let value = job.value();
        let others = value.str_at(&["spec", "managedBy"]);
        if others.is_some_and(|by| by != "kubernetes.io/job-controller") {
            return Ok(Action::AwaitChange);
        }
        if has_ended(&value) {
            self.release_leftovers(key, Some(job)).await?;
            return Ok(Action::AwaitChange);
        }
        let selector = selector_of(&value);
        let pods = self.pods.claim(job, &self.gvr, &selector, Some(TRACKING)).await?;
        let plan = decide(&value, &pods, self.clock.now());
        self.pods.delete_many(job, &plan.delete).await?;
        let wanted: Vec<_> = plan.create.iter().map(|pod| render_pod(job, &value, pod)).collect();
        let (created, made) = self.pods.create_many(job, wanted).await;
        let mut status = plan.status.clone();
        let short = i64::try_from(plan.create.len() - created).unwrap_or(i64::MAX);
        let active = status.i64_at(&["active"]).unwrap_or_default();
        conditions::set_number(&mut status, "active", (active - short).max(0));
        self.write(job, value, status, &plan).await?;
        match made {
            Err(error) if !error.is_namespace_terminating() => return Err(error),
            _ => {}
        }
        Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
    }

    /// Notes who finished, lets those pods go, and then counts them: in this order nobody is
    /// missed and nobody counted twice, whenever it is interrupted.
    async fn write(
        &self,
        job: &Object,
        mut value: Value,
        status: Value,
        plan: &Plan,
    ) -> ClientResult<()> {
        let key = ObjectKey::of(job);
        if value.get("status") != Some(&status) {
            value.set(&["status"], status);
            match self.write_status(&key, &value).await? {
                Some(written) => value = written,
                None => return Ok(()),
            }
        }
        match plan.suspension {
            Some(true) => self.pods.recorder.normal(job, "Suspended", "Job suspended"),
            Some(false) => self.pods.recorder.normal(job, "Resumed", "Job resumed"),
            None => {}
        }
        self.release(&key, &plan.release).await?;
        let released: Vec<_> = plan.release.iter().map(|pod| pod.uid().to_owned()).collect();
        let mut status = value["status"].clone();
        let ended = conditions::settle(&mut status, &released, plan.end.as_ref(), self.clock.now());
        if value["status"] != status {
            value.set(&["status"], status);
            if self.write_status(&key, &value).await?.is_some() && ended {
                self.tell_end(job, plan);
            }
        }
        Ok(())
    }

    async fn write_status(&self, key: &ObjectKey, job: &Value) -> ClientResult<Option<Value>> {
        let api = self.client.api(&self.gvr).namespaced(&key.namespace);
        let written = settle(api.update_subresource(job, "status").await)?;
        if let Some(written) = &written {
            self.written.wrote(key, written);
        }
        Ok(written)
    }

    fn tell_end(&self, job: &Object, plan: &Plan) {
        match &plan.end {
            Some(end) if end.failed => {
                self.pods.recorder.warning(job, &end.reason, end.message.as_str());
            }
            Some(_) => self.pods.recorder.normal(job, "Completed", "Job completed"),
            None => {}
        }
    }

    /// Takes the finalizer off pods whose job is gone or has ended.
    async fn release_leftovers(&self, key: &ObjectKey, job: Option<&Object>) -> ClientResult<()> {
        let of_job = |pod: &Arc<Object>| {
            controller_of(pod.meta()).is_some_and(|owner| {
                let alive = job.is_none_or(|job| job.uid() == owner.uid);
                owner.kind == "Job" && owner.name == key.name && alive
            })
        };
        let pods = self.pods.informer.cache().list_namespace(&key.namespace);
        let left: Vec<_> = pods.iter().filter(|pod| of_job(pod)).map(Pod::of).collect();
        let left: Vec<_> = left.into_iter().filter(is_tracked).collect();
        self.release(key, &left).await
    }

    async fn release(&self, key: &ObjectKey, pods: &[Pod]) -> ClientResult<()> {
        let release = |pod: &Pod| {
            let patch = json!({"metadata": {
                "uid": pod.uid(),
                "$deleteFromPrimitiveList/finalizers": [TRACKING],
            }});
            let (api, name) = (self.pods.api(&key.namespace), pod.name().to_owned());
            async move {
                let options = PatchOptions::default();
                api.patch(&name, &Patch::Strategic(patch), &options).await
            }
        };
        for result in join_all(pods.iter().map(release)).await {
            if let Some(released) = settle(result)? {
                self.pods.expectations.wrote(key, &released);
            }
        }
        Ok(())
    }
}

fn render_pod(job: &Object, value: &Value, new: &NewPod) -> Value {
    let mut pod = from_template(&value["spec"]["template"], job);
    let mut finalizers = pod.list_at(&["metadata", "finalizers"]).to_vec();
    finalizers.push(TRACKING.into());
    pod.set(&["metadata", "finalizers"], finalizers);
    let Some(index) = new.index else { return pod };
    let text = index.to_string();
    pod.set(&["metadata", "annotations", INDEX], text.as_str());
    pod.set(&["metadata", "labels", INDEX], text.as_str());
    if let Some(failures) = new.failures {
        pod.set(&["metadata", "annotations", INDEX_FAILURES], failures.to_string());
    }
    pod.set(&["metadata", "generateName"], format!("{}-{index}-", job.name()));
    pod.set(&["spec", "hostname"], format!("{}-{index}", job.name()));
    let source = format!("metadata.labels['{INDEX}']");
    let variable = json!({"name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": source}}});
    for field in ["initContainers", "containers"] {
        for container in pod.list_at_mut(&["spec", field]) {
            let mut env = container.list_at(&["env"]).to_vec();
            if !env.iter().any(|one| one.str_at(&["name"]) == Some("JOB_COMPLETION_INDEX")) {
                env.push(variable.clone());
                container.set(&["env"], env);
            }
        }
    }
    pod
}
