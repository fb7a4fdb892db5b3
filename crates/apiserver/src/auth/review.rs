//! The review kinds: questions about rights and tokens, answered in the status of the posted object.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::field::{FieldError, Path, Shown, go_json};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::value::Text;
use karmada_apimachinery::{Map, Value, json};

use super::authenticate::{Authentication, with_common_group};
use super::rbac::{Rbac, join};
use super::rule::Rule;
use super::{Attributes, Authorizer, Identity, Verdict};

/// What answering reviews takes.
pub struct Reviewer<'a> {
    pub user: &'a Arc<Identity>,
    /// The namespace of the URL; empty for cluster-scoped reviews.
    pub namespace: &'a str,
    pub authorizer: &'a dyn Authorizer,
    pub rbac: &'a Rbac,
    pub authentication: &'a Authentication,
}

impl Reviewer<'_> {
    /// Answers a posted review by its kind; none for a kind that is no review.
    pub fn answer(&self, kind: &str, review: &Value) -> Option<Result<Value, Status>> {
        let now = || (self.authentication.clock)();
        Some(match kind {
            "SubjectAccessReview" => access(AccessReview::Subject, review, self.authorizer),
            "SelfSubjectAccessReview" => {
                access(AccessReview::SelfSubject(self.user), review, self.authorizer)
            }
            "LocalSubjectAccessReview" => {
                access(AccessReview::Local(self.namespace), review, self.authorizer)
            }
            "SelfSubjectRulesReview" => self_rules(review, self.user, self.rbac),
            "SelfSubjectReview" => Ok(self_subject(review, self.user, now())),
            "TokenReview" => token(review, self.authentication),
            _ => return None,
        })
    }
}

/// Which of the three access reviews a posted object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessReview<'a> {
    Subject,
    /// About the sender.
    SelfSubject(&'a Arc<Identity>),
    /// About one namespace, that of the URL.
    Local(&'a str),
}

/// Answers a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview.
pub fn access(
    kind: AccessReview<'_>,
    review: &Value,
    authorizer: &dyn Authorizer,
) -> Result<Value, Status> {
    let errors = access_errors(kind, review);
    if !errors.is_empty() {
        // Compat: the kind is lost on this path, so the message begins with a dot.
        let kind = GroupKind { group: "authorization.k8s.io".into(), kind: String::new() };
        return Err(Status::invalid(&kind, "", &errors));
    }
    if let AccessReview::Local(namespace) = kind
        && review.namespace() != namespace
    {
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let user = match kind {
        AccessReview::SelfSubject(user) => user.clone(),
        _ => Arc::new(subject(spec)),
    };
    let decision = authorizer.authorize(&attributes(spec, user));
    let mut status = json!({"allowed": decision.is_allowed()});
    if decision.verdict == Verdict::Deny {
        status["denied"] = true.into();
    }
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let mut answer = review.clone();
    answer["status"] = status;
    Ok(answer)
}

fn subject(spec: &Value) -> Identity {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |key| spec.str_at(&[key]).unwrap_or_default().to_owned();
    let extra = spec.map_at(&["extra"]).into_iter().flatten();
    Identity {
        user: text("user"),
        uid: text("uid"),
        groups: spec.get("groups").map(list).unwrap_or_default(),
        // Compat: keys are compared in lower case.
        extra: extra.map(|(key, values)| (key.to_lowercase(), list(values))).collect(),
    }
}

fn attributes(spec: &Value, user: Arc<Identity>) -> Attributes {
    let resource = spec.at(&["resourceAttributes"]).filter(|r| !r.is_null());
    let about = resource.or_else(|| spec.at(&["nonResourceAttributes"])).unwrap_or(&Value::Null);
    let text = |key| Text::from(about.str_at(&[key]).unwrap_or_default());
    let any_version = |version: Text| if version.is_empty() { "*".into() } else { version };
    Attributes {
        user,
        verb: text("verb"),
        group: text("group"),
        version: any_version(text("version")),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        namespace: text("namespace"),
        path: text("path"),
        is_resource: resource.is_some(),
    }
}

fn access_errors(kind: AccessReview<'_>, review: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let part = |key: &str| review.at(&["spec", key]).filter(|part| !part.is_null());
    let (resource, other) = (part("resourceAttributes"), part("nonResourceAttributes"));
    let mut errors = Vec::new();
    if let (Some(_), Some(other)) = (resource, other) {
        let path = spec.child("nonResourceAttributes");
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid(&path, shown_path(other), detail));
    }
    if resource.is_none() && other.is_none() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let path = spec.child("resourceAttributes");
        errors.push(FieldError::invalid(&path, Value::Null, detail));
    }
    let no_user = review.str_at(&["spec", "user"]).is_none_or(str::is_empty)
        && review.list_at(&["spec", "groups"]).is_empty();
    if no_user && !matches!(kind, AccessReview::SelfSubject(_)) {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&spec.child("user"), "", detail));
    }
    if let Some(resource) = resource {
        for selector in ["fieldSelector", "labelSelector"] {
            selector_errors(resource, selector, &mut errors);
        }
    }
    metadata_errors(kind, review, &mut errors);
    if let AccessReview::Local(_) = kind {
        let namespace = |r: &Value| r.str_at(&["namespace"]).unwrap_or_default().to_owned();
        if let Some(given) = resource.map(namespace).filter(|given| given != review.namespace()) {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, given, "must match metadata.namespace"));
        }
        if let Some(other) = other {
            let path = spec.child("nonResourceAttributes");
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&path, shown_path(other), detail));
        }
    }
    errors
}

