//! Creates what a control plane has beyond a Kubernetes API, and brings definitions of an older
//! version up to date.

use std::time::Duration;

use karmada_api::crd;
use karmada_api::native::API_SERVICES;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client};
use tokio::time::Instant;

/// How long definitions may take until they are served.
const ESTABLISHING: Duration = Duration::from_secs(30);

/// Role and binding that let the administrator through to members.
const PROXY_ADMIN: &str = "cluster-proxy-admin";

/// Namespaces the control plane keeps its own objects in.
const NAMESPACES: [&str; 2] = [SYSTEM, "karmada-cluster"];
const SYSTEM: &str = "karmada-system";

/// The Service that the original serves `Cluster` behind.
const AGGREGATED: &str = "karmada-aggregated-apiserver";

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{attempt}: {source}")]
    Request { attempt: String, source: karmada_client::Error },
    #[error("the definition {0} is not served")]
    NotServed(String),
}

fn attempting(attempt: impl Into<String>) -> impl FnOnce(karmada_client::Error) -> InstallError {
    let attempt = attempt.into();
    move |source| InstallError::Request { attempt, source }
}

/// Creates what a control plane has beyond a Kubernetes API, and brings definitions of an older
/// version up to date.
pub async fn install(client: &Client) -> Result<(), InstallError> {
    let definitions =
        client.api(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
    for crd in crd::crds() {
        match definitions.find(&crd.name).await.map_err(attempting("read definitions"))? {
            None => {
                created(definitions.create(&crd.object).await)
                    .map_err(attempting(format!("install the definition {}", crd.name)))?;
            }
            Some(stored) => {
                if let Some(update) = upgrade(&stored, &crd.object) {
                    match definitions.update(&update).await {
                        // Another replica of the same version does the same.
                        Err(error) if error.is_conflict() => {}
                        upgraded => {
                            upgraded.map_err(attempting(format!(
                                "upgrade the definition {}",
                                crd.name
                            )))?;
                        }
                    }
                    tracing::info!(name = crd.name, "definition upgraded");
                }
            }
        }
    }
    for crd in crd::crds() {
        wait_until_served(&definitions, &crd.name).await?;
    }
    let namespaces = client.api(&Gvr::new("", "v1", "namespaces"));
    for name in NAMESPACES {
        if namespaces.find(name).await.map_err(attempting("read namespaces"))?.is_none() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            created(namespaces.create(&namespace).await)
                .map_err(attempting(format!("create the namespace {name}")))?;
        }
    }
    let rbac = |resource| client.api(&Gvr::new("rbac.authorization.k8s.io", "v1", resource));
    for (resource, object) in
        [("clusterroles", proxy_role()), ("clusterrolebindings", proxy_role_binding())]
    {
        let api = rbac(resource);
        if api.find(PROXY_ADMIN).await.map_err(attempting("read roles"))?.is_none() {
            created(api.create(&object).await)
                .map_err(attempting(format!("create {resource} {PROXY_ADMIN}")))?;
        }
    }
    announce(client).await
}

/// Shows `Cluster` as people know it from the original: behind a Service, which scripts and dashboards
/// look for. This process answers for it; what an APIService of an earlier installation says is kept.
async fn announce(client: &Client) -> Result<(), InstallError> {
    let services = client.api(&Gvr::new("", "v1", "services")).namespaced(SYSTEM);
    if services.find(AGGREGATED).await.map_err(attempting("read services"))?.is_none() {
        created(services.create(&aggregated_service()).await)
            .map_err(attempting(format!("create the service {AGGREGATED}")))?;
    }
    let api_services = client.api(&Gvr::new("apiregistration.k8s.io", "v1", "apiservices"));
    let name = API_SERVICES[0].name();
    let stored = api_services.find(&name).await.map_err(attempting("read API services"))?;
    if stored.is_some_and(|stored| stored.map_at(&["spec", "service"]).is_none()) {
        let patch = json!({
            // An API server removes what carries this label and is not its own.
            "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
            "spec": {"service": {"namespace": SYSTEM, "name": AGGREGATED}},
        });
        let written = api_services.merge_patch(&name, patch).await;
        written.map_err(attempting(format!("announce {name}")))?;
    }
    Ok(())
}

fn aggregated_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": AGGREGATED},
        "spec": {
            "type": "ExternalName",
            "externalName": format!("{AGGREGATED}.{SYSTEM}.svc.cluster.local"),
        },
    })
}

/// Another replica may have been faster.
fn created(outcome: karmada_client::Result<Value>) -> karmada_client::Result<()> {
    match outcome {
        Err(error) if error.is_already_exists() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// The administrator may reach through to every member; nobody else until told so.
fn proxy_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": PROXY_ADMIN},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]}],
    })
}

fn proxy_role_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": PROXY_ADMIN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PROXY_ADMIN},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:admin"}],
    })
}

/// A definition is served a moment after it was written; nobody should meet the gap.
async fn wait_until_served(definitions: &Api, name: &str) -> Result<(), InstallError> {
    let deadline = Instant::now() + ESTABLISHING;
    loop {
        let stored = definitions.get(name).await.map_err(attempting("read definitions"))?;
        let is_established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        if stored.list_at(&["status", "conditions"]).iter().any(is_established) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(InstallError::NotServed(name.to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The stored definition with our schema, if that says anything else than before. Conversion is
/// left as it is: an operator may have pointed it at a webhook.
fn upgrade(stored: &Value, ours: &Value) -> Option<Value> {
    let mut upgraded = stored.clone();
    for field in ["versions", "names"] {
        let ours = ours.get("spec").and_then(|spec| spec.get(field))?;
        if !contains(stored.get("spec").and_then(|spec| spec.get(field))?, ours) {
            upgraded.set(&["spec", field], ours.clone());
        }
    }
    (upgraded != *stored).then_some(upgraded)
}

/// Whether everything in `part` stands in `whole`, which may say more by defaults.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|present| contains(present, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        _ => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_upgraded_only_when_they_say_something_else() {
        let ours = json!({"spec": {"versions": [{"name": "v1", "served": true}], "names": {"plural": "x"}}});
        let stored = json!({"spec": {
            "versions": [{"name": "v1", "served": true, "defaulted": true}],
            "names": {"plural": "x", "singular": "x"},
            "conversion": {"strategy": "Webhook"},
        }});
        assert_eq!(upgrade(&stored, &ours), None);
        let newer = json!({"spec": {"versions": [{"name": "v1", "served": true, "more": 1}], "names": {"plural": "x"}}});
        let upgraded = upgrade(&stored, &newer).unwrap();
        assert_eq!(upgraded["spec"]["versions"], newer["spec"]["versions"]);
        assert_eq!(upgraded["spec"]["conversion"], stored["spec"]["conversion"]);
    }
}
