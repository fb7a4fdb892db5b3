//! Keeps the status of ResourceQuotas: what is allowed, and what the namespace uses of it. Refusing
//! what would be too much is the API server's part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::{GroupResource, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Discovery};
use karmada_kinds::quota::{Usage, covers, usage};
use karmada_runtime::{Action, Change, Controller, Informer, Informers, Manager, ObjectKey};
use parking_lot::Mutex;

use super::status::{Error, write_status};

/// Everything is counted again after this time, as pods become free by mere waiting.
const RECOUNT: Duration = Duration::from_secs(300);

const AGAIN: Duration = Duration::from_millis(50);

struct Ctx {
    client: Client,
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
        discovery: manager.discovery.clone(),
        informers: manager.informers.clone(),
        manager: manager.clone(),
        controller: controller.clone(),
        quotas: manager.informers.all(&quotas()),
        counted: Mutex::default(),
    });
    let queue = controller.queue().clone();
    manager.keep(ctx.quotas.subscribe(move |change| {
        if spec_changed(change) || !is_complete(&change.object().value()) {
            queue.add(ObjectKey::of(change.object()));
        }
    }));
    let inputs = vec![ctx.quotas.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(quota) = ctx.quotas.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let value = quota.value();
    let failed = |source| Error::new("ResourceQuota", &key, source);
    let hard = value.map_at(&["spec", "hard"]).cloned().unwrap_or_default();
    let sources: BTreeSet<_> = hard.keys().map(|name| source_of(name)).collect();
    let mut used = Usage::new();
    for source in sources {
        let Some(informer) = ctx.follow(&source).await.map_err(failed)? else { continue };
        informer.wait_synced().await;
        for object in informer.cache().list_namespace(&key.namespace) {
            let object = object.value();
            if covers(&value, &source.resource, &object) {
                add(&mut used, usage(&source.group, &source.resource, &object));
            }
        }
    }
    let status = status_of(&hard, &used);
    let api = ctx.client.api(&quotas()).namespaced(&key.namespace);
    let outdated = value.get("status") != Some(&status);
    let written = write_status(&api, &quota, status).await.map_err(failed)?;
    // Somebody took a place meanwhile; what was counted is no longer true.
    Ok(Action::Requeue(if outdated && !written { AGAIN } else { RECOUNT }))
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
        let resources = self.discovery.resources().await?;
        let found = resources.iter().find(|resource| {
            resource.gvr.group == source.group && resource.gvr.resource == source.resource
        });
        Ok(found.map(|resource| resource.gvr.clone()))
    }
}

/// Returns which resource has to be counted for an amount a quota limits.
fn source_of(name: &str) -> GroupResource {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return GroupResource::new(group, resource);
    }
    let resource = match name {
        "services.nodeports" | "services.loadbalancers" => "services",
        "requests.storage" => "persistentvolumeclaims",
        class if class.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims",
        "cpu" | "memory" | "ephemeral-storage" => "pods",
        pods if ["requests.", "limits.", "hugepages-"].iter().any(|p| pods.starts_with(p)) => {
            "pods"
        }
        // Everything else is counted under the name of its resource.
        other => other,
    };
    GroupResource::new("", resource)
}

fn add(total: &mut Usage, more: Usage) {
    for (name, amount) in more {
        let known = total.get(&name).filter(|known| !known.is_zero());
        let sum =
            known.map(|known| Quantity::from_nanos(known.nanos() + amount.nanos(), known.format()));
        total.insert(name, sum.unwrap_or(amount));
    }
}

/// Whether the status speaks of everything the quota limits.
fn is_complete(quota: &Value) -> bool {
    let names = |path: &[&str]| -> BTreeSet<String> {
        quota.map_at(path).into_iter().flatten().map(|(name, _)| name.to_string()).collect()
    };
    names(&["spec", "hard"]) == names(&["status", "used"])
}

fn spec_changed(change: &Change) -> bool {
    match change {
        Change::Applied { old: Some(old), new } => {
            old.value().at(&["spec"]) != new.value().at(&["spec"])
        }
        _ => true,
    }
}

/// Whether less may be used now. What is created was counted when it was admitted; counting it
/// here, from a cache that lags behind, could give its place away a second time.
fn matters(change: &Change) -> bool {
    let ended = |object: &karmada_client::Object| {
        let value = object.value();
        matches!(value.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
    };
    match change {
        Change::Applied { old: Some(old), new } if new.gvk().kind == "Pod" => {
            ended(old) != ended(new) || spec_changed(change)
        }
        Change::Applied { old: Some(_), .. } => spec_changed(change),
        Change::Applied { old: None, .. } => false,
        Change::Deleted(_) => true,
    }
}

/// Only what is limited is shown.
fn status_of(hard: &karmada_apimachinery::Map, used: &Usage) -> Value {
    let mut shown = json!({});
    for (name, limit) in hard {
        let format = Quantity::from_value(limit).map_or(Format::DecimalSi, |limit| limit.format());
        let zero = || Quantity::new(0, format);
        shown[name] = used.get(name.as_str()).cloned().unwrap_or_else(zero).canonical().into();
    }
    json!({"hard": hard, "used": shown})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_amount_has_a_source() {
        let cases = [
            ("cpu", "pods"),
            ("limits.memory", "pods"),
            ("requests.storage", "persistentvolumeclaims"),
            ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
            ("services.nodeports", "services"),
            ("count/deployments.apps", "deployments.apps"),
            ("requests.example.com/gpu", "pods"),
            ("secrets", "secrets"),
        ];
        for (name, expected) in cases {
            assert_eq!(source_of(name).to_string(), expected, "{name}");
        }
    }

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
