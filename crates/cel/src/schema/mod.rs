//! Rules of custom resources (`x-kubernetes-validations`): their types and values come from the schema they
//! stand in. [`SchemaRules`] checks them when a definition is written, and objects against them.

mod convert;
mod declare;
mod definition;
mod evaluate;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use karmada_apimachinery::Value as Json;
use karmada_apimachinery::crd::Rules;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::schema::{Additional, Schema};

use crate::compile::{Declarations, Program, compile};
use crate::types::Type;

pub use convert::escape;

/// The rules of one schema, compiled when they are first needed.
#[derive(Default)]
pub struct SchemaRules {
    compiled: OnceLock<Node>,
}

impl Rules for SchemaRules {
    fn check(&self, schema: &Schema, object: &Json, old: Option<&Json>) -> Vec<FieldError> {
        let node = self.compiled.get_or_init(|| Node::compile(schema, Place::Root));
        evaluate::check(node, schema, object, old)
    }

    fn check_definition(&self, schema: &Schema, path: &Path) -> Vec<FieldError> {
        definition::check(schema, path)
    }
}

impl SchemaRules {
    /// What rules say about places that an update left as they were; they are accepted all the same.
    pub fn forgiven(&self, schema: &Schema, object: &Json, old: &Json) -> Vec<FieldError> {
        let node = self.compiled.get_or_init(|| Node::compile(schema, Place::Root));
        if node.is_empty() { Vec::new() } else { evaluate::forgiven(node, schema, object, old) }
    }
}

/// Whether a schema is that of a whole object, which has metadata beside what it declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Inside,
}

/// One rule as written.
#[derive(Debug, Clone, Default)]
struct Text {
    rule: String,
    message: String,
    message_expression: String,
    reason: String,
    field_path: String,
    optional_old: bool,
}

impl Text {
    fn all(schema: &Schema) -> Vec<Self> {
        let rules = schema.extensions.rules.as_ref().and_then(|rules| rules.as_array());
        rules.into_iter().flatten().map(Self::read).collect()
    }

    fn read(rule: &Json) -> Self {
        let text = |key: &str| rule.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Self {
            rule: text("rule").trim().to_owned(),
            message: text("message").trim().to_owned(),
            message_expression: text("messageExpression").trim().to_owned(),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old: rule.get("optionalOldSelf").and_then(Json::as_bool).unwrap_or_default(),
        }
    }
}

/// One rule, ready to run.
struct Rule {
    text: Text,
    program: Result<Program, String>,
    message: Option<Program>,
    uses_old: bool,
}

/// The rules at one place of a schema and below it.
#[derive(Default)]
struct Node {
    rules: Vec<Rule>,
    properties: BTreeMap<Box<str>, Node>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
}

impl Node {
    fn compile(schema: &Schema, place: Place) -> Self {
        let own = declare::type_of(schema, place);
        let rules = Text::all(schema).into_iter().map(|text| compile_rule(&own, text)).collect();
        let inner = |schema: &Schema| Self::compile(schema, Place::Inside);
        let properties = schema
            .properties
            .iter()
            .map(|(name, property)| (name.clone(), inner(property)))
            .filter(|(_, node)| !node.is_empty())
            .collect();
        let values = match &schema.additional {
            Additional::Schema(values) => Some(inner(values)),
            _ => None,
        };
        let kept = |node: Option<Self>| node.filter(|node| !node.is_empty()).map(Box::new);
        Self {
            rules,
            properties,
            items: kept(schema.items.as_deref().map(inner)),
            values: kept(values),
        }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.properties.is_empty()
            && self.items.is_none()
            && self.values.is_none()
    }
}

/// The variables of a rule.
fn variables(own: &Type, optional_old: bool) -> Declarations {
    let old = if optional_old { Type::Optional(own.clone().into()) } else { own.clone() };
    [("self".to_owned(), own.clone()), ("oldSelf".to_owned(), old)].into()
}

fn compile_rule(own: &Type, text: Text) -> Rule {
    let variables = variables(own, text.optional_old);
    let program = compile(&text.rule, &variables);
    let message = Some(&text.message_expression)
        .filter(|expression| !expression.is_empty())
        .and_then(|expression| compile(expression, &variables).ok());
    let uses_old = program.as_ref().is_ok_and(|program| program.mentions("oldSelf"));
    Rule { text, program, message, uses_old }
}
