//! Group `apiregistration.k8s.io`: APIService.

use karmada_apimachinery::field::quote;
use karmada_apimachinery::names;

use super::meta::{self, Scope};
use super::place::{At, Errors};

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    let spec = object.field("spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    // The name's rule depends on the spec, so it is applied beside the rules of metadata.
    let name = object.at(&["metadata", "name"]);
    let required = format!("{}.{}", version.text(), group.text());
    if !name.is_empty() && names::path_segment(name.text()).is_empty() && name.text() != required {
        let quoted = quote(&required);
        errs.invalid_text(&name, format!("must be `spec.version+\".\"+spec.group`: {quoted}"));
    }
    meta::check_plain(object, Scope::Cluster, names::path_segment_name, errs);
    if group.is_empty() && version.text() != "v1" {
        errs.required(&group, "only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty() {
        errs.messages(&group, &names::dns1123_subdomain(group.text()));
    }
    errs.messages(&version, &names::dns1035_label(version.text()));
    for (field, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let at = spec.field(field);
        if !(1..=limit).contains(&at.int()) {
            errs.invalid_int(&at, format!("must be positive and less than {limit}"));
        }
    }
    check_service(&spec, errs);
}

fn check_service(spec: &At<'_>, errs: &mut Errors) {
    let service = spec.field("service");
    let (bundle, insecure) = (spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.is_set() {
        if !bundle.is_empty() {
            let bytes = bundle.len() / 4 * 3 - bundle.text().matches('=').count().min(2);
            let detail = "local APIServices may not have a caBundle";
            errs.invalid(&bundle, format!("{bytes} bytes"), detail);
        }
        if insecure.is_true() {
            errs.invalid_value(&insecure, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    errs.required_text(&service.field("namespace"));
    errs.required_text(&service.field("name"));
    let port = service.field("port");
    if !(1..=65535).contains(&port.int()) {
        errs.invalid_int(&port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if insecure.is_true() && !bundle.is_empty() {
        errs.invalid_value(&insecure, "may not be true if caBundle is present");
    }
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update_plain(new, old, errs);
    if subresource != "status" {
        return create(new, errs);
    }
    for condition in new.at(&["status", "conditions"]).items() {
        let status = condition.field("status");
        if !["True", "False", "Unknown"].contains(&status.text()) {
            errs.unsupported(&status, &["True", "False", "Unknown"]);
        }
    }
}
