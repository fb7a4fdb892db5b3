//! Group `certificates.k8s.io`: CertificateSigningRequest, and the names of signers.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::field::{FieldError, quote};
use karmada_apimachinery::{Value, names};

use super::meta::{self, Scope};
use super::place::{At, Errors};

/// The name of a signer, such as `example.com/signer`.
pub(crate) fn check_signer_name(at: &At<'_>, errs: &mut Errors) {
    if !errs.required_text(at) {
        return;
    }
    let parts: Vec<&str> = at.text().split('/').collect();
    let [domain, path] = parts[..] else {
        return errs.invalid_text(
            at,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    };
    if domain.len() > 253 {
        errs.too_long(at, 253);
    }
    check_labels(at, domain, names::dns1123_label, errs);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errs.invalid(at, domain, detail);
    }
    check_labels(at, path, names::dns1123_subdomain, errs);
    if at.len() > 253 + 253 + 63 + 2 {
        errs.too_long(at, 253 + 253 + 63 + 2);
    }
}

/// Reports the first label of a dotted name that breaks the rule.
fn check_labels(at: &At<'_>, name: &str, rule: fn(&str) -> Vec<String>, errs: &mut Errors) {
    for label in name.split('.') {
        let messages = rule(label);
        for message in &messages {
            errs.invalid(at, name, format!("validating label {}: {message}", quote(label)));
        }
        if !messages.is_empty() {
            break;
        }
    }
}

/// The name of a trust bundle: with a signer it starts with the signer's name. Without one given,
/// the signer is read from the name itself.
pub(crate) fn trust_bundle_name(name: &str, signer: Option<&str>) -> Vec<String> {
    let derived = name.rsplit_once(':').map(|(signer, _)| signer.replace(':', "/"));
    match signer.map(str::to_owned).or(derived).filter(|signer| !signer.is_empty()) {
        None if name.contains(':') => {
            vec![
                "ClusterTrustBundle without signer name must not have \":\" in its name".to_owned(),
            ]
        }
        None => names::dns1123_subdomain(name),
        Some(signer) => {
            let prefix = format!("{}:", signer.replace('/', ":"));
            match name.strip_prefix(&prefix) {
                Some(rest) => names::dns1123_subdomain(rest),
                None => vec![format!(
                    "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
                )],
            }
        }
    }
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

fn any_name(_: &str, _: bool) -> Vec<String> {
    Vec::new()
}

/// Which parts of a request's status a write may touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Certificate,
    Approval,
}

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    check_request(object, None, errs);
}

fn check_request(object: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, any_name, errs);
    let spec = object.field("spec");
    let request = spec.field("request");
    if !is_pem_of(request.text(), "CERTIFICATE REQUEST") {
        errs.invalid_value(&request, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        errs.required(&usages, "");
    }
    let stored: Vec<&str> =
        old.map(|old| old.at(&["spec", "usages"]).texts().collect()).unwrap_or_default();
    if stored.iter().all(|usage| USAGES.contains(usage)) {
        for usage in usages.items() {
            if !USAGES.contains(&usage.text()) {
                errs.unsupported(&usage, &USAGES);
            }
        }
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.text()) {
            errs.duplicate(&usage);
        }
    }
    let signer = spec.field("signerName");
    let was_legacy = old.is_some_and(|old| old.at(&["spec", "signerName"]).text() == LEGACY_SIGNER);
    if signer.text() == LEGACY_SIGNER && !was_legacy {
        errs.invalid_text(&signer, "the legacy signerName is not allowed via this API version");
    } else {
        check_signer_name(&signer, errs);
    }
    let expiration = spec.field("expirationSeconds");
    if expiration.number().is_some_and(|seconds| seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errs.invalid_int(&expiration, detail);
    }
    check_conditions(&object.at(&["status", "conditions"]), errs);
    let certificate = object.at(&["status", "certificate"]);
    let unchanged =
        old.is_some_and(|old| old.at(&["status", "certificate"]).text() == certificate.text());
    if !unchanged && !certificate.is_empty() && !is_pem_of(certificate.text(), "CERTIFICATE") {
        let detail = "must contain at least one CERTIFICATE PEM block";
        errs.invalid(&certificate, "<certificate data>", detail);
    }
}

/// Whether base64 text holds a PEM block of a kind; what is inside is the signer's business.
fn is_pem_of(text: &str, kind: &str) -> bool {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let first = text.find("-----BEGIN ").map(|start| &text[start..]);
    first.is_some_and(|block| {
        block.starts_with(&format!("-----BEGIN {kind}-----"))
            && block.contains(&format!("-----END {kind}-----"))
    })
}

fn check_conditions(conditions: &At<'_>, errs: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        errs.required_text(&kind);
        let decisive = ["Approved", "Denied", "Failed"].contains(&kind.text());
        let allowed: &[&str] = if decisive { &["True"] } else { &["False", "True", "Unknown"] };
        errs.required_one_of(&status, allowed);
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && seen.contains(opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errs.invalid(conditions, kind.text(), detail);
        }
        if !seen.insert(kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
    }
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let part = match subresource {
        "status" => Part::Certificate,
        "approval" => Part::Approval,
        _ => Part::Nothing,
    };
    check_request(new, Some(old), errs);
    let conditions = new.at(&["status", "conditions"]);
    let of = |object: &At<'_>, kind: &str| -> Vec<Value> {
        object
            .at(&["status", "conditions"])
            .items()
            .filter(|condition| condition.field("type").text() == kind)
            .map(|condition| condition.value.clone())
            .collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errs.forbidden(&conditions, detail);
        }
    }
    for kind in ["Approved", "Denied"].into_iter().filter(|_| part != Part::Approval) {
        let (after, before) = (of(new, kind), of(old, kind));
        if after.len() > before.len() {
            let detail = format!("updates may not add a condition of type \"{kind}\"");
            errs.forbidden(&conditions, detail);
        } else if after.len() == before.len() && after != before {
            let detail = format!("updates may not modify a condition of type \"{kind}\"\n");
            errs.forbidden(&conditions, detail);
        }
    }
    let path = ["status", "certificate"];
    let (certificate, stored) = (new.at(&path), old.at(&path));
    if certificate.text() != stored.text() {
        if part != Part::Certificate {
            errs.forbidden(&certificate, "updates may not set certificate content");
        } else if !stored.is_empty() {
            let detail = "updates may not modify existing certificate content";
            errs.forbidden(&certificate, detail);
        }
    }
    meta::update(new, old, errs);
}
