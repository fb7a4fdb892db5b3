//! Tokens, certificates and roles.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::Propagation::Background;

use crate::cluster::Cluster;

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// A request for the common name `ann`, made with OpenSSL; its key was thrown away.
const REQUEST_OF_ANN: &str = "\
-----BEGIN CERTIFICATE REQUEST-----\n\
MIHJMHACAQAwDjEMMAoGA1UEAwwDYW5uMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\n\
QgAEBmOAjMCYGnA3ZQM8kVsJyAYzlXBhXZAVcDzqAkVtSPAvpueO0h7wptYFG2DS\n\
WYQq/QmJ+1A4wKFijtW4s+9opqAAMAoGCCqGSM49BAMCA0kAMEYCIQDpU5S2KDTM\n\
oVPSfHpOYvk5hVngWaAMDzjvIa+q4beJqwIhAO2G8JVGCG/pXTndzHZ00atknIGr\n\
0kovQb9OCYwmC9H6\n\
-----END CERTIFICATE REQUEST-----\n";

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

fn decoded(object: &Value, key: &str) -> String {
    let text = object["data"][key].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
}

// Shows: AUTHN-4
#[tokio::test(start_paused = true)]
async fn a_token_secret_is_filled_and_goes_with_its_account() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    cluster.create("serviceaccounts", "a", json!({"metadata": {"name": "robot"}})).await;
    let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": {
        "name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}}});
    cluster.create("secrets", "a", secret).await;
    let secret = cluster
        .eventually("secrets", "a", "robot-token", |secret| !decoded(secret, "token").is_empty())
        .await;
    assert_eq!(decoded(&secret, "namespace"), "a");
    assert!(decoded(&secret, "ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    assert_eq!(decoded(&secret, "token").split('.').count(), 3);
    assert!(secret.annotation("kubernetes.io/service-account.uid").is_some());
    cluster.delete("serviceaccounts", "a", "robot", Background).await;
    cluster.eventually_gone("secrets", "a", "robot-token").await;
    cluster.stop().await;
}

// Shows: CSR-1
#[tokio::test(start_paused = true)]
async fn an_approved_request_gets_its_certificate_and_is_cleaned_away() {
    let cluster = Cluster::plane().await;
    let object = json!({"metadata": {"name": "ann"}, "spec": {
        "request": STANDARD.encode(REQUEST_OF_ANN),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"]}});
    let mut request = cluster.create(REQUESTS, "", object).await;
    cluster.settle().await;
    assert_eq!(request.at(&["status", "certificate"]), None, "nobody approved it yet");
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True",
        "reason": "Test", "message": "ok"}]});
    cluster.api(REQUESTS).update_subresource(&request, "approval").await.unwrap();
    let issued = cluster
        .eventually(REQUESTS, "", "ann", |request| request.at(&["status", "certificate"]).is_some())
        .await;
    let pem = STANDARD.decode(issued["status"]["certificate"].as_str().unwrap()).unwrap();
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));
    tokio::time::sleep(std::time::Duration::from_secs(3700)).await;
    cluster.eventually_gone(REQUESTS, "", "ann").await;
    cluster.stop().await;
}

// Shows: AUTHZ-3
#[tokio::test(start_paused = true)]
async fn aggregated_roles_follow_the_roles_they_are_made_of() {
    let cluster = Cluster::plane().await;
    let rule = json!({"apiGroups": ["x.io"], "resources": ["things"], "verbs": ["get"]});
    let sum = json!({"metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]}, "rules": []});
    cluster.create(ROLES, "", sum).await;
    let part = json!({"metadata": {"name": "part", "labels": {"to": "sum"}}, "rules": [rule]});
    cluster.create(ROLES, "", part).await;
    cluster.eventually(ROLES, "", "sum", |role| role.list_at(&["rules"]) == [rule.clone()]).await;
    cluster.delete(ROLES, "", "part", Background).await;
    cluster.eventually(ROLES, "", "sum", |role| role.list_at(&["rules"]).is_empty()).await;
    let view = cluster.find(ROLES, "", "view").await.unwrap();
    assert!(!view.list_at(&["rules"]).is_empty(), "the roles a server starts with are filled");
    cluster.stop().await;
}

// Shows: AUTHN-5
#[tokio::test(start_paused = true)]
async fn cluster_info_is_signed_with_each_token_until_it_ends() {
    let cluster = Cluster::plane().await;
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "content"}});
    cluster.create("configmaps", "kube-public", info).await;
    let end = cluster.clock.now() + jiff::SignedDuration::from_mins(10);
    let token = json!({"type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-signing": "true", "expiration": end.to_string()}});
    cluster.create("secrets", "kube-system", token).await;
    let signed = |info: &Value| info["data"].get("jws-kubeconfig-abcdef").is_some();
    cluster.eventually("configmaps", "kube-public", "cluster-info", signed).await;
    tokio::time::sleep(std::time::Duration::from_secs(660)).await;
    cluster.eventually_gone("secrets", "kube-system", "bootstrap-token-abcdef").await;
    cluster.eventually("configmaps", "kube-public", "cluster-info", |info| !signed(info)).await;
    cluster.stop().await;
}
