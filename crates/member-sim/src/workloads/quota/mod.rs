//! Keeps the status of ResourceQuotas: what is allowed, and what the namespace uses of it. Refusing
//! what would be too much is the API server's part.

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::{GroupResource, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Discovery};
use karmada_runtime::{Action, Change, Clock, Controller, Informer, Informers, Manager, ObjectKey};
use parking_lot::Mutex;

use self::usage::{Usage, add, covers, source_of, usage_of};
use super::status::{Error, write_status};

/// Everything is counted again after this time, as pods become free by mere waiting.
const RECOUNT: Duration = Duration::from_secs(300);

struct Ctx {
    client: Client,
    clock: Clock,
    discovery: Discovery,
    informers: Informers,
    manager: Manager,
    controller: Controller<ObjectKey>,
    quotas: Arc<Informer>,
    /// Resources some quota counts, followed since then.
    counted: Mutex<BTreeMap<GroupResource, Arc<Informer>>>,
}

fn quotas() -> Gvr {
    Gvr::new("", "v1", "resourcequotas")
}

pub(crate) fn start(manager: &Manager) {
    let controller = Controller::new("resourcequota", &manager.metrics).workers(5);
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        discovery: manager.discovery.clone(),
        informers: manager.informers.clone(),
        manager: manager.clone(),
        controller: controller.clone(),
        quotas: manager.informers.all(&quotas()),
        counted: Mutex::default(),
    });
    manager.keep(ctx.quotas.feed(controller.queue()));
    let inputs = vec![ctx.quotas.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(quota) = ctx.quotas.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let value = quota.value();
    let empty = json!({});
    let spec = value.at(&["spec"]).unwrap_or(&empty);
    let failed = |source| Error::new("ResourceQuota", &key, source);
    let hard = spec.map_at(&["hard"]).cloned().unwrap_or_default();
    let sources: BTreeSet<_> = hard.keys().filter_map(|name| source_of(name)).collect();
    let mut used = Usage::new();
    for source in sources {
        let Some(informer) = ctx.follow(&source).await.map_err(failed)? else { continue };
        informer.wait_synced().await;
        for object in informer.cache().list_namespace(&key.namespace) {
            let object = object.value();
            if covers(spec, &source, &object) {
                add(&mut used, usage_of(&source, &object, ctx.clock.now()));
            }
        }
    }
    let status = status_of(&hard, &used);
    let api = ctx.client.api(&quotas()).namespaced(&key.namespace);
    write_status(&api, &quota, status).await.map_err(failed)?;
    Ok(Action::Requeue(RECOUNT))
}

impl Ctx {
    /// Returns the informer of a counted resource; nothing if it is not served.
    async fn follow(
        &self,
        source: &GroupResource,
    ) -> Result<Option<Arc<Informer>>, karmada_client::Error> {
        if let Some(informer) = self.counted.lock().get(source) {
            return Ok(Some(informer.clone()));
        }
        let Some(gvr) = self.served(source).await? else { return Ok(None) };
        let informer = self.informers.all(&gvr);
        let mut counted = self.counted.lock();
        if counted.insert(source.clone(), informer.clone()).is_none() {
            let (quotas, queue) = (self.quotas.clone(), self.controller.queue().clone());
            self.manager.keep(informer.subscribe(move |change| {
                if matters(change) {
                    let namespace = change.object().namespace();
                    let own = quotas.cache().list_namespace(namespace);
                    own.iter().for_each(|quota| queue.add(ObjectKey::of(quota)));
                }
            }));
        }
        Ok(Some(informer))
    }

    async fn served(&self, source: &GroupResource) -> Result<Option<Gvr>, karmada_client::Error> {
        if source.group.is_empty() {
            return Ok(Some(Gvr::new("", "v1", source.resource.as_str())));
        }
        let resources = self.discovery.resources().await?;
        let found = resources.iter().find(|resource| {
            resource.gvr.group == source.group && resource.gvr.resource == source.resource
        });
        Ok(found.map(|resource| resource.gvr.clone()))
    }
}

/// A quota itself changes with its own status; everything else is looked at by what it is.
fn matters(change: &Change) -> bool {
    match change {
        Change::Applied { old: Some(old), new } if new.gvk().kind == "Pod" => {
            let ended = |value: &Value| {
                matches!(value.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
            };
            let (old, new) = (old.value(), new.value());
            ended(&old) != ended(&new) || old.at(&["spec"]) != new.at(&["spec"])
        }
        Change::Applied { old: Some(old), new } => {
            let spec = |object: &karmada_client::Object| object.value().at(&["spec"]).cloned();
            spec(old) != spec(new)
        }
        _ => true,
    }
}

/// Only what is limited is shown.
fn status_of(hard: &serde_json::Map<String, Value>, used: &Usage) -> Value {
    let mut shown = json!({});
    for (name, limit) in hard {
        let format = Quantity::from_value(limit).map_or(Format::DecimalSi, |limit| limit.format());
        let zero = || Quantity::new(0, format);
        shown[name] = used.get(name).cloned().unwrap_or_else(zero).canonical().into();
    }
    json!({"hard": hard, "used": shown})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_shows_what_is_limited() {
        let hard = json!({"pods": "5", "cpu": "1", "services": "2"});
        let used = Usage::from([
            ("pods".to_owned(), Quantity::new(2, Format::DecimalSi)),
            ("cpu".to_owned(), Quantity::from_millis(250)),
            ("memory".to_owned(), Quantity::new(7, Format::BinarySi)),
        ]);
        let status = status_of(hard.as_object().unwrap(), &used);
        assert_eq!(status["used"], json!({"pods": "2", "cpu": "250m", "services": "0"}));
        assert_eq!(status["hard"], hard);
    }
}
