//! The step that holds pods to the standard their namespace asks for by its labels: [`karmada_kinds::security`]
//! with the namespace and its pods. What makes pods is let pass with a warning.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupKind, GroupResource};
use karmada_apimachinery::status::Status;
use karmada_kinds::security::{self, Level, Standard, Standards};

use super::Operation;
use super::request::Subject;

/// Parts of a pod that cannot change what the rules are about.
const HARMLESS: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Refuses a write that breaks the standard of its namespace, or leaves warnings and notes about it.
pub(crate) fn check(subject: &Subject<'_>) -> Result<(), Status> {
    let attributes = subject.attributes;
    if !matches!(attributes.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let (group, resource) = (attributes.gvk.group.as_str(), attributes.resource.as_str());
    let part = attributes.subresource.as_str();
    match (group, resource) {
        ("", "namespaces") if part.is_empty() => check_namespace(subject),
        ("", "pods") => {
            let concerns = !HARMLESS.contains(&part)
                && subject.old.is_none_or(|old| security::concerns(subject.object, old));
            if concerns { check_pod(subject, subject.object, true) } else { Ok(()) }
        }
        _ if part.is_empty() => match security::pod_of(group, resource, subject.object) {
            Some(template) => check_pod(subject, template, false),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_namespace(subject: &Subject<'_>) -> Result<(), Status> {
    let attributes = subject.attributes;
    let (new, errors) = Standards::of(subject.object);
    let before = subject.old.map(Standards::of);
    let known = before.as_ref().is_some_and(|(_, old)| *old == errors);
    if !errors.is_empty() && !known {
        let kind = GroupKind { group: String::new(), kind: "Namespace".into() };
        return Err(Status::invalid(&kind, &attributes.name, &errors));
    }
    let Some((old, _)) = before else { return Ok(()) };
    let laxer = new.enforce.minor == old.enforce.minor && new.enforce.level <= old.enforce.level;
    if new.enforce.level == Level::Privileged || laxer {
        return Ok(());
    }
    let objects = &subject.call.state.objects;
    let pods = objects.list(&GroupResource::new("", "pods"), Some(&attributes.name));
    let pods: Vec<&Value> = pods.iter().map(Arc::as_ref).collect();
    for warning in security::existing_pods(&attributes.name, new.enforce, &pods) {
        subject.call.warn(warning);
    }
    Ok(())
}

fn check_pod(subject: &Subject<'_>, pod: &Value, enforce: bool) -> Result<(), Status> {
    let (call, attributes) = (subject.call, subject.attributes);
    let namespaces = GroupResource::new("", "namespaces");
    let Some(namespace) = call.state.objects.get(&namespaces, "", &attributes.namespace) else {
        return Ok(());
    };
    let (standards, errors) = Standards::of(&namespace);
    if let Some(error) = errors.first() {
        call.annotate(&note("error"), format!("Failed to parse policy: {error}"));
    }
    let broken = |standard: Standard| {
        let found = security::violations(standard, pod);
        (!found.is_empty())
            .then(|| format!("PodSecurity \"{standard}\": {}", security::details(&found)))
    };
    if enforce {
        call.annotate(&note("enforce-policy"), standards.enforce.to_string());
    }
    if let Some(broken) = broken(standards.audit) {
        call.annotate(&note("audit-violations"), format!("would violate {broken}"));
    }
    if let Some(broken) = broken(standards.enforce).filter(|_| enforce) {
        let why = format!("violates {broken}");
        return Err(Status::forbidden(&attributes.group_resource(), &attributes.name, why));
    }
    if let Some(broken) = broken(standards.warn) {
        call.warn(format!("would violate {broken}"));
    }
    Ok(())
}

fn note(key: &str) -> String {
    format!("pod-security.kubernetes.io/{key}")
}
