//! Group `certificates.k8s.io`: CertificateSigningRequest, and the names of signers.

use karmada_apimachinery::field::quote;
use karmada_apimachinery::names;

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
