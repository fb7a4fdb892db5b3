//! What the control plane was told, kept beside it: whatever it does has to follow from this.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Deployment,
    ClusterRole,
    /// Of a definition that members may lose.
    Boat,
}

impl Kind {
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Deployment => "deployments.apps",
            Self::ClusterRole => "clusterroles.rbac.authorization.k8s.io",
            Self::Boat => "boats.sea.example",
        }
    }

    pub(crate) fn namespace(self) -> &'static str {
        if self == Self::ClusterRole { "" } else { "default" }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Deployment => "Deployment",
            Self::ClusterRole => "ClusterRole",
            Self::Boat => "Boat",
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap => "v1",
            Self::Deployment => "apps/v1",
            Self::ClusterRole => "rbac.authorization.k8s.io/v1",
            Self::Boat => "sea.example/v1",
        }
    }
}

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub(crate) const DEFINITION: &str = "boats.sea.example";

/// The definition of boats.
pub(crate) fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "sea.example", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// From when, and until when unless that is so still.
type Spans = Vec<(u64, Option<u64>)>;

/// A template with the policy that propagates it and what is overridden in some clusters.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) alive: bool,
    pub(crate) payload: u64,
    pub(crate) replicas: i64,
    /// Whether the policy divides the replicas among the clusters.
    pub(crate) divided: bool,
    /// Whether the policy moves it away from where it stays unhealthy.
    pub(crate) fails_over: bool,
    /// Taints that do not expel it: for ever, or for so many seconds.
    pub(crate) tolerates: BTreeMap<&'static str, Option<u64>>,
    /// Whether the policy is of the whole cluster though the template is in a namespace.
    pub(crate) wide: bool,
    pub(crate) clusters: BTreeSet<String>,
    /// The cluster with an override, and the value it sets.
    pub(crate) over: Option<(String, u64)>,
    /// When a cluster was not to have it: from, and until when unless that is so still.
    unwanted: BTreeMap<String, Spans>,
}

impl Template {
    pub(crate) fn new(kind: Kind, name: String, clusters: BTreeSet<String>) -> Self {
        Self {
            kind,
            name,
            alive: false,
            payload: 0,
            replicas: 2,
            divided: false,
            fails_over: false,
            tolerates: BTreeMap::new(),
            wide: kind == Kind::ClusterRole,
            clusters,
            over: None,
            unwanted: BTreeMap::new(),
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.word(), self.name)
    }

    pub(crate) fn wanted_in(&self, cluster: &str) -> bool {
        self.alive && self.clusters.contains(cluster)
    }

    /// Writes down where it is wanted from now on.
    pub(crate) fn remember(&mut self, now: u64, members: &[String]) {
        for member in members {
            let wanted = self.wanted_in(member);
            let spans = self.unwanted.entry(member.clone()).or_default();
            match spans.last_mut() {
                Some((_, until @ None)) if wanted => *until = Some(now),
                Some((_, None)) => {}
                _ if !wanted => spans.push((now, None)),
                _ => {}
            }
        }
    }

    /// Whether there was a moment between the two at which the cluster was not to have it.
    pub(crate) fn was_unwanted(&self, cluster: &str, from: u64, to: u64) -> bool {
        let spans = self.unwanted.get(cluster).map(Vec::as_slice).unwrap_or_default();
        spans.iter().any(|(start, end)| *start <= to && end.is_none_or(|end| end >= from))
    }

