//! Policies with their expressions compiled, kept until the policy changes.

use std::collections::HashMap;
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_cel::{Program, Type};
use karmada_kinds::expressions::{Available, Gives, compile_as, declarations};
use parking_lot::Mutex;

type Compilation = Result<Program, String>;

/// One policy of either kind.
pub(crate) struct Compiled {
    pub(crate) name: String,
    pub(crate) spec: Value,
    pub(crate) conditions: Vec<(String, Compilation)>,
    pub(crate) variables: Vec<(String, Compilation)>,
    pub(crate) validations: Vec<Validation>,
    pub(crate) annotations: Vec<(String, Compilation)>,
    pub(crate) mutations: Vec<Mutation>,
}

pub(crate) struct Validation {
    pub(crate) text: String,
    pub(crate) program: Compilation,
    pub(crate) message: String,
    pub(crate) message_program: Option<Program>,
    pub(crate) reason: String,
}

pub(crate) struct Mutation {
    pub(crate) text: String,
    pub(crate) program: Compilation,
    pub(crate) json_patch: bool,
}

impl Compiled {
    pub(crate) fn ignores_failures(&self) -> bool {
        self.spec.str_at(&["failurePolicy"]) == Some("Ignore")
    }

    fn new(policy: &Value) -> Self {
        let spec = policy.at(&["spec"]).cloned().unwrap_or(Value::Null);
        let params = spec.at(&["paramKind"]).is_some_and(Value::is_object);
        let available = Available { params, namespace: true };
        let text = |of: &Value, key: &str| of.str_at(&[key]).unwrap_or_default().to_owned();
        let known = declarations(available, None);
        let conditions = spec.list_at(&["matchConditions"]).iter().map(|condition| {
            let program = compile_as(&text(condition, "expression"), &known, Gives::Bool);
            (text(condition, "name"), program)
        });
        let conditions = conditions.collect();
        let mut variables: Vec<(String, Compilation)> = Vec::new();
        let mut types: Vec<(String, Type)> = Vec::new();
        for variable in spec.list_at(&["variables"]) {
            let known = declarations(available, Some(&types));
            let program = compile_as(&text(variable, "expression"), &known, Gives::Anything);
            let result = program.as_ref().map_or(Type::Dyn, |program| program.result.clone());
            types.push((text(variable, "name"), result));
            variables.push((text(variable, "name"), program));
        }
        let known = declarations(available, Some(&types));
        let validations = spec.list_at(&["validations"]).iter().map(|validation| {
            let expression = text(validation, "expression");
            let message = text(validation, "messageExpression");
            Validation {
                program: compile_as(&expression, &known, Gives::Bool),
                text: expression.trim().to_owned(),
                message: text(validation, "message").trim().to_owned(),
                message_program: compile_as(&message, &known, Gives::Text).ok(),
                reason: text(validation, "reason"),
            }
        });
        let validations = validations.collect();
        let annotations = spec.list_at(&["auditAnnotations"]).iter().map(|annotation| {
            let expression = text(annotation, "valueExpression");
            (text(annotation, "key"), compile_as(&expression, &known, Gives::TextOrNull))
        });
        let annotations = annotations.collect();
        let mutations = spec.list_at(&["mutations"]).iter().map(|mutation| {
            let json_patch = mutation.str_at(&["patchType"]) == Some("JSONPatch");
            let place = if json_patch { "jsonPatch" } else { "applyConfiguration" };
            let expression = mutation.str_at(&[place, "expression"]).unwrap_or_default();
            let program = compile_as(expression, &known, Gives::Anything);
            Mutation { text: expression.trim().to_owned(), program, json_patch }
        });
        let mutations = mutations.collect();
        let name = policy.name().to_owned();
        Self { name, conditions, variables, validations, annotations, mutations, spec }
    }
}

/// The compiled policies of a server.
#[derive(Default)]
pub(crate) struct Policies(Mutex<HashMap<String, (String, Arc<Compiled>)>>);

impl Policies {
    /// The compiled form of a policy as it is stored now.
    pub(crate) fn of(&self, policy: &Value) -> Arc<Compiled> {
        let version = policy.resource_version();
        let mut known = self.0.lock();
        if let Some((own, compiled)) = known.get(policy.uid())
            && own == version
        {
            return compiled.clone();
        }
        let compiled = Arc::new(Compiled::new(policy));
        known.insert(policy.uid().to_owned(), (version.to_owned(), compiled.clone()));
        compiled
    }
}
