//! Types and worst-case costs of an expression, found without running it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, Fold, FoldKind, Node};
use crate::signatures;
use crate::source::Problem;
use crate::types::Type;
use crate::value::Value;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// What is known of a part: its type, and what evaluating it costs at most.
struct Known {
    of: Type,
    cost: u64,
}

pub(crate) struct Checked {
    pub(crate) of: Type,
    pub(crate) cost: u64,
    pub(crate) problems: Vec<Problem>,
}

/// Checks an expression with the given variables.
pub(crate) fn check(expr: &Expr, variables: &BTreeMap<String, Type>) -> Checked {
    let mut checker = Checker { globals: variables, locals: Vec::new(), problems: Vec::new() };
    let known = checker.visit(expr);
    Checked { of: known.of, cost: known.cost, problems: checker.problems }
}

struct Checker<'a> {
    globals: &'a BTreeMap<String, Type>,
    locals: Vec<(String, Type)>,
    problems: Vec<Problem>,
}

/// The name fields get that are called as a word of the language.
pub(crate) fn reserved(field: &str) -> String {
    format!("__{field}__")
}

/// A tenth of a size, rounded up: what looking at every character costs.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

impl Checker<'_> {
    fn complain(&mut self, at: usize, text: String) -> Known {
        self.problems.push(Problem { at, text });
        Known { of: Type::Dyn, cost: 0 }
    }

    fn find(&self, name: &str) -> Option<Type> {
        let local = self.locals.iter().rev().find(|(own, _)| own == name).map(|(_, of)| of);
        local.or_else(|| self.globals.get(name)).cloned()
    }

    fn with<T>(&mut self, names: &[(&str, Type)], visit: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(names.iter().map(|(name, of)| ((*name).to_owned(), of.clone())));
        let result = visit(self);
        self.locals.truncate(before);
        result
    }

    fn visit(&mut self, expr: &Expr) -> Known {
        let at = expr.at;
        match &expr.node {
            Node::Broken => Known { of: Type::Dyn, cost: 0 },
            Node::Literal(value) => Known { of: type_of(value), cost: 0 },
            Node::Ident(name) => match self.find(name) {
                Some(of) => Known { of, cost: 1 },
                None if is_type_name(name) => Known { of: Type::Kind, cost: 1 },
                None => {
                    self.complain(at, format!("undeclared reference to '{name}' (in container '')"))
                }
            },
            Node::Select { of, field, optional } => self.select(at, of, field, *optional),
            Node::Has { of, field } => {
                let known = self.visit(of);
                let cost = known.cost;
                if let Some(text) = self.field_of(&known.of, field).err() {
                    self.complain(at, text);
                }
                Known { of: Type::Bool, cost }
            }
            Node::Index { of, index, optional } => self.index(at, of, index, *optional),
            Node::Call { target, name, args } => self.call(at, target.as_deref(), name, args),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => {
                let mut cost = STRUCT_COST;
                for (_, value, _) in fields {
                    cost = cost.saturating_add(self.visit(value).cost);
                }
                let known = name == "JSONPatch" || name == "Object" || name.starts_with("Object.");
                if !known {
                    let text = format!("undeclared reference to '{name}' (in container '')");
                    return self.complain(at, text);
                }
                Known { of: Type::Dyn, cost }
            }
            Node::And(a, b) => self.logic(at, "_&&_", a, b),
            Node::Or(a, b) => self.logic(at, "_||_", a, b),
            Node::Cond(condition, yes, no) => self.conditional(at, condition, yes, no),
            Node::Fold(fold) => self.fold(at, fold),
            Node::Bind { name, value, body } => {
                let value = self.visit(value);
                let body = self.with(&[(name, value.of)], |checker| checker.visit(body));
                let cost = value.cost.saturating_add(body.cost).saturating_add(LIST_COST);
                Known { of: body.of, cost }
            }
            Node::OptMap { of, name, body, flat } => {
                let of = self.visit(of);
                let inner = match &of.of {
                    Type::Optional(inner) => (**inner).clone(),
                    _ => Type::Dyn,
                };
                let body = self.with(&[(name, inner)], |checker| checker.visit(body));
                let result = if *flat { body.of } else { Type::Optional(Arc::new(body.of)) };
                Known { of: result, cost: of.cost.saturating_add(body.cost).saturating_add(2) }
            }
        }
    }

    fn select(&mut self, at: usize, of: &Expr, field: &str, optional: bool) -> Known {
        // A dotted name may be one declared as a whole.
        if let Some(whole) = whole_name(of, field)
            && let Some(found) = self.find(&whole)
        {
            return Known { of: found, cost: 1 };
        }
        let known = self.visit(of);
        // Fields of what is known only when it runs are not counted.
        let own = u64::from(matches!(known.of, Type::Map(..) | Type::Object(_) | Type::Param(_)));
        let cost = known.cost.saturating_add(own);
        let (inner, through) = match &known.of {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        match self.field_of(&inner, field) {
            Ok(found) if (optional || through) && !matches!(found, Type::Optional(_)) => {
                Known { of: Type::Optional(Arc::new(found)), cost }
            }
            Ok(found) => Known { of: found, cost },
            Err(text) => self.complain(at, text),
        }
    }

    fn field_of(&self, of: &Type, field: &str) -> Result<Type, String> {
        match of {
            Type::Dyn => Ok(Type::Dyn),
            Type::Map(_, value, _) => Ok((**value).clone()),
            Type::Optional(inner) => self.field_of(inner, field),
            Type::Object(object) => match object.fields.get(field).or_else(|| {
                // A word of the language may be used where only a field can be meant.
                crate::is_reserved(field).then(|| object.fields.get(&reserved(field)))?
            }) {
                Some(found) => Ok(found.clone()),
                None => Err(format!("undefined field '{field}'")),
            },
            other => Err(format!("type '{other}' does not support field selection")),
        }
    }

    fn index(&mut self, at: usize, of: &Expr, index: &Expr, optional: bool) -> Known {
        let is_made = matches!(&of.node, Node::Call { name, .. } if name != "_+_");
        let of = self.visit(of);
        let index = self.visit(index);
        let cost = of.cost.saturating_add(index.cost).saturating_add(1);
        let (inner, through) = match &of.of {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let fits = |wanted: &Type| wanted.accepts(&index.of, &mut BTreeMap::new());
        let found = match &inner {
            Type::Dyn => Type::Dyn,
            Type::List(element, _) if fits(&Type::Int) => (**element).clone(),
            Type::Map(key, value, _) if fits(key) => (**value).clone(),
            _ => {
                let name = if optional { "_[?_]" } else { "_[_]" };
                let text = no_overload(name, &[of.of, index.of]);
                return self.complain(at, text);
            }
        };
        let found = match self.root_size().filter(|_| is_made) {
            Some(size) if matches!(found, Type::String(_)) => found.sized(size),
            _ => found,
        };
        let of = if optional || through { Type::Optional(Arc::new(found)) } else { found };
        Known { of, cost }
    }

    /// Compat: a part of what a function made is taken for as large as `self` is, since no path leads to it.
    fn root_size(&self) -> Option<u64> {
        let root = self.globals.get("self")?;
        let has_size =
            matches!(root, Type::String(_) | Type::Bytes(_) | Type::List(..) | Type::Map(..));
        Some(if has_size { root.size() } else { 0 })
    }

    fn list(&mut self, items: &[(Expr, bool)]) -> Known {
        let (mut of, mut cost) = (None::<Type>, LIST_COST);
        for (item, optional) in items {
            let known = self.visit(item);
            cost = cost.saturating_add(known.cost);
            let element = match known.of {
                Type::Optional(inner) if *optional => (*inner).clone(),
                other => other,
            };
            of = Some(match of {
                None => element,
                Some(before) => before.joined(&element).unwrap_or(Type::Dyn),
            });
        }
        let of = Arc::new(of.unwrap_or(Type::Dyn));
        Known { of: Type::List(of, items.len() as u64), cost }
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Known {
        let (mut of, mut cost) = (None::<(Type, Type)>, MAP_COST);
        for (key, value, optional) in entries {
            let (key, value) = (self.visit(key), self.visit(value));
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            let value = match value.of {
                Type::Optional(inner) if *optional => (*inner).clone(),
                other => other,
            };
            of = Some(match of {
                None => (key.of, value),
                Some((k, v)) => {
                    (k.joined(&key.of).unwrap_or(Type::Dyn), v.joined(&value).unwrap_or(Type::Dyn))
                }
            });
        }
        let (key, value) = of.unwrap_or((Type::Dyn, Type::Dyn));
        Known { of: Type::Map(Arc::new(key), Arc::new(value), entries.len() as u64), cost }
    }

    fn logic(&mut self, at: usize, name: &str, a: &Expr, b: &Expr) -> Known {
        let (a, b) = (self.visit(a), self.visit(b));
        let cost = a.cost.saturating_add(b.cost);
        let is_bool = |of: &Type| matches!(of, Type::Bool | Type::Dyn);
        if !is_bool(&a.of) || !is_bool(&b.of) {
            let text = no_overload(name, &[a.of, b.of]);
            return self.complain(at, text);
        }
        Known { of: Type::Bool, cost }
    }

    fn conditional(&mut self, at: usize, condition: &Expr, yes: &Expr, no: &Expr) -> Known {
        let (condition, yes, no) = (self.visit(condition), self.visit(yes), self.visit(no));
        let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
        let joined = yes.of.joined(&no.of);
        match joined {
            Some(of) if matches!(condition.of, Type::Bool | Type::Dyn) => Known { of, cost },
            _ => {
                let text = no_overload("_?_:_", &[condition.of, yes.of, no.of]);
                self.complain(at, text)
            }
        }
    }

    fn fold(&mut self, at: usize, fold: &Fold) -> Known {
        let range = self.visit(&fold.range);
        let size = range.of.size();
        let two = fold.second.is_some();
        let (first, second) = match &range.of {
            Type::List(element, _) if two => (Type::Int, (**element).clone()),
            Type::List(element, _) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value, _) => ((**key).clone(), (**value).clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension \
                     (must be list, map, or dynamic)"
                );
                return self.complain(fold.range.at, text);
            }
        };
        let mut names = vec![(fold.first.as_str(), first.clone())];
        names.extend(fold.second.as_deref().map(|name| (name, second.clone())));
        let (filter, body) = self.with(&names, |checker| {
            let filter = fold.filter.as_ref().map(|filter| checker.visit(filter));
            (filter, checker.visit(&fold.body))
        });
        let is_bool = |of: &Type| matches!(of, Type::Bool | Type::Dyn);
        if let Some(filter) = filter.as_ref().filter(|filter| !is_bool(&filter.of)) {
            let text = no_overload("_?_:_", &[filter.of.clone(), Type::Dyn, Type::Dyn]);
            return self.complain(at, text);
        }
        let yields_bool = matches!(
            fold.kind,
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter
        );
        if yields_bool && !is_bool(&body.of) {
            let name = match fold.kind {
                FoldKind::All => "_&&_",
                FoldKind::Exists => "_||_",
                _ => "_?_:_",
            };
            let text = no_overload(name, &[Type::Bool, body.of]);
            return self.complain(at, text);
        }
        let step = body.cost.saturating_add(filter.map_or(0, |f| f.cost));
        // What the loop does around the body, and before and after it: results are looked at, lists made.
        let (per_item, once) = match fold.kind {
            FoldKind::All => (3, 1),
            FoldKind::Exists => (4, 1),
            FoldKind::ExistsOne => (2, 2),
            FoldKind::Filter => (13, LIST_COST + 1),
            FoldKind::Map | FoldKind::TransformList => (12, LIST_COST + 1),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => (14, MAP_COST + 1),
        };
        let loops = size.saturating_mul(step.saturating_add(per_item));
        let cost = range.cost.saturating_add(loops).saturating_add(once);
        let of = match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Map | FoldKind::TransformList => Type::List(Arc::new(body.of), size),
            FoldKind::Filter => Type::List(Arc::new(first), size),
            FoldKind::TransformMap => Type::Map(Arc::new(first), Arc::new(body.of), size),
            FoldKind::TransformMapEntry => match body.of {
                Type::Map(key, value, _) => Type::Map(key, value, size),
                _ => Type::Dyn,
            },
        };
        Known { of, cost }
    }

    fn call(&mut self, at: usize, target: Option<&Expr>, name: &str, args: &[Expr]) -> Known {
        // `sets.contains(…)` reads like a method but is a function with a dotted name.
        let dotted = target.and_then(|target| match &target.node {
            Node::Ident(space) if self.find(space).is_none() => Some(format!("{space}.{name}")),
            _ => None,
        });
        let dotted = dotted.filter(|dotted| signatures::of(dotted).is_some());
        let (name, target) = match &dotted {
            Some(dotted) => (dotted.as_str(), None),
            None => (name, target),
        };
        let (mut types, mut sizes) = (Vec::new(), Vec::new());
        let mut cost = 0_u64;
        for part in target.into_iter().chain(args) {
            let known = self.visit(part);
            cost = cost.saturating_add(known.cost);
            sizes.push(if is_scalar_at_path(part, &known.of) { 0 } else { known.of.size() });
            types.push(known.of);
        }
        let Some(signatures) = signatures::of(name) else {
            let text = format!("undeclared reference to '{name}' (in container '')");
            return self.complain(at, text);
        };
        let mut result: Option<Type> = None;
        for signature in signatures {
            if signature.method != target.is_some() || signature.args.len() != types.len() {
                continue;
            }
            let mut bound = BTreeMap::new();
            let fits = |(wanted, found): (&Type, &Type)| wanted.accepts(found, &mut bound);
            if signature.args.iter().zip(&types).all(fits) {
                let of = signature.result.filled(&bound);
                result = Some(match result {
                    None => of,
                    // Several fit where arguments are dynamic; only a shared result is known.
                    Some(before) => before.joined(&of).unwrap_or(Type::Dyn),
                });
            }
        }
        let Some(of) = result else {
            let text = match target {
                None => no_overload(name, &types),
                Some(_) => {
                    let args: Vec<String> = types[1..].iter().map(Type::to_string).collect();
                    format!(
                        "found no matching overload for '{name}' applied to '{}.({})'",
                        types[0],
                        args.join(", ")
                    )
                }
            };
            return self.complain(at, text);
        };
        let of = of.sized(result_size(name, &of, &types));
        Known { of, cost: cost.saturating_add(call_cost(name, &types, &sizes)) }
    }
}

