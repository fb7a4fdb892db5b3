//! Roles and who has them, from flags.

use karmada_apimachinery::{Map, Value, json};

use crate::error::{Error, Result};

const GROUP: &str = "rbac.authorization.k8s.io";

/// What a role allows.
#[derive(Debug, Clone, clap::Args)]
struct Allowed {
    /// What may be done
    #[arg(long, value_delimiter = ',')]
    verb: Vec<String>,
    /// To which resources, as RESOURCE[.GROUP][/SUBRESOURCE]
    #[arg(long, value_delimiter = ',')]
    resource: Vec<String>,
    /// To objects of which names
    #[arg(long, value_delimiter = ',')]
    resource_name: Vec<String>,
}

impl Allowed {
    /// One rule per API group.
    fn rules(&self) -> Vec<Value> {
        let mut by_group: Vec<(String, Vec<String>)> = Vec::new();
        for resource in &self.resource {
            let (name, sub) =
                resource.split_once('/').map_or((resource.as_str(), ""), |(n, s)| (n, s));
            let (plural, group) = name.split_once('.').unwrap_or((name, group_of(name)));
            let plural = if sub.is_empty() { plural.to_owned() } else { format!("{plural}/{sub}") };
            match by_group.iter_mut().find(|(known, _)| known == group) {
                Some((_, resources)) => resources.push(plural),
                None => by_group.push((group.to_owned(), vec![plural])),
            }
        }
        let rule = |(group, resources): (String, Vec<String>)| {
            let mut rule =
                json!({"apiGroups": [group], "resources": resources, "verbs": self.verb});
            if !self.resource_name.is_empty() {
                rule["resourceNames"] = json!(self.resource_name);
            }
            rule
        };
        by_group.into_iter().map(rule).collect()
    }

    fn check(&self) -> Result<()> {
        if self.verb.is_empty() {
            return Err(Error::from("at least one verb must be specified"));
        }
        Ok(())
    }
}

/// The group of a resource that is named without one, where it is well known.
fn group_of(plural: &str) -> &'static str {
    karmada_kinds::resource::resources()
        .iter()
        .find(|resource| resource.plural == plural)
        .map_or("", |resource| resource.group)
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Role {
    name: String,
    #[command(flatten)]
    allowed: Allowed,
}

impl Role {
    pub(super) fn build(&self) -> Result<Value> {
        self.allowed.check()?;
        if self.allowed.resource.is_empty() {
            return Err(Error::from("at least one resource must be specified"));
        }
        Ok(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": {"name": self.name},
            "rules": self.allowed.rules(),
        }))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClusterRole {
    name: String,
    #[command(flatten)]
    allowed: Allowed,
    /// Paths that are no resources
    #[arg(long = "non-resource-url", value_delimiter = ',')]
    urls: Vec<String>,
    /// Labels of the roles to take rules from
    #[arg(long, value_delimiter = ',')]
    aggregation_rule: Vec<String>,
}

impl ClusterRole {
    pub(super) fn build(&self) -> Result<Value> {
        let mut role = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": self.name},
        });
        if !self.aggregation_rule.is_empty() {
            let mut labels = Map::new();
            for pair in &self.aggregation_rule {
                let (key, value) =
                    pair.split_once('=').ok_or_else(|| format!("{pair:?} is not key=value"))?;
                labels.insert(key.to_owned(), value.into());
            }
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            role["rules"] = json!([]);
            return Ok(role);
        }
        self.allowed.check()?;
        let mut rules = self.allowed.rules();
        if !self.urls.is_empty() {
            rules.push(json!({"nonResourceURLs": self.urls, "verbs": self.allowed.verb}));
        }
        if rules.is_empty() {
            return Err(Error::from("one of resource or nonResourceURL must be specified"));
        }
        role["rules"] = Value::Array(rules.into());
        Ok(role)
    }
}

/// Who has a role.
#[derive(Debug, Clone, clap::Args)]
struct Subjects {
    /// Users
    #[arg(long, value_delimiter = ',')]
    user: Vec<String>,
    /// Groups
    #[arg(long, value_delimiter = ',')]
    group: Vec<String>,
    /// Service accounts, as NAMESPACE:NAME
    #[arg(long, value_delimiter = ',')]
    serviceaccount: Vec<String>,
}

impl Subjects {
    fn build(&self) -> Result<Vec<Value>> {
        let named =
            |kind: &str, name: &String| json!({"kind": kind, "apiGroup": GROUP, "name": name});
        let mut subjects: Vec<Value> = self.user.iter().map(|name| named("User", name)).collect();
        subjects.extend(self.group.iter().map(|name| named("Group", name)));
        for account in &self.serviceaccount {
            let (namespace, name) =
                account.split_once(':').ok_or("serviceaccount must be <namespace>:<name>")?;
            subjects.push(json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
        }
        Ok(subjects)
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct RoleBinding {
    name: String,
    /// The role
    #[arg(long)]
    role: Option<String>,
    /// The cluster role
    #[arg(long)]
    clusterrole: Option<String>,
    #[command(flatten)]
    subjects: Subjects,
}

impl RoleBinding {
    pub(super) fn build(&self) -> Result<Value> {
        let (kind, role) = match (&self.role, &self.clusterrole) {
            (Some(role), None) => ("Role", role),
            (None, Some(role)) => ("ClusterRole", role),
            _ => return Err(Error::from("exactly one of clusterrole or role must be specified")),
        };
        Ok(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": {"name": self.name},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}, "subjects": self.subjects.build()?,
        }))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClusterRoleBinding {
    name: String,
    /// The cluster role
    #[arg(long, required = true)]
    clusterrole: String,
    #[command(flatten)]
    subjects: Subjects,
}

impl ClusterRoleBinding {
    pub(super) fn build(&self) -> Result<Value> {
        Ok(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": self.name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": self.clusterrole},
            "subjects": self.subjects.build()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_grouped_by_api_group() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let role = Role {
            name: "r".into(),
            allowed: Allowed {
                verb: words("get list"),
                resource: words("pods pods/log deployments"),
                resource_name: vec![],
            },
        };
        assert_eq!(
            role.build().unwrap()["rules"],
            json!([
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}])
        );
    }
}
