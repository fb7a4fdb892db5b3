//! The roles and bindings a cluster starts with, and how stored ones are brought up to date at start
//! without taking away what an administrator added.

use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};

use super::rbac::GROUP;
use super::rule::{Rule, uncovered};

const POLICY: &str = include_str!("policy.txt");
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
const CONTROLLER: &str = "system:controller:";

/// Returns every bootstrap role and binding, roles before the bindings that name them.
pub fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in POLICY.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(rule) = line.strip_prefix("  ") {
            if let Some(Value::Array(rules)) = objects.last_mut().and_then(|o| o.get_mut("rules")) {
                rules.push(read_rule(rule).to_value());
            }
        } else {
            objects.extend(read_head(line));
        }
    }
    let controllers: Vec<Value> = objects
        .iter()
        .filter_map(|role| {
            let account = role.name().strip_prefix(CONTROLLER)?;
            let words = [
                format!("ClusterRole:{}", role.name()),
                format!("ServiceAccount:kube-system/{account}"),
            ];
            let words = words.iter().map(String::as_str);
            (role.kind() == "ClusterRole").then(|| binding("", role.name(), words))
        })
        .collect();
    objects.extend(controllers);
    objects
}

fn read_head(line: &str) -> Option<Value> {
    let mut words = line.split(' ');
    let what = words.next()?;
    let (namespace, name) = match words.next()? {
        // Names of cluster-scoped objects hold no slash.
        full if what.starts_with("cluster") => ("", full),
        full => full.split_once('/')?,
    };
    Some(match what {
        "clusterrole" | "role" => role(namespace, name, words),
        _ => binding(namespace, name, words),
    })
}

fn shell(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": if namespace.is_empty() { format!("Cluster{kind}") } else { kind.to_owned() },
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTO_UPDATE: "true"},
        },
    });
    if !namespace.is_empty() {
        object.set(&["metadata", "namespace"], namespace);
    }
    object
}

fn role<'a>(namespace: &str, name: &str, options: impl Iterator<Item = &'a str>) -> Value {
    let mut role = shell("Role", namespace, name);
    role["rules"] = json!([]);
    for option in options {
        if let Some(label) = option.strip_prefix("gathers=") {
            let selector = json!({"matchLabels": {format!("{AGGREGATE}{label}"): "true"}});
            role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        } else if let Some(label) = option.strip_prefix("joins=") {
            role.set(&["metadata", "labels", &format!("{AGGREGATE}{label}")], "true");
        }
    }
    role
}

fn binding<'a>(namespace: &str, name: &str, mut words: impl Iterator<Item = &'a str>) -> Value {
    let mut binding = shell("RoleBinding", namespace, name);
    let (kind, role) = words.next().and_then(|word| word.split_once(':')).unwrap_or_default();
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": role});
    let subjects: Vec<Value> = words
        .filter_map(|word| word.split_once(':'))
        .map(|(kind, name)| match name.split_once('/').filter(|_| kind == "ServiceAccount") {
            Some((namespace, name)) => json!({"kind": kind, "namespace": namespace, "name": name}),
            None => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
        })
        .collect();
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    binding
}

fn read_rule(line: &str) -> Rule {
    let list = |word: &str| -> Vec<String> {
        word.split(',').map(|item| if item == "core" { "" } else { item }.to_owned()).collect()
    };
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [verbs, "url", paths] => {
            Rule { verbs: list(verbs), non_resource_urls: list(paths), ..Rule::default() }
        }
        [verbs, groups, resources, ref names @ ..] => Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: names.get(1).map(|names| list(names)).unwrap_or_default(),
            ..Rule::default()
        },
        _ => Rule::default(),
    }
}

/// What must happen to a stored bootstrap object.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Keep,
    Create(Value),
    Update(Value),
    /// The role a binding points at cannot be changed, so the binding is made anew.
    Recreate(Value),
}

/// Compares a stored object with the expected one: what is missing is added, extras stay, and an
/// object annotated with autoupdate "false" is left alone.
pub fn reconcile(stored: Option<&Value>, expected: &Value) -> Change {
    let Some(stored) = stored else { return Change::Create(expected.clone()) };
    if stored.annotation(AUTO_UPDATE) == Some("false") {
        return Change::Keep;
    }
    if stored.get("roleRef") != expected.get("roleRef") {
        return Change::Recreate(expected.clone());
    }
    let mut merged = stored.clone();
    for map in ["labels", "annotations"] {
        let wanted = expected.map_at(&["metadata", map]).into_iter().flatten();
        for (key, value) in wanted {
            merged.set_default(&["metadata", map, key], value.clone());
        }
    }
    // The same words need no comparison of what they mean.
    if stored.get("rules") != expected.get("rules") {
        let missing_rules = uncovered(&Rule::all_of(stored), &Rule::all_of(expected));
        append(&mut merged, &["rules"], missing_rules.iter().map(Rule::to_value));
    }
    append(&mut merged, &["subjects"], absent(stored, expected, &["subjects"]));
    match expected.get("aggregationRule") {
        None => {
            merged.remove_at(&["aggregationRule"]);
        }
        Some(_) => {
            let path = ["aggregationRule", "clusterRoleSelectors"];
            append(&mut merged, &path, absent(stored, expected, &path));
        }
    }
    if merged == *stored { Change::Keep } else { Change::Update(merged) }
}