/// Compat: these attributes are printed with capital names.
fn shown_path(attributes: &Value) -> Shown {
    let text = |key| attributes.str_at(&[key]).unwrap_or_default();
    let (path, verb) = (go_json(&text("path").into()), go_json(&text("verb").into()));
    Shown::Verbatim(format!("{{\"Path\":{path},\"Verb\":{verb}}}"))
}

fn metadata_errors(kind: AccessReview<'_>, review: &Value, errors: &mut Vec<FieldError>) {
    let local = matches!(kind, AccessReview::Local(_));
    let filled = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    let metadata = review.map_at(&["metadata"]);
    let extra = metadata.into_iter().flatten().any(|(key, value)| {
        key != "managedFields" && !(local && key == "namespace") && filled(value)
    });
    if extra {
        let detail = if local { "must be empty except for namespace" } else { "must be empty" };
        let value = review.get("metadata").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(&Path::new("metadata"), value, detail));
    }
}

fn selector_errors(resource: &Value, selector: &str, errors: &mut Vec<FieldError>) {
    let Some(value) = resource.get(selector).filter(|value| !value.is_null()) else { return };
    let path = Path::new("spec.resourceAttributes").child(selector);
    let raw = value.str_at(&["rawSelector"]).unwrap_or_default();
    let requirements = value.list_at(&["requirements"]);
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&path.child("requirements"), detail));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        if selector == "fieldSelector" && requirement.str_at(&["key"]).is_none_or(str::is_empty) {
            errors.push(FieldError::required(&path.child("key"), "must be specified"));
        }
        let has_values = !requirement.list_at(&["values"]).is_empty();
        match requirement.str_at(&["operator"]) {
            Some("In" | "NotIn") if !has_values => errors.push(FieldError::required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            Some("Exists" | "DoesNotExist") if has_values => errors.push(FieldError::forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            _ => {}
        }
    }
}

