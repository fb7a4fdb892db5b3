//! Makes the Jobs of a CronJob when they are due, and keeps no more of the finished ones than its
//! author wants to see.

mod decide;

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object, Propagation, Result as ClientResult};
use karmada_runtime::{
    Action, Change, Clock, Controller, EventType, Informer, Manager, ObjectKey, Recorder,
};

use self::decide::{Known, Plan, decide};
use super::expectations::Expectations;
use super::ownership::{controller_of, controller_reference, index_by_controller, owned_by};
use super::status::{Error, settle, write_status};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

struct Ctx {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    crons: Arc<Informer>,
    jobs: Arc<Informer>,
    /// Jobs made, and statuses written.
    made: Arc<Expectations>,
    written: Arc<Expectations>,
}

fn cron_jobs() -> Gvr {
    Gvr::new("batch", "v1", "cronjobs")
}

fn jobs() -> Gvr {
    Gvr::new("batch", "v1", "jobs")
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        recorder: manager.recorder("cronjob-controller"),
        crons: manager.informers.all(&cron_jobs()),
        jobs: manager.informers.all(&jobs()),
        made: Arc::default(),
        written: Arc::default(),
    });
    index_by_controller(ctx.jobs.cache());
    let controller = Controller::new("cronjob", &manager.metrics).workers(5);
    let (queue, written) = (controller.queue().clone(), ctx.written.clone());
    manager.keep(ctx.crons.subscribe(move |change| {
        written.see(change.object());
        queue.add(ObjectKey::of(change.object()));
    }));
    let (queue, made) = (controller.queue().clone(), ctx.made.clone());
    manager.keep(ctx.jobs.subscribe(move |change: &Change| {
        let job = change.object();
        made.see(job);
        if let Some(owner) = controller_of(job.meta()).filter(|owner| owner.kind == "CronJob") {
            queue.add(ObjectKey::new(job.namespace(), owner.name.as_str()));
        }
    }));
    let inputs = vec![ctx.crons.clone(), ctx.jobs.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(cron) = ctx.crons.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if !ctx.made.met(&key) || !ctx.written.met(&key) {
        return Ok(Action::AwaitChange);
    }
    ctx.sync(&cron, &key).await.map_err(|source| Error::new("CronJob", &key, source))
}

impl Ctx {
    async fn sync(&self, cron: &Object, key: &ObjectKey) -> ClientResult<Action> {
        let value = cron.value();
        let owned: Vec<_> =
            owned_by(self.jobs.cache(), cron).iter().map(|job| job.value()).collect();
        let known = Known { cron: &value, jobs: &owned, now: self.clock.now() };
        let plan = decide(&known);
        for (kind, reason, message) in &plan.events {
            match kind {
                EventType::Normal => self.recorder.normal(cron, reason, message.as_str()),
                EventType::Warning => self.recorder.warning(cron, reason, message.as_str()),
            }
        }
        for name in &plan.delete {
            self.delete_job(cron, name).await?;
        }
        let mut status = plan.status.clone();
        self.run_due(cron, &value, key, &plan, &mut status).await?;
        let api = self.client.api(&cron_jobs()).namespaced(&key.namespace);
        write_status(&api, cron, status).await?;
        Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
    }

    /// Makes the job that is due and notes it.
    async fn run_due(
        &self,
        cron: &Object,
        value: &Value,
        key: &ObjectKey,
        plan: &Plan,
        status: &mut Value,
    ) -> ClientResult<()> {
        let Some(due) = plan.due else { return Ok(()) };
        let job = render_job(cron, value, &decide::job_name(cron.name(), due), due);
        let api = self.client.api(&jobs()).namespaced(&key.namespace);
        let made = match api.create(&job).await {
            Ok(made) => {
                self.made.wrote(key, &made);
                let message = format!("Created job {}", made.name());
                self.recorder.normal(cron, "SuccessfulCreate", message);
                made
            }
            Err(error) if error.is_already_exists() => api.get(job.name()).await?,
            Err(error) if error.is_namespace_terminating() => return Ok(()),
            Err(error) => {
                let message = format!("Error creating job: {error}");
                self.recorder.warning(cron, "FailedCreate", message);
                return Err(error);
            }
        };
        let mut active = status.list_at(&["active"]).to_vec();
        active.push(json!({"apiVersion": "batch/v1", "kind": "Job", "name": made.name(),
            "namespace": made.namespace(), "uid": made.uid(),
            "resourceVersion": made.resource_version()}));
        status["active"] = active.into();
        status["lastScheduleTime"] = format_time(due).into();
        Ok(())
    }

    async fn delete_job(&self, cron: &Object, name: &str) -> ClientResult<()> {
        let api = self.client.api(&jobs()).namespaced(cron.namespace());
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match settle(api.delete(name, &options).await) {
            Ok(_) => {
                let message = format!("Deleted job {name}");
                self.recorder.normal(cron, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) => {
                let message = format!("Deleted job: {error}");
                self.recorder.warning(cron, "FailedDelete", message);
                Err(error)
            }
        }
    }
}

fn render_job(cron: &Object, value: &Value, name: &str, due: jiff::Timestamp) -> Value {
    let empty = json!({});
    let template = value.at(&["spec", "jobTemplate"]).unwrap_or(&empty);
    let zone = value.str_at(&["spec", "timeZone"]).and_then(|z| jiff::tz::TimeZone::get(z).ok());
    let stamp = match zone {
        Some(zone) => due.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        None => format_time(due),
    };
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron.namespace(),
            "annotations": template.at(&["metadata", "annotations"]).unwrap_or(&empty),
            "ownerReferences": [controller_reference(cron)],
        },
        "spec": template.at(&["spec"]).unwrap_or(&empty),
    });
    job["metadata"]["annotations"][SCHEDULED_AT] = stamp.into();
    if let Some(labels) = template.at(&["metadata", "labels"]) {
        job["metadata"]["labels"] = labels.clone();
    }
    job
}
