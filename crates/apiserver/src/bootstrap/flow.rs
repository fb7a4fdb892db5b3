//! Priority levels and flow schemas of a new cluster, as Kubernetes ships them.

use karmada_apimachinery::{Value, json};

use crate::lanes::LANES;

/// Queues of a level: number, hand size. Levels that are not listed turn requests away.
const QUEUES: &[(&str, u64, u64)] = &[
    ("system", 64, 6),
    ("node-high", 64, 6),
    ("leader-election", 16, 4),
    ("workload-high", 128, 6),
    ("workload-low", 128, 6),
    ("global-default", 128, 6),
];

pub(super) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = vec![level("exempt", exempt())];
    objects
        .extend(LANES.iter().map(|(name, share, lent)| level(name, limited(name, *share, *lent))));
    objects.extend(schemas());
    objects
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
        },
        "spec": spec,
    })
}

fn level(name: &str, spec: Value) -> Value {
    object("PriorityLevelConfiguration", name, spec)
}

fn exempt() -> Value {
    json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})
}

fn limited(name: &str, share: u64, lent: u64) -> Value {
    let response = match QUEUES.iter().find(|(own, _, _)| *own == name) {
        Some((_, queues, hand)) => json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50},
        }),
        None => json!({"type": "Reject"}),
    };
    json!({
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": share,
            "lendablePercent": lent,
            "limitResponse": response,
        },
    })
}

fn groups(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
}

fn system_accounts() -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}})
}

/// Everything anyone may ask.
fn all(subjects: Vec<Value>) -> Value {
    json!([{
        "subjects": subjects,
        "resourceRules": [resources(&["*"], &["*"], &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }])
}

fn resources(verbs: &[&str], groups: &[&str], resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({
        "verbs": verbs, "apiGroups": groups, "resources": resources, "namespaces": ["*"],
    });
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn schema(name: &str, level: &str, precedence: u64, by: &str, rules: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": rules,
    });
    if !by.is_empty() {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    object("FlowSchema", name, spec)
}

fn schemas() -> Vec<Value> {
    const BY_USER: &str = "ByUser";
    const BY_NAMESPACE: &str = "ByNamespace";
    let everyone = || groups(&["system:unauthenticated", "system:authenticated"]);
    let manager = "system:kube-controller-manager";
    let scheduler = "system:kube-scheduler";
    let mut electors = users(&[manager, scheduler]);
    electors.push(system_accounts());
    let probes = json!([{
        "subjects": everyone(),
        "nonResourceRules": [{
            "verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"],
        }],
    }]);
    let leases = |verbs: &[&str]| resources(verbs, &["coordination.k8s.io"], &["leases"], false);
    let elections =
        json!([{"subjects": electors, "resourceRules": [leases(&["get", "create", "update"])]}]);
    let nodes = json!([{
        "subjects": groups(&["system:nodes"]),
        "resourceRules": [
            resources(&["*"], &[""], &["nodes", "nodes/status"], true),
            leases(&["*"]),
        ],
    }]);
    vec![
        schema("exempt", "exempt", 1, "", all(groups(&["system:masters"]))),
        schema("probes", "exempt", 2, "", probes),
        schema("system-leader-election", "leader-election", 100, BY_USER, elections),
        schema("system-node-high", "node-high", 400, BY_USER, nodes),
        schema("system-nodes", "system", 500, BY_USER, all(groups(&["system:nodes"]))),
        schema(
            "kube-controller-manager",
            "workload-high",
            800,
            BY_NAMESPACE,
            all(users(&[manager])),
        ),
        schema("kube-scheduler", "workload-high", 800, BY_NAMESPACE, all(users(&[scheduler]))),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            BY_NAMESPACE,
            all(vec![system_accounts()]),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            BY_USER,
            all(groups(&["system:serviceaccounts"])),
        ),
        schema("global-default", "global-default", 9900, BY_USER, all(everyone())),
        schema("catch-all", "catch-all", 10000, BY_USER, all(everyone())),
    ]
}
