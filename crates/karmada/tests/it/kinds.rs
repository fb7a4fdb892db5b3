//! Every kind of Karmada's own, by real kubectl: explained, applied, compared, listed.

use crate::kubectl::Kubectl;
use crate::server::{Server, eventually, text};

/// One kind: its name for kubectl, a field worth an explanation, the header of its table, an object.
struct Sample {
    name: &'static str,
    field: &'static str,
    header: &'static str,
    object: &'static str,
}

const fn sample(
    name: &'static str,
    field: &'static str,
    header: &'static str,
    object: &'static str,
) -> Sample {
    Sample { name, field, header, object }
}

impl Sample {
    fn plural(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// Named beside the kind, since kubectl before 1.21 takes what follows a dot for a field.
    fn version(&self) -> String {
        let object: karmada_apimachinery::Value = serde_json::from_str(self.object).expect("JSON");
        object["apiVersion"].as_str().expect("a version").to_owned()
    }
}

const SAMPLES: &[Sample] = &[
    sample(
        "propagationpolicies.policy.karmada.io",
        "spec.placement.spreadConstraints.maxGroups",
        "NAME +CONFLICT-RESOLUTION +PRIORITY +AGE",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}]}}"#,
    ),
    sample(
        "clusterpropagationpolicies.policy.karmada.io",
        "spec.failover.application.purgeMode",
        "NAME +CONFLICT-RESOLUTION +PRIORITY +AGE",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}]}}"#,
    ),
    sample(
        "overridepolicies.policy.karmada.io",
        "spec.overrideRules.overriders.fieldOverrider",
        "NAME +AGE",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}], "overrideRules": [{"overriders": {"plaintext": [{"path": "/data/a", "operator": "add", "value": "b"}]}}]}}"#,
    ),
    sample(
        "clusteroverridepolicies.policy.karmada.io",
        "spec.overrideRules.targetCluster",
        "NAME +AGE",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterOverridePolicy", "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}], "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]}}"#,
    ),
    sample(
        "federatedresourcequotas.policy.karmada.io",
        "spec.staticAssignments.hard",
        "NAME +OVERALL +OVERALL_USED",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "spec": {"overall": {"cpu": "10"}}}"#,
    ),
    sample(
        "clustertaintpolicies.policy.karmada.io",
        "spec.addOnConditions.operator",
        "NAME +AGE",
        r#"{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "spec": {"targetClusters": {"clusterNames": ["nobody"]}, "taints": [{"key": "a", "effect": "NoSchedule"}]}}"#,
    ),
    sample(
        "works.work.karmada.io",
        "spec.suspendDispatching",
        "NAME +WORKLOAD-KIND +APPLIED +AGE",
        r#"{"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}]}}}"#,
    ),
    sample(
        "resourcebindings.work.karmada.io",
        "spec.gracefulEvictionTasks.purgeMode",
        "NAME +SCHEDULED +FULLYAPPLIED +AGE",
        r#"{"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "namespace": "default"}, "suspension": {"scheduling": true}}}"#,
    ),
    sample(
        "clusterresourcebindings.work.karmada.io",
        "spec.requiredBy.clusters",
        "NAME +SCHEDULED +FULLYAPPLIED +AGE",
        r#"{"apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding", "spec": {"resource": {"apiVersion": "v1", "kind": "PersistentVolume", "name": "nobody"}, "suspension": {"scheduling": true}}}"#,
    ),
    sample(
        "clusters.cluster.karmada.io",
        "spec.resourceModels.ranges.max",
        "NAME +VERSION +MODE +READY +AGE",
        r#"{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "spec": {"syncMode": "Pull", "zones": ["z1"]}}"#,
    ),
    sample(
        "resourceinterpretercustomizations.config.karmada.io",
        "spec.customizations.retention.luaScript",
        "NAME +TARGET-API-VERSION +TARGET-KIND +AGE",
        r#"{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "spec": {"target": {"apiVersion": "a.io/v1", "kind": "A"}, "customizations": {"healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"}}}}"#,
    ),
    sample(
        "resourceinterpreterwebhookconfigurations.config.karmada.io",
        "webhooks.rules.operations",
        "NAME +AGE",
        r#"{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration", "webhooks": []}"#,
    ),
    sample(
        "federatedhpas.autoscaling.karmada.io",
        "spec.behavior.scaleDown.policies",
        "NAME +REFERENCE-KIND +REFERENCE-NAME +MINPODS +MAXPODS +REPLICAS +AGE",
        r#"{"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"}, "maxReplicas": 3}}"#,
    ),
    sample(
        "cronfederatedhpas.autoscaling.karmada.io",
        "spec.rules.schedule",
        "NAME +REFERENCE-KIND +REFERENCE-NAME +AGE",
        r#"{"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA", "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"}, "rules": [{"name": "r", "schedule": "0 0 1 1 *", "targetReplicas": 1}]}}"#,
    ),
    sample(
        "multiclusterservices.networking.karmada.io",
        "spec.providerClusters",
        "NAME +AGE",
        r#"{"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService", "spec": {"types": ["CrossCluster"]}}"#,
    ),
    sample(
        "multiclusteringresses.networking.karmada.io",
        "spec.rules.http.paths",
        "NAME +AGE",
        r#"{"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterIngress", "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}"#,
    ),
    sample(
        "workloadrebalancers.apps.karmada.io",
        "spec.ttlSecondsAfterFinished",
        "NAME +AGE",
        r#"{"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody", "namespace": "default"}]}}"#,
    ),
    sample(
        "remedies.remedy.karmada.io",
        "spec.decisionMatches.clusterConditionMatch",
        "NAME +AGE",
        r#"{"apiVersion": "remedy.karmada.io/v1alpha1", "kind": "Remedy", "spec": {"clusterAffinity": {"clusterNames": ["nobody"]}, "actions": ["TrafficControl"]}}"#,
    ),
    sample(
        "resourceregistries.search.karmada.io",
        "spec.backendStore.openSearch.addresses",
        "NAME +CREATED AT",
        r#"{"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "spec": {"targetCluster": {"clusterNames": ["nobody"]}, "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}"#,
    ),
    sample(
        "serviceexports.multicluster.x-k8s.io",
        "status.conditions",
        "NAME +AGE",
        r#"{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport"}"#,
    ),
    sample(
        "serviceimports.multicluster.x-k8s.io",
        "spec.ports",
        "NAME +TYPE +IP +AGE",
        r#"{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "spec": {"type": "ClusterSetIP", "ports": [{"port": 80}]}}"#,
    ),
];

