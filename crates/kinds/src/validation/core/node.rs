//! Nodes, Endpoints and ReplicationControllers.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::{ErrorType, FieldError, Path, quote};
use karmada_apimachinery::{Value, names};

use super::{pod, resources, scheduling};
use crate::validation::meta::{self, Scope};
use crate::validation::net;
use crate::validation::place::{At, Errors, same};

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const CIDR_FIXED: &str = "node updates may not change podCIDR except from \"\" to valid";

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    check_annotations(object, errs);
    check_spec_taints(object, errs);
    check_amounts(object, errs);
    let swap = object.at(&["status", "nodeInfo", "swap", "capacity"]);
    if swap.is_set() {
        let path = Path::new("metadata").child("nodeSwapStatus").child("capacity");
        errs.positive(&swap.reported_at(path));
    }
    check_features(&object.at(&["status", "declaredFeatures"]), errs);
    let cidrs = spec.field("podCIDRs");
    for cidr in cidrs.items() {
        net::check_cidr(&cidr, cidr.text(), &[], errs);
    }
    let families: BTreeSet<bool> = cidrs.texts().map(|cidr| cidr.contains(':')).collect();
    if cidrs.len() > 1 && (families.len() < 2 || cidrs.len() > 2) {
        errs.invalid_value(&cidrs, "may specify no more than one CIDR for each IP family");
    }
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource.is_empty() {
        create(new, errs);
    }
    meta::update(new, old, errs);
    check_annotations(new, errs);
    check_amounts(new, errs);
    check_features(&new.at(&["status", "declaredFeatures"]), errs);
    let mut seen: Vec<&Value> = Vec::new();
    for address in new.at(&["status", "addresses"]).items() {
        if seen.contains(&address.value) {
            errs.duplicate(&address);
        }
        seen.push(address.value);
    }
    check_changes(&new.field("spec"), &old.field("spec"), errs);
    check_spec_taints(new, errs);
}

fn check_changes(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let (after_cidrs, before_cidrs) = (spec.field("podCIDRs"), before.field("podCIDRs"));
    if !before_cidrs.is_empty() {
        if after_cidrs.len() != before_cidrs.len() {
            errs.forbidden(&after_cidrs, CIDR_FIXED);
        } else {
            for (after, before) in after_cidrs.texts().zip(before_cidrs.texts()) {
                if after != before {
                    errs.forbidden(&after_cidrs, CIDR_FIXED);
                }
            }
        }
    }
    let (provider, previous) = (spec.field("providerID"), before.field("providerID"));
    if !previous.is_empty() && previous.text() != provider.text() {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errs.forbidden(&provider, detail);
    }
    let source = spec.field("configSource");
    if source.is_set() {
        let map = source.field("configMap");
        if map.is_set() {
            check_config_source(&map, errs);
        } else {
            errs.invalid_value(&source, "exactly one reference subfield must be non-nil");
        }
    }
    if spec.field("externalID").text() != before.field("externalID").text() {
        errs.forbidden(&spec.field("externalID"), "may not be updated");
    }
}

fn check_config_source(map: &At<'_>, errs: &mut Errors) {
    for field in ["uid", "resourceVersion"] {
        if !map.field(field).is_empty() {
            errs.forbidden(&map.field(field), format!("{field} must not be set in spec"));
        }
    }
    type TextRule = fn(&str) -> Vec<String>;
    let rules: [(&str, TextRule); 3] = [
        ("namespace", names::dns1123_label),
        ("name", names::dns1123_subdomain),
        ("kubeletConfigKey", names::config_map_key),
    ];
    for (field, rule) in rules {
        let at = map.field(field);
        if errs.required_text(&at) {
            errs.messages(&at, &rule(at.text()));
        }
    }
}

fn check_annotations(node: &At<'_>, errs: &mut Errors) {
    let annotations = node.at(&["metadata", "annotations"]);
    let taints = annotations.field(TAINTS_ANNOTATION);
    if taints.is_empty() {
        return;
    }
    match serde_json::from_str::<Value>(taints.text()) {
        Ok(list) => check_taints(&At::new(taints.path.clone(), &list), errs),
        Err(error) => errs.invalid(&annotations, TAINTS_ANNOTATION, error.to_string()),
    }
}

/// Compat: taints of the spec are reported under `metadata`.
fn check_spec_taints(node: &At<'_>, errs: &mut Errors) {
    let taints = node.at(&["spec", "taints"]);
    check_taints(&taints.reported_at(Path::new("metadata").child("taints")), errs);
}

