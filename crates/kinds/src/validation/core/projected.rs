//! Volumes put together from parts: downward API files and projections.

use std::collections::BTreeSet;

use super::env::{check_field_ref, check_resource_field_ref};
use super::volumes::{check_key_to_path, check_mode, check_required, check_unreserved_path};
use crate::validation::place::{At, Errors};
use crate::validation::{certificates, selectors};

const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Compat: errors of a file are reported at the volume, without the file's index.
fn check_downward_file(file: &At<'_>, at: &At<'_>, errs: &mut Errors) {
    let file = file.reported_at(at.path.clone());
    check_required(&file, &["path"], errs);
    check_unreserved_path(&file.field("path"), errs);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.is_set() {
        check_field_ref(&field, &VOLUME_FIELDS, errs);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errs.invalid(&file, "resource", detail);
        }
    } else if resource.is_set() {
        check_resource_field_ref(&resource, true, errs);
    } else {
        errs.required(&file, "one of fieldRef and resourceFieldRef is required");
    }
    check_mode(&file.field("mode"), errs);
}

pub(crate) fn check_downward_api(at: &At<'_>, errs: &mut Errors) {
    check_mode(&at.field("defaultMode"), errs);
    for file in at.field("items").items() {
        check_downward_file(&file, at, errs);
    }
}

pub(crate) fn check_projected(at: &At<'_>, errs: &mut Errors) {
    check_mode(&at.field("defaultMode"), errs);
    let mut paths = Paths { volume: at.clone(), taken: BTreeSet::new() };
    for source in at.field("sources").items() {
        check_projection(&source, &mut paths, errs);
    }
}

/// The file names a projected volume uses up.
struct Paths<'a> {
    volume: At<'a>,
    taken: BTreeSet<&'a str>,
}

impl<'a> Paths<'a> {
    fn take(&mut self, path: &'a str, shown: &str, errs: &mut Errors) {
        if !self.taken.insert(path) {
            errs.invalid(&self.volume, shown, "conflicting duplicate paths");
        }
    }
}

fn check_projection<'a>(source: &At<'a>, paths: &mut Paths<'a>, errs: &mut Errors) {
    let mut count = 0;
    for kind in ["secret", "configMap"] {
        let at = source.field(kind);
        if !at.is_set() {
            continue;
        }
        count += 1;
        check_required(&at, &["name"], errs);
        for item in at.field("items").items() {
            check_key_to_path(&item, errs);
            let path = item.field("path");
            if !path.is_empty() {
                paths.take(path.text(), at.field("name").text(), errs);
            }
        }
    }
    let downward = source.field("downwardAPI");
    if downward.is_set() {
        count += 1;
        for file in downward.field("items").items() {
            check_downward_file(&file, &downward, errs);
            let path = file.field("path").text();
            if !path.is_empty() {
                paths.take(path, path, errs);
            }
        }
    }
    let token = source.field("serviceAccountToken");
    if token.is_set() {
        count += 1;
        check_projected_token(&token, &paths.volume.clone(), errs);
    }
    let bundle = source.field("clusterTrustBundle");
    if bundle.is_set() {
        count += 1;
        check_trust_bundle(&bundle, errs);
        let path = bundle.field("path").text();
        paths.take(path, path, errs);
    }
    let certificate = source.field("podCertificate");
    if certificate.is_set() {
        count += 1;
        check_pod_certificate(&certificate, paths, errs);
    }
    if count > 1 {
        errs.forbidden(source, "may not specify more than 1 volume type per source");
    }
}

fn check_projected_token(token: &At<'_>, volume: &At<'_>, errs: &mut Errors) {
    let expiration = token.field("expirationSeconds");
    if expiration.int() < 600 {
        errs.invalid_int(&expiration, "may not specify a duration less than 10 minutes");
    }
    if expiration.int() > 1 << 32 {
        errs.invalid_int(&expiration, "may not specify a duration larger than 2^32 seconds");
    }
    // Compat: the path is reported at the volume.
    let path = token.field("path").reported_at(volume.path.child("path"));
    if errs.required_text(&path) {
        check_unreserved_path(&path, errs);
    }
}

fn check_trust_bundle(bundle: &At<'_>, errs: &mut Errors) {
    let (name, signer) = (bundle.field("name"), bundle.field("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            errs.invalid_value(bundle, "only one of name and signerName may be used");
        }
        (true, false) => {
            if name.is_empty() {
                errs.required(&name, "must be a valid object name");
            }
            for message in certificates::trust_bundle_name(name.text(), None) {
                let detail = format!("not a valid clustertrustbundlename: {message}");
                errs.invalid_text(&name, detail);
            }
            let selector = bundle.field("labelSelector");
            if selector.is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errs.invalid(&selector, selectors::shown(selector.value), detail);
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errs.required(&signer, "must be a valid signer name");
            }
            certificates::check_signer_name(&signer, errs);
            selectors::check(&bundle.field("labelSelector"), errs);
        }
        (false, false) => errs.required(bundle, "either name or signerName must be specified"),
    }
    check_required(bundle, &["path"], errs);
    check_unreserved_path(&bundle.field("path"), errs);
}

fn check_pod_certificate<'a>(at: &At<'a>, paths: &mut Paths<'a>, errs: &mut Errors) {
    const KEY_TYPES: [&str; 6] =
        ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    let signer = at.field("signerName");
    certificates::check_signer_name(&signer, errs);
    let kind = at.field("keyType");
    if !KEY_TYPES.contains(&kind.text()) {
        errs.unsupported(&kind, &KEY_TYPES);
    }
    let expiration = at.field("maxExpirationSeconds");
    if let Some(seconds) = expiration.number() {
        let own = signer.text().starts_with("kubernetes.io/")
            || signer.text().split('/').next().is_some_and(|d| d.ends_with(".kubernetes.io"));
        let limit = if own { 24 * 3600 } else { 91 * 24 * 3600 };
        if seconds < 3600 {
            let detail = "if provided, maxExpirationSeconds must be >= 3600";
            errs.invalid_int(&expiration, detail);
        }
        if seconds > limit {
            let detail = format!("if provided, maxExpirationSeconds must be <= {limit}");
            errs.invalid_int(&expiration, detail);
        }
    }
    let fields = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    for path in fields.map(|field| at.field(field)) {
        if !path.is_empty() {
            check_unreserved_path(&path, errs);
            paths.take(path.text(), path.text(), errs);
        }
    }
    if fields.iter().all(|field| at.field(field).is_empty()) {
        errs.required(
            at,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        );
    }
}
