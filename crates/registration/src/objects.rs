//! The objects of a registration, on both sides.

use karmada_api::{labels, names};
use karmada_apimachinery::{Value, json};

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

fn metadata(namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = json!({"name": name, "labels": {labels::SYSTEM: labels::TRUE}});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata
}
