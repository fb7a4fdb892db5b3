//! Certificate signing requests: who may ask, approve and sign, and signing for the built-in signers.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::asn1::ObjectIdentifier;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::field::quote;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use std::sync::Arc;
use x509_cert::ext::pkix::{KeyUsage, KeyUsages};

use super::rbac::MASTERS;
use super::review::user_info;
use super::{Attributes, Authorizer, Identity};
use crate::pki::certificate::{self, Authority, BACKDATE, Template, pem};
use crate::pki::request::Request;

const GROUP: &str = "certificates.k8s.io";
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

const MIN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Below this lifetime the time a certificate is backdated is not taken off its end.
const SHORT_LIFETIME: SignedDuration = SignedDuration::from_hours(8);

fn resource() -> GroupResource {
    GroupResource::new(GROUP, "certificatesigningrequests")
}

/// Writes into a new request who made it; what its sender claimed there is overwritten.
pub fn fill_requester(csr: &mut Value, requester: &Identity) {
    let info = user_info(requester);
    for key in ["username", "uid", "groups", "extra"] {
        csr.remove_at(&["spec", key]);
        if let Some(value) = info.get(key) {
            csr.set(&["spec", key], value.clone());
        }
    }
}

/// Refuses a new request for a client certificate of an all-powerful group.
pub fn check_subject(csr: &Value) -> Result<(), Status> {
    if signer_name(csr) != CLIENT {
        return Ok(());
    }
    let refuse = |why: String| Status::forbidden(&resource(), csr.name(), why);
    let request = parse(csr).map_err(|error| refuse(format!("failed to parse CSR: {error}")))?;
    if request.organizations.iter().any(|group| group == MASTERS) {
        return Err(refuse(format!("use of {CLIENT} signer with {MASTERS} group is not allowed")));
    }
    Ok(())
}

/// Checks that the user may approve or deny requests for the signer of the stored request.
pub fn check_approval(
    stored: &Value,
    user: &Arc<Identity>,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    check_signer("approve", stored, user, authorizer)
}

/// Checks that the user may sign, once a status update touches certificate or conditions.
pub fn check_signing(
    new: &Value,
    stored: &Value,
    user: &Arc<Identity>,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    let same = |key| {
        let part = |csr: &Value| csr.at(&["status", key]).filter(|v| !is_empty(v)).cloned();
        part(new) == part(stored)
    };
    if same("certificate") && same("conditions") {
        return Ok(());
    }
    check_signer("sign", stored, user, authorizer)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == &json!([]) || value == ""
}

fn check_signer(
    verb: &str,
    csr: &Value,
    user: &Arc<Identity>,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    let signer = signer_name(csr);
    let domain = signer.split('/').next().unwrap_or_default();
    let allowed = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let attributes = Attributes {
            user: user.clone(),
            verb: verb.into(),
            group: GROUP.into(),
            version: "*".into(),
            resource: "signers".into(),
            name: name.into(),
            is_resource: true,
            ..Attributes::default()
        };
        authorizer.authorize(&attributes).is_allowed()
    });
    if allowed {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", quote(signer));
    Err(Status::forbidden(&resource(), csr.name(), why))
}

/// Returns why a kubelet's own request can be approved without a human, if it can.
pub fn auto_approval(csr: &Value, authorizer: &dyn Authorizer) -> Option<&'static str> {
    if is_decided(csr) || signer_name(csr) != KUBELET_CLIENT {
        return None;
    }
    let request = parse(csr).ok()?;
    kubelet_client_problem(&request, &usages(csr)).is_none().then_some(())?;
    let user = Arc::new(requester(csr));
    let own = user.user == request.common_name;
    let kinds = [
        (
            own,
            "selfnodeclient",
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ),
        (
            true,
            "nodeclient",
            "Auto approving kubelet client certificate after SubjectAccessReview.",
        ),
    ];
    kinds.into_iter().find_map(|(applies, subresource, message)| {
        let attributes = Attributes {
            user: user.clone(),
            verb: "create".into(),
            group: GROUP.into(),
            version: "*".into(),
            resource: "certificatesigningrequests".into(),
            subresource: subresource.into(),
            is_resource: true,
            ..Attributes::default()
        };
        (applies && authorizer.authorize(&attributes).is_allowed()).then_some(message)
    })
}

