//! What users want to do, one test per story; all on one control plane, each in a namespace of its own.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, DeleteOptions};

use super::shell::{Space, Terminal, deployment, policy, steady};
use crate::server::PATIENCE;

/// One application in two clusters, with every kind of override.
#[test]
fn u2_one_application_differs_per_cluster() {
    let Some(space) = Space::new("u2") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.write(
        "config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {app.json: '{\"db\": {\"host\": \"main\"}}'}\n",
    );
    space.ok("karmadactl apply -f app.yaml -f config.yaml --cluster member1,member2");
    space.write(
        "override.yaml",
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: east}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [member2]}
    overriders:
      imageOverrider: [{component: Registry, operator: add, value: registry.example.com}]
      commandOverrider: [{containerName: nginx, operator: add, value: [/bin/start]}]
      argsOverrider: [{containerName: nginx, operator: add, value: [--cluster=member2]}]
      labelsOverrider: [{operator: add, value: {region: east}}]
      annotationsOverrider: [{operator: add, value: {owner: east-team}}]
      plaintext: [{path: /spec/replicas, operator: replace, value: 3}]
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: east-settings}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [member2]}
    overriders:
      fieldOverrider:
      - fieldPath: /data/app.json
        json: [{subPath: /db/host, operator: replace, value: east}]
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: settings}]
",
    );
    space.ok("karmadactl apply -f override.yaml");
    let fields = "{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].command} \
                  {.spec.template.spec.containers[0].args} {.metadata.labels.region} {.metadata.annotations.owner} {.spec.replicas}";
    let seen = |server: &str| format!("kubectl {server} get deploy nginx -o jsonpath='{fields}'");
    space.until(&seen("--kubeconfig $MEMBERS/member2.config"), |out| {
        out == "registry.example.com/nginx [\"/bin/start\"] [\"--cluster=member2\"] east east-team 3"
    });
    space.until(&seen("--kubeconfig $MEMBERS/member1.config"), |out| out == "nginx     1");
    // The template is as it was written.
    assert_eq!(space.ok(&seen("")), "nginx     1");
    let config = |member: &str| {
        format!(
            "kubectl --kubeconfig $MEMBERS/{member}.config get cm settings -o jsonpath='{{.data.app\\.json}}'"
        )
    };
    space.until(&config("member2"), |out| out.contains("\"east\""));
    space.until(&config("member1"), |out| out.contains("\"main\""));
    let why = space.ok("karmadactl why deployment/nginx");
    assert!(why.contains("member2: image by OverridePolicy u2/east"), "{why}");
}

#[test]
fn u10_push_mode_needs_no_agent() {
    let Some(space) = Space::new("u10") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.ok("karmadactl apply -f app.yaml --cluster member1");
    assert_eq!(space.ok("kubectl get cluster member1 -o jsonpath='{.spec.syncMode}'"), "Push");
    space.until(
        "kubectl -n karmada-es-member1 get work -l resourcebinding.karmada.io/permanent-id -o jsonpath='{range .items[*]}{.spec.workload.manifests[0].metadata.namespace}:{.status.conditions[?(@.type==\"Applied\")].status} {end}'",
        |out| out.contains("u10:True"),
    );
    space.until("kubectl --kubeconfig $MEMBERS/member1.config get deploy", |out| {
        out.contains("1/1")
    });
    let agents =
        space.ok("kubectl --kubeconfig $MEMBERS/member1.config get deploy,pods -A -o name");
    assert!(!agents.contains("karmada"), "{agents}");
}

#[test]
fn u17_a_deployment_is_propagated_by_name_to_one_cluster() {
    let Some(space) = Space::new("u17") else { return };
    space.write("app.yaml", &deployment("nginx", 2));
    space.write("policy.yaml", &policy("nginx", "{clusterAffinity: {clusterNames: [member1]}}"));
    space.ok("kubectl apply -f policy.yaml -f app.yaml");
    space.until_it_prints(
        "karmadactl get deploy --operation-scope all",
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx Karmada 2/2 2 2 AGE -\nnginx member1 2/2 2 2 AGE Y",
    );
    let elsewhere = space.run("kubectl --kubeconfig $MEMBERS/member2.config get deploy");
    assert_eq!(elsewhere.err, "No resources found in u17 namespace.\n");
}