fn check_taints(taints: &At<'_>, errs: &mut Errors) {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for taint in taints.items() {
        let (key, value, effect) =
            (taint.field("key"), taint.field("value"), taint.field("effect"));
        errs.messages(&key, &names::qualified_name(key.text()));
        let messages = names::label_value(value.text());
        if !messages.is_empty() {
            errs.invalid_text(&value, messages.join(";"));
        }
        errs.required_one_of(&effect, &scheduling::TAINT_EFFECTS);
        if !seen.entry(effect.text()).or_default().insert(key.text()) {
            errs.push(FieldError {
                kind: ErrorType::Duplicate,
                path: taint.path.clone(),
                value: taint.shown(),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
}

fn check_amounts(node: &At<'_>, errs: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let amounts = node.at(&["status", list]);
        for (name, _) in amounts.entries() {
            resources::check_amount(&amounts.field(name), name, errs);
        }
    }
}

fn check_features(features: &At<'_>, errs: &mut Errors) {
    let all: Vec<At<'_>> = features.items().collect();
    for (i, feature) in all.iter().enumerate() {
        let name = feature.text();
        if name.len() > 253 {
            let detail = format!(
                "invalid feature name {}: must be no more than 253 characters",
                quote(name)
            );
            errs.invalid_text(feature, detail);
        } else if !is_feature_name(name) {
            let detail = format!(
                "invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                quote(name)
            );
            errs.invalid_text(feature, detail);
        }
        if let Some(next) = all.get(i + 1) {
            if next.text() == name {
                errs.duplicate(next);
            } else if name > next.text() {
                errs.invalid_text(next, "list must be sorted alphabetically");
            }
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic())
                && part.chars().all(|c| c.is_ascii_alphanumeric())
        })
}

pub(crate) fn endpoints_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_subsets(&object.field("subsets"), errs);
}

pub(crate) fn endpoints_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    meta::check(new, Scope::Namespaced, names::subdomain_name, errs);
    if !same(new.field("subsets").value, old.field("subsets").value) {
        check_subsets(&new.field("subsets"), errs);
    }
}

fn check_subsets(subsets: &At<'_>, errs: &mut Errors) {
    for subset in subsets.items() {
        let lists = [subset.field("addresses"), subset.field("notReadyAddresses")];
        if lists.iter().all(At::is_empty) {
            errs.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(At::items) {
            net::check_ip(&address.field("ip"), &[], errs);
            let hostname = address.field("hostname");
            if !hostname.is_empty() {
                errs.messages(&hostname, &names::dns1123_label(hostname.text()));
            }
            let node = address.field("nodeName");
            if node.is_set() {
                errs.messages(&node, &names::dns1123_subdomain(node.text()));
            }
            net::check_endpoint_ip(&address.field("ip"), errs);
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            let name = port.field("name");
            if ports.len() > 1 && name.is_empty() {
                errs.required(&name, "");
            } else if !name.is_empty() {
                errs.messages(&name, &names::dns1123_label(name.text()));
            }
            errs.in_range(&port.field("port"), 1, 65535);
            errs.required_one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
            let protocol = port.field("appProtocol");
            if protocol.is_set() {
                errs.messages(&protocol, &names::qualified_name(protocol.text()));
            }
        }
    }
}

pub(crate) fn replication_controller_create(object: &At<'_>, errs: &mut Errors) {
    // Compat: this kind does not check generateName.
    let mut object_meta = object.field("metadata").value.clone();
    if let Some(map) = object_meta.as_object_mut() {
        map.remove("generateName");
    }
    let stripped = karmada_apimachinery::json!({"metadata": object_meta});
    meta::check(&At::root(&stripped), Scope::Namespaced, names::subdomain_name, errs);
    check_replication_controller(&object.field("spec"), errs);
}

fn check_replication_controller(spec: &At<'_>, errs: &mut Errors) {
    errs.non_negative(&spec.field("minReadySeconds"));
    let selector = spec.field("selector");
    if selector.is_empty() {
        errs.required(&selector, "");
    }
    let replicas = spec.field("replicas");
    if replicas.is_set() {
        errs.non_negative(&replicas);
    } else {
        errs.required(&replicas, "");
    }
    let template = spec.field("template");
    if !template.is_set() {
        return errs.required(&template, "");
    }
    let labels = template.at(&["metadata", "labels"]);
    let matched = selector.entries().all(|(key, value)| labels.field(key).value == value.value);
    if !matched {
        errs.invalid_value(&labels, "`selector` does not match template `labels`");
    }
    pod::check_template(&template, errs);
    pod::check_long_running(&template, "ReplicationController", errs);
}

pub(crate) fn replication_controller_update(
    subresource: &str,
    new: &At<'_>,
    old: &At<'_>,
    errs: &mut Errors,
) {
    meta::update(new, old, errs);
    if subresource == "status" {
        let fields = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        return crate::validation::apps::check_replica_counts(&new.field("status"), &fields, errs);
    }
    check_replication_controller(&new.field("spec"), errs);
}
