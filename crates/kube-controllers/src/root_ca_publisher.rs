//! Puts the certificate of the API server into every namespace, for pods to verify it with, and
//! puts it back when it was changed or deleted.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Controller, Informer, InformerSpec, ObjectKey};

use crate::service_account::is_active;
use crate::{Keys, Plane};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
// Compat: the exact text Kubernetes writes; tools compare it.
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the \
    kube-apiserver when using internal endpoints such as the internal service IP or \
    kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
    clusters.";

#[derive(Debug, thiserror::Error)]
#[error("publish the root certificate in {namespace}")]
struct Error {
    namespace: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    keys: Arc<dyn Keys>,
    config_maps: Gvr,
    namespaces: Arc<Informer>,
    published: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let config_maps = Gvr::new("", "v1", "configmaps");
    let namespaces = plane.informers.all(&Gvr::new("", "v1", "namespaces"));
    let own = InformerSpec::all(config_maps.clone()).with_fields(format!("metadata.name={NAME}"));
    let published = plane.informers.get(own);
    let name = "root-ca-certificate-publisher-controller";
    let controller = Controller::new(name, &plane.metrics).workers(2);
    plane.keep(namespaces.feed(controller.queue()));
    let queue = controller.queue().clone();
    plane.keep(published.subscribe(move |change| {
        queue.add(ObjectKey::cluster(change.object().namespace()));
    }));
    let inputs = vec![namespaces.clone(), published.clone()];
    let (client, keys) = (plane.client.clone(), plane.keys.clone());
    let ctx = Arc::new(Ctx { client, keys, config_maps, namespaces, published });
    plane.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(namespace: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let active =
        ctx.namespaces.cache().get(&namespace).is_some_and(|object| is_active(&object.value()));
    if !active {
        return Ok(Action::AwaitChange);
    }
    let key = ObjectKey::new(namespace.name.as_str(), NAME);
    let current = ctx.published.cache().get(&key).map(|object| object.value());
    let api = ctx.client.api(&ctx.config_maps).namespaced(&namespace.name);
    let written = match plan(current, &namespace.name, &ctx.keys.root_ca()) {
        Plan::Nothing => return Ok(Action::AwaitChange),
        Plan::Create(object) => api.create(&object).await,
        Plan::Update(object) => api.update(&object).await,
    };
    match written {
        Ok(_) => Ok(Action::AwaitChange),
        // The cache was behind; the change that made it so comes here as well.
        Err(error) if error.is_already_exists() || error.is_conflict() => Ok(Action::AwaitChange),
        Err(error) if error.is_namespace_terminating() || error.is_not_found() => {
            Ok(Action::AwaitChange)
        }
        Err(source) => Err(Error { namespace: namespace.name.into(), source }),
    }
}

#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Value),
    Update(Value),
}

fn plan(current: Option<Value>, namespace: &str, root_ca: &str) -> Plan {
    let data = json!({"ca.crt": root_ca});
    let Some(mut object) = current else {
        return Plan::Create(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace,
                "annotations": {DESCRIPTION: DESCRIPTION_TEXT}},
            "data": data,
        }));
    };
    let described = object.annotation(DESCRIPTION) == Some(DESCRIPTION_TEXT);
    if described && object.get("data") == Some(&data) {
        return Plan::Nothing;
    }
    object.set(&["data"], data);
    object.set(&["metadata", "annotations", DESCRIPTION], DESCRIPTION_TEXT);
    Plan::Update(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_only_what_differs_and_keeps_what_others_added() {
        let Plan::Create(object) = plan(None, "a", "PEM") else { panic!("not created") };
        assert_eq!(plan(Some(object.clone()), "a", "PEM"), Plan::Nothing);
        let mut changed = object.clone();
        changed.set(&["data", "other"], "x");
        changed.set(&["metadata", "labels", "mine"], "y");
        let mut restored = object;
        restored.set(&["metadata", "labels", "mine"], "y");
        assert_eq!(plan(Some(changed), "a", "PEM"), Plan::Update(restored));
    }
}
