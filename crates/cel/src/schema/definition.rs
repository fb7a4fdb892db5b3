//! Rules when their definition is written: they must compile, give the right type and be affordable.

use karmada_apimachinery::field::{FieldError, Path, Shown, go_json};
use karmada_apimachinery::json;
use karmada_apimachinery::schema::{Additional, Schema, Type as Kind};

use super::{Place, Text, declare, variables};
use crate::compile::{Program, compile};
use crate::types::Type;

/// What one rule and all rules of a schema may be estimated to cost.
const PER_RULE: u64 = 10_000_000;
const PER_SCHEMA: u64 = 100_000_000;

pub(super) fn check(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut walk = Walk { total: 0, shares: Vec::new(), errors: Vec::new() };
    let spot = Spot { place: Place::Root, count: Some(1), lost: None };
    walk.visit(schema, path, &spot);
    if walk.total > PER_SCHEMA {
        for (share, place) in std::mem::take(&mut walk.shares) {
            if share > PER_SCHEMA / 100 {
                let why = "contributed to estimated rule cost total exceeding cost limit for \
                           entire OpenAPIv3 schema";
                walk.errors.push(FieldError::forbidden(&place, why));
            }
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        walk.errors.push(FieldError::forbidden(path, too_dear(what, walk.total, PER_SCHEMA)));
    }
    walk.errors
}

/// Where a node stands.
#[derive(Clone)]
struct Spot {
    place: Place,
    /// How many values one object can have here; nothing if only the request bounds them.
    count: Option<u64>,
    /// The list from which on earlier values cannot be found again.
    lost: Option<Path>,
}

struct Walk {
    total: u64,
    /// What each rule adds to the total.
    shares: Vec<(u64, Path)>,
    errors: Vec<FieldError>,
}

impl Walk {
    fn visit(&mut self, schema: &Schema, path: &Path, spot: &Spot) {
        let own = declare::type_of(schema, spot.place);
        for (index, text) in Text::all(schema).iter().enumerate() {
            let place = path.child("x-kubernetes-validations").index(index);
            self.check_rule((schema, spot), &own, text, &place);
        }
        let limits = schema.limits();
        let below = |most: Option<u64>, lost: Option<Path>| Spot {
            place: Place::Inside,
            count: spot.count.and_then(|count| Some(count.saturating_mul(most?))),
            lost,
        };
        for (name, property) in &schema.properties {
            let place = path.child("properties").key(name);
            self.visit(property, &place, &below(Some(1), spot.lost.clone()));
        }
        if let Additional::Schema(values) = &schema.additional {
            let place = path.child("additionalProperties");
            self.visit(values, &place, &below(limits.max_properties, spot.lost.clone()));
        }
        if let Some(items) = schema.items.as_deref() {
            let found = schema.extensions.list_type.as_deref() == Some("map");
            let lost = spot.lost.clone().or_else(|| (!found).then(|| path.clone()));
            self.visit(items, &path.child("items"), &below(limits.max_items, lost));
        }
    }

    fn check_rule(
        &mut self,
        (schema, spot): (&Schema, &Spot),
        own: &Type,
        text: &Text,
        place: &Path,
    ) {
        let variables = variables(own, text.optional_old);
        let at = place.child("rule");
        if schema.kind == Kind::Any && !schema.is_int_or_string() {
            return;
        }
        match compile(&text.rule, &variables) {
            Err(why) => {
                let detail = format!("compilation failed: {why}");
                self.errors.push(FieldError::invalid(&at, shown(text), detail));
            }
            Ok(program) if !matches!(program.result, Type::Bool | Type::Dyn) => {
                let detail = "cel expression must evaluate to a bool";
                self.errors.push(FieldError::invalid(&at, shown(text), detail));
            }
            Ok(program) => {
                self.charge(&program, "estimated rule cost", (schema, spot), &at);
                if let Some(lost) = &spot.lost
                    && program.mentions("oldSelf")
                {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {}",
                        lost.as_str()
                    );
                    self.errors.push(FieldError::invalid(&at, text.rule.as_str(), detail));
                }
            }
        }
        if text.message_expression.is_empty() {
            return;
        }
        let at = place.child("messageExpression");
        match compile(&text.message_expression, &variables) {
            Err(why) => {
                let detail = format!("messageExpression compilation failed: {why}");
                self.errors.push(FieldError::invalid(&at, shown(text), detail));
            }
            Ok(program) if !matches!(program.result, Type::String(_) | Type::Dyn) => {
                let detail = "messageExpression must evaluate to a string";
                self.errors.push(FieldError::invalid(&at, shown(text), detail));
            }
            Ok(program) => {
                let what = "estimated messageExpression cost";
                self.charge(&program, what, (schema, spot), &at);
            }
        }
    }

    fn charge(
        &mut self,
        program: &Program,
        what: &str,
        (schema, spot): (&Schema, &Spot),
        at: &Path,
    ) {
        let times = spot.count.unwrap_or_else(|| declare::cardinality(schema, spot.place));
        let cost = program.max_cost.saturating_mul(times);
        if cost > PER_RULE {
            self.errors.push(FieldError::forbidden(at, too_dear(what, cost, PER_RULE)));
        }
        self.total = self.total.saturating_add(cost);
        self.shares.push((cost, at.clone()));
    }
}

/// A rule as errors print it.
fn shown(text: &Text) -> Shown {
    let reason = if text.reason.is_empty() { json!(null) } else { json!(text.reason) };
    let optional = if text.optional_old { json!(true) } else { json!(null) };
    // Compat: the fields stand in the order of Kubernetes' own structure.
    let fields = [
        ("Rule", json!(text.rule)),
        ("Message", json!(text.message)),
        ("MessageExpression", json!(text.message_expression)),
        ("Reason", reason),
        ("FieldPath", json!(text.field_path)),
        ("OptionalOldSelf", optional),
    ];
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", go_json(value))).collect();
    Shown::Verbatim(format!("{{{}}}", fields.join(",")))
}

fn too_dear(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