/// How large what a function gives can get.
fn result_size(name: &str, of: &Type, args: &[Type]) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, Type::size);
    match (name, of) {
        ("_+_", _) => size(0).saturating_add(size(1)),
        ("replace", _) => size(0).saturating_mul(size(2).max(1)),
        ("join", _) => size(0).saturating_mul(size(1).max(1)),
        ("charAt", _) => 1,
        ("string", Type::String(_)) if !matches!(args.first(), Some(Type::String(_))) => 64,
        (_, Type::String(_) | Type::Bytes(_) | Type::List(..) | Type::Map(..)) => size(0),
        _ => 1,
    }
}

/// Compat: numbers and objects that a path leads to count as nothing, those that are made as one.
fn is_scalar_at_path(part: &Expr, of: &Type) -> bool {
    let has_path = matches!(part.node, Node::Ident(_) | Node::Select { .. } | Node::Index { .. });
    let has_size =
        matches!(of, Type::String(_) | Type::Bytes(_) | Type::List(..) | Type::Map(..) | Type::Dyn);
    has_path && !has_size
}

/// A fifth of a size, rounded up: looking at every character, and writing each.
fn fifth(size: u64) -> u64 {
    size.div_ceil(5)
}

/// What a call costs beside its arguments, at most. Which rules a definition may have depends on these
/// numbers, so they are Kubernetes' own.
fn call_cost(name: &str, args: &[Type], sizes: &[u64]) -> u64 {
    let size = |index: usize| sizes.get(index).copied().unwrap_or(1);
    let is_text = |index: usize| matches!(args.get(index), Some(Type::String(_) | Type::Bytes(_)));
    match name {
        "_==_" | "_!=_" => tenth(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => tenth(size(0).min(size(1))),
        "_+_" if is_text(0) => tenth(size(0).saturating_add(size(1))),
        "@in" if matches!(args.get(1), Some(Type::List(..))) => size(1),
        "contains" if is_text(0) => tenth(size(0)).saturating_mul(tenth(size(1))),
        "startsWith" | "endsWith" => tenth(size(1)),
        // An empty text is matched, too.
        "matches" | "find" | "findAll" => {
            tenth(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4))
        }
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(Type::List(element, count)) => {
                let is_text = matches!(**element, Type::String(_) | Type::Bytes(_));
                let look = if is_text { tenth(element.size()) } else { 0 };
                count.saturating_mul(look.saturating_add(1))
            }
            _ => tenth(size(0)),
        },
        "join" => {
            let element = match args.first() {
                Some(Type::List(element, _)) => element.size(),
                _ => 0,
            };
            let between = match args.get(1) {
                Some(between) => between.size().saturating_mul(size(0).saturating_sub(1)),
                None => 0,
            };
            tenth(size(0).saturating_mul(element).saturating_add(between))
        }
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        // Two addresses of sixteen bytes are compared; a text is read before.
        "containsIP" => 4_u64.saturating_add(if is_text(1) { tenth(size(1)) } else { 0 }),
        "containsCIDR" => 7_u64.saturating_add(if is_text(1) { tenth(size(1)) } else { 0 }),
        "replace" | "split" | "ip.isCanonical" => fifth(size(0)),
        "validate" => tenth(size(1)).saturating_mul(32),
        "ip" | "string" | "bytes" if !is_text(0) => 1,
        "url"
        | "quantity"
        | "isQuantity"
        | "ip"
        | "isIP"
        | "cidr"
        | "isCIDR"
        | "semver"
        | "isSemver"
        | "jsonpatch.escapeKey"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "strings.quote"
        | "format" => tenth(size(0)),
        "string" if matches!(args.first(), Some(Type::Bytes(_))) => tenth(size(0)),
        "bytes" if matches!(args.first(), Some(Type::String(_))) => tenth(size(0)),
        "check" => 350_000,
        _ => 1,
    }
}

fn no_overload(name: &str, args: &[Type]) -> String {
    let args: Vec<String> = args.iter().map(Type::to_string).collect();
    format!("found no matching overload for '{name}' applied to '({})'", args.join(", "))
}

fn whole_name(of: &Expr, field: &str) -> Option<String> {
    match &of.node {
        Node::Ident(name) => Some(format!("{name}.{field}")),
        _ => None,
    }
}

pub(crate) fn is_type_name(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "int"
            | "uint"
            | "double"
            | "string"
            | "bytes"
            | "list"
            | "map"
            | "null_type"
            | "type"
    )
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::UInt(_) => Type::UInt,
        Value::Double(_) => Type::Double,
        Value::String(text) => Type::String(text.chars().count() as u64),
        Value::Bytes(bytes) => Type::Bytes(bytes.len() as u64),
        _ => Type::Dyn,
    }
}