#[test]
fn u18_an_edited_policy_moves_the_workload() {
    let Some(space) = Space::new("u18") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.write("policy.yaml", &policy("nginx", "{clusterAffinity: {clusterNames: [member1]}}"));
    space.ok("kubectl apply -f policy.yaml -f app.yaml");
    space.until("kubectl --kubeconfig $MEMBERS/member1.config get deploy", |out| {
        out.contains("1/1")
    });
    // With an editor, as people do it.
    let edited = space.ok("EDITOR='sed -i s/member1/member2/' karmadactl edit pp nginx");
    assert_eq!(edited, "propagationpolicy.policy.karmada.io/nginx edited\n");
    space.until("kubectl --kubeconfig $MEMBERS/member2.config get deploy", |out| {
        out.contains("1/1")
    });
    space.until("kubectl --kubeconfig $MEMBERS/member1.config get deploy -o name; echo .", |out| {
        out == ".\n"
    });
}

#[test]
fn u19_clusters_are_selected_by_labels() {
    let Some(space) = Space::new("u19") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.ok("karmadactl label cluster member1 u19=one");
    space.ok("karmadactl label cluster member2 u19=two");
    space.write(
        "one.yaml",
        &policy("nginx", "{clusterAffinity: {labelSelector: {matchLabels: {u19: one}}}}"),
    );
    space.ok("kubectl apply -f one.yaml -f app.yaml");
    space.placed("nginx-deployment", &["member1"]);
    let both = "{clusterAffinity: {labelSelector: {matchExpressions: [{key: u19, operator: In, values: [one, two]}]}}}";
    space.write("both.yaml", &policy("nginx", both));
    space.ok("kubectl apply -f both.yaml");
    space.placed("nginx-deployment", &["member1", "member2"]);
}

#[test]
fn u20_clusters_are_selected_by_fields_and_all_must_hold() {
    let Some(space) = Space::new("u20") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.ok("kubectl patch clusters member1 member2 -p '{\"spec\": {\"provider\": \"u20\", \"region\": \"here\"}}'");
    space.ok("kubectl patch clusters member2 -p '{\"spec\": {\"zones\": [\"left\"]}}'");
    let expression =
        |key: &str, value: &str| format!("{{key: {key}, operator: In, values: [{value}]}}");
    let select = |expressions: &[String]| {
        format!(
            "{{clusterAffinity: {{fieldSelector: {{matchExpressions: [{}]}}}}}}",
            expressions.join(", ")
        )
    };
    let two = [expression("provider", "u20"), expression("region", "here")];
    space.write("two.yaml", &policy("nginx", &select(&two)));
    space.ok("kubectl apply -f two.yaml -f app.yaml");
    space.placed("nginx-deployment", &["member1", "member2"]);
    let three = [two[0].clone(), two[1].clone(), expression("zone", "left")];
    space.write("three.yaml", &policy("nginx", &select(&three)));
    space.ok("kubectl apply -f three.yaml");
    space.placed("nginx-deployment", &["member2"]);
}

/// labelSelector, fieldSelector, clusterNames, exclude; none of them, and every cluster is a candidate.
#[test]
fn u21_the_four_fields_of_an_affinity_and_none() {
    let Some(space) = Space::new("u21") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.write("policy.yaml", &policy("nginx", "{}"));
    space.ok("kubectl apply -f policy.yaml -f app.yaml");
    space.placed("nginx-deployment", &["member1", "member2", "member3"]);
    for (affinity, expected) in [
        ("{exclude: [member1]}", &["member2", "member3"][..]),
        ("{clusterNames: [member1, member2], exclude: [member2]}", &["member1"]),
        ("{labelSelector: {matchLabels: {u21: nobody}}}", &[]),
    ] {
        space.write("policy.yaml", &policy("nginx", &format!("{{clusterAffinity: {affinity}}}")));
        space.ok("kubectl apply -f policy.yaml");
        match expected {
            // Nobody fits: what runs stays, and it is said why.
            [] => {
                space.until("karmadactl why deploy/nginx", |out| out.contains("=> FAILED:"));
            }
            expected => space.placed("nginx-deployment", expected),
        }
    }
    let fields = space.ok("karmadactl explain propagationpolicy.spec.placement.clusterAffinity");
    for field in ["labelSelector", "fieldSelector", "clusterNames", "exclude"] {
        assert!(fields.contains(field), "{fields}");
    }
}

