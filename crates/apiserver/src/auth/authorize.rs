//! The order in which authorizers are asked, and the words of a refusal.

use std::sync::Arc;

use karmada_apimachinery::field::quote;
use karmada_apimachinery::status::Status;

use super::rbac::{MASTERS, Rbac};
use super::{Attributes, Authorizer, Decision, ExtraAuthorizer, Verdict};

/// Asks the extra authorizers, lets `system:masters` pass, then asks RBAC.
pub struct Chain {
    pub extra: Vec<Arc<dyn ExtraAuthorizer>>,
    pub rbac: Arc<Rbac>,
}

impl Authorizer for Chain {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        let mut reasons = Vec::new();
        for extra in &self.extra {
            let decision = extra.authorize(attributes);
            if decision.verdict != Verdict::NoOpinion {
                return decision;
            }
            reasons.push(decision.reason);
        }
        if attributes.user.is_in(MASTERS) {
            return Decision::allow("");
        }
        let decision = self.rbac.authorize(attributes);
        if decision.verdict != Verdict::NoOpinion {
            return decision;
        }
        reasons.push(decision.reason);
        reasons.retain(|reason| !reason.is_empty());
        Decision::no_opinion(reasons.join("\n"))
    }
}

/// Allows the request or says why not, worded as Kubernetes words it.
pub fn check(authorizer: &dyn Authorizer, attributes: &Attributes) -> Result<(), Status> {
    permit(&authorizer.authorize(attributes), attributes)
}

/// A decision as the caller sees it.
pub fn permit(decision: &Decision, attributes: &Attributes) -> Result<(), Status> {
    if decision.is_allowed() { Ok(()) } else { Err(forbidden(attributes, &decision.reason)) }
}

/// The 403 for a refused request.
pub fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    let mut why = sanitize(&describe(attributes));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    Status::forbidden(&attributes.group_resource(), &attributes.name, why)
}

fn describe(attributes: &Attributes) -> String {
    let Attributes { user, verb, group, namespace, path, .. } = attributes;
    let who = format!("User {} cannot {verb}", quote(&user.user));
    if !attributes.is_resource {
        return format!("{who} path {}", quote(path));
    }
    let mut resource = attributes.resource.to_string();
    if !attributes.subresource.is_empty() {
        resource = format!("{resource}/{}", attributes.subresource);
    }
    let what = format!("resource {} in API group {}", quote(&resource), quote(group));
    if namespace.is_empty() {
        format!("{who} {what} at the cluster scope")
    } else {
        format!("{who} {what} in the namespace {}", quote(namespace))
    }
}

