//! Evaluation, with every step paid for from a budget.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Expr, Fold, FoldKind, Node};
use crate::check::{is_type_name, reserved};
use crate::value::{Key, Struct, Value};
use crate::{functions, is_reserved, signatures};

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Failed(String),
    /// The budget is used up.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
}

impl Error {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::failed("no such overload")
    }
}

/// What is left to spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub left: u64,
}

impl Budget {
    pub fn new(left: u64) -> Self {
        Self { left }
    }

    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), Error> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Error::TooExpensive)
            }
        }
    }
}

/// The values of variables. Values may be computed when they are asked for.
pub trait Bindings {
    fn get(&self, name: &str, budget: &mut Budget) -> Option<Result<Value, Error>>;
}

impl Bindings for BTreeMap<String, Value> {
    fn get(&self, name: &str, _: &mut Budget) -> Option<Result<Value, Error>> {
        BTreeMap::get(self, name).cloned().map(Ok)
    }
}

pub(crate) fn evaluate(
    expr: &Expr,
    bindings: &dyn Bindings,
    budget: &mut Budget,
) -> Result<Value, Error> {
    Evaluator { bindings, locals: Vec::new(), budget }.visit(expr)
}

struct Evaluator<'a> {
    bindings: &'a dyn Bindings,
    locals: Vec<(String, Value)>,
    budget: &'a mut Budget,
}

