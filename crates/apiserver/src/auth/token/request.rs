//! The `token` subresource of service accounts: TokenRequest in, TokenRequest with a token out.

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::field::{FieldError, Path, quote};
use karmada_apimachinery::gvk::{GroupKind, GroupResource, GroupVersion};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use uuid::Uuid;

use super::{Account, TokenIssuer};
use crate::auth::{Objects, service_account};

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// What a kubelet asks for; such tokens of pods live longer and only warn after this time, because
/// old clients do not reload them.
const KUBELET_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// The objects a token is bound to, as claims.
#[derive(Default)]
struct Bound {
    pod: Option<Value>,
    node: Option<Value>,
    secret: Option<Value>,
}

impl TokenIssuer {
    /// Answers a TokenRequest for the account named in the URL.
    pub fn issue(
        &self,
        request: &Value,
        namespace: &str,
        name: &str,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Status> {
        check_names(request, namespace, name)?;
        let account = find(objects, "serviceaccounts", namespace, name)?;
        let asked_uid = request.uid();
        if !asked_uid.is_empty() && asked_uid != account.uid() {
            let why = format!(
                "the UID in the token request ({asked_uid}) does not match the UID of the service account ({})",
                account.uid()
            );
            let kind = GroupResource::new("authentication.k8s.io", "TokenRequest");
            return Err(Status::conflict(&kind, name, why));
        }
        let mut answer = request.clone();
        complete(&mut answer, &account, &self.audiences, now);
        let seconds = answer.i64_at(&["spec", "expirationSeconds"]).unwrap_or(DEFAULT_SECONDS);
        check_seconds(seconds)?;

        let bound = bind(request, namespace, name, objects)?;
        let audiences = answer.list_at(&["spec", "audiences"]).to_vec();
        let for_api = audiences.iter().all(|one| self.audiences.iter().any(|own| one == own));
        let extended = bound.pod.is_some() && seconds == KUBELET_SECONDS && for_api;
        let lifetime = if extended { EXTENDED_SECONDS } else { seconds };

        let account = Account { namespace, name, uid: account.uid() };
        let mut claims = self.claims(&account, &audiences, now, lifetime);
        let private = &mut claims["kubernetes.io"];
        for (key, claim) in [("pod", bound.pod), ("node", bound.node), ("secret", bound.secret)] {
            if let Some(claim) = claim {
                private[key] = claim;
            }
        }
        if extended {
            private["warnafter"] = (now.as_second() + seconds).into();
        }
        let token = self
            .sign(&claims)
            .ok_or_else(|| Status::internal("failed to generate token: signing failed"))?;
        answer["status"] = json!({"token": token, "expirationTimestamp": after(now, seconds)});
        Ok(answer)
    }

    fn claims(
        &self,
        account: &Account<'_>,
        audiences: &[Value],
        now: Timestamp,
        lifetime: i64,
    ) -> Value {
        let issued = now.as_second();
        json!({
            "iss": self.issuer,
            "sub": service_account::user_name(account.namespace, account.name),
            "aud": audiences,
            "iat": issued,
            "nbf": issued,
            "exp": issued + lifetime,
            "jti": Uuid::new_v4().to_string(),
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
        })
    }
}

fn kind() -> GroupKind {
    GroupKind { group: "authentication.k8s.io".into(), kind: "TokenRequest".into() }
}

fn check_names(request: &Value, namespace: &str, name: &str) -> Result<(), Status> {
    let metadata = Path::new("metadata");
    for (field, given, expected) in
        [("name", request.name(), name), ("namespace", request.namespace(), namespace)]
    {
        if !given.is_empty() && given != expected {
            let detail = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(&metadata.child(field), given, detail);
            return Err(Status::invalid(&kind(), name, &[error]));
        }
    }
    Ok(())
}

fn check_seconds(seconds: i64) -> Result<(), Status> {
    let detail = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MAX_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let path = Path::new("spec").child("expirationSeconds");
    Err(Status::invalid(&kind(), "", &[FieldError::invalid(&path, seconds, detail)]))
}

/// Fills in what the request left open.
fn complete(request: &mut Value, account: &Value, audiences: &[String], now: Timestamp) {
    if request.list_at(&["spec", "audiences"]).is_empty() {
        request.set(&["spec", "audiences"], audiences.to_vec());
    }
    request.set_default(&["spec", "expirationSeconds"], DEFAULT_SECONDS);
    request.set_default(&["spec", "boundObjectRef"], Value::Null);
    request.set(&["metadata", "name"], account.name());
    request.set(&["metadata", "namespace"], account.namespace());
    request.set(&["metadata", "uid"], account.uid());
    request.set(&["metadata", "creationTimestamp"], after(now, 0));
}

fn bind(
    request: &Value,
    namespace: &str,
    account: &str,
    objects: &dyn Objects,
) -> Result<Bound, Status> {
    let Some(reference) = request.at(&["spec", "boundObjectRef"]).filter(|r| !r.is_null()) else {
        return Ok(Bound::default());
    };
    let text = |key| reference.str_at(&[key]).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let version = GroupVersion::parse(text("apiVersion")).unwrap_or_default();
    let claim = |object: &Value| Some(json!({"name": object.name(), "uid": object.uid()}));
    let mut bound = Bound::default();
    let object = match (version.group.as_str(), kind) {
        ("", "Pod") => {
            let pod = find(objects, "pods", namespace, name)?;
            if pod.str_at(&["spec", "serviceAccountName"]) != Some(account) {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(account)
                )));
            }
            bound.pod = claim(&pod);
            bound.node =
                pod.str_at(&["spec", "nodeName"]).filter(|n| !n.is_empty()).and_then(|node| {
                    let found = find(objects, "nodes", "", node).ok();
                    found.map_or_else(|| Some(json!({"name": node})), |node| claim(&node))
                });
            pod
        }
        ("", "Node") => {
            let node = find(objects, "nodes", "", name)?;
            bound.node = claim(&node);
            node
        }
        ("", "Secret") => {
            let secret = find(objects, "secrets", namespace, name)?;
            bound.secret = claim(&secret);
            secret
        }
        _ => {
            let kind = version.with_kind(kind);
            return Err(Status::bad_request(format!("cannot bind token to object of type {kind}")));
        }
    };
    let uid = text("uid");
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&GroupResource::new("", kind), name, why));
    }
    Ok(bound)
}

fn find(
    objects: &dyn Objects,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<std::sync::Arc<Value>, Status> {
    let resource = GroupResource::new("", resource);
    let found = objects.get(&resource, namespace, name);
    found.ok_or_else(|| Status::not_found(&resource, name))
}

fn after(now: Timestamp, seconds: i64) -> String {
    let time = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
