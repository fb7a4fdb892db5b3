//! One RBAC rule: what it allows, and when a set of rules covers another one.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::quote;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value};

use super::Attributes;

const ALL: &str = "*";

/// A policy rule; either about resources or about plain URL paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// Reads one element of `rules`; wrong-typed parts read as absent.
    pub fn from_value(value: &Value) -> Self {
        Self {
            verbs: strings(value, "verbs"),
            api_groups: strings(value, "apiGroups"),
            resources: strings(value, "resources"),
            resource_names: strings(value, "resourceNames"),
            non_resource_urls: strings(value, "nonResourceURLs"),
        }
    }

    /// Reads the rules of a Role or ClusterRole.
    pub fn all_of(role: &Value) -> Vec<Self> {
        role.list_at(&["rules"]).iter().map(Self::from_value).collect()
    }

    /// The rule as an object writes it: empty lists are left out.
    pub fn to_value(&self) -> Value {
        let mut rule = Map::new();
        for (key, list) in self.parts() {
            if !list.is_empty() {
                rule.insert(key.1.to_owned(), list.to_vec().into());
            }
        }
        Value::Object(rule)
    }

    /// The lists in the order messages print them, with their printed and their wire name.
    fn parts(&self) -> [((&'static str, &'static str), &[String]); 5] {
        [
            (("APIGroups", "apiGroups"), &self.api_groups),
            (("Resources", "resources"), &self.resources),
            (("NonResourceURLs", "nonResourceURLs"), &self.non_resource_urls),
            (("ResourceNames", "resourceNames"), &self.resource_names),
            (("Verbs", "verbs"), &self.verbs),
        ]
    }

    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &attributes.verb) {
            return false;
        }
        if !attributes.is_resource {
            return self.non_resource_urls.iter().any(|url| url_covers(url, &attributes.path));
        }
        has_or_all(&self.api_groups, &attributes.group)
            && self.matches_resource(&attributes.resource, &attributes.subresource)
            && (self.resource_names.is_empty() || has(&self.resource_names, &attributes.name))
    }

    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == ALL {
                return true;
            }
            if subresource.is_empty() {
                return rule == resource;
            }
            // Split at the end so that a subresource holding a slash compares as a whole.
            rule.strip_suffix(subresource)
                .and_then(|rest| rest.strip_suffix('/'))
                .is_some_and(|parent| parent == ALL || parent == resource)
        })
    }

    /// Splits into rules of at most one group, resource, name and verb each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = if self.resource_names.is_empty() {
            vec![vec![]]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    for resource_names in &names {
                        atoms.push(Self {
                            verbs: one(verb),
                            api_groups: one(group),
                            resources: one(resource),
                            resource_names: resource_names.clone(),
                            non_resource_urls: vec![],
                        });
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                atoms.push(Self {
                    verbs: one(verb),
                    non_resource_urls: one(url),
                    ..Self::default()
                });
            }
        }
        atoms
    }

    fn covers(&self, atom: &Self) -> bool {
        let any_name = self.resource_names.is_empty();
        let names = any_name
            || (!atom.resource_names.is_empty()
                && atom.resource_names.iter().all(|name| has(&self.resource_names, name)));
        names
            && atom.verbs.iter().all(|verb| has_or_all(&self.verbs, verb))
            && atom.api_groups.iter().all(|group| has_or_all(&self.api_groups, group))
            && atom.resources.iter().all(|resource| self.covers_resource(resource))
            && atom
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|own| url_covers(own, url)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        has_or_all(&self.resources, resource)
            || resource.split_once('/').is_some_and(|(_, subresource)| {
                self.resources.iter().any(|own| own.strip_prefix("*/") == Some(subresource))
            })
    }

    /// The one-line form messages use.
    fn describe(&self) -> String {
        let parts: Vec<String> = self
            .parts()
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{}:{}", name.0, quote_list(list)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Returns what `wanted` grants beyond `held`, split into atoms; empty when everything is covered.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted
        .iter()
        .flat_map(Rule::atoms)
        .filter(|atom| !held.iter().any(|own| own.covers(atom)))
        .collect()
}