fn absent<'a>(
    stored: &'a Value,
    expected: &'a Value,
    path: &'a [&str],
) -> impl Iterator<Item = Value> {
    let present = stored.list_at(path);
    expected.list_at(path).iter().filter(|item| !present.contains(item)).cloned()
}

fn append(object: &mut Value, path: &[&str], items: impl Iterator<Item = Value>) {
    let items: Vec<Value> = items.collect();
    if !items.is_empty() {
        let mut list = object.list_at(path).to_vec();
        list.extend(items);
        object.set(path, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::rbac::Rbac;
    use crate::auth::test_objects::MapObjects;
    use crate::auth::{Attributes, Authorizer, Identity};

    fn count(kind: &str) -> usize {
        objects().iter().filter(|object| object.kind() == kind).count()
    }

    // Shows: AUTHZ-2
    #[test]
    fn the_policy_has_all_parts_of_a_real_cluster() {
        assert_eq!(count("ClusterRole"), 69);
        assert_eq!(count("ClusterRoleBinding"), 50);
        assert_eq!(count("Role"), 7);
        assert_eq!(count("RoleBinding"), 7);
    }

    #[test]
    fn every_rule_is_well_formed_and_every_binding_finds_its_role() {
        let objects = objects();
        for object in &objects {
            for rule in Rule::all_of(object) {
                let about_resources = !rule.api_groups.is_empty() && !rule.resources.is_empty();
                assert!(!rule.verbs.is_empty(), "{object}");
                assert!(about_resources == rule.non_resource_urls.is_empty(), "{object}");
            }
            if let Some(role) = object.get("roleRef") {
                let found = objects.iter().any(|other| {
                    other.name() == role["name"]
                        && other.kind() == role["kind"]
                        && (other.namespace() == object.namespace()
                            || role["kind"] == "ClusterRole")
                });
                assert!(found, "{object}");
            }
        }
    }

    #[test]
    fn everybody_may_discover_and_only_strangers_may_not() {
        let rbac = Rbac::default();
        rbac.load(&MapObjects::of(objects()));
        let cases = [
            ("system:authenticated", "/apis/apps", true),
            ("system:authenticated", "/metrics", false),
            ("system:unauthenticated", "/healthz", true),
            ("system:unauthenticated", "/apis", false),
            ("system:monitoring", "/metrics", true),
        ];
        for (group, path, allowed) in cases {
            let attributes = Attributes {
                user: Identity::new("ann", [group]).into(),
                verb: "get".into(),
                path: path.into(),
                ..Attributes::default()
            };
            assert_eq!(rbac.authorize(&attributes).is_allowed(), allowed, "{group} {path}");
        }
    }

    // Shows: AUTHZ-2
    #[test]
    fn reconciling_adds_what_is_missing_and_keeps_what_was_added() {
        let expected = objects()
            .into_iter()
            .find(|object| object.kind() == "ClusterRole" && object.name() == "system:basic-user")
            .expect("in the policy");
        assert_eq!(reconcile(None, &expected), Change::Create(expected.clone()));
        assert_eq!(reconcile(Some(&expected), &expected), Change::Keep);

        let mut stored = expected.clone();
        stored["rules"] = json!([{"apiGroups": ["x"], "resources": ["y"], "verbs": ["get"]}]);
        stored.set(&["metadata", "labels", "mine"], "yes");
        let Change::Update(merged) = reconcile(Some(&stored), &expected) else {
            panic!("an update was due")
        };
        assert_eq!(merged.label("mine"), Some("yes"));
        assert_eq!(merged["rules"][0]["apiGroups"][0], "x");
        assert!(uncovered(&Rule::all_of(&merged), &Rule::all_of(&expected)).is_empty());
        assert_eq!(reconcile(Some(&merged), &expected), Change::Keep);

        stored.set(&["metadata", "annotations", AUTO_UPDATE], "false");
        assert_eq!(reconcile(Some(&stored), &expected), Change::Keep);
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let expected = objects()
            .into_iter()
            .find(|object| object.kind() == "ClusterRoleBinding")
            .expect("in the policy");
        let mut stored = expected.clone();
        stored["roleRef"]["name"] = "other".into();
        assert_eq!(reconcile(Some(&stored), &expected), Change::Recreate(expected));
    }
}