impl Evaluator<'_> {
    fn visit(&mut self, expr: &Expr) -> Result<Value, Error> {
        match &expr.node {
            Node::Broken => Err(Error::failed("broken expression")),
            Node::Literal(value) => Ok(value.clone()),
            Node::Ident(name) => {
                self.budget.spend(1)?;
                self.variable(name)
            }
            Node::Select { of, field, optional } => {
                let of = self.visit(of)?;
                self.budget.spend(1)?;
                select(&of, field, *optional)
            }
            Node::Has { of, field } => {
                let of = self.visit(of)?;
                self.budget.spend(1)?;
                has(&of, field).map(Value::Bool)
            }
            Node::Index { of, index, optional } => {
                let of = self.visit(of)?;
                let index = self.visit(index)?;
                self.budget.spend(1)?;
                at_index(&of, &index, *optional)
            }
            Node::Call { target, name, args } => self.call(target.as_deref(), name, args),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => self.structure(name, fields),
            Node::And(a, b) => self.logic(a, b, false),
            Node::Or(a, b) => self.logic(a, b, true),
            Node::Cond(condition, yes, no) => match self.visit(condition)? {
                Value::Bool(true) => self.visit(yes),
                Value::Bool(false) => self.visit(no),
                _ => Err(Error::no_overload()),
            },
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { name, value, body } => {
                let value = self.visit(value)?;
                self.with(vec![(name.clone(), value)], |evaluator| evaluator.visit(body))
            }
            Node::OptMap { of, name, body, flat } => match self.visit(of)? {
                Value::Optional(None) => Ok(Value::Optional(None)),
                Value::Optional(Some(inner)) => {
                    let local = vec![(name.clone(), (*inner).clone())];
                    let result = self.with(local, |evaluator| evaluator.visit(body))?;
                    Ok(if *flat { result } else { Value::Optional(Some(Arc::new(result))) })
                }
                _ => Err(Error::no_overload()),
            },
        }
    }

    fn with<T>(&mut self, locals: Vec<(String, Value)>, visit: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(locals);
        let result = visit(self);
        self.locals.truncate(before);
        result
    }

    fn variable(&mut self, name: &str) -> Result<Value, Error> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(own, _)| own == name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.bindings.get(name, self.budget) {
            return value;
        }
        if is_type_name(name) {
            return Ok(Value::Type(name.into()));
        }
        Err(Error::failed(format!("no such attribute(s): {name}")))
    }

    /// Either side decides alone if it can; an error counts only where neither does.
    fn logic(&mut self, a: &Expr, b: &Expr, decisive: bool) -> Result<Value, Error> {
        let left = self.visit(a);
        match left {
            Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
            Err(Error::TooExpensive) => return left,
            _ => {}
        }
        let right = self.visit(b);
        match (left, right) {
            (_, Ok(Value::Bool(value))) if value == decisive => Ok(Value::Bool(decisive)),
            (_, Err(Error::TooExpensive)) => Err(Error::TooExpensive),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            _ => Err(Error::no_overload()),
        }
    }

    fn list(&mut self, items: &[(Expr, bool)]) -> Result<Value, Error> {
        self.budget.spend(10)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match self.visit(item)? {
                Value::Optional(inner) if *optional => list.extend(inner.map(|v| (*v).clone())),
                value => list.push(value),
            }
        }
        Ok(Value::list(list))
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<Value, Error> {
        self.budget.spend(30)?;
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key =
                self.visit(key)?.to_key().ok_or_else(|| Error::failed("unsupported key type"))?;
            let value = match self.visit(value)? {
                Value::Optional(None) if *optional => continue,
                Value::Optional(Some(inner)) if *optional => (*inner).clone(),
                value => value,
            };
            if map.insert(key.clone(), value).is_some() {
                return Err(Error::failed(format!("Failed with repeated key: {}", key.shown())));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn structure(&mut self, name: &str, fields: &[(String, Expr, bool)]) -> Result<Value, Error> {
        self.budget.spend(40)?;
        let mut made = BTreeMap::new();
        for (field, value, optional) in fields {
            match self.visit(value)? {
                Value::Optional(None) if *optional => {}
                Value::Optional(Some(inner)) if *optional => {
                    made.insert(field.clone(), (*inner).clone());
                }
                value => {
                    made.insert(field.clone(), value);
                }
            }
        }
        Ok(Value::Struct(Arc::new(Struct { name: name.to_owned(), fields: made })))
    }

    fn call(&mut self, target: Option<&Expr>, name: &str, args: &[Expr]) -> Result<Value, Error> {
        let space = target.and_then(|target| match &target.node {
            Node::Ident(space) if self.locals.iter().all(|(own, _)| own != space) => {
                Some(format!("{space}.{name}"))
            }
            _ => None,
        });
        let dotted = space.filter(|dotted| signatures::of(dotted).is_some());
        let (name, target) = match &dotted {
            Some(dotted) => (dotted.as_str(), None),
            None => (name, target),
        };
        let mut values = Vec::with_capacity(args.len() + 1);
        for part in target.into_iter().chain(args) {
            values.push(self.visit(part)?);
        }
        self.budget.spend(functions::cost(name, &values))?;
        functions::call(name, target.is_some(), values)
    }

    fn fold(&mut self, fold: &Fold) -> Result<Value, Error> {
        let range = self.visit(&fold.range)?;
        let items: Vec<(Value, Value)> = match &range {
            Value::List(items) if fold.second.is_some() => {
                let number = |index: usize| Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                items.iter().enumerate().map(|(i, v)| (number(i), v.clone())).collect()
            }
            Value::List(items) => items.iter().map(|v| (v.clone(), Value::Null)).collect(),
            Value::Map(map) => map.iter().map(|(k, v)| (k.to_value(), v.clone())).collect(),
            _ => return Err(Error::no_overload()),
        };
        let mut gathered = Gathered::new(fold.kind);
        for (first, second) in items {
            self.budget.spend(3)?;
            let mut locals = vec![(fold.first.clone(), first.clone())];
            locals.extend(fold.second.as_ref().map(|name| (name.clone(), second)));
            let done = self.with(locals, |evaluator| {
                if let Some(filter) = &fold.filter {
                    match evaluator.visit(filter)? {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Ok(false),
                        _ => return Err(Error::no_overload()),
                    }
                }
                let body = evaluator.visit(&fold.body);
                gathered.add(first, body)
            })?;
            if done {
                break;
            }
        }
        gathered.finish()
    }
}

/// What a macro has found so far.
struct Gathered {
    kind: FoldKind,
    verdict: bool,
    error: Option<Error>,
    count: usize,
    list: Vec<Value>,
    map: BTreeMap<Key, Value>,
}

impl Gathered {
    fn new(kind: FoldKind) -> Self {
        Self {
            kind,
            verdict: kind == FoldKind::All,
            error: None,
            count: 0,
            list: Vec::new(),
            map: BTreeMap::new(),
        }
    }

    /// Takes one result; true if no other can change the outcome.
    fn add(&mut self, first: Value, body: Result<Value, Error>) -> Result<bool, Error> {
        if body == Err(Error::TooExpensive) {
            return Err(Error::TooExpensive);
        }
        match (self.kind, body) {
            (FoldKind::All, Ok(Value::Bool(false))) => {
                self.verdict = false;
                self.error = None;
                return Ok(true);
            }
            (FoldKind::Exists, Ok(Value::Bool(true))) => {
                self.verdict = true;
                self.error = None;
                return Ok(true);
            }
            (FoldKind::All | FoldKind::Exists, Ok(Value::Bool(_))) => {}
            (FoldKind::All | FoldKind::Exists, Err(error)) => self.error = Some(error),
            (_, Err(error)) => return Err(error),
            (FoldKind::ExistsOne, Ok(Value::Bool(yes))) => self.count += usize::from(yes),
            (FoldKind::Filter, Ok(Value::Bool(yes))) => self.list.extend(yes.then_some(first)),
            (FoldKind::Map | FoldKind::TransformList, Ok(value)) => self.list.push(value),
            (FoldKind::TransformMap, Ok(value)) => {
                let key = first.to_key().ok_or_else(Error::no_overload)?;
                self.map.insert(key, value);
            }
            (FoldKind::TransformMapEntry, Ok(Value::Map(entries))) => {
                for (key, value) in entries.iter() {
                    if self.map.insert(key.clone(), value.clone()).is_some() {
                        let text = format!("insert failed: key {} already exists", key.shown());
                        return Err(Error::failed(text));
                    }
                }
            }
            _ => return Err(Error::no_overload()),
        }
        Ok(false)
    }

    fn finish(self) -> Result<Value, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(match self.kind {
            FoldKind::All | FoldKind::Exists => Value::Bool(self.verdict),
            FoldKind::ExistsOne => Value::Bool(self.count == 1),
            FoldKind::Map | FoldKind::Filter | FoldKind::TransformList => Value::list(self.list),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => Value::Map(Arc::new(self.map)),
        })
    }
}

