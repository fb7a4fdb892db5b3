//! Walking values along the steps of a template.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::Value;

use super::{Error, Found, Node, Slice, Step};

/// Recursive descent stops here; JSON text is never that deep.
const MAX_DEPTH: usize = 200;

pub(super) struct Evaluation {
    pub(super) allow_missing: bool,
}

impl Evaluation {
    pub(super) fn nodes<'v>(
        &self,
        nodes: &[Node],
        data: &'v Value,
    ) -> Result<Vec<Found<'v>>, Error> {
        let mut results = Vec::new();
        for node in nodes {
            match node {
                Node::Text(text) => results.push(vec![Cow::Owned(text.as_str().into())]),
                Node::Action(steps) => results.push(self.steps(steps, vec![Cow::Borrowed(data)])?),
                Node::Range { over, body } => {
                    for value in self.steps(over, vec![Cow::Borrowed(data)])? {
                        let inner = self.nodes(body, &value)?;
                        let owned = |found: Found<'_>| -> Found<'v> {
                            found.into_iter().map(|value| Cow::Owned(value.into_owned())).collect()
                        };
                        results.extend(inner.into_iter().map(owned));
                    }
                }
            }
        }
        Ok(results)
    }

    fn steps<'v>(&self, steps: &[Step], mut values: Found<'v>) -> Result<Found<'v>, Error> {
        for step in steps {
            values = self.step(step, values)?;
        }
        Ok(values)
    }

    fn step<'v>(&self, step: &Step, input: Found<'v>) -> Result<Found<'v>, Error> {
        match step {
            Step::Field(name) => self.field(name, input),
            Step::Wildcard => Ok(input.iter().flat_map(children).collect()),
            Step::Recursive => {
                let mut found = Vec::new();
                descend(&input, 0, &mut found);
                Ok(found)
            }
            Step::Slice(slice) => elements(*slice, input),
            Step::Union(parts) => {
                let parts = parts.iter().map(|steps| self.steps(steps, input.clone()));
                Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
            Step::Filter { left, operator, right } => self.filter(left, operator, right, input),
            // Text replaces what came before; other literals stand once for each value.
            Step::Literal(Value::String(text)) => Ok(vec![Cow::Owned(text.as_str().into())]),
            Step::Literal(value) => Ok(input.iter().map(|_| Cow::Owned(value.clone())).collect()),
            Step::Word(word) => Err(Error::new(format!("unrecognized identifier {word}"))),
        }
    }

    fn field<'v>(&self, name: &str, input: Found<'v>) -> Result<Found<'v>, Error> {
        if input.is_empty() {
            return Ok(input);
        }
        let found: Found<'v> = input.iter().filter_map(|value| get(value, name)).collect();
        if found.is_empty() && !self.allow_missing {
            return Err(Error::new(format!("{name} is not found")));
        }
        Ok(found)
    }

    fn filter<'v>(
        &self,
        left: &[Step],
        operator: &str,
        right: &[Step],
        input: Found<'v>,
    ) -> Result<Found<'v>, Error> {
        let mut kept = Vec::new();
        for value in &input {
            if !value.is_array() {
                let text = super::render_found(std::slice::from_ref(value));
                let message = format!("{text} is not array or slice and cannot be filtered");
                return Err(Error::new(message));
            }
            for item in children(value) {
                if self.passes(left, operator, right, &item)? {
                    kept.push(item);
                }
            }
        }
        Ok(kept)
    }

    fn passes(
        &self,
        left: &[Step],
        operator: &str,
        right: &[Step],
        item: &Value,
    ) -> Result<bool, Error> {
        let left = self.steps(left, vec![Cow::Borrowed(item)]);
        if operator == "exists" {
            return Ok(left.is_ok_and(|found| !found.is_empty()));
        }
        let only = |found: Found<'_>| match found.len() {
            0 => Ok(None),
            1 => Ok(found.into_iter().next().map(Cow::into_owned)),
            _ => Err(Error::new("can only compare one element at a time")),
        };
        let Some(left) = only(left?)? else { return Ok(false) };
        let Some(right) = only(self.steps(right, vec![Cow::Borrowed(item)])?)? else {
            return Ok(false);
        };
        let order = || order(&left, &right);
        Ok(match operator {
            "==" => is_equal(&left, &right)?,
            "!=" => !is_equal(&left, &right)?,
            "<" => order()? == Ordering::Less,
            ">" => order()? == Ordering::Greater,
            "<=" => order()? != Ordering::Greater,
            ">=" => order()? != Ordering::Less,
            other => return Err(Error::new(format!("unrecognized filter operator {other}"))),
        })
    }
}

