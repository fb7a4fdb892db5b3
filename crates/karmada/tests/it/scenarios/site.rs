//! One API server: actions of a scenario are sent to it, and what it holds is read from caches that
//! follow it, so that looking costs it nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{
    Api, ApiResource, Client, DeleteOptions, Discovery, ListOptions, Object, Patch, PatchOptions,
    Propagation,
};
use karmada_runtime::{Informer, Informers, Shutdown};
use tokio::time::sleep;

/// One API server.
pub(super) struct Site {
    pub(super) client: Client,
    discovery: Discovery,
    informers: Informers,
    /// Where it listens, and the authority it is known by.
    pub(super) address: String,
    pub(super) authority: String,
}

/// What a request came to: its code, and the message of a refusal.
pub(super) type Answered = (u16, Option<String>);

fn answered(result: karmada_client::Result<Value>, code: u16) -> Answered {
    match result {
        Ok(_) => (code, None),
        Err(error) => match error.api() {
            Some(refusal) => (refusal.code, Some(refusal.message.clone())),
            None => (0, Some(error.to_string())),
        },
    }
}

impl Site {
    pub(super) async fn open(kubeconfig: &Path, shutdown: &Shutdown) -> Self {
        let text = std::fs::read_to_string(kubeconfig).expect("read the kubeconfig");
        let entry = |key: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
            line.unwrap_or_else(|| panic!("no {key} in the kubeconfig")).trim().to_owned()
        };
        let authority = BASE64.decode(entry("certificate-authority-data:")).expect("base64");
        let client = Client::from_kubeconfig(kubeconfig, None).await.expect("make a client");
        Self {
            discovery: Discovery::new(client.clone()),
            informers: Informers::new(client.clone(), shutdown.clone()),
            client,
            address: entry("server:"),
            authority: String::from_utf8(authority).expect("text"),
        }
    }

    /// The cache of all objects of a resource.
    pub(super) async fn cached(&self, gvr: &Gvr) -> Arc<Informer> {
        let informer = self.informers.all(gvr);
        informer.wait_synced().await;
        informer
    }

    /// The objects of a resource in a namespace.
    pub(super) async fn objects(&self, gvr: &Gvr, namespace: &str) -> Vec<Arc<Object>> {
        // A cache of what can stop being served would stay as it was.
        let comes_and_goes = gvr.group.contains('.')
            && !gvr.group.ends_with(".k8s.io")
            && !gvr.group.ends_with(".karmada.io");
        if !comes_and_goes {
            return self.cached(gvr).await.cache().list_namespace(namespace);
        }
        let api = self.client.api(gvr).namespaced(namespace);
        let list = api.list_all(&ListOptions::default()).await;
        list.map(|list| list.items).unwrap_or_default()
    }

    pub(super) async fn resource(&self, api_version: &str, kind: &str) -> Option<ApiResource> {
        let gvk = GroupVersion::parse(api_version)?.with_kind(kind);
        self.discovery.resource_of(&gvk).await.ok().flatten()
    }

    pub(super) async fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Option<Api> {
        // A definition written a moment ago is served a moment later.
        for _ in 0..50 {
            if let Some(resource) = self.resource(api_version, kind).await {
                let namespace = if resource.namespaced { namespace } else { "" };
                return Some(self.client.api(&resource.gvr).namespaced(namespace));
            }
            sleep(Duration::from_millis(100)).await;
        }
        None
    }

    pub(super) fn of(&self, group: &str, version: &str, resource: &str) -> Api {
        self.client.api(&Gvr::new(group, version, resource))
    }

    /// Creates the object, or merges it into the one that is there.
    pub(super) async fn apply(&self, object: &Value) -> Answered {
        let api = self.api(object.api_version(), object.kind(), object.namespace()).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        match api.create(object).await {
            Err(error) if error.is_already_exists() => {
                answered(api.merge_patch(object.name(), object.clone()).await, 200)
            }
            created => answered(created, 201),
        }
    }

    pub(super) async fn patch(
        &self,
        reference: &Value,
        body: &Value,
        (how, subresource): (&str, &str),
    ) -> Answered {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let api = self.api(text("apiVersion"), text("kind"), text("namespace")).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        let patch = match how {
            "json" => Patch::Json(body.clone()),
            "strategic" => Patch::Strategic(body.clone()),
            _ => Patch::Merge(body.clone()),
        };
        let options = PatchOptions::default();
        answered(api.patch_subresource(text("name"), subresource, &patch, &options).await, 200)
    }

    pub(super) async fn delete(&self, reference: &Value, how: &str) -> Answered {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let api = self.api(text("apiVersion"), text("kind"), text("namespace")).await;
        let Some(api) = api else { return (404, Some("no such kind".to_owned())) };
        let propagation = match how {
            "Orphan" => Propagation::Orphan,
            "Foreground" => Propagation::Foreground,
            _ => Propagation::Background,
        };
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        answered(api.delete(text("name"), &options).await, 200)
    }

    pub(super) async fn list(&self, api: &Api) -> Vec<Value> {
        let list = api.list_all(&ListOptions::default()).await;
        list.map(|list| list.items.iter().map(|item| item.value()).collect()).unwrap_or_default()
    }

    pub(super) async fn has_namespace(&self, name: &str) -> bool {
        matches!(self.of("", "v1", "namespaces").find(name).await, Ok(Some(_)))
    }
}

pub(super) fn reference(object: &Value) -> Value {
    json!({"apiVersion": object.api_version(), "kind": object.kind(),
        "namespace": object.namespace(), "name": object.name()})
}
