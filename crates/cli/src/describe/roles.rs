//! Roles and ClusterRoles in words, as kubectl 1.36 writes them: one line per resource, whatever the rules group together.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::tabs::{Text, plain};

/// One line: what, by which names, and what may be done with it.
#[derive(Debug, Default, Clone)]
struct Line {
    group: String,
    resource: String,
    name: String,
    url: String,
    verbs: Vec<String>,
}

pub(super) fn role(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.line(0, "PolicyRule:");
    out.line(1, "Resources\tNon-Resource URLs\tResource Names\tVerbs");
    out.line(1, "---------\t-----------------\t--------------\t-----");
    for line in lines(object.list_at(&["rules"])) {
        let verbs = line.verbs.join(" ");
        let cells = format!("{}\t[{}]\t[{}]\t[{verbs}]", line.subject(), line.url, line.name);
        out.line(1, &cells);
    }
    out
}

fn lines(rules: &[Value]) -> Vec<Line> {
    let mut urls = Vec::new();
    // Verbs of one resource come together, in the order in which the rules give them.
    let mut resources: BTreeMap<(String, String, String), Line> = BTreeMap::new();
    for rule in rules {
        let list =
            |field: &str| -> Vec<String> { rule.list_at(&[field]).iter().map(plain).collect() };
        let verbs = list("verbs");
        let mut names = list("resourceNames");
        if names.is_empty() {
            names.push(String::new());
        }
        for group in list("apiGroups") {
            for resource in list("resources") {
                for name in &names {
                    let key = (group.clone(), resource.clone(), name.clone());
                    let line = resources.entry(key).or_insert_with(|| Line {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        ..Line::default()
                    });
                    let fresh: Vec<&String> =
                        verbs.iter().filter(|verb| !line.verbs.contains(verb)).collect();
                    let fresh: Vec<String> = fresh.into_iter().cloned().collect();
                    line.verbs.extend(fresh);
                }
            }
        }
        for url in list("nonResourceURLs") {
            let one = |verb: &String| Line {
                url: url.clone(),
                verbs: vec![verb.clone()],
                ..Line::default()
            };
            urls.extend(verbs.iter().map(one));
        }
    }
    let mut lines: Vec<Line> = urls.into_iter().chain(resources.into_values()).collect();
    lines.sort_by_key(Line::place);
    lines
}

impl Line {
    /// `deployments.apps/scale`.
    fn subject(&self) -> String {
        let (resource, below) = match self.resource.split_once('/') {
            Some((resource, below)) => (resource, format!("/{below}")),
            None => (self.resource.as_str(), String::new()),
        };
        let group = match self.group.as_str() {
            "" => String::new(),
            group => format!(".{group}"),
        };
        format!("{resource}{group}{below}")
    }

    /// Compat: lines are ordered by the verbs first, then by group, resource, name and address.
    fn place(&self) -> String {
        let Self { group, resource, name, url, verbs } = self;
        let verbs = verbs.join(" ");
        format!("[{verbs}],[{group}],[{resource}],[{name}],[{url}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn rules_are_shown_per_resource() {
        let object = json!({
            "metadata": {"name": "web"},
            "rules": [
                {"apiGroups": ["", "apps"], "resources": ["pods", "deployments/scale"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch", "get"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]},
                {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]});
        let expected = "\
Name:         web
Labels:       <none>
Annotations:  <none>
PolicyRule:
  Resources               Non-Resource URLs  Resource Names  Verbs
  ---------               -----------------  --------------  -----
  pods                    []                 []              [get list watch]
  deployments/scale       []                 []              [get list]
  deployments.apps/scale  []                 []              [get list]
  pods.apps               []                 []              [get list]
                          [/healthz]         []              [get]
  secrets                 []                 [a]             [get]
";
        assert_eq!(role(&object).align(), expected);
    }
}
