//! `karmada up`: Karmada's kinds with their defaults and refusals, both versions of a binding, and
//! that a restart with nothing changed changes nothing.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, ListOptions};

use crate::server::{Server, eventually_awaited as eventually};

#[path = "../../../api/examples/list_clusters.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod list_clusters;

async fn client(server: &Server) -> Client {
    Client::from_kubeconfig(&server.kubeconfig(), None).await.unwrap()
}

fn gvr(group: &str, version: &str, resource: &str) -> Gvr {
    Gvr::new(group, version, resource)
}

fn policy(name: &str, placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": placement,
        },
    })
}

#[tokio::test]
async fn policies_are_defaulted_and_refused_as_the_original_does() {
    let server = Server::up();
    let client = client(&server).await;
    let policies = client
        .api(&gvr("policy.karmada.io", "v1alpha1", "propagationpolicies"))
        .namespaced("default");
    let stored = policies.create(&policy("good", json!({}))).await.unwrap();
    assert!(stored.label("propagationpolicy.karmada.io/permanent-id").is_some());
    assert!(stored.has_finalizer("karmada.io/propagation-policy-controller"));
    assert_eq!(stored["spec"]["schedulerName"], "default-scheduler");
    assert_eq!(stored["spec"]["resourceSelectors"][0]["namespace"], "default");
    let both = json!({"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]});
    let refused = policies.create(&policy("bad", both)).await.unwrap_err().to_string();
    assert!(
        refused.contains("clusterAffinities cannot co-exist with clusterAffinity"),
        "{refused}"
    );
}

// Shows: AGG-5
#[tokio::test]
async fn clusters_are_served_natively_with_their_own_rules() {
    let server = Server::up();
    let client = client(&server).await;
    let clusters = client.api(&gvr("cluster.karmada.io", "v1alpha1", "clusters"));
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Push", "zone": "z1"},
    });
    let stored = clusters.create(&cluster).await.unwrap();
    assert_eq!(stored["spec"]["zones"], json!(["z1"]));
    assert_eq!(stored["spec"].get("zone"), None);
    assert_eq!(stored["spec"]["resourceModels"].as_array().map(|it| it.len()), Some(9));
    assert_eq!(stored["metadata"]["generation"], 1);
    let status =
        json!({"status": {"kubernetesVersion": "v1.36.0"}, "spec": {"provider": "ignored"}});
    let patched = clusters
        .patch_subresource(
            "m1",
            "status",
            &karmada_client::Patch::Merge(status),
            &Default::default(),
        )
        .await
        .unwrap();
    assert_eq!(patched["status"]["kubernetesVersion"], "v1.36.0");
    assert_eq!(patched["spec"].get("provider"), None);
    let mut bad = cluster.clone();
    bad["metadata"]["name"] = "a.b".into();
    assert!(clusters.create(&bad).await.unwrap_err().is_invalid());
    let services = client.api(&gvr("apiregistration.k8s.io", "v1", "apiservices"));
    let service = services.get("v1alpha1.cluster.karmada.io").await.unwrap();
    assert_eq!(service["spec"]["groupPriorityMinimum"], 2000);
}

