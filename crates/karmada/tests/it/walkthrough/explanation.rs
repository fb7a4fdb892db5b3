//! The API that says why: every part of a decision, for both scopes, to whoever may read it.

use karmada_apimachinery::{Value, json};

use super::shell::{Space, Terminal as _, deployment};

const RULES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: strong}
spec:
  priority: 5
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {staticWeightList: [
        {targetCluster: {clusterNames: [member1]}, weight: 2},
        {targetCluster: {clusterNames: [member2]}, weight: 1}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: weak}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member3]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: near}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules:
  - targetCluster: {clusterNames: [member2]}
    overriders: {plaintext: [{path: /spec/minReadySeconds, operator: add, value: 1}]}
";

const WIDE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: told}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: told}
spec:
  resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: told}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
";

/// Asks until everything was delivered.
fn asked(space: &Space, path: &str, deliveries: usize) -> Value {
    let line = format!("kubectl get --raw {path}");
    let read = |out: &str| serde_json::from_str::<Value>(out).unwrap_or_default();
    let is_over = |told: &Value| {
        let list = told["deliveries"].as_array().cloned().unwrap_or_default();
        let well = list.iter().filter(|one| one["applied"] == true && one["health"] == "Healthy");
        well.count() == deliveries
    };
    read(&space.until(&line, |out| is_over(&read(out))))
}

#[test]
fn the_explanation_api_tells_every_part_of_a_decision() {
    let Some(space) = Space::new("explained") else { return };
    space.write("rules.yaml", RULES);
    space.write("app.yaml", &deployment("web", 3));
    space.ok("kubectl apply -f rules.yaml");
    space.ok("kubectl apply -f app.yaml");
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/explained/resourcebindings";
    let told = asked(&space, &format!("{bindings}/web-deployment/explanation"), 2);
    assert_eq!(told["subject"], "Deployment explained/web");
    // Who claimed it, and who did not.
    let policies = told["policies"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|one| (&one["policy"], &one["won"])).collect();
    let (strong, weak) =
        (json!("PropagationPolicy explained/strong"), json!("PropagationPolicy explained/weak"));
    assert_eq!(names, [(&strong, &json!(true)), (&weak, &json!(false))], "{told}");
    assert!(policies.iter().all(|one| !one["reason"].as_str().unwrap().is_empty()), "{told}");
    // Which clusters, and why not the others.
    let scheduling = &told["scheduling"];
    assert_eq!(scheduling["succeeded"], true, "{told}");
    let attempt = &scheduling["attempts"][0];
    let cluster = |name: &str| {
        let clusters = attempt["clusters"].as_array().unwrap().iter();
        clusters.clone().find(|one| one["cluster"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(cluster("member1")["replicas"], 2, "{told}");
    assert_eq!(cluster("member2")["replicas"], 1, "{told}");
    assert_eq!(cluster("member3")["rejectedBy"][0]["rule"], "ClusterAffinity", "{told}");
    assert_eq!(attempt["divisions"][0]["strategy"], "static weights", "{told}");
    assert_eq!(attempt["divisions"][0]["shares"][0]["weight"], 2, "{told}");
    // What differs where, and what became of it.
    let step = json!([{"cluster": "member2", "policy": "OverridePolicy explained/near",
        "overrider": "plaintext", "changes": ["add /spec/minReadySeconds = 1"]}]);
    assert_eq!(told["overrides"], step, "{told}");
    let places: Vec<_> = told["deliveries"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&places[0]["cluster"], &places[1]["cluster"]),
        (&json!("member1"), &json!("member2"))
    );
    // Nobody decided anything about what is not there.
    let missing = space.run(&format!("kubectl get --raw {bindings}/none-deployment/explanation"));
    assert!(missing.code != 0 && missing.err.contains("not found"), "{missing:?}");
    // Reasons are for those who may read them.
    let line = format!("kubectl get --raw {bindings}/web-deployment/explanation --as nobody");
    let refused = space.run(&line);
    assert!(refused.code != 0 && refused.err.contains("Forbidden"), "{refused:?}");
    space.ok("kubectl create role reader --verb get --resource resourcebindings.work.karmada.io/explanation");
    space.ok("kubectl create rolebinding reader --role reader --user nobody");
    space.until(&line, |out| out.contains("\"subject\":\"Deployment explained/web\""));
    space.write("wide.yaml", WIDE);
    space.ok("kubectl apply -f wide.yaml");
    let wide =
        "/apis/work.karmada.io/v1alpha2/clusterresourcebindings/told-clusterrole/explanation";
    let told = asked(&space, wide, 1);
    assert_eq!(told["subject"], "ClusterRole told", "{told}");
    assert_eq!(told["policies"][0]["policy"], "ClusterPropagationPolicy told", "{told}");
    space.ok("kubectl delete -f wide.yaml");
}