/// All samples as one stream, each with the annotation.
fn manifests(annotation: &str) -> String {
    let objects = SAMPLES.iter().map(|sample| {
        let metadata = format!(
            r#""metadata": {{"name": "sample", "annotations": {{"note": "{annotation}"}}}}, "#
        );
        sample.object.replacen(r#"{"apiVersion""#, &format!(r#"{{{metadata}"apiVersion""#), 1)
    });
    objects.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_kind_is_explained_applied_compared_and_listed() {
    let server = Server::up();
    // The newest kubectl is enough for most: what others do is shown elsewhere.
    let kubectls = Kubectl::all(&server);
    let Some(kubectl) = kubectls.iter().max_by_key(|kubectl| kubectl.minor()) else { return };
    for sample in SAMPLES {
        let (plural, version) = (sample.plural(), sample.version());
        let explain = |of: &str| kubectl.expect(&format!("explain {of} --api-version={version}"));
        let whole = explain(plural);
        assert!(whole.contains("DESCRIPTION:") && whole.contains("FIELDS:"), "{whole}");
        let field = explain(&format!("{plural}.{}", sample.field));
        let description = field.split("DESCRIPTION:").nth(1).unwrap_or_default().trim();
        assert!(!description.is_empty() && !description.starts_with("<empty>"), "{field}");
    }
    let (first, second) = (manifests("first"), manifests("second"));
    let applied = kubectl.fed("apply --server-side -f -", &first);
    assert_eq!(applied.matches("serverside-applied").count(), SAMPLES.len(), "{applied}");
    let is_clean = |kubectl: &Kubectl<'_>, how: &str| {
        // Controllers may write between the two readings of an object.
        eventually(how, || kubectl.run(how, &first).status.success().then_some(()));
    };
    // The old ones show managed fields, with their times.
    kubectls.iter().for_each(|kubectl| is_clean(kubectl, "diff --server-side -f -"));
    // Which change hands when somebody applies the other way.
    if kubectl.minor() > 20 {
        is_clean(kubectl, "diff -f -");
    }
    let changed = kubectl.run("diff --server-side -f -", &second);
    assert_eq!(changed.status.code(), Some(1), "{}", text(&changed));
    assert_eq!(
        text(&changed).matches("+    note: second").count(),
        SAMPLES.len(),
        "{}",
        text(&changed)
    );
    kubectl.fed("apply --server-side -f -", &second);
    let names: Vec<&str> = SAMPLES.iter().map(|sample| sample.name).collect();
    let listed = kubectl.expect(&format!("get {}", names.join(",")));
    for sample in SAMPLES {
        let (_, group) = sample.name.split_once('.').expect("a full name");
        let stem = &sample.plural()[..sample.plural().len() - 3];
        let row =
            format!(r"(?m)^{}\s*\n{stem}\w*\.{}/sample ", sample.header, regex::escape(group));
        assert!(regex::Regex::new(&row).expect("a pattern").is_match(&listed), "{row}\n{listed}");
    }
    clusters(kubectl);
}

/// What only the natively served kind has: wide columns, strategic patches, zones from a zone.
fn clusters(kubectl: &Kubectl<'_>) {
    let patch =
        r#"patch cluster sample --type=strategic --patch={"spec":{"region":"r1","provider":"p1"}}"#;
    assert!(kubectl.expect(patch).contains("patched"));
    let wide = kubectl.expect("get clusters -o wide");
    let pattern = r"(?m)^NAME +VERSION +MODE +READY +AGE +ZONES +REGION +PROVIDER +API-ENDPOINT +PROXY-URL *\nsample .*Pull .* z1 +r1 +p1 ";
    assert!(regex::Regex::new(pattern).expect("a pattern").is_match(&wide), "{wide}");
    let refused =
        kubectl.run(r#"patch pp sample --type=strategic --patch={"spec":{"priority":1}}"#, "");
    assert!(
        !refused.status.success() && text(&refused).contains("accepted media types"),
        "{}",
        text(&refused)
    );
    let services = kubectl.expect("get apiservices");
    for group in ["cluster", "search"] {
        let line = format!(r"(?m)^v1alpha1\.{group}\.karmada\.io .*True");
        assert!(regex::Regex::new(&line).expect("a pattern").is_match(&services), "{services}");
    }
    // The old ones cannot ask for a category.
    let asked = if kubectl.minor() > 20 { " --categories=karmada-io" } else { "" };
    let resources = kubectl.expect(&format!("api-resources{asked}"));
    for short in [
        " pp ",
        " cpp ",
        " op ",
        " cop ",
        " rb ",
        " crb ",
        " wk ",
        " ric ",
        " fhpa ",
        " cronfhpa ",
        " mcs ",
        " mci ",
    ] {
        assert!(resources.contains(short), "{short}: {resources}");
    }
}
