//! Nobody grants through RBAC what they do not hold: checks on writes of roles and bindings.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::status::Status;

use super::rbac::{GROUP, Kind, MASTERS, Rbac, RoleRef, Unresolved};
use super::rule::{Rule, describe_all, quote_list, uncovered};
use super::{Attributes, Authorizer, Identity};

/// A write of a role or binding about to be stored.
pub struct Write<'a> {
    pub kind: Kind,
    /// Who writes, and the request's name and namespace as routed (the name is empty on create).
    pub request: &'a Attributes,
    pub new: &'a Value,
    pub old: Option<&'a Value>,
}

/// Refuses the write if it would grant more than the writer holds.
pub fn check(write: &Write<'_>, rbac: &Rbac, authorizer: &dyn Authorizer) -> Result<(), Status> {
    let user = &write.request.user;
    if user.is_in(MASTERS) || write.old.is_some_and(|old| only_collected_fields(write.new, old)) {
        return Ok(());
    }
    let namespace = match write.kind {
        Kind::Role | Kind::RoleBinding => write.request.namespace.as_str(),
        Kind::ClusterRole | Kind::ClusterRoleBinding => "",
    };
    let rules: Arc<[Rule]> = match write.kind {
        Kind::Role | Kind::ClusterRole => {
            if may(write, authorizer, "escalate", write.kind, &write.request.name, namespace) {
                return Ok(());
            }
            Rule::all_of(write.new).into()
        }
        Kind::RoleBinding | Kind::ClusterRoleBinding => {
            let role = RoleRef::of(write.new);
            let kind = if role.kind == "Role" { Kind::Role } else { Kind::ClusterRole };
            if role.api_group == GROUP
                && may(write, authorizer, "bind", kind, &role.name, namespace)
            {
                return Ok(());
            }
            rbac.rules_of(&role, namespace).map_err(|missing| match missing {
                Unresolved::NotFound { name, .. } => {
                    Status::not_found(&kind.group_resource(), &name)
                }
                other @ Unresolved::UnsupportedKind(_) => Status::unexplained(other.to_string()),
            })?
        }
    };
    let refuse =
        |why: String| Status::forbidden(&write.kind.group_resource(), write.new.name(), why);
    confirm(rbac, user, namespace, &rules).map_err(refuse)?;
    if write.kind == Kind::ClusterRole
        && (aggregates(write.new) || write.old.is_some_and(aggregates))
    {
        // An aggregating role gathers whatever carries its labels, so it takes full authority.
        confirm(rbac, user, namespace, &full_authority()).map_err(|_| {
            refuse("must have cluster-admin privileges to use the aggregationRule".into())
        })?;
    }
    Ok(())
}

fn may(
    write: &Write<'_>,
    authorizer: &dyn Authorizer,
    verb: &str,
    kind: Kind,
    name: &str,
    namespace: &str,
) -> bool {
    let attributes = Attributes {
        user: write.request.user.clone(),
        verb: verb.into(),
        group: GROUP.into(),
        version: "*".into(),
        resource: kind.resource().into(),
        name: name.into(),
        namespace: namespace.into(),
        is_resource: true,
        ..Attributes::default()
    };
    authorizer.authorize(&attributes).is_allowed()
}

fn confirm(rbac: &Rbac, user: &Identity, namespace: &str, wanted: &[Rule]) -> Result<(), String> {
    let (held, unresolved) = rbac.rules_for(user, namespace);
    let missing = uncovered(&held, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.user),
        quote_list(&user.groups),
        describe_all(&missing)
    );
    if let Some(errors) = super::rbac::join(&unresolved) {
        why.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(why)
}

fn aggregates(role: &Value) -> bool {
    !role.list_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty()
}

fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

