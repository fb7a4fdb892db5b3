//! Approves certificate requests of agents of Pull clusters, if their requester may make them. Signing is left to
//! whoever signs for the API server.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_api::names::{self, AGENT_GROUP};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Clock, Informer, ObjectKey};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::oid_registry::{OID_PKCS9_EXTENSION_REQUEST, OID_X509_EXT_SUBJECT_ALT_NAME};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;

use crate::context::Context;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Compat: as whom `register` prepares what an agent may do, before there is an agent.
const RBAC_GENERATOR: &str = "rbac-generator";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("ask whether the requester of {request} may have it")]
    Review { request: ObjectKey, source: karmada_client::Error },
    #[error("approve {request}")]
    Approve { request: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    clock: Clock,
    requests: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let requests = context.informers.all(&gvr());
    let controller = context.controller("agent-csr-approving-controller");
    context.keep(requests.feed(controller.queue()));
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, requests: requests.clone() });
    context.start(controller, vec![requests], move |key| reconcile(key, ctx.clone()));
}

fn gvr() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(cached) = ctx.requests.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let mut request = cached.value();
    if cached.is_being_deleted() || !is_open(&request) {
        return Ok(Action::AwaitChange);
    }
    let Some(user) = requested_user(&request) else { return Ok(Action::AwaitChange) };
    for permission in permissions(&request, &user) {
        let allowed = ctx.allows(&request, permission.subresource).await;
        if !allowed.map_err(|source| Error::Review { request: key.clone(), source })? {
            continue;
        }
        approve(&mut request, permission.message, ctx.clock.now());
        return match ctx.client.api(&gvr()).update_subresource(&request, "approval").await {
            // The change that came between wakes us again.
            Err(error) if !error.is_conflict() && !error.is_not_found() => {
                Err(Error::Approve { request: key, source: error })
            }
            _ => Ok(Action::AwaitChange),
        };
    }
    Ok(Action::AwaitChange)
}

/// Whether nobody has decided about a request yet.
fn is_open(request: &Value) -> bool {
    let is_issued = request.str_at(&["status", "certificate"]).is_some_and(|c| !c.is_empty());
    let conditions = request.list_at(&["status", "conditions"]);
    let mut kinds = conditions.iter().filter_map(|condition| condition.str_at(&["type"]));
    !is_issued && !kinds.any(|kind| matches!(kind, "Approved" | "Denied"))
}

/// The agent that a request is for: whoever holds its certificate is that user. Nothing for anything but plain
/// client certificates of agents.
fn requested_user(request: &Value) -> Option<String> {
    if request.str_at(&["spec", "signerName"]) != Some(SIGNER) || !has_agent_usages(request) {
        return None;
    }
    let encoded = STANDARD.decode(request.str_at(&["spec", "request"])?).ok()?;
    let (_, pem) = parse_x509_pem(&encoded).ok()?;
    let (_, asked) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &asked.certification_request_info.subject;
    let mut groups = subject.iter_organization();
    let mut users = subject.iter_common_name();
    let (Some(group), None) = (groups.next(), groups.next()) else { return None };
    let (Some(user), None) = (users.next(), users.next()) else { return None };
    let user = user.as_str().ok()?;
    let is_agent = group.as_str() == Ok(AGENT_GROUP) && user.starts_with(&names::agent_user(""));
    (is_agent && !has_alternative_names(&asked)).then(|| user.to_owned())
}

/// Exactly those of a client; keys other than RSA need no key encipherment.
fn has_agent_usages(request: &Value) -> bool {
    let usages = request.list_at(&["spec", "usages"]);
    let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
    ["digital signature", "client auth"].iter().all(|usage| usages.contains(usage))
        && usages
            .iter()
            .all(|usage| matches!(*usage, "digital signature" | "client auth" | "key encipherment"))
}

fn has_alternative_names(asked: &X509CertificationRequest<'_>) -> bool {
    asked.certification_request_info.iter_attributes().any(|attribute| {
        match attribute.parsed_attribute() {
            ParsedCriAttribute::ExtensionRequest(wanted) => {
                wanted.extensions.iter().any(|wanted| wanted.oid == OID_X509_EXT_SUBJECT_ALT_NAME)
            }
            // Extensions that cannot be read may be anything.
            _ => attribute.oid == OID_PKCS9_EXTENSION_REQUEST,
        }
    })
}

/// What a requester may be allowed to, by a virtual subresource of the requests.
struct Permission {
    subresource: &'static str,
    message: &'static str,
}

const RENEWAL: Permission = Permission {
    subresource: "selfclusteragent",
    message: "Auto approving self agent client certificate after SubjectAccessReview.",
};

const FIRST: Permission = Permission {
    subresource: "clusteragent",
    message: "Auto approving agent client certificate after SubjectAccessReview.",
};

/// The permissions any of which is enough. None for an agent that asks for the name of another one: it is nobody
/// but itself, whatever it is allowed to.
fn permissions(request: &Value, user: &str) -> &'static [Permission] {
    let requester = request.str_at(&["spec", "username"]).unwrap_or_default();
    let agent = requester.strip_prefix(&names::agent_user(""));
    match agent {
        Some(_) if requester == user => &[RENEWAL, FIRST],
        Some(agent) if agent != RBAC_GENERATOR => &[],
        _ => &[FIRST],
    }
}

fn approve(request: &mut Value, message: &str, now: jiff::Timestamp) {
    let mut conditions = request.list_at(&["status", "conditions"]).to_vec();
    conditions.push(json!({
        "type": "Approved",
        "status": "True",
        "reason": "AutoApproved",
        "message": message,
        "lastUpdateTime": format_time(now),
    }));
    request.set(&["status", "conditions"], conditions);
}

impl Ctx {
    async fn allows(&self, request: &Value, subresource: &str) -> karmada_client::Result<bool> {
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": request.str_at(&["spec", "username"]),
                "resourceAttributes": {
                    "group": "certificates.k8s.io",
                    "version": "*",
                    "resource": "certificatesigningrequests",
                    "subresource": subresource,
                    "verb": "create",
                },
            },
        });
        for field in ["uid", "groups", "extra"] {
            if let Some(value) = request.at(&["spec", field]) {
                review["spec"][field] = value.clone();
            }
        }
        let reviews = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let answer = self.client.api(&reviews).create(&review).await?;
        Ok(answer.at(&["status", "allowed"]).and_then(Value::as_bool).unwrap_or(false))
    }
}
