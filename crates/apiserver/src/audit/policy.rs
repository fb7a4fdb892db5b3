//! Which requests are logged, and how much of them: the `audit.k8s.io/v1` Policy.

use serde::{Deserialize, Serialize};

use crate::auth::Identity;
use crate::routes::Target;

/// How much of a request is logged; each level has everything of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// A moment in the life of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Stage {
    RequestReceived,
    /// The head of an answer that goes on for long was sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// What is wrong with a policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PolicyError {
    #[error("not a policy: {0}")]
    Unreadable(String),
    #[error("apiVersion and kind must be audit.k8s.io/v1 and Policy, not {0}")]
    WrongType(String),
    #[error("{field}: {why}")]
    Invalid { field: String, why: String },
}

/// Rules in order; the first that matches a request decides. What none matches is not logged.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: karmada_apimachinery::Value,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What the policy wants to know of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) level: Level,
    omitted: Vec<Stage>,
    pub(crate) omit_managed_fields: bool,
}

impl Wanted {
    pub(crate) fn includes(&self, stage: Stage) -> bool {
        !self.omitted.contains(&stage)
    }
}

impl Policy {
    /// Reads a policy from YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = serde_saphyr::from_str(text)
            .map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            let found = format!("{} and {}", policy.api_version, policy.kind);
            return Err(PolicyError::WrongType(found));
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            rule.check(&format!("rules[{index}]"))?;
        }
        Ok(policy)
    }

    pub(crate) fn wanted(&self, target: &Target, user: &Identity) -> Option<Wanted> {
        let rule = self.rules.iter().find(|rule| rule.matches(target, user))?;
        if rule.level == Level::None {
            return None;
        }
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages).copied().collect();
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Some(Wanted { level: rule.level, omitted, omit_managed_fields })
    }

    /// How a request is logged whose sender could not be found out.
    pub(crate) fn wanted_of_strangers(&self, target: &Target) -> Option<Wanted> {
        self.wanted(target, &Identity::default())
    }
}