fn requester(csr: &Value) -> Identity {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |key| csr.str_at(&["spec", key]).unwrap_or_default().to_owned();
    let extra = csr.map_at(&["spec", "extra"]).into_iter().flatten();
    Identity {
        user: text("username"),
        uid: text("uid"),
        groups: csr.at(&["spec", "groups"]).map(list).unwrap_or_default(),
        extra: extra.map(|(key, values)| (key.to_string(), list(values))).collect(),
    }
}

fn has_condition(csr: &Value, kind: &str) -> bool {
    csr.list_at(&["status", "conditions"]).iter().any(|c| c.str_at(&["type"]) == Some(kind))
}

fn is_decided(csr: &Value) -> bool {
    let signed = csr.str_at(&["status", "certificate"]).is_some_and(|c| !c.is_empty());
    signed || has_condition(csr, "Approved") || has_condition(csr, "Denied")
}

/// What the signing controller has to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// Not approved, already done, or for somebody else's signer.
    NotDue,
    /// The certificate as PEM.
    Issued(String),
    /// The request breaks its signer's rules: a condition `Failed` with this reason and message.
    Refused { reason: &'static str, message: String },
}

/// Signs an approved request of one of the built-in signers.
pub fn sign(
    csr: &Value,
    authority: &Authority,
    longest: SignedDuration,
    now: Timestamp,
) -> Result<Signing, certificate::Error> {
    let ours = [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN];
    let done = csr.str_at(&["status", "certificate"]).is_some_and(|c| !c.is_empty());
    let open = has_condition(csr, "Approved")
        && !has_condition(csr, "Denied")
        && !has_condition(csr, "Failed");
    if done || !open || !ours.contains(&signer_name(csr)) {
        return Ok(Signing::NotDue);
    }
    let refuse = |message: String| Signing::Refused { reason: "SignerValidationFailure", message };
    let request = match parse(csr) {
        Ok(request) => request,
        Err(error) => {
            return Ok(refuse(format!("unable to parse csr {}: {error}", quote(csr.name()))));
        }
    };
    let wanted = usages(csr);
    if let Some(problem) = problem(signer_name(csr), &request, &wanted) {
        return Ok(refuse(problem));
    }
    let (key_usages, extended_usages) = match split_usages(&wanted) {
        Ok(split) => split,
        Err(problem) => return Ok(refuse(problem)),
    };
    let life = lifetime(csr, longest);
    let end = if life < SHORT_LIFETIME { life } else { life - BACKDATE };
    let certificate = authority.issue(Template {
        subject: request.subject,
        public_key: request.public_key,
        not_before: now.checked_sub(BACKDATE).unwrap_or(now),
        not_after: now.checked_add(end).unwrap_or(Timestamp::MAX),
        key_usages,
        extended_usages,
        alternative_names: request.alternative_names,
    })?;
    Ok(Signing::Issued(pem("CERTIFICATE", &certificate)))
}

fn lifetime(csr: &Value, longest: SignedDuration) -> SignedDuration {
    match csr.i64_at(&["spec", "expirationSeconds"]) {
        None => longest,
        Some(seconds) => SignedDuration::from_secs(seconds).max(MIN_LIFETIME).min(longest),
    }
}

fn signer_name(csr: &Value) -> &str {
    csr.str_at(&["spec", "signerName"]).unwrap_or_default()
}

fn usages(csr: &Value) -> Vec<&str> {
    csr.list_at(&["spec", "usages"]).iter().filter_map(Value::as_str).collect()
}

/// Reads the request inside the object.
pub fn parse(csr: &Value) -> Result<Request, crate::pki::request::Error> {
    let encoded = csr.str_at(&["spec", "request"]).unwrap_or_default();
    let pem = STANDARD.decode(encoded).map_err(|_| crate::pki::request::Error::NotPem)?;
    Request::from_pem(&pem)
}

fn problem(signer: &str, request: &Request, usages: &[&str]) -> Option<String> {
    match signer {
        CLIENT => client_problem(usages),
        KUBELET_CLIENT => kubelet_client_problem(request, usages),
        KUBELET_SERVING => kubelet_serving_problem(request, usages),
        _ => None,
    }
}

fn client_problem(usages: &[&str]) -> Option<String> {
    let optional = ["digital signature", "key encipherment"];
    let odd = usages.iter().find(|usage| **usage != "client auth" && !optional.contains(usage));
    match odd {
        Some(usage) => Some(format!("invalid usage for client certificate: {usage}")),
        None if !usages.contains(&"client auth") => {
            Some("missing required usage for client certificate: client auth".to_owned())
        }
        None => None,
    }
}

