//! The rules on writes that depend on who writes: requests for certificates carry their sender, signers are
//! guarded, and RBAC objects grant nothing their writer does not hold.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;

use super::rbac::{self, Rbac};
use super::{Attributes, Authorizer, csr, escalation};

/// Called by the write path with the attributes of the request as routed.
pub struct Guard {
    pub rbac: Arc<Rbac>,
    pub authorizer: Arc<dyn Authorizer>,
}

impl Guard {
    /// Completes and checks an object before it is validated.
    pub fn before_validation(
        &self,
        request: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !request.subresource.is_empty() {
            return Ok(());
        }
        if is_csr(request) && old.is_none() {
            csr::fill_requester(object, &request.user);
        }
        if request.group == rbac::GROUP
            && let Some(kind) = rbac::Kind::from_resource(&request.resource)
        {
            let write = escalation::Write { kind, request, new: object, old };
            escalation::check(&write, &self.rbac, &*self.authorizer)?;
        }
        Ok(())
    }

    /// Checks an object that is about to be stored.
    pub fn after_validation(
        &self,
        request: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !is_csr(request) {
            return Ok(());
        }
        match (request.subresource.as_str(), old) {
            ("", None) => csr::check_subject(object),
            ("approval", Some(old)) => csr::check_approval(old, &request.user, &*self.authorizer),
            ("status", Some(old)) => {
                csr::check_signing(object, old, &request.user, &*self.authorizer)
            }
            _ => Ok(()),
        }
    }
}

fn is_csr(request: &Attributes) -> bool {
    request.group == "certificates.k8s.io" && request.resource == "certificatesigningrequests"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use karmada_apimachinery::json;

    fn guard() -> Guard {
        let rbac = Arc::new(Rbac::default());
        Guard { rbac: rbac.clone(), authorizer: rbac }
    }

    fn request(group: &str, resource: &str, subresource: &str) -> Attributes {
        Attributes {
            user: Identity::new("ann", ["devs"]).into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    #[test]
    fn each_rule_guards_its_own_resource_and_subresource() {
        let csr =
            |subresource| request("certificates.k8s.io", "certificatesigningrequests", subresource);
        let object = json!({"metadata": {"name": "c"}, "spec": {"signerName": "example.com/x"}});
        let mut signed = object.clone();
        signed["status"] = json!({"certificate": "x"});
        let guard = guard();

        let mut new = object.clone();
        assert_eq!(guard.before_validation(&csr(""), &mut new, None), Ok(()));
        assert_eq!(new["spec"]["username"], "ann");
        let mut again = object.clone();
        assert_eq!(guard.before_validation(&csr(""), &mut again, Some(&object)), Ok(()));
        assert_eq!(again, object, "an update does not change who asked");

        let cases = [("", true), ("approval", false), ("status", false)];
        for (subresource, allowed) in cases {
            let checked = guard.after_validation(&csr(subresource), &signed, Some(&object));
            assert_eq!(checked.is_ok(), allowed, "{subresource}");
        }
        let mut role = json!({"metadata": {"name": "r"}, "rules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}]});
        let roles = request(rbac::GROUP, "clusterroles", "");
        assert_eq!(guard.before_validation(&roles, &mut role, None).map_err(|s| s.code), Err(403));
        let pods = request("", "pods", "");
        assert_eq!(guard.before_validation(&pods, &mut role, None), Ok(()));
    }
}