/// Clusters are announced behind the Service of the original and answered for here, also where an installation of the
/// original left an announcement that leads nowhere any more.
// Shows: AGG-5
#[tokio::test]
async fn clusters_are_announced_behind_the_service_people_know() {
    let mut server = Server::up();
    let name = "v1alpha1.cluster.karmada.io";
    let announced = async |server: &Server, service: &str| {
        let client = client(server).await;
        let services = client.api(&gvr("apiregistration.k8s.io", "v1", "apiservices"));
        eventually("clusters are announced", || async {
            let found = services.get(name).await.ok()?;
            let condition = found.list_at(&["status", "conditions"]).first()?;
            let said = |key| condition.str_at(&[key]).unwrap_or_default();
            let is_available = (said("status"), said("reason")) == ("True", "Passed");
            let is_named = found.str_at(&["spec", "service", "name"]) == Some(service);
            (is_available && is_named).then_some(())
        })
        .await;
        let clusters = client.api(&gvr("cluster.karmada.io", "v1alpha1", "clusters"));
        clusters.list(&ListOptions::default()).await.unwrap();
    };
    announced(&server, "karmada-aggregated-apiserver").await;
    let before = client(&server).await;
    let aggregated = before.api(&gvr("", "v1", "services")).namespaced("karmada-system");
    let aggregated = aggregated.get("karmada-aggregated-apiserver").await.unwrap();
    assert_eq!(aggregated["spec"]["type"], "ExternalName");
    // As another installer named it, last seen without a server behind it.
    let services = before.api(&gvr("apiregistration.k8s.io", "v1", "apiservices"));
    let other = json!({"spec": {
        "service": {"name": "demo-aggregated-apiserver", "namespace": "demo"}, "insecureSkipTLSVerify": true,
    }});
    services.merge_patch(name, other).await.unwrap();
    let gone = json!({"status": {"conditions": [{
        "type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = karmada_client::Patch::Merge(gone);
    services.patch_subresource(name, "status", &patch, &Default::default()).await.unwrap();
    server.kill();
    server.start_again();
    announced(&server, "demo-aggregated-apiserver").await;
}

#[tokio::test]
async fn bindings_are_served_in_both_versions() {
    let server = Server::up();
    let client = client(&server).await;
    let spec = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"},
        "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "clusters": [{"name": "m1", "replicas": 3}], "suspension": {"scheduling": true},
    });
    for (kind, resource, namespace) in [
        ("ResourceBinding", "resourcebindings", Some("default")),
        ("ClusterResourceBinding", "clusterresourcebindings", None),
    ] {
        let bindings = |version: &str| {
            let all = client.api(&gvr("work.karmada.io", version, resource));
            namespace.map_or(all.clone(), |namespace| all.namespaced(namespace))
        };
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": kind,
            "metadata": {"name": "web-deployment"}, "spec": spec,
        });
        bindings("v1alpha2").create(&binding).await.unwrap();
        let older = bindings("v1alpha1").get("web-deployment").await.unwrap();
        assert_eq!(older["apiVersion"], "work.karmada.io/v1alpha1");
        assert_eq!(older["spec"]["resource"]["replicas"], 3);
        assert_eq!(older["spec"]["resource"]["resourcePerReplicas"], json!({"cpu": "1"}));
        assert_eq!(older["spec"]["clusters"], json!([{"name": "m1", "replicas": 3}]));
        let knows: Vec<_> = older["spec"].as_object().unwrap().keys().collect();
        assert_eq!(knows, ["clusters", "resource"], "the older version has no more");
        let listed = bindings("v1alpha1").list(&ListOptions::default()).await.unwrap();
        assert_eq!(listed.items[0].value()["spec"], older["spec"]);
        let mut written = older.clone();
        written["metadata"] = json!({"name": "other"});
        let refused = bindings("v1alpha1").create(&written).await.unwrap_err();
        let refused = refused.api().unwrap();
        assert_eq!(refused.code, 400);
        assert!(refused.message.contains(&format!("into *v1alpha2.{kind}")), "{}", refused.message);
    }
}

#[tokio::test]
async fn the_greeting_says_where_it_is_and_what_to_try() {
    let server = Server::up_with(&[
        "--service-cluster-ip-range",
        "10.7.0.0/24",
        "--bind-address",
        "127.0.0.2",
        "--log-format",
        "json",
        "--log-level",
        "info,karmada=debug",
    ]);
    let greeting = server.greeting();
    let first = greeting.lines().next().unwrap();
    let pattern = r"^Karmada is ready after \d+\.\d s at https://127\.0\.0\.2:\d+$";
    assert!(regex::Regex::new(pattern).unwrap().is_match(first), "{greeting}");
    assert!(greeting.contains(&format!("KUBECONFIG={}\n", server.kubeconfig().display())));
    let (_, next) = greeting.split_once("then, for example:\n\n").unwrap();
    let commands: Vec<&str> = next.lines().take_while(|line| line.starts_with("  ")).collect();
    assert_eq!(commands.len(), 3, "{greeting}");

    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let config = karmada_apimachinery::decode::yaml_untyped(text.as_bytes()).unwrap().value;
    for named in [
        &config["clusters"][0]["name"],
        &config["users"][0]["name"],
        &config["contexts"][0]["name"],
        &config["current-context"],
    ] {
        assert_eq!(named, "karmada-apiserver", "{text}");
    }
    let client = client(&server).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reviews = client.api(&gvr("authentication.k8s.io", "v1", "selfsubjectreviews"));
    let myself = reviews.create(&review).await.unwrap();
    assert_eq!(myself["status"]["userInfo"]["username"], "system:admin");
    assert_eq!(
        myself["status"]["userInfo"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]},
    });
    let services = client.api(&gvr("", "v1", "services")).namespaced("default");
    let made = services.create(&service).await.unwrap();
    let address = made.str_at(&["spec", "clusterIP"]).unwrap();
    assert!(address.starts_with("10.7.0."), "{address}");

    let log = server.log();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|line| line["level"] == "DEBUG"), "{log}");
}

