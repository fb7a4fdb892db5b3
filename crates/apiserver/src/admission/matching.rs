//! Which requests a webhook or policy is about: rules, selectors, conditions.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_cel::{Budget, Program};

use super::Operation;
use super::request::{Subject, View};

/// Kinds that decide about admission themselves, and reviews: nobody is asked about them.
pub(crate) fn is_exempt(group: &str, resource: &str) -> bool {
    match group {
        "admissionregistration.k8s.io" => matches!(
            resource,
            "validatingwebhookconfigurations"
                | "mutatingwebhookconfigurations"
                | "validatingadmissionpolicies"
                | "validatingadmissionpolicybindings"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
        ),
        "authentication.k8s.io" | "authorization.k8s.io" => true,
        _ => false,
    }
}

/// The version of the object that some rule asks for; `equivalent` lets a rule find the request in any
/// version it is served in.
pub(crate) fn matched_version(
    subject: &Subject<'_>,
    rules: &[Value],
    equivalent: bool,
) -> Option<String> {
    let own = &subject.attributes.gvk.version;
    if rules.iter().any(|rule| rule_matches(subject, rule, own)) {
        return Some(own.clone());
    }
    if !equivalent {
        return None;
    }
    let gvk = &subject.attributes.gvk;
    let snapshot = subject.call.state.registry.snapshot();
    let versions = snapshot.versions(&gvk.group).iter().filter(|version| *version != own);
    versions
        .filter(|version| {
            let other = snapshot.find(&gvk.group, version, &subject.attributes.resource);
            other.is_some_and(|other| other.gvk.kind == gvk.kind)
        })
        .find(|version| rules.iter().any(|rule| rule_matches(subject, rule, version)))
        .cloned()
}

fn rule_matches(subject: &Subject<'_>, rule: &Value, version: &str) -> bool {
    let attributes = subject.attributes;
    let lists = |field: &str, wanted: &str| {
        let list = rule.list_at(&[field]);
        list.iter().any(|item| item == "*" || item == wanted)
    };
    let scope = match rule.str_at(&["scope"]).unwrap_or("*") {
        "Cluster" => !subject.call.served.namespaced,
        "Namespaced" => subject.call.served.namespaced,
        _ => true,
    };
    let names = rule.list_at(&["resourceNames"]);
    let named = names.is_empty() || names.iter().any(|name| *name == attributes.name.as_str());
    scope
        && named
        && lists("operations", attributes.operation.as_str())
        && lists("apiGroups", &attributes.gvk.group)
        && lists("apiVersions", version)
        && rule.list_at(&["resources"]).iter().filter_map(Value::as_str).any(|resource| {
            let (wanted, sub) = resource.split_once('/').unwrap_or((resource, ""));
            let fits = wanted == "*" || wanted == attributes.resource;
            fits && (sub == attributes.subresource || (sub == "*" && resource.contains('/')))
        })
}

/// Whether the labels of namespace and object are those asked for.
pub(crate) fn selected(subject: &Subject<'_>, of: &Value) -> bool {
    namespace_selected(subject, of.at(&["namespaceSelector"]))
        && object_selected(subject, of.at(&["objectSelector"]))
}

fn selector(value: Option<&Value>) -> Option<LabelSelector> {
    match value {
        None | Some(Value::Null) => Some(LabelSelector::everything()),
        value => LabelSelector::from_object(value).ok(),
    }
}

fn namespace_selected(subject: &Subject<'_>, value: Option<&Value>) -> bool {
    let Some(selector) = selector(value) else { return false };
    if selector.is_empty() {
        return true;
    }
    let attributes = subject.attributes;
    if attributes.gvk.group.is_empty() && attributes.resource == "namespaces" {
        // A namespace is judged by its own labels, after the change if there is an after.
        let own = if attributes.operation == Operation::Delete { subject.old } else { None };
        let own = own.unwrap_or(subject.object);
        return selector.matches_object(own);
    }
    if attributes.namespace.is_empty() {
        return true;
    }
    namespace(subject).is_some_and(|namespace| selector.matches_object(&namespace))
}

/// The namespace a request is about.
pub(crate) fn namespace(subject: &Subject<'_>) -> Option<std::sync::Arc<Value>> {
    let name = &subject.attributes.namespace;
    subject.call.state.objects.get(&GroupResource::new("", "namespaces"), "", name)
}

fn object_selected(subject: &Subject<'_>, value: Option<&Value>) -> bool {
    let Some(selector) = selector(value) else { return false };
    let fits = |object: &Value| object.is_object() && selector.matches_object(object);
    selector.is_empty() || fits(subject.object) || subject.old.is_some_and(fits)
}

/// What a policy's `matchConstraints` or a binding's `matchResources` says to a request: the version it
/// wants to see, or nothing if it does not match.
pub(crate) fn constrained(subject: &Subject<'_>, constraints: &Value) -> Option<String> {
    let own = || Some(subject.attributes.gvk.version.clone());
    if constraints.is_null() {
        return own();
    }
    if !selected(subject, constraints) {
        return None;
    }
    let equivalent = constraints.str_at(&["matchPolicy"]) != Some("Exact");
    let excluded = constraints.list_at(&["excludeResourceRules"]);
    if matched_version(subject, excluded, equivalent).is_some() {
        return None;
    }
    match constraints.list_at(&["resourceRules"]) {
        [] => own(),
        rules => matched_version(subject, rules, equivalent),
    }
}

/// What conditions evaluate to.
pub(crate) enum Conditions {
    Met,
    /// At least one says no.
    Unmet,
    /// None says no, but some could not be evaluated.
    Failed(String),
}

/// What all conditions of a webhook or policy may cost.
const CONDITIONS_BUDGET: u64 = 2_500_000;

/// Evaluates conditions; one that says no decides over errors of others.
pub(crate) fn conditions(
    programs: &[(String, Result<Program, String>)],
    bindings: &dyn karmada_cel::Bindings,
) -> Conditions {
    let mut failed = None;
    let mut budget = Budget::new(CONDITIONS_BUDGET);
    for (name, program) in programs {
        let verdict = match program {
            Ok(program) => program.run(bindings, &mut budget).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match verdict {
            Ok(karmada_cel::Value::Bool(true)) => {}
            Ok(_) => return Conditions::Unmet,
            Err(why) => {
                failed.get_or_insert(format!("match condition '{name}' resulted in error: {why}"));
            }
        }
    }
    failed.map_or(Conditions::Met, Conditions::Failed)
}

/// The values expressions of admission start from.
pub(crate) fn bindings(subject: &Subject<'_>, view: &View) -> BTreeMap<String, karmada_cel::Value> {
    let mut request = subject.review("", view);
    let take = |request: &mut Value, key: &str| {
        karmada_cel::Value::from_json(&request.remove_key(key).unwrap_or(Value::Null))
    };
    let object = take(&mut request, "object");
    let old = take(&mut request, "oldObject");
    request.remove_key("uid");
    for key in ["subResource", "requestSubResource", "name", "namespace"] {
        if request.get(key).is_none() {
            request[key] = "".into();
        }
    }
    BTreeMap::from([
        ("object".to_owned(), object),
        ("oldObject".to_owned(), old),
        ("request".to_owned(), karmada_cel::Value::from_json(&request)),
    ])
}

trait RemoveKey {
    fn remove_key(&mut self, key: &str) -> Option<Value>;
}

impl RemoveKey for Value {
    fn remove_key(&mut self, key: &str) -> Option<Value> {
        self.as_object_mut()?.remove(key)
    }
}