/// Answers a SelfSubjectRulesReview: everything the sender may do in a namespace.
pub fn self_rules(review: &Value, user: &Identity, rbac: &Rbac) -> Result<Value, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, unresolved) = rbac.rules_for(user, namespace);
    let part = |rule: &Rule, about_urls: bool| {
        let wanted = if about_urls { &rule.non_resource_urls } else { &rule.resources };
        let part = if about_urls {
            Rule { api_groups: vec![], resources: vec![], resource_names: vec![], ..rule.clone() }
        } else {
            Rule { non_resource_urls: vec![], ..rule.clone() }
        };
        (!wanted.is_empty()).then(|| part.to_value())
    };
    let of = |urls| rules.iter().filter_map(|rule| part(rule, urls)).collect::<Vec<_>>();
    let mut status = json!({
        "resourceRules": of(false),
        "nonResourceRules": of(true),
        "incomplete": false,
    });
    if let Some(errors) = join(&unresolved) {
        status["evaluationError"] = errors.into();
    }
    Ok(json!({
        "apiVersion": review.api_version(),
        "kind": review.kind(),
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}

/// Answers a SelfSubjectReview: who the sender is.
pub fn self_subject(review: &Value, user: &Identity, now: Timestamp) -> Value {
    json!({
        "apiVersion": review.api_version(),
        "kind": review.kind(),
        "metadata": {"creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
        "status": {"userInfo": user_info(user)},
    })
}

/// Answers a TokenReview: whether a token holds, for whom and for which audiences.
pub fn token(review: &Value, authentication: &Authentication) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let asked: Vec<String> = review
        .list_at(&["spec", "audiences"])
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let audiences = Some(asked.as_slice()).filter(|asked| !asked.is_empty());
    let mut answer = review.clone();
    answer["status"] = match authentication.verify_token(token, audiences, (authentication.clock)())
    {
        Ok(verified) => json!({
            "authenticated": true,
            "user": user_info(&with_common_group(verified.identity)),
            "audiences": verified.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error}),
    };
    Ok(answer)
}

/// An identity as `UserInfo` writes it; empty parts are left out.
pub fn user_info(identity: &Identity) -> Value {
    let mut info = Map::new();
    for (key, text) in [("username", &identity.user), ("uid", &identity.uid)] {
        if !text.is_empty() {
            info.insert(key, text.as_str().into());
        }
    }
    if !identity.groups.is_empty() {
        info.insert("groups", identity.groups.clone().into());
    }
    if !identity.extra.is_empty() {
        let extra = identity.extra.iter().map(|(key, values)| (key.clone(), json!(values)));
        info.insert("extra", Value::Object(extra.collect()));
    }
    Value::Object(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authorize::Chain;
    use crate::auth::bootstrap;
    use crate::auth::test_objects::MapObjects;

    fn chain() -> Chain {
        let rbac = Arc::new(Rbac::default());
        rbac.load(&MapObjects::of(bootstrap::objects()));
        Chain { extra: vec![], rbac }
    }

    // Shows: AUTHZ-5
    #[test]
    fn access_reviews_answer_in_the_status() {
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "n"});
        let cases = [
            (
                json!({"resourceAttributes": pods, "user": "x", "groups": ["system:masters"]}),
                json!({"allowed": true}),
            ),
            (json!({"resourceAttributes": pods, "user": "nobody"}), json!({"allowed": false})),
            (
                json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}, "groups": ["system:unauthenticated"]}),
                json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \"system:public-info-viewer\" to Group \"system:unauthenticated\""}),
            ),
            (
                json!({"resourceAttributes": {"verb": "frobnicate", "resource": "moons", "subresource": "craters", "group": "space.example.com"}, "user": "x"}),
                json!({"allowed": false}),
            ),
        ];
        for (spec, status) in cases {
            let answer = access(AccessReview::Subject, &json!({"spec": spec}), &chain());
            assert_eq!(answer.expect("answered")["status"], status);
        }
        let ann = Arc::new(Identity::new("ann", ["system:masters"]));
        let review = json!({"spec": {"resourceAttributes": pods}});
        let answer = access(AccessReview::SelfSubject(&ann), &review, &chain()).expect("answered");
        assert_eq!(answer["status"], json!({"allowed": true}));
    }

    // Shows: AUTHZ-5
    #[test]
    fn ill_formed_access_reviews_are_refused_by_field() {
        let pods = json!({"verb": "get", "resource": "pods"});
        let cases = [
            (
                AccessReview::Subject,
                json!({"spec": {"resourceAttributes": pods}}),
                ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ),
            (
                AccessReview::Subject,
                json!({"spec": {"user": "x"}}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ),
            (
                AccessReview::Subject,
                json!({"spec": {"user": "x", "resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"}}}),
                ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
            ),
            (
                AccessReview::Local("n"),
                json!({"metadata": {"namespace": "n"}, "spec": {"user": "x", "resourceAttributes": pods}}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"\": must match metadata.namespace",
            ),
            (
                AccessReview::Subject,
                json!({"spec": {"user": "x", "resourceAttributes": {"fieldSelector": {}}}}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
            ),
        ];
        for (kind, review, message) in cases {
            assert_eq!(access(kind, &review, &chain()).expect_err("refused").message, message);
        }
    }

    // Shows: AUTHZ-5
    #[test]
    fn the_rules_review_lists_what_everybody_may_do() {
        let ann = Identity::new("ann", ["system:authenticated"]);
        let review = json!({"kind": "SelfSubjectRulesReview", "spec": {"namespace": "n"}});
        let answer = self_rules(&review, &ann, &chain().rbac).expect("answered");
        assert_eq!(answer["spec"], json!({}));
        assert_eq!(answer["status"]["incomplete"], false);
        assert_eq!(
            answer["status"]["resourceRules"][0],
            json!({"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]})
        );
        assert!(answer["status"]["nonResourceRules"][0].get("nonResourceURLs").is_some());
        assert!(self_rules(&json!({}), &ann, &chain().rbac).is_err(), "the namespace is required");
    }
}