/// Compat: the server never sends back text that could pass for HTML.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use crate::auth::rbac::Kind;
    use karmada_apimachinery::json;

    struct OnlyCluster(&'static str);

    impl ExtraAuthorizer for OnlyCluster {
        fn authorize(&self, attributes: &Attributes) -> Decision {
            match attributes.user.user.strip_prefix("agent:") {
                None => Decision::no_opinion(""),
                Some(cluster) if cluster == self.0 => Decision::allow("own cluster"),
                Some(_) => Decision::deny("not its cluster"),
            }
        }
    }

    fn ask(user: &str, groups: &[&str]) -> Attributes {
        Attributes {
            user: Identity::new(user, groups.iter().copied()).into(),
            verb: "list".into(),
            resource: "pods".into(),
            namespace: "n".into(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    // Shows: AUTHZ-1
    #[test]
    fn refusals_read_as_kubernetes_writes_them() {
        let cases = [
            (
                ask("limited", &[]),
                r#"pods is forbidden: User "limited" cannot list resource "pods" in API group "" in the namespace "n""#,
            ),
            (
                Attributes {
                    group: "apps".into(),
                    resource: "deployments".into(),
                    subresource: "scale".into(),
                    name: "x".into(),
                    namespace: Default::default(),
                    ..ask("<b>", &[])
                },
                r#"deployments.apps "x" is forbidden: User "&lt;b&gt;" cannot list resource "deployments/scale" in API group "apps" at the cluster scope"#,
            ),
            (
                Attributes {
                    path: "/metrics".into(),
                    verb: "get".into(),
                    user: Identity::new("u", [""; 0]).into(),
                    ..Attributes::default()
                },
                r#"forbidden: User "u" cannot get path "/metrics""#,
            ),
        ];
        for (attributes, message) in cases {
            assert_eq!(forbidden(&attributes, "").message, message);
        }
    }

    #[test]
    fn the_extra_authorizer_is_final_and_asked_first() {
        let chain = Chain { extra: vec![Arc::new(OnlyCluster("m1"))], rbac: Arc::default() };
        let cases = [
            (ask("agent:m1", &[]), true),
            (ask("agent:m2", &[]), false),
            (ask("agent:m2", &[MASTERS]), false),
            (ask("root", &[MASTERS]), true),
            (ask("ann", &[]), false),
        ];
        for (attributes, allowed) in cases {
            assert_eq!(chain.authorize(&attributes).is_allowed(), allowed, "{attributes:?}");
        }
    }

    #[test]
    fn a_cluster_wide_binding_to_a_role_grants_nothing() {
        let rbac = Rbac::default();
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        rbac.put(Kind::ClusterRole, &json!({"metadata": {"name": "r"}, "rules": all}));
        rbac.put(
            Kind::ClusterRoleBinding,
            &json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "ann"}]}),
        );
        assert!(!rbac.authorize(&ask("ann", &[])).is_allowed());
    }

    // Shows: AUTHZ-1
    #[test]
    fn rbac_is_union_of_bindings_by_user_group_and_service_account() {
        let rbac = Arc::new(Rbac::default());
        rbac.put(
            Kind::ClusterRole,
            &json!({"metadata": {"name": "reader"}, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}),
        );
        let chain = Chain { extra: vec![], rbac: rbac.clone() };
        let bind = |namespace: &str,
                    name: &str,
                    role: &str,
                    subject: karmada_apimachinery::Value| {
            let kind =
                if namespace.is_empty() { Kind::ClusterRoleBinding } else { Kind::RoleBinding };
            rbac.put(kind, &json!({"metadata": {"namespace": namespace, "name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject]}));
        };
        bind("", "all", "reader", json!({"kind": "Group", "name": "readers"}));
        bind("n", "one", "reader", json!({"kind": "User", "name": "ann"}));
        bind("n", "robot", "reader", json!({"kind": "ServiceAccount", "name": "sa"}));
        bind("n", "broken", "gone", json!({"kind": "User", "name": "bob"}));
        let robot = "system:serviceaccount:n:sa";
        let elsewhere = |user: &str| Attributes { namespace: "other".into(), ..ask(user, &[]) };
        let cases = [
            (
                ask("x", &["readers"]),
                true,
                r#"RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "readers""#,
            ),
            (
                ask("ann", &[]),
                true,
                r#"RBAC: allowed by RoleBinding "one/n" of ClusterRole "reader" to User "ann""#,
            ),
            (
                ask(robot, &[]),
                true,
                r#"RBAC: allowed by RoleBinding "robot/n" of ClusterRole "reader" to ServiceAccount "sa/n""#,
            ),
            (elsewhere("ann"), false, ""),
            (
                ask("bob", &[]),
                false,
                r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#,
            ),
        ];
        for (attributes, allowed, reason) in cases {
            let decision = chain.authorize(&attributes);
            assert_eq!((decision.is_allowed(), decision.reason.as_str()), (allowed, reason));
        }
        rbac.remove(Kind::RoleBinding, "n", "one");
        assert!(!chain.authorize(&ask("ann", &[])).is_allowed());
        bind("", "all", "reader", json!({"kind": "Group", "name": "others"}));
        assert!(
            !chain.authorize(&ask("x", &["readers"])).is_allowed(),
            "a changed binding forgets its old subjects"
        );
    }
}
