//! Objects that lack, as they are stored, what follows from what the server filled in.

use http::Method;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::Config;

use crate::server::{admin, send, server};

// Shows: META-3
#[tokio::test]
async fn the_first_write_of_a_job_or_claim_stores_what_was_completed() {
    let server = server(Config::default()).await;
    let template = json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "app", "image": "i"}],
    }});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (path, spec, completed) in [
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"template": template}),
            "/metadata/labels/job-name",
        ),
        ("/api/v1/namespaces/default/persistentvolumeclaims", claim, "/status/phase"),
    ] {
        let body = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
        let ask = async |method, path: &str, body: &str| {
            let (code, object) = send(&server, admin(), (method, path), body).await;
            assert!(code < 300, "{object}");
            assert!(object.pointer(completed).is_some_and(Value::is_string), "{object}");
            object["metadata"]["resourceVersion"].clone()
        };
        ask(Method::POST, &format!("{path}?dryRun=All"), &body).await;
        let made = ask(Method::POST, path, &body).await;
        let item = format!("{path}/a");
        assert_eq!(ask(Method::GET, &item, "").await, made);
        let written = ask(Method::PATCH, &item, "{}").await;
        assert_ne!(written, made);
        assert_eq!(ask(Method::PATCH, &item, "{}").await, written);
    }
}