/// Describes rules for a message: verbs on the same thing joined, lines sorted, repeats once.
pub fn describe_all(rules: &[Rule]) -> String {
    let mut joined: BTreeMap<_, Rule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for rule in rules {
        if rule.non_resource_urls.is_empty() {
            joined
                .entry([&rule.api_groups, &rule.resources, &rule.resource_names])
                .and_modify(|sum| sum.verbs.extend(rule.verbs.iter().cloned()))
                .or_insert_with(|| rule.clone());
        } else {
            lines.insert(rule.describe());
        }
    }
    lines.extend(joined.values().map(Rule::describe));
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

/// Quotes a list as Go's `%q` does: `["a" "b"]`.
pub fn quote_list<S: AsRef<str>>(list: &[S]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

fn url_covers(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|own| own == text)
}

fn has_or_all(list: &[String], text: &str) -> bool {
    list.iter().any(|own| own == ALL || own == text)
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value.list_at(&[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;
    use proptest::prelude::*;

    fn rule(value: Value) -> Rule {
        Rule::from_value(&value)
    }

    fn ask(verb: &str, group: &str, resource: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    // Shows: AUTHZ-1
    #[test]
    fn rules_match_groups_resources_subresources_and_names() {
        let exec = json!({"apiGroups": [""], "resources": ["pods", "*/exec"], "verbs": ["get"]});
        let named =
            json!({"apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"], "verbs": ["*"]});
        let scale =
            json!({"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]});
        let cases = [
            (&exec, ask("get", "", "pods", "x"), true),
            (&exec, ask("list", "", "pods", ""), false),
            (&exec, ask("get", "apps", "pods", "x"), false),
            (&exec, ask("get", "", "pods/log", "x"), false),
            (&exec, ask("get", "", "nodes/exec", "x"), true),
            (&exec, ask("get", "", "nodes/myexec", "x"), false),
            (&named, ask("delete", "any", "things/sub", "a"), true),
            (&named, ask("delete", "any", "things", "b"), false),
            (&named, ask("create", "any", "things", ""), false),
            (&scale, ask("get", "apps", "deployments/scale", "d"), true),
            (&scale, ask("get", "apps", "deployments", "d"), false),
            (&scale, ask("get", "apps", "daemondeployments/scale", "d"), false),
        ];
        for (value, attributes, allowed) in cases {
            assert_eq!(rule(value.clone()).allows(&attributes), allowed, "{value} {attributes:?}");
        }
    }

    // Shows: AUTHZ-1
    #[test]
    fn url_rules_match_exactly_or_by_trailing_star() {
        let cases = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", false),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/api*", "/apis/apps", true),
            ("*", "/anything", true),
        ];
        for (url, path, allowed) in cases {
            let rule = rule(json!({"nonResourceURLs": [url], "verbs": ["get"]}));
            let get = |path: &str| Attributes {
                verb: "get".into(),
                path: path.into(),
                ..Attributes::default()
            };
            assert_eq!(rule.allows(&get(path)), allowed, "{url} {path}");
        }
    }

    // Shows: AUTHZ-4
    #[test]
    fn covering_compares_atom_by_atom() {
        let cases = [
            (json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]), 0),
            (json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]), 2),
            (
                json!([{"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get", "list"]}]),
                0,
            ),
            (
                json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "resourceNames": ["a"], "verbs": ["*"]}]),
                4,
            ),
            (
                json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]},
                    {"apiGroups": [""], "resources": ["*"], "verbs": ["list"]}]),
                0,
            ),
            (json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}]), 4),
        ];
        let wanted = [rule(
            json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}),
        )];
        for (held, missing) in cases {
            let held = Rule::all_of(&json!({"rules": held}));
            assert_eq!(uncovered(&held, &wanted).len(), missing, "{held:?}");
        }
        let named = [rule(
            json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"], "verbs": ["get"]}),
        )];
        let held = [rule(
            json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}),
        )];
        assert_eq!(
            describe_all(&uncovered(&held, &named)),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#
        );
    }

    fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        let word = proptest::sample::select(words).prop_map(str::to_owned);
        proptest::collection::vec(word, 0..3)
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let resources = some(&["*", "pods", "nodes", "pods/log", "*/log", "nodes/*"]);
        let urls = some(&["*", "/a", "/a/*", "/a*", "/b"]);
        let parts = (
            some(&["*", "get", "list"]),
            some(&["*", "", "apps"]),
            resources,
            some(&["x", "y"]),
            urls,
        );
        parts.prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        })
    }

    fn questions() -> Vec<Attributes> {
        let mut all = Vec::new();
        for verb in ["get", "list", "create"] {
            for group in ["", "apps", "other"] {
                for resource in ["pods", "nodes", "pods/log", "nodes/log", "nodes/*", "other/log"] {
                    all.extend(["x", "z", ""].map(|name| ask(verb, group, resource, name)));
                }
            }
            all.extend(["/a", "/a/b", "/ab", "/b", "/"].map(|path| Attributes {
                verb: verb.into(),
                path: path.into(),
                ..Attributes::default()
            }));
        }
        all
    }

    proptest! {
        #[test]
        fn covered_rules_never_allow_more_than_those_that_cover_them(
            held in proptest::collection::vec(any_rule(), 0..4),
            wanted in any_rule(),
        ) {
            prop_assume!(uncovered(&held, std::slice::from_ref(&wanted)).is_empty());
            for question in questions() {
                let held_allows = held.iter().any(|rule| rule.allows(&question));
                prop_assert!(!wanted.allows(&question) || held_allows, "{question:?}");
            }
        }
    }
}