fn some(value: Value) -> Value {
    Value::Optional(Some(Arc::new(value)))
}

fn field(of: &Value, name: &str) -> Result<Option<Value>, Error> {
    match of {
        Value::Map(map) => {
            let get = |name: &str| map.get(&Key::String(name.into())).cloned();
            // A word of the language may be used where only a field can be meant.
            Ok(get(name).or_else(|| is_reserved(name).then(|| get(&reserved(name)))?))
        }
        Value::Struct(of) => Ok(of.fields.get(name).cloned()),
        Value::Null => Err(Error::failed(format!("no such key: {name}"))),
        _ => Err(Error::no_overload()),
    }
}

fn select(of: &Value, name: &str, optional: bool) -> Result<Value, Error> {
    match of {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => Ok(Value::Optional(field(inner, name)?.map(Arc::new))),
        of if optional => Ok(Value::Optional(field(of, name)?.map(Arc::new))),
        of => field(of, name)?.ok_or_else(|| Error::failed(format!("no such key: {name}"))),
    }
}

fn has(of: &Value, name: &str) -> Result<bool, Error> {
    match of {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inner)) => has(inner, name),
        of => Ok(field(of, name)?.is_some()),
    }
}

fn at_index(of: &Value, index: &Value, optional: bool) -> Result<Value, Error> {
    if let Value::Optional(inner) = of {
        return match inner {
            None => Ok(Value::Optional(None)),
            Some(inner) => at_index(inner, index, true),
        };
    }
    let found = match of {
        Value::List(items) => {
            let Some(Key::Int(at)) = index.to_key() else { return Err(Error::no_overload()) };
            let found = usize::try_from(at).ok().and_then(|at| items.get(at)).cloned();
            found.ok_or_else(|| Error::failed(format!("index out of bounds: {at}")))
        }
        Value::Map(map) => {
            let key = index.to_key().ok_or_else(Error::no_overload)?;
            let found = map.get(&key).cloned();
            found.ok_or_else(|| Error::failed(format!("no such key: {}", key.shown())))
        }
        Value::Struct(_) => {
            let name = index.as_str().ok_or_else(Error::no_overload)?;
            field(of, name)?.ok_or_else(|| Error::failed(format!("no such key: {name}")))
        }
        _ => return Err(Error::no_overload()),
    };
    if optional { Ok(found.map_or(Value::Optional(None), some)) } else { found }
}