/// Whether an update touches nothing but what garbage collection needs to touch.
fn only_collected_fields(new: &Value, old: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            object.remove_at(&["metadata", field]);
        }
        object
    };
    bare(new) == bare(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn role(name: &str, rules: Value) -> Value {
        json!({"metadata": {"name": name}, "rules": rules})
    }

    /// `limited` may do everything with RBAC objects but escalate; `keeper` may escalate and bind.
    fn rbac() -> Rbac {
        let rbac = Rbac::default();
        let writes = json!(["create", "update", "get"]);
        let all = json!(["*"]);
        for (user, verbs) in [("limited", writes), ("keeper", all)] {
            let rule = json!({"apiGroups": [GROUP], "resources": ["*"], "verbs": verbs});
            rbac.put(Kind::ClusterRole, &role(user, json!([rule])));
            rbac.put(
                Kind::ClusterRoleBinding,
                &json!({"metadata": {"name": user}, "roleRef": {"kind": "ClusterRole", "name": user},
                    "subjects": [{"kind": "User", "name": user}]}),
            );
        }
        rbac
    }

    fn attempt(user: &str, kind: Kind, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        let request = Attributes {
            user: Identity::new(user, ["devs", "system:authenticated"]).into(),
            namespace: "n".into(),
            ..Attributes::default()
        };
        let rbac = rbac();
        check(&Write { kind, request: &request, new, old }, &rbac, &rbac)
    }

    // Shows: AUTHZ-4
    #[test]
    fn a_role_beyond_ones_own_rights_is_refused_with_what_is_missing() {
        let big = role(
            "big",
            json!([
                {"apiGroups": ["", "apps"], "resources": ["secrets", "pods"], "verbs": ["get", "*"]},
                {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1"], "verbs": ["get"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ]),
        );
        let refusal = attempt("limited", Kind::Role, &big, None).expect_err("refused");
        let expected = [
            r#"roles.rbac.authorization.k8s.io "big" is forbidden: user "limited" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#,
            r#"{APIGroups:[""], Resources:["nodes"], ResourceNames:["n1"], Verbs:["get"]}"#,
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "*"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "*"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "*"]}"#,
            r#"{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "*"]}"#,
            r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
        ];
        assert_eq!(refusal.message, expected.join("\n"));
        assert_eq!(attempt("keeper", Kind::Role, &big, None), Ok(()));
        let held = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["get"]}]);
        assert_eq!(attempt("limited", Kind::Role, &role("held", held), None), Ok(()));
    }

    #[test]
    fn what_garbage_collection_changes_is_never_an_escalation() {
        let old = role("big", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        let mut new = old.clone();
        new.set(&["metadata", "finalizers"], json!(["x"]));
        assert_eq!(attempt("limited", Kind::ClusterRole, &new, Some(&old)), Ok(()));
        new.set(&["metadata", "labels", "a"], "b");
        assert!(attempt("limited", Kind::ClusterRole, &new, Some(&old)).is_err());
    }

    // Shows: AUTHZ-4
    #[test]
    fn binding_needs_the_roles_rights_or_the_verb() {
        let to = |name: &str| json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}});
        assert_eq!(attempt("limited", Kind::RoleBinding, &to("limited"), None), Ok(()));
        let refusal = attempt("limited", Kind::RoleBinding, &to("keeper"), None);
        assert!(refusal.expect_err("refused").message.ends_with(
            "not currently held:\n{APIGroups:[\"rbac.authorization.k8s.io\"], Resources:[\"*\"], Verbs:[\"*\"]}"
        ));
        let missing = attempt("limited", Kind::ClusterRoleBinding, &to("gone"), None);
        assert_eq!(
            missing.expect_err("refused").message,
            r#"clusterroles.rbac.authorization.k8s.io "gone" not found"#
        );
        assert_eq!(attempt("keeper", Kind::ClusterRoleBinding, &to("gone"), None), Ok(()));
    }

    // Shows: AUTHZ-3, AUTHZ-4
    #[test]
    fn aggregation_takes_full_authority() {
        let mut role = role("sum", json!([]));
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        let refusal = attempt("limited", Kind::ClusterRole, &role, None).expect_err("refused");
        assert!(
            refusal
                .message
                .ends_with("must have cluster-admin privileges to use the aggregationRule")
        );
    }
}
