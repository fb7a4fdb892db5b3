//! Pods and pod templates: the spec as a whole, annotations, creation and changes.

use std::collections::BTreeSet;

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::{Value, names};

use super::container::{self, Surroundings};
use super::resources::{self, NameKind};
use super::{env, pod_status, resize, scheduling, security, volumes};
use crate::validation::meta::{self, Scope};
use crate::validation::net;
use crate::validation::place::{At, Errors, inclusive_range, same};

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// What the spec belongs to.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Pod(&'a Value),
    Template,
}

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    check_object(object, errs);
    let spec = object.field("spec");
    if !spec.field("ephemeralContainers").is_empty() {
        errs.forbidden(&spec.field("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errs.forbidden(&spec.field("nodeName"), detail);
    }
    security::check_profile_annotations(&object.field("metadata"), &spec, errs);
}

fn check_object(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let spec = object.field("spec");
    check_annotations(&object.at(&["metadata", "annotations"]), &spec, errs);
    check_spec(&spec, Owner::Pod(object.field("metadata").value), errs);
    if spec.field("serviceAccountName").is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.at(&["projected", "sources"]).items() {
                let token = source.field("serviceAccountToken");
                if token.is_set() {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errs.forbidden(&token, detail);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            container::check_image_of_pod(&container, errs);
        }
    }
}

/// Checks a pod template of any owner.
pub(crate) fn check_template(template: &At<'_>, errs: &mut Errors) {
    // Compat: labels and annotations are reported without `metadata`.
    let meta_at = template.field("metadata");
    let labels = meta_at.field("labels").reported_at(template.path.child("labels"));
    let annotations = meta_at.field("annotations").reported_at(template.path.child("annotations"));
    let spec = template.field("spec");
    meta::labels(&labels, errs);
    meta::annotations(&annotations, errs);
    check_annotations(&annotations, &spec, errs);
    check_spec(&spec, Owner::Template, errs);
    security::check_profile_annotations(&meta_at, &spec, errs);
    if !spec.field("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errs.forbidden(&spec.field("ephemeralContainers"), detail);
    }
}

/// A template whose pods run forever.
pub(crate) fn check_long_running(template: &At<'_>, kind: &str, errs: &mut Errors) {
    let policy = template.at(&["spec", "restartPolicy"]);
    if policy.text() != "Always" {
        errs.unsupported(&policy, &["Always"]);
    }
    let deadline = template.at(&["spec", "activeDeadlineSeconds"]);
    if deadline.is_set() {
        errs.forbidden(&deadline, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Annotations with a meaning for pods.
pub(crate) fn check_annotations(annotations: &At<'_>, spec: &At<'_>, errs: &mut Errors) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").is_empty() {
        errs.invalid_text(&mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let tolerations = annotations.field(TOLERATIONS);
    if !tolerations.is_empty() {
        match serde_json::from_str::<Value>(tolerations.text()) {
            Ok(list) => {
                scheduling::check_tolerations(&At::new(tolerations.path.clone(), &list), errs);
            }
            Err(error) => errs.invalid(annotations, TOLERATIONS, error.to_string()),
        }
    }
    let cost = annotations.key(DELETION_COST);
    let plain = cost.text().parse::<i32>().is_ok()
        && !cost.text().starts_with('+')
        && (cost.text() == "0" || !cost.text().trim_start_matches('-').starts_with('0'));
    if cost.is_set() && !plain {
        errs.invalid_text(&cost, "must be a 32bit integer");
    }
    security::check_annotated_profiles(annotations, spec, errs);
}

fn check_spec(spec: &At<'_>, owner: Owner<'_>, errs: &mut Errors) {
    let is_pod = matches!(owner, Owner::Pod(_));
    let meta = match owner {
        Owner::Pod(meta) => meta,
        Owner::Template => &Value::Null,
    };
    let text = |field: &str| meta.get(field).and_then(Value::as_str).unwrap_or_default();
    if !spec.field("terminationGracePeriodSeconds").is_set() {
        errs.required(&spec.field("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::check(&spec.field("volumes"), text("name"), is_pod, errs);
    let mirrored = meta.pointer("/annotations").and_then(|a| a.get(MIRROR)).is_some();
    let claims = check_claims(&spec.field("resourceClaims"), mirrored, errs);
    let surroundings = Surroundings { spec: spec.clone(), volumes, claims };
    container::check_regular(&surroundings, errs);
    container::check_init(&surroundings, errs);
    container::check_ephemeral(&surroundings, errs);
    resources::check_pod_resources(spec, &surroundings.claims, errs);
    container::check_host_network_ports(spec, is_pod, errs);
    errs.required_one_of(&spec.field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    errs.required_one_of(&spec.field("dnsPolicy"), &DNS_POLICIES);
    meta::labels(&spec.field("nodeSelector"), errs);
    security::check_pod(spec, errs);
    scheduling::check_affinity(&spec.field("affinity"), errs);
    check_dns(spec, errs);
    scheduling::check_readiness_gates(&spec.field("readinessGates"), errs);
    scheduling::check_scheduling_gates(&spec.field("schedulingGates"), errs);
    scheduling::check_spread(&spec.field("topologySpreadConstraints"), errs);
    security::check_host_process(spec, errs);
    security::check_host_users(spec, errs);
    check_hostname_override(spec, errs);
    check_references(spec, errs);
    security::check_os(spec, errs);
    let group = spec.field("schedulingGroup");
    if group.is_set() {
        let name = group.field("podGroupName");
        if name.is_set() {
            errs.messages(&name, &names::dns1123_subdomain(name.text()));
        } else {
            errs.invalid_value(&name, "must specify one of: `podGroupName`");
        }
    }
    env::check_file_key_volumes(spec, errs);
}

fn check_claims<'a>(claims: &At<'a>, mirrored: bool, errs: &mut Errors) -> BTreeSet<&'a str> {
    if !mirrored {
        return volumes::check_resource_claims(claims, errs);
    }
    for _ in claims.items() {
        errs.push(FieldError::forbidden(
            &Path::new("[]"),
            "static pods do not support resource claims",
        ));
    }
    claims.items().map(|claim| claim.field("name").text()).filter(|n| !n.is_empty()).collect()
}

fn check_dns(spec: &At<'_>, errs: &mut Errors) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return errs.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return errs.required(
                &servers,
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    if servers.len() > 3 {
        errs.invalid_value(&servers, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        net::check_ip(&server, &[], errs);
    }
    let searches = config.field("searches");
    if searches.len() > 32 {
        errs.invalid_value(&searches, "must not have more than 32 search paths");
    }
    let characters = searches.texts().map(|search| search.len() + 1).sum::<usize>();
    if characters > 2049 {
        errs.invalid_value(
            &searches,
            "must not have more than 2048 characters (including spaces) in the search list",
        );
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        errs.messages_for(&search, name, &names::dns1123_subdomain_with_underscore(name));
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            errs.required(&option, "must not be empty");
        }
    }
}

fn check_hostname_override(spec: &At<'_>, errs: &mut Errors) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").is_true() {
        errs.forbidden(&name, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").is_true() {
        errs.forbidden(&name, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errs.too_long(&name, 64);
    }
    errs.messages(&name, &names::dns1123_subdomain(name.text()));
}

/// Names of other objects, and the plain fields between them.
fn check_references(spec: &At<'_>, errs: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = spec.field(field);
        if !name.is_empty() {
            errs.messages(&name, &names::dns1123_subdomain(name.text()));
        }
    }
    if spec.field("activeDeadlineSeconds").is_set() {
        errs.in_range(&spec.field("activeDeadlineSeconds"), 1, i64::from(i32::MAX));
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.field(field);
        if !name.is_empty() {
            errs.messages(&name, &names::dns1123_label(name.text()));
        }
    }
    scheduling::check_tolerations(&spec.field("tolerations"), errs);
    for alias in spec.field("hostAliases").items() {
        net::check_ip(&alias.field("ip"), &[], errs);
        for hostname in alias.field("hostnames").items() {
            errs.messages(&hostname, &names::dns1123_subdomain(hostname.text()));
        }
    }
    let priority = spec.field("priorityClassName");
    if !priority.is_empty() {
        errs.messages(&priority, &names::dns1123_subdomain(priority.text()));
    }
    let runtime = spec.field("runtimeClassName");
    if runtime.is_set() {
        errs.messages(&runtime, &names::dns1123_subdomain(runtime.text()));
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        errs.required_one_of(&preemption, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = spec.field("overhead");
    if overhead.is_set() {
        for (name, _) in overhead.entries() {
            let at = At::new(overhead.path.child("limits").key(name), overhead.field(name).value);
            resources::check_name(&at, name, NameKind::Container, errs);
            resources::check_amount(&at, name, errs);
        }
    }
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    match subresource {
        "status" => pod_status::check(new, old, errs),
        "ephemeralcontainers" => update_ephemeral(new, old, errs),
        "resize" => resize::check(new, old, errs),
        _ => update_main(new, old, errs),
    }
}

/// Metadata and spec as every change of a pod finds them.
pub(crate) fn check_changed(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    check_object(new, errs);
}

fn update_main(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    check_changed(new, old, errs);
    check_annotation_changes(new, old, errs);
    let (spec, before) = (new.field("spec"), old.field("spec"));
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != before.field(list).len() {
            return errs.forbidden(&containers, "pod updates may not add or remove containers");
        }
        for container in containers.items() {
            errs.required_text(&container.field("image"));
            container::check_image_of_pod(&container, errs);
        }
    }
    if !check_deadline_change(&spec, &before, errs) {
        return;
    }
    check_added_tolerations(&spec, &before, errs);
    check_removed_gates(&spec, &before, errs);
    if same(spec.value, before.value) {
        return;
    }
    let munged = with_allowed_changes_undone(&spec, &before, errs);
    if !same(&munged, before.value) {
        errs.forbidden(&spec, "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)");
    }
}

/// Returns whether the check may go on.
fn check_deadline_change(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) -> bool {
    let deadline = spec.field("activeDeadlineSeconds");
    let previous = before.field("activeDeadlineSeconds").number();
    let max = i64::from(i32::MAX);
    match (deadline.number(), previous) {
        (Some(seconds), _) if !(0..=max).contains(&seconds) => {
            errs.invalid_int(&deadline, inclusive_range(0, max));
            false
        }
        (Some(seconds), Some(previous)) if previous < seconds => {
            errs.invalid_int(&deadline, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errs.invalid_value(&deadline, detail);
            true
        }
        _ => true,
    }
}

fn check_added_tolerations(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let tolerations = spec.field("tolerations");
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    for old in before.field("tolerations").items() {
        let kept =
            tolerations.items().any(|new| without_seconds(new.value) == without_seconds(old.value));
        if !kept {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            return errs.forbidden(&tolerations, detail);
        }
    }
    scheduling::check_tolerations(&tolerations, errs);
}

fn check_removed_gates(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let known: BTreeSet<&str> =
        before.field("schedulingGates").items().map(|gate| gate.field("name").text()).collect();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        if !known.contains(name.text()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            errs.forbidden(&name, detail);
        }
    }
}

/// The new spec with everything set back that a pod may change.
fn with_allowed_changes_undone(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) -> Value {
    let mut munged = spec.value.clone();
    let gated = !before.field("schedulingGates").is_empty();
    if gated && !same(spec.field("nodeSelector").value, before.field("nodeSelector").value) {
        check_selector_additions(spec, before, errs);
        munged["nodeSelector"] = before.field("nodeSelector").value.clone();
    }
    let Some(map) = munged.as_object_mut() else { return munged };
    for list in ["containers", "initContainers"] {
        let olds = before.field(list);
        let news = map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (i, container) in news.enumerate() {
            if let Some(container) = container.as_object_mut() {
                let image = olds.index(i).field("image").value.clone();
                container.insert("image".to_owned(), image);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        map.insert(field.to_owned(), before.field(field).value.clone());
    }
    let grace = "terminationGracePeriodSeconds";
    if before.field(grace).int() < 0 && spec.field(grace).number() == Some(1) {
        map.insert(grace.to_owned(), before.field(grace).value.clone());
    }
    if gated {
        let affinity = before.field("affinity");
        let old_node = affinity.field("nodeAffinity");
        let new_node = spec.at(&["affinity", "nodeAffinity"]);
        if !same(old_node.value, new_node.value) {
            check_affinity_additions(&new_node, &old_node, errs);
            let mut merged = spec.field("affinity").value.clone();
            if !merged.is_object() {
                merged = Value::Object(karmada_apimachinery::Map::new());
            }
            merged["nodeAffinity"] = old_node.value.clone();
            map.insert("affinity".to_owned(), merged);
        }
    }
    munged
}

fn check_selector_additions(spec: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let selector = spec.field("nodeSelector");
    let kept = before
        .field("nodeSelector")
        .entries()
        .all(|(key, value)| selector.field(key).value == value.value);
    if !kept {
        errs.invalid_value(
            &selector,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
}

fn check_affinity_additions(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    const TERMS: [&str; 2] =
        ["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (new_terms, old_terms) = (new.at(&TERMS), old.at(&TERMS));
    if old_terms.is_empty() {
        return;
    }
    if new_terms.len() != old_terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errs.invalid_value(&new_terms, detail);
    }
    for (new, old) in new_terms.items().zip(old_terms.items()) {
        let lists = ["matchExpressions", "matchFields"];
        let was_empty = lists.iter().all(|list| old.field(list).is_empty());
        let is_empty = lists.iter().all(|list| new.field(list).is_empty());
        let extends = lists.iter().all(|list| {
            let (new, old) = (new.field(list), old.field(list));
            new.len() >= old.len()
                && new.items().zip(old.items()).all(|(new, old)| same(new.value, old.value))
        });
        if (was_empty && !is_empty) || !extends {
            errs.invalid_value(&new, "only additions are allowed (no mutations or deletions)");
        }
    }
}

/// Annotations that fix how a pod runs stay as they are.
pub(crate) fn check_annotation_changes(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let annotations = new.at(&["metadata", "annotations"]);
    let before = old.at(&["metadata", "annotations"]);
    for (key, value) in before.entries() {
        let at = annotations.key(key);
        if at.value == value.value {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(&at, "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(&at, "may not remove or update mirror pod annotation");
        }
    }
    for (key, at) in annotations.entries().filter(|(key, _)| !before.field(key).is_set()) {
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(&at, "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(&at, "may not add mirror pod annotation");
        }
    }
    check_annotations(&annotations, &new.field("spec"), errs);
}

fn update_ephemeral(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    check_changed(new, old, errs);
    check_annotation_changes(new, old, errs);
    if meta::annotation(old.value, MIRROR).is_some() {
        let detail = "static pods do not support ephemeral containers";
        errs.0 = vec![FieldError::forbidden(&Path::new("[]"), detail)];
        return;
    }
    let containers = new.at(&["spec", "ephemeralContainers"]);
    for before in old.at(&["spec", "ephemeralContainers"]).items() {
        let name = before.field("name").text();
        let quoted = karmada_apimachinery::field::quote(name);
        match containers.items().find(|container| container.field("name").text() == name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errs.forbidden(&containers, detail);
            }
            Some(container) if !same(container.value, before.value) => {
                let detail = format!("existing ephemeral containers {quoted} may not be changed\n");
                errs.forbidden(&containers, detail);
            }
            Some(_) => {}
        }
    }
}

pub(crate) fn template_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_template(&object.field("template"), errs);
}

pub(crate) fn template_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    check_template(&new.field("template"), errs);
}