#[test]
fn u22_affinity_groups_are_tried_in_order() {
    let Some(space) = Space::new("u22") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    let groups = |home: &str| {
        let home = format!("{{affinityName: home, clusterNames: [{home}]}}");
        policy(
            "nginx",
            &format!(
                "{{clusterAffinities: [{home}, {{affinityName: backup, clusterNames: [member2]}}]}}"
            ),
        )
    };
    let observed =
        "kubectl get rb nginx-deployment -o jsonpath='{.status.schedulerObservingAffinityName}'";
    space.write("policy.yaml", &groups("member1"));
    space.ok("kubectl apply -f policy.yaml -f app.yaml");
    space.until(observed, |out| out == "home");
    space.placed("nginx-deployment", &["member1"]);
    space.write("policy.yaml", &groups("gone"));
    space.ok("kubectl apply -f policy.yaml");
    space.until(observed, |out| out == "backup");
    space.placed("nginx-deployment", &["member2"]);
    let why = space.ok("karmadactl why deploy/nginx");
    assert!(
        why.contains("affinity group home:") && why.contains("affinity group backup:"),
        "{why}"
    );
}

#[test]
fn u26_the_groups_are_seen_by_both_programs() {
    let Some(space) = Space::new("u26") else { return };
    for program in ["kubectl", "karmadactl"] {
        let text =
            steady(&space.ok(&format!("{program} api-resources --api-group=policy.karmada.io")));
        assert!(
            text.contains(
                "propagationpolicies pp policy.karmada.io/v1alpha1 true PropagationPolicy"
            ),
            "{text}"
        );
    }
    space.until("kubectl get apiservice", |out| {
        let services = steady(out);
        let is_known = |line: &str| services.lines().any(|own| own == line);
        is_known("v1alpha1.cluster.karmada.io karmada-system/karmada-aggregated-apiserver True AGE")
            && is_known("v1alpha1.policy.karmada.io Local True AGE")
    });
    assert!(
        space.ok("karmadactl api-versions").lines().any(|line| line == "work.karmada.io/v1alpha2")
    );
}

/// A program with nothing but the API: no shell, no tool, no file.
#[test]
fn u28_a_program_drives_everything_through_the_api() {
    let Some(space) = Space::new("u28") else { return };
    let runtime = tokio::runtime::Runtime::new().expect("make a runtime");
    runtime.block_on(drive_through_the_api(&space));
}

