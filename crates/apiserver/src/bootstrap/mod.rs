//! What a server writes at its first start, and checks at every later one.

mod flow;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::value::Text;
use karmada_apimachinery::{Value, json};
use tokio::time::Instant;

use crate::auth::bootstrap::{self as policy, Change};
use crate::cache::StoredObject;
use crate::http::query::encode_percent;
use crate::internal;
use crate::registry::Source;
use crate::server::Error;
use crate::state::State;

/// How many objects are written at the same time: they share the flushes of the disk.
const AT_ONCE: usize = 64;

/// Writes what is missing.
pub(crate) async fn run(state: &Arc<State>) -> Result<(), Error> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    ensure_all(state, namespaces.map(namespace)).await?;
    let policy = stream::iter(policy::objects())
        .map(|object| async move { reconcile_policy(state, &object).await });
    policy.buffered(AT_ONCE).try_collect::<()>().await?;
    publish(state, &extension_authentication(state)).await?;
    let others = flow::objects().into_iter().chain(priority_classes()).chain(api_services(state));
    ensure_all(state, others).await?;
    let [service, endpoints @ ..] = api_endpoint(state);
    // Its address may be taken: by another replica that begins at the same moment and is about to create
    // the Service, or by one from before there was this one. Neither keeps a server from starting.
    if let Err(error) = ensure(state, &service).await {
        tracing::warn!(%error, "the Service of the API server was not created");
    }
    ensure(state, &service_range(state)).await?;
    // Endpoints may not be loopback addresses; nothing could reach such a server from elsewhere.
    if !state.config.advertise_address.is_loopback() {
        ensure_all(state, endpoints).await?;
    }
    Ok(())
}

/// Creates those objects that are not there.
async fn ensure_all(
    state: &Arc<State>,
    objects: impl IntoIterator<Item = Value>,
) -> Result<(), Error> {
    let ensured = stream::iter(objects).map(|object| async move { ensure(state, &object).await });
    ensured.buffered(AT_ONCE).try_collect().await
}

/// How long a store that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// Sends a request, again and again while the store is away for a moment.
async fn send(
    state: &Arc<State>,
    method: Method,
    path: &str,
    content: Option<&Value>,
) -> (u16, Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, answer) = internal::send(state, method.clone(), path, content).await;
        if !matches!(code, 429 | 503 | 504) || Instant::now() > deadline {
            return (code, answer);
        }
        tracing::warn!(path, code, "the store does not answer yet, trying again");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The collection an object belongs to.
