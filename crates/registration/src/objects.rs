//! The objects of a registration, on both sides.

use karmada_api::{labels, names};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

use crate::credentials::Kept;
use crate::{Access, Join};

/// The namespace registrations live in, on both sides.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(None, name)})
}

pub(crate) fn service_account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(Some(namespace), name)})
}

/// A Secret that the member fills with a token of the service account of the same name.
pub(crate) fn token_secret(namespace: &str, account: &str) -> Value {
    let mut metadata = metadata(Some(namespace), account);
    metadata["annotations"] = json!({"kubernetes.io/service-account.name": account});
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": metadata,
    })
}

/// The role of the account the control plane uses: everything.
pub(crate) fn cluster_role(account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(None, &names::cluster_role(account)),
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ],
    })
}

pub(crate) fn cluster_role_binding(namespace: &str, account: &str) -> Value {
    let role = names::cluster_role(account);
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(None, &role),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    })
}

/// A Secret of the control plane with credentials for the member.
pub(crate) fn credentials(namespace: &str, name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": name},
        "data": data,
    })
}

/// A Cluster that says nothing yet.
pub(crate) fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {},
    })
}

/// Puts into a Cluster how it is reached and what was said about it. What nobody said stays.
pub(crate) fn describe(cluster: &mut Value, access: &Access, join: &Join, secrets: &Kept) {
    let text = |text: &str| Some(Value::from(text)).filter(|_| !text.is_empty());
    for (field, value) in [
        ("apiEndpoint", text(&access.endpoint)),
        ("proxyURL", text(&access.proxy_url)),
        ("insecureSkipTLSVerification", access.insecure.then_some(true.into())),
    ] {
        match value {
            Some(value) => cluster.set(&["spec", field], value),
            None => drop(cluster.remove_at(&["spec", field])),
        }
    }
    let zones = Some(json!(join.zones)).filter(|_| !join.zones.is_empty());
    let reference =
        |secret: &Value| json!({"namespace": secret.namespace(), "name": secret.name()});
    for (field, value) in [
        ("provider", text(&join.provider)),
        ("region", text(&join.region)),
        ("zones", zones),
        ("secretRef", secrets.own.as_ref().map(reference)),
        ("impersonatorSecretRef", secrets.impersonator.as_ref().map(reference)),
    ] {
        if let Some(value) = value {
            cluster.set(&["spec", field], value);
        }
    }
}

fn metadata(namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = json!({"name": name, "labels": {labels::SYSTEM: labels::TRUE}});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata
}