#[tokio::test]
async fn a_restart_with_nothing_changed_changes_nothing() {
    let mut server = Server::up();
    let versions = async |server: &Server| -> Vec<(String, String)> {
        let client = client(server).await;
        let mut versions = Vec::new();
        for resource in [
            gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            gvr("", "v1", "namespaces"),
            gvr("apiregistration.k8s.io", "v1", "apiservices"),
        ] {
            let list = client.api(&resource).list_all(&ListOptions::default()).await.unwrap();
            versions.extend(
                list.items
                    .iter()
                    .map(|item| (item.name().to_owned(), item.resource_version().to_owned())),
            );
        }
        versions
    };
    let definitions = versions(&server).await;
    let ours = definitions
        .iter()
        .filter(|(name, _)| name.ends_with("karmada.io") && !name.starts_with("v1"));
    assert_eq!(ours.count(), 17);
    // Controllers may have been killed before they had written everything, and more than once.
    let began = std::time::Instant::now();
    loop {
        let before = versions(&server).await;
        server.kill();
        server.start_again();
        if versions(&server).await == before {
            return;
        }
        assert!(began.elapsed() < crate::server::PATIENCE, "every start writes something");
    }
}

#[tokio::test]
async fn feature_gates_are_in_the_metrics() {
    let server = Server::up();
    let request = http::Request::get("/metrics").body(Vec::new().into()).unwrap();
    let text = client(&server).await.request_bytes(request).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    for gate in karmada_api::features::Gate::ALL {
        let (name, stage, on) = (gate.name(), gate.stage(), u8::from(gate.default_value()));
        let line = format!("kubernetes_feature_enabled{{name=\"{name}\",stage=\"{stage}\"}} {on}");
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("apiserver_request_total"), "{text}");
}

#[tokio::test]
async fn the_example_lists_clusters_with_types_and_without() {
    let server = Server::up();
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"},
    });
    let clusters = client(&server).await.api(&gvr("cluster.karmada.io", "v1alpha1", "clusters"));
    clusters.create(&cluster).await.unwrap();
    let kube = crate::admission::client(&server).await;
    let typed = list_clusters::typed(kube.clone()).await.unwrap();
    assert!(typed.len() == 1 && typed[0].starts_with("m1 mode=Pull ready="), "{typed:?}");
    assert_eq!(list_clusters::dynamic(kube).await.unwrap(), ["m1 mode=Pull"]);
}

#[tokio::test]
async fn quotas_count_the_bindings_that_are_admitted() {
    let server = Server::up_with(&["--feature-gates", "FederatedQuotaEnforcement=true"]);
    let client = client(&server).await;
    let quotas = client
        .api(&gvr("policy.karmada.io", "v1alpha1", "federatedresourcequotas"))
        .namespaced("default");
    let bindings =
        client.api(&gvr("work.karmada.io", "v1alpha2", "resourcebindings")).namespaced("default");
    let quota = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": "limit", "namespace": "default"}, "spec": {"overall": {"cpu": "5"}},
    });
    quotas.create(&quota).await.unwrap();
    // The controller counts once when it sees the quota; what it does not see yet it would count out again.
    eventually("the controller has counted", || async {
        let quota = quotas.get("limit").await.unwrap();
        (quota.str_at(&["status", "overall", "cpu"]) == Some("5")).then_some(())
    })
    .await;
    let binding = |name: &str, replicas: i32| {
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "clusters": [{"name": "m1", "replicas": replicas}], "suspension": {"scheduling": true},
            },
        })
    };
    let used = async || {
        let quota = quotas.get("limit").await.unwrap();
        quota.at(&["status", "overallUsed", "cpu"]).cloned().unwrap_or_default()
    };
    bindings.create(&binding("first", 3)).await.unwrap();
    assert_eq!(used().await, "3");
    let refused = bindings.create(&binding("second", 3)).await.unwrap_err().to_string();
    assert!(
        refused.contains("FederatedResourceQuota(default/limit) exceeded for resource cpu: requested sum 6, limit 5."),
        "{refused}"
    );
    assert_eq!(used().await, "3");
    bindings.create(&binding("third", 2)).await.unwrap();
    assert_eq!(used().await, "5");
}