async fn drive_through_the_api(space: &Space) {
    let client = Client::from_kubeconfig(&space.kubeconfig(), None).await.unwrap();
    let api = |group: &str, version: &str, resource: &str| {
        client.api(&Gvr::new(group, version, resource)).namespaced(space.name())
    };
    let policies = api("policy.karmada.io", "v1alpha1", "propagationpolicies");
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "web"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}});
    policies.create(&policy).await.unwrap();
    let deployments = api("apps", "v1", "deployments");
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    deployments.create(&deployment).await.unwrap();
    let bindings = api("work.karmada.io", "v1alpha2", "resourcebindings");
    let until_in = async |cluster: &str| {
        let arrived = tokio::time::timeout(PATIENCE, async {
            loop {
                let binding = bindings.find("web-deployment").await.unwrap().unwrap_or_default();
                let template = deployments.get("web").await.unwrap();
                let statuses = binding.list_at(&["status", "aggregatedStatus"]);
                let there = statuses.len() == 1
                    && statuses[0].str_at(&["clusterName"]) == Some(cluster)
                    && statuses[0].str_at(&["health"]) == Some("Healthy");
                if there && template.i64_at(&["status", "readyReplicas"]) == Some(2) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        });
        assert!(
            arrived.await.is_ok(),
            "not in {cluster}: {:?}",
            bindings.find("web-deployment").await
        );
    };
    until_in("member1").await;
    let moved = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member2"]}}}});
    policies.merge_patch("web", moved).await.unwrap();
    until_in("member2").await;
    // Members are looked into through the same API, and the reasons are there too.
    let pods = client
        .get_path(
            "/apis/cluster.karmada.io/v1alpha1/clusters/member2/proxy/api/v1/namespaces/u28/pods",
            "application/json",
        )
        .await
        .unwrap();
    assert_eq!(pods.list_at(&["items"]).len(), 2);
    let reasons = client
        .get_path(
            "/apis/work.karmada.io/v1alpha2/namespaces/u28/resourcebindings/web-deployment/explanation",
            "application/json",
        )
        .await
        .unwrap();
    assert_eq!(reasons["policies"][0]["policy"], "PropagationPolicy u28/web", "{reasons}");
    assert_eq!(reasons["scheduling"]["succeeded"], true, "{reasons}");
    deployments.delete("web", &DeleteOptions::default()).await.unwrap();
}

#[test]
fn u29_nginx_runs_on_both_clusters_at_once() {
    let Some(space) = Space::new("u29") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.write(
        "policy.yaml",
        &policy("nginx", "{clusterAffinity: {clusterNames: [member1, member2]}}"),
    );
    space.ok("kubectl apply -f policy.yaml -f app.yaml");
    space.until_it_prints(
        "karmadactl get deploy --operation-scope members",
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx member1 1/1 1 1 AGE Y\nnginx member2 1/1 1 1 AGE Y",
    );
}

/// The same file works in a cluster and in the control plane.
#[test]
fn u31_native_yaml_works_unmodified() {
    let Some(space) = Space::new("u31") else { return };
    let native = format!(
        "{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: nginx}}\nspec: {{selector: {{app: nginx}}, ports: [{{port: 80}}]}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: nginx}}\ndata: {{a: b}}\n",
        deployment("nginx", 1)
    );
    space.write("native.yaml", &native);
    space.until("kubectl --kubeconfig $MEMBERS/member3.config get ns u31 -o name", |out| {
        !out.is_empty()
    });
    let expected =
        "deployment.apps/nginx created\nservice/nginx created\nconfigmap/nginx created\n";
    assert_eq!(
        space.ok("kubectl --kubeconfig $MEMBERS/member3.config create -f native.yaml"),
        expected
    );
    assert_eq!(space.ok("kubectl create -f native.yaml"), expected);
    space.write(
        "policy.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: all}\nspec:\n  resourceSelectors:\n  \
         - {apiVersion: apps/v1, kind: Deployment}\n  - {apiVersion: v1, kind: Service}\n  - {apiVersion: v1, kind: ConfigMap}\n  \
         placement: {clusterAffinity: {clusterNames: [member1]}}\n",
    );
    space.ok("kubectl apply -f policy.yaml");
    space.until(
        "kubectl --kubeconfig $MEMBERS/member1.config get deploy/nginx service/nginx cm/nginx -o name",
        |out| out == "deployment.apps/nginx\nservice/nginx\nconfigmap/nginx\n",
    );
}

#[test]
fn u36_an_argument_is_appended_per_cluster() {
    let Some(space) = Space::new("u36") else { return };
    let app = deployment("nginx", 1).replace("image: nginx}", "image: nginx, args: [--port=80]}");
    space.write("app.yaml", &app);
    let rule = |member: &str| {
        format!(
            "  - targetCluster: {{clusterNames: [{member}]}}\n    overriders:\n      argsOverrider: [{{containerName: nginx, operator: add, value: [--cluster={member}]}}]\n"
        )
    };
    space.write(
        "override.yaml",
        &format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: args}}\nspec:\n  \
             resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: nginx}}]\n  overrideRules:\n{}{}",
            rule("member1"),
            rule("member2")
        ),
    );
    space.ok("kubectl apply -f override.yaml");
    space.ok("karmadactl apply -f app.yaml --cluster member1,member2");
    for member in ["member1", "member2"] {
        let args = format!(
            "kubectl --kubeconfig $MEMBERS/{member}.config get deploy nginx -o jsonpath='{{.spec.template.spec.containers[0].args}}'"
        );
        space.until(&args, |out| out == format!("[\"--port=80\",\"--cluster={member}\"]"));
    }
}

