//! Certificates for agents of Pull clusters, as far as nobody has to be asked for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use crate::bare::{Plane, Setup};

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const USAGES: &[&str] = &["digital signature", "key encipherment", "client auth"];
const JOINING: &str = "system:bootstrappers:karmada:default-cluster-token";
const AGENTS: &str = "system:karmada:agents";

/// Of the group `system:karmada:agents`, for `system:karmada:agent:m1`, made by openssl as all of them.
const M1: &str = "\
-----BEGIN CERTIFICATE REQUEST-----\n\
MIH8MIGkAgEAMEIxHjAcBgNVBAoMFXN5c3RlbTprYXJtYWRhOmFnZW50czEgMB4G\n\
A1UEAwwXc3lzdGVtOmthcm1hZGE6YWdlbnQ6bTEwWTATBgcqhkjOPQIBBggqhkjO\n\
PQMBBwNCAAQ4L1wxm15PnzPHXgq6YhIQJAHMbNCnlfPjKmEkEtBRIjbQjWNCagIT\n\
sXym64Q7wxBpFFqxl23VLOG9SS3V9NkIoAAwCgYIKoZIzj0EAwIDRwAwRAIgaopp\n\
piQESecrAHHREZ79cKtAWA+My7yCFW44kjNyV4ACIFjhW0ZikcARCBzeOvCMQRG7\n\
TqSjrbbg8dG5dRiaymlL\n\
-----END CERTIFICATE REQUEST-----\n";

/// The same with a DNS name.
const NAMED: &str = "\
-----BEGIN CERTIFICATE REQUEST-----\n\
MIIBJTCBzAIBADBCMR4wHAYDVQQKDBVzeXN0ZW06a2FybWFkYTphZ2VudHMxIDAe\n\
BgNVBAMMF3N5c3RlbTprYXJtYWRhOmFnZW50Om0xMFkwEwYHKoZIzj0CAQYIKoZI\n\
zj0DAQcDQgAEa++ufNFfC88Y0YgCoVVJyfUpN6nWMFsFzCs1jYoUVkx4Bm7LDAit\n\
c1LL4tS9Q8UQpqZ/KagQ4yJ7iK5tEUYbt6AoMCYGCSqGSIb3DQEJDjEZMBcwFQYD\n\
VR0RBA4wDIIKbTEuZXhhbXBsZTAKBggqhkjOPQQDAgNIADBFAiAU3aO0K2PAlLhb\n\
MOLUqrjfLj/DEfU/8AJrhbbDAad1+gIhAIVBJOt59e55G0622QbgoKx+USXPnFIT\n\
+wYwwuPgWdzM\n\
-----END CERTIFICATE REQUEST-----\n";

/// The same with `ops` as a second group.
const OPS: &str = "\
-----BEGIN CERTIFICATE REQUEST-----\n\
MIIBDDCBsgIBADBQMR4wHAYDVQQKDBVzeXN0ZW06a2FybWFkYTphZ2VudHMxDDAK\n\
BgNVBAoMA29wczEgMB4GA1UEAwwXc3lzdGVtOmthcm1hZGE6YWdlbnQ6bTEwWTAT\n\
BgcqhkjOPQIBBggqhkjOPQMBBwNCAASfxxSpT9DZ01uMkCpEsWIt777MB+anRsF8\n\
lm3IX87RrVQLxJiusFkN/D6IX/weB7CZyXu12ebKBuQ8W7vHAj/OoAAwCgYIKoZI\n\
zj0EAwIDSQAwRgIhAPq+2Lar88Q+2yTHK0NCoGDb5hU6umGmIWe1eA9l5+j3AiEA\n\
x8a9oDETgu9jJsFoaGNnTCpBx7W8AiCWBrgAuX6cUPk=\n\
-----END CERTIFICATE REQUEST-----\n";

/// Of the same group, for `system:node:m1`.
const NODE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----\n\
MIH0MIGbAgEAMDkxHjAcBgNVBAoMFXN5c3RlbTprYXJtYWRhOmFnZW50czEXMBUG\n\
A1UEAwwOc3lzdGVtOm5vZGU6bTEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARs\n\
AUkvkG8WLu7wuqzpUnaUOOgQtrlaDLLg0cAKQS1Gx2e113QSrofxHuiuNta4N5Yb\n\
k8EZ9UkplaJ4ihBhNbT2oAAwCgYIKoZIzj0EAwIDSAAwRQIgWpUDWCpbF94xIBqH\n\
rusl4oCNua93Wp0A8uzOE7fFw4wCIQDnmWD9jd0Jxfdsow06JvA0XBlQaovtLsFL\n\
cctK/6o7nA==\n\
-----END CERTIFICATE REQUEST-----\n";