#[tokio::test]
async fn definitions_of_an_older_binary_are_upgraded_in_place() {
    const NAME: &str = "propagationpolicies.policy.karmada.io";
    let mut server = Server::up();
    let policies = gvr("policy.karmada.io", "v1alpha1", "propagationpolicies");
    let definitions = gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let before = client(&server).await;
    let kept = policy("kept", json!({}));
    let kept = before.api(&policies).namespaced("default").create(&kept).await.unwrap();
    let ours = before.api(&definitions).get(NAME).await.unwrap();
    let mut older = ours.clone();
    let version = &mut older["spec"]["versions"][0];
    version["additionalPrinterColumns"] = json!([]);
    let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert!(spec.as_object_mut().unwrap().remove("suspension").is_some());
    before.api(&definitions).update(&older).await.unwrap();
    server.kill();
    server.start_again();
    let after = client(&server).await;
    let upgraded = after.api(&definitions).get(NAME).await.unwrap();
    assert_eq!(upgraded["spec"]["versions"], ours["spec"]["versions"]);
    assert_eq!(upgraded.uid(), ours.uid());
    let found = after.api(&policies).namespaced("default").get("kept").await.unwrap();
    assert_eq!(found.uid(), kept.uid());
}

/// A member that runs inside `up`, and the way to its kubectl.
struct Inside<'a>(&'a Server, &'a str);

impl crate::member::Asked for Inside<'_> {
    fn kubectl(&self, words: &[&str]) -> std::process::Output {
        let kubeconfig = self.0.data().join(format!("members/{}.config", self.1));
        let mut command = std::process::Command::new("kubectl");
        let command = crate::environment::confine(&mut command, &self.0.scratch().join("home"));
        command.arg("--kubeconfig").arg(kubeconfig).args(words).output().expect("run kubectl")
    }
}

#[tokio::test]
async fn members_are_broken_healed_and_found_again_after_a_restart() {
    use crate::member::{Asked as _, every_fault_is_set_and_healed, fault};
    if !crate::environment::has_kubectl() {
        return;
    }
    let mut server = Server::up_with(&["--members", "3"]);
    let clusters = async |server: &Server| {
        let client = client(server).await;
        let api = client.api(&gvr("cluster.karmada.io", "v1alpha1", "clusters"));
        let began = std::time::Instant::now();
        loop {
            let list = api.list_all(&ListOptions::default()).await.unwrap();
            let ready = |cluster: &Value| {
                let conditions = cluster.list_at(&["status", "conditions"]);
                conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
            };
            let all: Vec<Value> = list.items.iter().map(|item| item.value()).collect();
            if all.len() == 3 && all.iter().all(ready) {
                break all;
            }
            assert!(began.elapsed() < crate::server::PATIENCE, "not ready: {all:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let identity = |clusters: &[Value]| -> Vec<Value> {
        let one = |cluster: &Value| {
            let spec = &cluster["spec"];
            json!([
                cluster["metadata"]["uid"],
                spec["id"],
                spec["apiEndpoint"],
                spec["region"],
                spec["zones"]
            ])
        };
        clusters.iter().map(one).collect()
    };
    let before = identity(&clusters(&server).await);
    let member = Inside(&server, "member2");
    every_fault_is_set_and_healed(&member, |faults| fault(&server.data(), "member2", faults));
    let kept = member.kubectl(&["create", "configmap", "kept"]);
    assert!(kept.status.success(), "{}", crate::server::text(&kept));

    server.kill();
    server.start_again();
    assert_eq!(identity(&clusters(&server).await), before);
    Inside(&server, "member2").until(&["get", "configmap", "kept", "-o", "name"], "configmap/kept");
}