#[test]
fn u37_cluster_scoped_kinds_have_a_policy_of_their_own() {
    let Some(space) = Space::new("u37") else { return };
    space.write(
        "role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: u37-reader}\nrules: []\n",
    );
    let made = space.ok("karmadactl apply -f role.yaml --cluster member2");
    assert!(made.contains("clusterpropagationpolicy.policy.karmada.io/u37-reader-"), "{made}");
    let role = |member: &str| {
        format!("kubectl --kubeconfig $MEMBERS/{member}.config get clusterrole u37-reader -o name")
    };
    space.until(&role("member2"), |out| !out.is_empty());
    assert_ne!(space.run(&role("member1")).code, 0);
    space.write("app.yaml", &deployment("nginx", 1));
    let made = space.ok("karmadactl apply -f app.yaml --cluster member2");
    assert!(made.contains("\npropagationpolicy.policy.karmada.io/nginx-"), "{made}");
    space.ok("kubectl delete clusterrole u37-reader");
    space.until(&format!("{}; echo .", role("member2")), |out| out == ".\n");
}

/// `6/3` on the template is explained where people look, and each cluster can be seen alone.
#[test]
fn u39_the_status_of_the_federation_is_readable() {
    let Some(space) = Space::new("u39") else { return };
    space.write("app.yaml", &deployment("nginx", 3));
    space.ok("karmadactl apply -f app.yaml --cluster member1,member2");
    space.ready("nginx", "6/3");
    let described = space.ok("karmadactl describe deployment nginx");
    assert!(
        described.contains(
            "Duplicated: each of 2 clusters has all 3, so the template counts 6/3 when all are ready"
        ),
        "{described}"
    );
    for part in
        ["member1    3         true     Healthy  3/3", "member2    3         true     Healthy  3/3"]
    {
        assert!(described.contains(part), "no {part:?} in\n{described}");
    }
    space.until_it_prints(
        "karmadactl get deploy --operation-scope members",
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx member1 3/3 3 3 AGE Y\nnginx member2 3/3 3 3 AGE Y",
    );
    let pods = steady(&space.ok("karmadactl get pods --operation-scope members"));
    assert_eq!(pods.matches("nginx-POD member1 1/1 Running 0 AGE").count(), 3, "{pods}");
    assert_eq!(pods.matches("nginx-POD member2 1/1 Running 0 AGE").count(), 3, "{pods}");
}

#[test]
fn u48_works_and_bindings_can_be_looked_at() {
    let Some(space) = Space::new("u48") else { return };
    space.write("app.yaml", &deployment("nginx", 1));
    space.ok("karmadactl apply -f app.yaml --cluster member1,member2");
    space.until_it_prints(
        "karmadactl get rb",
        "NAME CLUSTER SCHEDULED FULLYAPPLIED AGE ADOPTION\nnginx-deployment Karmada True True AGE -",
    );
    let own = "kubectl get work -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.spec.workload.manifests[0].kind}/{.spec.workload.manifests[0].metadata.namespace}{\"\\n\"}{end}' | grep Deployment/u48 | sort";
    space.until(own, |out| {
        out == "karmada-es-member1/Deployment/u48\nkarmada-es-member2/Deployment/u48\n"
    });
    let described = space.ok("karmadactl describe rb nginx-deployment");
    assert!(described.contains("Kind:         ResourceBinding"), "{described}");
    // Every cluster has the namespace its Works are in.
    for member in ["member1", "member2", "member3"] {
        space.ok(&format!("kubectl get namespace karmada-es-{member}"));
    }
}