/// Who asks for what, and whether they get it.
struct Case {
    requester: (&'static str, &'static [&'static str]),
    request: &'static str,
    usages: &'static [&'static str],
    signer: &'static str,
    approved: Option<&'static str>,
}

const FIRST: Case = Case {
    requester: ("system:bootstrap:abcdef", &[JOINING]),
    request: M1,
    usages: USAGES,
    signer: CLIENT,
    approved: Some("Auto approving agent client certificate after SubjectAccessReview."),
};

const REFUSED: Case = Case { approved: None, ..FIRST };

const CASES: &[(&str, Case)] = &[
    ("first", FIRST),
    ("no-rsa", Case { usages: &["client auth", "digital signature"], ..FIRST }),
    (
        "renewal",
        Case {
            requester: ("system:karmada:agent:m1", &[AGENTS]),
            approved: Some(
                "Auto approving self agent client certificate after SubjectAccessReview.",
            ),
            ..FIRST
        },
    ),
    (
        "another-agent",
        Case { requester: ("system:karmada:agent:m2", &[AGENTS, JOINING]), ..REFUSED },
    ),
    ("stranger", Case { requester: ("jane", &[]), ..REFUSED }),
    ("named", Case { request: NAMED, ..REFUSED }),
    ("two-groups", Case { request: OPS, ..REFUSED }),
    ("node", Case { request: NODE, ..REFUSED }),
    ("server", Case { usages: &["digital signature", "client auth", "server auth"], ..REFUSED }),
    ("no-client", Case { usages: &["digital signature"], ..REFUSED }),
    ("other-signer", Case { signer: "example.com/agents", ..REFUSED }),
];

/// Lets a group create something.
async fn allow(plane: &Plane, group: &str, resource: &str) {
    let (name, api) = (resource.replace('/', "-"), "rbac.authorization.k8s.io");
    let rule =
        json!({"apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": ["create"]});
    let role = json!({"metadata": {"name": name}, "rules": [rule]});
    plane.create(&format!("clusterroles.{api}"), "", role).await;
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": group}],
    });
    plane.create(&format!("clusterrolebindings.{api}"), "", binding).await;
}

async fn ask(plane: &Plane, name: &str, case: &Case) {
    let (user, groups) = case.requester;
    let client = plane.client_of(user, groups);
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(case.request),
            "signerName": case.signer,
            "usages": case.usages,
        },
    });
    let made = client.api(plane.api(REQUESTS).gvr()).create(&request).await;
    made.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn conditions(request: &Value) -> Vec<(&str, &str, &str)> {
    let all = request.list_at(&["status", "conditions"]).iter();
    all.map(|condition| {
        let text = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        (text("type"), text("reason"), text("message"))
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn agents_get_certificates_for_themselves_alone_and_those_who_join_for_any_agent() {
    let controllers = vec!["agentcsrapproving".to_owned()];
    let plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    allow(&plane, "system:authenticated", "certificatesigningrequests").await;
    allow(&plane, JOINING, "certificatesigningrequests/clusteragent").await;
    allow(&plane, AGENTS, "certificatesigningrequests/selfclusteragent").await;
    plane.settle().await;
    for (name, case) in CASES {
        ask(&plane, name, case).await;
    }
    plane.settle().await;
    for (name, case) in CASES {
        let request = plane.find(REQUESTS, "", name).await.unwrap();
        let expected: Vec<_> = case
            .approved
            .map(|message| ("Approved", "AutoApproved", message))
            .into_iter()
            .collect();
        assert_eq!(conditions(&request), expected, "{name}");
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_denied_stays_denied() {
    let controllers = vec!["agentcsrapproving".to_owned()];
    let mut plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    plane.stop_controllers().await;
    allow(&plane, "system:authenticated", "certificatesigningrequests").await;
    allow(&plane, JOINING, "certificatesigningrequests/clusteragent").await;
    plane.settle().await;
    ask(&plane, "first", &FIRST).await;
    let mut request = plane.find(REQUESTS, "", "first").await.unwrap();
    request["status"]["conditions"] =
        json!([{"type": "Denied", "status": "True", "reason": "No", "message": "not this one"}]);
    plane.api(REQUESTS).update_subresource(&request, "approval").await.unwrap();
    plane.start_controllers();
    plane.settle().await;
    let request = plane.find(REQUESTS, "", "first").await.unwrap();
    assert_eq!(conditions(&request), [("Denied", "No", "not this one")]);
    plane.stop().await;
}
