//! Service accounts of pods.

use std::sync::Arc;

use karmada_apimachinery::json;
use karmada_apiserver::{Config, Role};
use karmada_store::{Expect, Memory, Store};

use crate::server::{admin, builder, post};

#[tokio::test(start_paused = true)]
async fn a_pod_may_use_an_account_that_others_made_a_moment_ago() {
    let store = Arc::new(Memory::new());
    let config = Config { role: Role::Member, ..Config::default() };
    let server = builder(config, store.clone()).start().await.unwrap();
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (code, refused) = post(&server, admin(), pods, &pod.to_string()).await;
    assert_eq!(code, 403, "{refused}");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default", "uid": "u"},
    });
    let key = "/registry/serviceaccounts/default/default";
    store.put(key, account.to_string().into(), Expect::Absent).await.unwrap();
    let (code, made) = post(&server, admin(), pods, &pod.to_string()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["serviceAccountName"], "default");
}