    pub(crate) fn object(&self) -> Value {
        let payload = self.payload.to_string();
        let mut metadata = json!({"name": self.name, "annotations": {"payload": payload}});
        if !self.kind.namespace().is_empty() {
            metadata["namespace"] = self.kind.namespace().into();
        }
        let mut object = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.word(), "metadata": metadata,
        });
        match self.kind {
            Kind::ConfigMap => object["data"] = json!({"v": payload}),
            Kind::Boat => object["spec"] = json!({"v": payload}),
            Kind::ClusterRole => {
                object["rules"] = json!([
                    {"apiGroups": [""], "resources": ["pods"], "resourceNames": [payload], "verbs": ["get"]},
                ]);
            }
            Kind::Deployment => {
                let labels = json!({"app": self.name});
                object["spec"] = json!({
                    "replicas": self.replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                    },
                });
            }
        }
        object
    }

    fn selectors(&self) -> Value {
        json!([{
            "apiVersion": self.kind.api_version(), "kind": self.kind.word(), "name": self.name,
        }])
    }

    pub(crate) fn policy_place(&self) -> (&'static str, &'static str) {
        if self.wide {
            ("clusterpropagationpolicies.v1alpha1.policy.karmada.io", "")
        } else {
            ("propagationpolicies.v1alpha1.policy.karmada.io", "default")
        }
    }

    pub(crate) fn policy(&self) -> Value {
        let mut placement = json!({"clusterAffinity": {"clusterNames": self.clusters}});
        if self.divided {
            placement["replicaScheduling"] = json!({
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            });
        }
        let tolerations = self.tolerates.iter().map(|(key, seconds)| {
            let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
            if let Some(seconds) = seconds {
                toleration["tolerationSeconds"] = (*seconds).into();
            }
            toleration
        });
        if !self.tolerates.is_empty() {
            placement["clusterTolerations"] = tolerations.collect();
        }
        let kind = if self.wide { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
        let mut metadata = json!({"name": format!("place-{}", self.name)});
        if !self.wide {
            metadata["namespace"] = "default".into();
        }
        let mut spec = json!({"resourceSelectors": self.selectors(), "placement": placement});
        if self.fails_over {
            let conditions = json!({"tolerationSeconds": 60});
            spec["failover"] = json!({"application": {"decisionConditions": conditions}});
            spec["propagateDeps"] = true.into();
        }
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
            "spec": spec,
        })
    }

    pub(crate) fn override_place(&self) -> (&'static str, &'static str) {
        if self.kind == Kind::ClusterRole {
            ("clusteroverridepolicies.v1alpha1.policy.karmada.io", "")
        } else {
            ("overridepolicies.v1alpha1.policy.karmada.io", "default")
        }
    }

    pub(crate) fn override_policy(&self) -> Option<Value> {
        let (cluster, value) = self.over.as_ref()?;
        let wide = self.kind == Kind::ClusterRole;
        let kind = if wide { "ClusterOverridePolicy" } else { "OverridePolicy" };
        let mut metadata = json!({"name": format!("alter-{}", self.name)});
        if !wide {
            metadata["namespace"] = "default".into();
        }
        let value = json!({"over": value.to_string()});
        Some(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
            "spec": {
                "resourceSelectors": self.selectors(),
                "overrideRules": [{
                    "targetCluster": {"clusterNames": [cluster]},
                    "overriders": {"labelsOverrider": [{"operator": "add", "value": value}]},
                }],
            },
        }))
    }

    /// What is wrong with the object a cluster has; `replicas` is its share.
    pub(crate) fn differs(&self, cluster: &str, object: &Value, replicas: i64) -> Option<String> {
        let payload = self.payload.to_string();
        if object["metadata"]["annotations"]["payload"] != payload.as_str() {
            let found = &object["metadata"]["annotations"]["payload"];
            return Some(format!("payload {found} instead of {payload}"));
        }
        if self.kind == Kind::ConfigMap && object["data"]["v"] != payload.as_str() {
            return Some(format!("data {} instead of {payload}", object["data"]["v"]));
        }
        if self.kind == Kind::Deployment && object["spec"]["replicas"] != replicas {
            return Some(format!("replicas {} instead of {replicas}", object["spec"]["replicas"]));
        }
        let over = self.over.as_ref().filter(|(target, _)| target == cluster);
        let over = over.map(|(_, value)| value.to_string());
        let label = object["metadata"]["labels"]["over"].as_str();
        if label != over.as_deref() {
            return Some(format!("override {label:?} instead of {over:?}"));
        }
        None
    }
}

/// The taint that people put on clusters, and the one that a policy puts on those that are lost.
pub(crate) const REPAIR: &str = "repair";
pub(crate) const LOST: &str = "lost";

/// Puts a taint on every cluster that is not ready.
pub(crate) fn taint_policy() -> Value {
    let ready = |operator: &str| json!([{"conditionType": "Ready", "operator": operator, "statusValues": ["True"]}]);
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
        "metadata": {"name": LOST},
        "spec": {
            "targetClusters": {}, "taints": [{"key": LOST, "effect": "NoExecute"}],
            "addOnConditions": ready("NotIn"), "removeOnConditions": ready("In"),
        },
    })
}

/// A taint says in whole seconds since when it is there, so it may seem to be there for so much longer.
const WHOLE: u64 = 1000;

/// When which clusters could have had taints that expel.
#[derive(Debug, Default)]
pub(crate) struct Taints {
    /// Whether they expel at all.
    expel: bool,
    spans: BTreeMap<(String, &'static str), Spans>,
    /// Whether clocks went their own way, so that nobody can tell how long a taint was there.
    pub(crate) jumped: bool,
}

impl Taints {
    pub(crate) fn new(expel: bool) -> Self {
        Self { expel, ..Self::default() }
    }

    pub(crate) fn begin(&mut self, cluster: &str, key: &'static str, now: u64) {
        if !self.expel {
            return;
        }
        let spans = self.spans.entry((cluster.to_owned(), key)).or_default();
        if spans.last().is_none_or(|(_, end)| end.is_some()) {
            spans.push((now, None));
        }
    }

    pub(crate) fn end(&mut self, cluster: &str, key: &'static str, now: u64) {
        let last =
            self.spans.get_mut(&(cluster.to_owned(), key)).and_then(|spans| spans.last_mut());
        if let Some((_, end @ None)) = last {
            *end = Some(now);
        }
    }

    /// Whether a cluster may have expelled a template between the two moments.
    pub(crate) fn may_expel(&self, template: &Template, cluster: &str, from: u64, to: u64) -> bool {
        self.spans.iter().filter(|((tainted, _), _)| tainted == cluster).any(|((_, key), spans)| {
            let patience = match template.tolerates.get(key) {
                Some(None) => return false,
                Some(Some(seconds)) if !self.jumped => seconds * 1000,
                _ => 0,
            };
            spans.iter().any(|(start, end)| {
                (start + patience).saturating_sub(WHOLE) <= to && end.is_none_or(|end| end >= from)
            })
        })
    }
}