fn kubelet_client_problem(request: &Request, usages: &[&str]) -> Option<String> {
    let checks = [
        (request.organizations != ["system:nodes"], "subject organization is not system:nodes"),
        (!request.dns_names.is_empty(), "DNS subjectAltNames are not allowed"),
        (request.emails > 0, "Email subjectAltNames are not allowed"),
        (request.ip_addresses > 0, "IP subjectAltNames are not allowed"),
        (request.uris > 0, "URI subjectAltNames are not allowed"),
        (!is_node(request), "subject common name does not begin with system:node:"),
    ];
    first(&checks).or_else(|| usage_problem(usages, "client auth"))
}

fn kubelet_serving_problem(request: &Request, usages: &[&str]) -> Option<String> {
    let unnamed = request.dns_names.is_empty() && request.ip_addresses == 0;
    let checks = [
        (request.organizations != ["system:nodes"], "subject organization is not system:nodes"),
        (unnamed, "DNS or IP subjectAltName is required"),
        (request.emails > 0, "Email subjectAltNames are not allowed"),
        (request.uris > 0, "URI subjectAltNames are not allowed"),
    ];
    let node = [(!is_node(request), "subject common name does not begin with system:node:")];
    first(&checks).or_else(|| usage_problem(usages, "server auth")).or_else(|| first(&node))
}

fn is_node(request: &Request) -> bool {
    request.common_name.starts_with("system:node:")
}

fn first(checks: &[(bool, &str)]) -> Option<String> {
    checks.iter().find(|(broken, _)| *broken).map(|(_, why)| (*why).to_owned())
}

/// Exactly the usage asked for and digital signature, with or without key encipherment (RSA needs it).
fn usage_problem(usages: &[&str], purpose: &str) -> Option<String> {
    let mut given: Vec<&str> = usages.to_vec();
    given.sort_unstable();
    given.dedup();
    let mut all = vec![purpose, "digital signature", "key encipherment"];
    all.sort_unstable();
    let without: Vec<&str> = all.iter().copied().filter(|u| *u != "key encipherment").collect();
    let fits = given == all || given == without;
    (!fits).then(|| format!("usages did not match [{}]", all.join(" ")))
}

const KEY_USAGES: [(&str, KeyUsages); 10] = [
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("cert sign", KeyUsages::KeyCertSign),
    ("crl sign", KeyUsages::CRLSign),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

/// In the order they are written into a certificate.
const EXTENDED_USAGES: [(&str, &str); 13] = [
    ("any", "2.5.29.37.0"),
    ("server auth", "1.3.6.1.5.5.7.3.1"),
    ("client auth", "1.3.6.1.5.5.7.3.2"),
    ("code signing", "1.3.6.1.5.5.7.3.3"),
    ("email protection", "1.3.6.1.5.5.7.3.4"),
    ("s/mime", "1.3.6.1.5.5.7.3.4"),
    ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
    ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
    ("ipsec user", "1.3.6.1.5.5.7.3.7"),
    ("timestamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
    ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
    ("netscape sgc", "2.16.840.1.113730.4.1"),
];

fn split_usages(usages: &[&str]) -> Result<(KeyUsage, Vec<ObjectIdentifier>), String> {
    let known = |usage: &&&str| {
        KEY_USAGES.iter().any(|(name, _)| name == *usage)
            || EXTENDED_USAGES.iter().any(|(name, _)| name == *usage)
    };
    let unknown: Vec<&str> = usages.iter().filter(|usage| !known(usage)).copied().collect();
    if !unknown.is_empty() {
        let shown = super::rule::quote_list(&unknown);
        return Err(format!("unrecognized usage values: {shown}"));
    }
    let mut flags = KeyUsage(Default::default());
    for (_, flag) in KEY_USAGES.iter().filter(|(name, _)| usages.contains(name)) {
        flags.0 |= *flag;
    }
    let mut extended: Vec<ObjectIdentifier> = Vec::new();
    for (_, oid) in EXTENDED_USAGES.iter().filter(|(name, _)| usages.contains(name)) {
        let oid = ObjectIdentifier::new_unwrap(oid);
        if !extended.contains(&oid) {
            extended.push(oid);
        }
    }
    Ok((flags, extended))
}