fn get<'v>(value: &Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn children<'v>(value: &Cow<'v, Value>) -> Vec<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.iter().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(fields)) => fields.values().cloned().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

/// Collects every value that has something inside, parents first.
fn descend<'v>(values: &[Cow<'v, Value>], depth: usize, found: &mut Found<'v>) {
    for value in values {
        let inside = children(value);
        let is_text = value.as_str().is_some_and(|text| !text.is_empty());
        if is_text || (!inside.is_empty() && depth < MAX_DEPTH) {
            found.push(value.clone());
            descend(&inside, depth + 1, found);
        }
    }
}

fn elements<'v>(slice: Slice, input: Found<'v>) -> Result<Found<'v>, Error> {
    let mut found = Vec::new();
    for value in &input {
        if value.is_null() {
            continue;
        }
        let Value::Array(items) = &**value else {
            return Err(Error::new(format!("{} is not array or slice", go_type(value))));
        };
        let Some((start, end)) = bounds(slice, items.len())? else { return Ok(found) };
        let step = slice.step.unwrap_or(1);
        let step = usize::try_from(step).ok().filter(|step| *step > 0);
        let step = step.ok_or_else(|| Error::new("step must be > 0"))?;
        let chosen = children(value).into_iter().skip(start).take(end - start).step_by(step);
        found.extend(chosen);
    }
    Ok(found)
}

/// The range of elements, or nothing where none is asked for.
fn bounds(slice: Slice, length: usize) -> Result<Option<(usize, usize)>, Error> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let start = from_end(slice.start.unwrap_or(0));
    // The element after the last, counted from the end, is written as zero.
    let end = match slice.end {
        Some(0) if slice.plain_index => length,
        Some(end) => from_end(end),
        None => length,
    };
    if start == end {
        return Ok(None);
    }
    let outside = |index: i64| {
        Error::new(format!("array index out of bounds: index {index}, length {length}"))
    };
    if start >= length || start < 0 {
        return Err(outside(start));
    }
    if end > length || end < 0 {
        return Err(outside(end - 1));
    }
    if start > end {
        let message = format!("starting index {start} is greater than ending index {end}");
        return Err(Error::new(message));
    }
    Ok(usize::try_from(start).ok().zip(usize::try_from(end).ok()))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn incompatible() -> Error {
    Error::new("incompatible types for comparison")
}

/// Values of one kind are compared; whole numbers and fractions are two kinds.
fn order(left: &Value, right: &Value) -> Result<Ordering, Error> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Ok(left.cmp(&right)),
                _ => left.as_f64().partial_cmp(&right.as_f64()).ok_or_else(incompatible),
            }
        }
        (Value::Number(_) | Value::String(_), Value::Number(_) | Value::String(_)) => {
            Err(incompatible())
        }
        _ => Err(Error::new("invalid type for comparison")),
    }
}

fn is_equal(left: &Value, right: &Value) -> Result<bool, Error> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Bool(_), Value::Number(_) | Value::String(_))
        | (Value::Number(_) | Value::String(_), Value::Bool(_)) => Err(incompatible()),
        _ => order(left, right).map(Ordering::is_eq),
    }
}