fn collection(state: &State, object: &Value) -> Option<String> {
    let snapshot = state.registry.snapshot();
    let gvk = object.gvk();
    let served = snapshot.find_kind(&gvk)?;
    let root = if gvk.group.is_empty() {
        format!("/api/{}", gvk.version)
    } else {
        format!("/apis/{}/{}", gvk.group, gvk.version)
    };
    let place = match object.namespace() {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    Some(format!("{root}{place}/{}", served.plural))
}

fn failed(object: &Value, code: u16, answer: &Value) -> Error {
    let message = answer.str_at(&["message"]).unwrap_or_default();
    Error::Bootstrap(format!("{} {}: {code} {message}", object.kind(), object.name()))
}

/// The stored object of that name. The caches have just read the store, so nobody needs to be asked.
fn stored(state: &State, object: &Value) -> Option<Arc<StoredObject>> {
    let snapshot = state.registry.snapshot();
    let cache = &snapshot.find_kind(&object.gvk())?.storage.as_ref()?.cache;
    match object.namespace() {
        "" => cache.get(object.name()),
        namespace => cache.get(&format!("{namespace}/{}", object.name())),
    }
}

/// Creates an object unless it is there.
async fn ensure(state: &Arc<State>, object: &Value) -> Result<(), Error> {
    if stored(state, object).is_some() {
        return Ok(());
    }
    let Some(collection) = collection(state, object) else { return Ok(()) };
    let (code, answer) = send(state, Method::POST, &collection, Some(object)).await;
    if code == 201 || code == 409 { Ok(()) } else { Err(failed(object, code, &answer)) }
}

/// Creates an object, or brings the data of the stored one up to date.
async fn publish(state: &Arc<State>, object: &Value) -> Result<(), Error> {
    ensure(state, object).await?;
    let Some(collection) = collection(state, object) else { return Ok(()) };
    let path = format!("{collection}/{}", encode_percent(object.name()));
    let (code, stored) = send(state, Method::GET, &path, None).await;
    let data = object.map_at(&["data"]).into_iter().flatten();
    let is_so = |(key, value): (&Text, &Value)| stored.at(&["data", key]) == Some(value);
    if code == 200 && data.into_iter().all(is_so) {
        return Ok(());
    }
    let patch = json!({"data": object.at(&["data"])});
    let (code, answer) = send(state, Method::PATCH, &path, Some(&patch)).await;
    if code == 200 { Ok(()) } else { Err(failed(object, code, &answer)) }
}

/// Brings a role or binding of the default policy up to date.
async fn reconcile_policy(state: &Arc<State>, expected: &Value) -> Result<(), Error> {
    let Some(collection) = collection(state, expected) else { return Ok(()) };
    let path = format!("{collection}/{}", encode_percent(expected.name()));
    let stored = stored(state, expected).map(|stored| stored.to_value());
    let (code, answer) = match policy::reconcile(stored.as_ref(), expected) {
        Change::Keep => return Ok(()),
        Change::Create(object) => send(state, Method::POST, &collection, Some(&object)).await,
        Change::Update(object) => send(state, Method::PUT, &path, Some(&object)).await,
        Change::Recreate(object) => {
            send(state, Method::DELETE, &path, None).await;
            send(state, Method::POST, &collection, Some(&object)).await
        }
    };
    if code < 300 || code == 409 { Ok(()) } else { Err(failed(expected, code, &answer)) }
}

fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, what: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": what,
        })
    };
    [
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ]
}

/// How servers behind this one recognise its clients.
fn extension_authentication(state: &State) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": state.client_ca_pem,
            "requestheader-client-ca-file": state.front_proxy_ca_pem,
            "requestheader-allowed-names": json!(state.front_proxy_names).to_string(),
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        },
    })
}

/// One APIService per group version this process serves itself; definitions come and go.
fn api_services(state: &State) -> Vec<Value> {
    let snapshot = state.registry.snapshot();
    let mut services = Vec::new();
    for group in snapshot.groups() {
        for version in snapshot.versions(group) {
            let resources = snapshot.resources(group, version);
            if resources.iter().all(|served| served.source == Source::Custom) {
                continue;
            }
            let (group_priority, version_priority) = state.registry.priorities(group, version);
            let mut spec = json!({
                "version": version,
                "groupPriorityMinimum": group_priority,
                "versionPriority": version_priority,
            });
            if !group.is_empty() {
                spec["group"] = group.into();
            }
            services.push(json!({
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {
                    "name": format!("{version}.{group}"),
                    "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
                },
                "spec": spec,
            }));
        }
    }
    services
}

/// The range the addresses of Services are taken from.
fn service_range(state: &State) -> Value {
    let (network, bits) = state.config.service_cidr;
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [format!("{network}/{bits}")]},
    })
}

/// The Service through which pods reach this server.
fn api_endpoint(state: &State) -> [Value; 3] {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let address = state.config.advertise_address.to_string();
    let port = state.config.secure_port;
    [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "type": "ClusterIP", "clusterIP": state.pools.first().to_string(), "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [{
                "addresses": [{"ip": address}],
                "ports": [{"name": "https", "protocol": "TCP", "port": port}],
            }],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "protocol": "TCP", "port": port}],
        }),
    ]
}
