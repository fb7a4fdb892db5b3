//! Admission by policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.

mod compiled;
mod merge;
mod mutating;
mod validating;

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupResource, GroupVersion};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_cel::{Bindings, Budget, Error, Value as Cel};

use super::matching::{self, Conditions};
use super::request::{Subject, View};
use crate::call::Call;

pub(crate) use compiled::{Compiled, Policies};
pub(crate) use mutating::{Round, may_mutate, mutate};
pub(crate) use validating::validate;

const GROUP: &str = "admissionregistration.k8s.io";

/// What one policy may cost for one request.
const BUDGET: u64 = 10_000_000;

/// One policy together with a binding that brings it into force.
struct InForce {
    policy: Arc<Compiled>,
    binding: Arc<Value>,
}

/// All pairs of policies and bindings.
fn in_force(call: &Call, policies: &str, bindings: &str) -> Vec<InForce> {
    let objects = &call.state.objects;
    let bindings = objects.list(&GroupResource::new(GROUP, bindings), None);
    let mut found = Vec::new();
    if bindings.is_empty() {
        return found;
    }
    for policy in objects.list(&GroupResource::new(GROUP, policies), None) {
        let compiled = call.state.policies.of(&policy);
        for binding in &bindings {
            if binding.str_at(&["spec", "policyName"]) == Some(policy.name()) {
                found.push(InForce { policy: compiled.clone(), binding: binding.clone() });
            }
        }
    }
    found
}

/// What a policy has to say about a request.
enum Applies {
    No,
    /// To these parameters, or to none.
    To(String, Vec<Option<Arc<Value>>>),
    Failed(String),
}

fn applies(pair: &InForce, subject: &Subject<'_>) -> Applies {
    let spec = &pair.policy.spec;
    let null = Value::Null;
    let resources = pair.binding.at(&["spec", "matchResources"]).unwrap_or(&null);
    let constraints = spec.at(&["matchConstraints"]).unwrap_or(&null);
    if matching::constrained(subject, resources).is_none() {
        return Applies::No;
    }
    let Some(version) = matching::constrained(subject, constraints) else { return Applies::No };
    match parameters(pair, subject) {
        Ok(parameters) => Applies::To(version, parameters),
        Err(why) => Applies::Failed(why),
    }
}

/// The parameter objects a binding refers to; one absent entry where the policy takes none.
fn parameters(pair: &InForce, subject: &Subject<'_>) -> Result<Vec<Option<Arc<Value>>>, String> {
    let (Some(kind), Some(reference)) = (
        pair.policy.spec.at(&["paramKind"]).filter(|kind| kind.is_object()),
        pair.binding.at(&["spec", "paramRef"]).filter(|reference| reference.is_object()),
    ) else {
        return Ok(vec![None]);
    };
    let snapshot = subject.call.state.registry.snapshot();
    let version = GroupVersion::parse(kind.str_at(&["apiVersion"]).unwrap_or_default());
    let gvk = version.map(|gv| gv.with_kind(kind.str_at(&["kind"]).unwrap_or_default()));
    let served = gvk.and_then(|gvk| snapshot.find_kind(&gvk).cloned());
    let served = served.ok_or("failed to find resource referenced by paramKind")?;
    let resource = served.group_resource();
    let own = reference.str_at(&["namespace"]).unwrap_or_default();
    let namespace = match (served.namespaced, own) {
        (false, _) => "",
        (true, "") => &subject.attributes.namespace,
        (true, own) => own,
    };
    let objects = &subject.call.state.objects;
    let name = reference.str_at(&["name"]).unwrap_or_default();
    let found: Vec<Arc<Value>> = if name.is_empty() {
        let selector = LabelSelector::from_object(reference.at(&["selector"]))
            .map_err(|error| error.to_string())?;
        let scope = served.namespaced.then_some(namespace);
        let all = objects.list(&resource, scope);
        all.into_iter().filter(|object| selector.matches_object(object)).collect()
    } else {
        objects.get(&resource, namespace, name).into_iter().collect()
    };
    if !found.is_empty() {
        return Ok(found.into_iter().map(Some).collect());
    }
    match reference.str_at(&["parameterNotFoundAction"]) {
        Some("Deny") => {
            Err("no params found for policy binding with `Deny` parameterNotFoundAction".into())
        }
        _ => Ok(Vec::new()),
    }
}

/// The variables of a policy: those of the request, and its own, computed when they are used.
struct Variables<'a> {
    given: BTreeMap<String, Cel>,
    policy: &'a Compiled,
}

impl<'a> Variables<'a> {
    fn new(
        subject: &Subject<'_>,
        view: &View,
        policy: &'a Compiled,
        parameter: Option<&Value>,
    ) -> Self {
        let mut given = matching::bindings(subject, view);
        let namespace = matching::namespace(subject);
        let namespace = namespace.map_or(Cel::Null, |namespace| Cel::from_json(&namespace));
        given.insert("namespaceObject".into(), namespace);
        given.insert("params".into(), parameter.map_or(Cel::Null, Cel::from_json));
        Self { given, policy }
    }
}

impl Bindings for Variables<'_> {
    fn get(&self, name: &str, budget: &mut Budget) -> Option<Result<Cel, Error>> {
        if name != "variables" {
            return self.given.get(name).cloned().map(Ok);
        }
        // A variable may use those before it, and one that fails is simply not there.
        let mut so_far = BTreeMap::new();
        for (name, program) in &self.policy.variables {
            let Ok(program) = program else { continue };
            let scope = Scope { outer: &self.given, variables: &so_far };
            match program.run(&scope, budget) {
                Ok(value) => {
                    so_far.insert(karmada_cel::Key::String(name.as_str().into()), value);
                }
                Err(Error::TooExpensive) => return Some(Err(Error::TooExpensive)),
                Err(Error::Failed(_)) => {}
            }
        }
        Some(Ok(Cel::map(so_far)))
    }
}

/// The variables a variable itself may use.
struct Scope<'a> {
    outer: &'a BTreeMap<String, Cel>,
    variables: &'a BTreeMap<karmada_cel::Key, Cel>,
}

impl Bindings for Scope<'_> {
    fn get(&self, name: &str, _: &mut Budget) -> Option<Result<Cel, Error>> {
        if name == "variables" {
            return Some(Ok(Cel::map(self.variables.clone())));
        }
        self.outer.get(name).cloned().map(Ok)
    }
}

/// Whether a policy's conditions let it speak; an error is what to say where they cannot be evaluated.
fn wanted(policy: &Compiled, variables: &Variables<'_>) -> Result<bool, String> {
    match matching::conditions(&policy.conditions, variables) {
        Conditions::Met => Ok(true),
        Conditions::Unmet => Ok(false),
        Conditions::Failed(why) => Err(why),
    }
}