impl Rule {
    fn check(&self, field: &str) -> Result<(), PolicyError> {
        let refuse = |part: &str, why: &str| {
            Err(PolicyError::Invalid { field: format!("{field}.{part}"), why: why.to_owned() })
        };
        let about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if about_resources && !self.non_resource_urls.is_empty() {
            return refuse(
                "nonResourceURLs",
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        for (index, url) in self.non_resource_urls.iter().enumerate() {
            let part = format!("nonResourceURLs[{index}]");
            if url != "*" && !url.starts_with('/') {
                return refuse(&part, "non-resource URL rules must begin with a '/' character");
            }
            if url != "*" && url.trim_end_matches('*').contains('*') {
                return refuse(&part, "wildcards '*' must be the final character of the rule");
            }
        }
        for (index, resources) in self.resources.iter().enumerate() {
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return refuse(
                    &format!("resources[{index}].resourceNames"),
                    "using resourceNames requires at least one resource",
                );
            }
        }
        Ok(())
    }

    fn matches(&self, target: &Target, user: &Identity) -> bool {
        let users = self.users.is_empty() || self.users.contains(&user.user);
        let groups = self.user_groups.is_empty()
            || user.groups.iter().any(|group| self.user_groups.contains(group));
        let verbs = self.verbs.is_empty() || self.verbs.iter().any(|verb| verb == target.verb);
        if !(users && groups && verbs) {
            return false;
        }
        if !self.resources.is_empty() || !self.namespaces.is_empty() {
            return target.is_resource && self.matches_resource(target);
        }
        if !self.non_resource_urls.is_empty() {
            let covers = |url: &String| match url.strip_suffix('*') {
                Some(start) => target.path.starts_with(start),
                None => *url == target.path,
            };
            return !target.is_resource && self.non_resource_urls.iter().any(covers);
        }
        true
    }

    fn matches_resource(&self, target: &Target) -> bool {
        if !self.namespaces.is_empty()
            && !self.namespaces.iter().any(|own| *own == target.namespace)
        {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.cover(target))
    }
}

impl Resources {
    fn cover(&self, target: &Target) -> bool {
        if self.group != target.group && self.group != "*" {
            return false;
        }
        let names = &self.resource_names;
        let named = names.is_empty() || names.iter().any(|own| *own == target.name);
        named
            && (self.resources.is_empty()
                || self.resources.iter().any(|pattern| covers(pattern, target)))
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/scale` or `*`; a resource alone is not its subresources.
fn covers(pattern: &str, target: &Target) -> bool {
    if pattern == "*" {
        return true;
    }
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    let subresource_matches = match subresource {
        "*" => !target.subresource.is_empty(),
        exact => exact == target.subresource,
    };
    subresource_matches && (resource == "*" || resource == target.resource)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::http::query::Query;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [system:kube-proxy], verbs: [watch]}
- {level: None, nonResourceURLs: ["/healthz*", /version]}
- level: Metadata
  resources:
  - {group: "", resources: [secrets, pods/log, "*/scale"]}
- level: Request
  namespaces: [kube-system]
- level: RequestResponse
  userGroups: [auditors]
  omitManagedFields: true
  omitStages: [ResponseStarted]
- level: None
  resources:
  - {group: apps, resources: [deployments], resourceNames: [web]}
- level: Metadata
"#;

    fn level(method: &Method, path: &str, user: &Identity) -> Level {
        let target = Target::parse(method, path, &Query::default());
        Policy::parse(POLICY)
            .unwrap()
            .wanted(&target, user)
            .map_or(Level::None, |wanted| wanted.level)
    }

    // Shows: LOG-1
    #[test]
    fn the_first_rule_that_matches_decides_how_much_is_logged() {
        let ann = Identity::new("ann", ["devs"]);
        let cases = [
            ("/api/v1/namespaces/n/secrets/s", Level::Metadata),
            ("/api/v1/namespaces/n/pods/p/log", Level::Metadata),
            ("/api/v1/namespaces/kube-system/secrets/s", Level::Metadata),
            ("/api/v1/namespaces/kube-system/pods/p", Level::Request),
            ("/apis/apps/v1/namespaces/n/deployments/web", Level::None),
            ("/apis/apps/v1/namespaces/n/deployments/web/status", Level::Metadata),
            ("/apis/apps/v1/namespaces/n/deployments/api", Level::Metadata),
            ("/healthz/ping", Level::None),
            ("/version", Level::None),
            ("/versions", Level::Metadata),
        ];
        for (path, expected) in cases {
            assert_eq!(level(&Method::GET, path, &ann), expected, "{path}");
        }
        let auditor = Identity::new("eve", ["auditors"]);
        assert_eq!(level(&Method::GET, "/api/v1/nodes", &auditor), Level::RequestResponse);
        let proxy = Identity::new("system:kube-proxy", ["auditors"]);
        assert_eq!(level(&Method::GET, "/api/v1/watch/nodes", &proxy), Level::None);
    }

    #[test]
    fn a_rule_adds_to_the_stages_the_policy_omits() {
        let target = Target::parse(&Method::GET, "/api/v1/nodes", &Query::default());
        let auditor = Identity::new("eve", ["auditors"]);
        let wanted = Policy::parse(POLICY).unwrap().wanted(&target, &auditor).unwrap();
        assert!(!wanted.includes(Stage::RequestReceived));
        assert!(!wanted.includes(Stage::ResponseStarted));
        assert!(wanted.includes(Stage::ResponseComplete));
        assert!(wanted.omit_managed_fields);
    }

    #[test]
    fn a_bad_policy_is_refused_with_its_field() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let cases = [
            ("rules: [{level: Everything}]", "Everything"),
            ("rules: [{users: [ann]}]", "level"),
            ("rules: [{level: None, user: [ann]}]", "user"),
            ("omitStages: [Never]", "Never"),
            (
                "rules: [{level: None, namespaces: [n], nonResourceURLs: [/x]}]",
                "rules[0].nonResourceURLs: rules cannot apply to both",
            ),
            (
                "rules: [{level: None}, {level: None, nonResourceURLs: [x]}]",
                "rules[1].nonResourceURLs[0]: non-resource URL rules must begin",
            ),
            (
                "rules: [{level: None, resources: [{resourceNames: [x]}]}]",
                "rules[0].resources[0].resourceNames: using resourceNames requires",
            ),
        ];
        for (rest, part) in cases {
            let error = Policy::parse(&format!("{head}{rest}")).unwrap_err().to_string();
            assert!(error.contains(part), "{rest}: {error}");
        }
        let error = Policy::parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
        assert_eq!(error, PolicyError::WrongType("v1 and Pod".to_owned()));
    }
}
