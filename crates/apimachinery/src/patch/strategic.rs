//! Strategic merge patch: maps merge, lists merge by the key their schema declares, and directives
//! inside the patch delete, replace and reorder.
//!
//! Compat: the results and errors are Kubernetes' own, including that unknown directives and missing
//! merge keys answer 500.

use crate::value::Text;
use crate::{Map, Value};

use super::go_print;
use crate::schema::Cursor;
use crate::status::{Details, Status};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch; `schema` describes `document`.
pub fn apply(document: &Value, patch: &Value, schema: Option<Cursor<'_>>) -> Result<Value, Status> {
    let Value::Object(patch) = patch else {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::go_type(patch)
        )));
    };
    let mut merged = document.as_object().cloned().unwrap_or_default();
    merge_map(&mut merged, patch.clone(), schema)?;
    Ok(Value::Object(merged))
}

fn merge_map(original: &mut Map, mut patch: Map, schema: Option<Cursor<'_>>) -> Result<(), Status> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *original = patch;
            }
            Some("delete") => original.clear(),
            _ => return Err(unknown_directive(directive, &patch)),
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    apply_element_orders(original, &mut patch, schema)?;
    for (key, change) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            delete_from_list(original, &key, &change)?;
            continue;
        }
        let at = schema.and_then(|schema| schema.field(&key));
        match (original.get_mut(&key), change) {
            (_, Value::Null) => drop(original.remove(&key)),
            (Some(Value::Object(current)), Value::Object(change)) => {
                if at.is_some_and(replaces_map) {
                    *current = change;
                } else {
                    merge_map(current, change, at)?;
                }
            }
            (Some(Value::Array(current)), Value::Array(change)) => {
                let merged = merge_field_lists(std::mem::take(current).into(), change.into(), at)?;
                *current = merged.into();
            }
            (_, mut change) => {
                discard_nulls(&mut change);
                match without_directives(change) {
                    Some(value) => drop(original.insert(key, value)),
                    None => drop(original.remove(&key)),
                }
            }
        }
    }
    Ok(())
}

/// Maps merge unless their schema says otherwise.
fn replaces_map(at: Cursor<'_>) -> bool {
    let strategy = at.site().extensions.patch_strategy.as_deref().unwrap_or_default();
    strategy.split(',').any(|word| word == "replace")
}

/// Drops every field of the original that `$retainKeys` does not list.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), Status> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || Status::bad_request("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(malformed)?;
    let is_retained = |key: &str| retained.iter().any(|one| one == key);
    let sets_other = patch.iter().any(|(key, value)| {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
        !value.is_null() && !directive && !is_retained(key)
    });
    if sets_other {
        return Err(malformed());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

fn delete_from_list(original: &mut Map, directive: &str, unwanted: &Value) -> Result<(), Status> {
    let field = directive.strip_prefix(DELETE_FROM_LIST).and_then(|rest| rest.strip_prefix('/'));
    let field =
        field.ok_or_else(|| Status::bad_request("invalid patch format of primitive list"))?;
    match (original.get_mut(field), unwanted) {
        (_, Value::Null) => drop(original.remove(field)),
        (Some(Value::Array(current)), Value::Array(unwanted)) => {
            current.retain(|value| !unwanted.contains(value));
        }
        _ => {}
    }
    Ok(())
}

/// Merges the lists that come with a `$setElementOrder/…` and brings them into that order.
fn apply_element_orders(
    original: &mut Map,
    patch: &mut Map,
    schema: Option<Cursor<'_>>,
) -> Result<(), Status> {
    let directives: Vec<Text> =
        patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let malformed = || Status::bad_request("invalid patch format of setElementOrder list");
        let order = into_list(patch.remove(&directive).unwrap_or_default())?;
        let field = directive.strip_prefix(ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let field = field.ok_or_else(malformed)?;
        let at = schema.and_then(|schema| schema.field(field));
        let key = at.and_then(Cursor::patch_merge_key);
        let current = original.get(field).cloned().map(into_list).transpose()?;
        let change = patch.remove(field).map(into_list).transpose()?;
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (current.clone(), change) {
            (Some(current), None) => current,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(change)) => merge_field_lists(current, change, at)?,
            (None, None) => continue,
        };
        let (ordered, rest) = partition(merged, &order, key)?;
        let merged = interleave(ordered, rest, &order, &current.unwrap_or_default(), key);
        original.insert(field.to_owned(), Value::Array(merged.into()));
    }
    Ok(())
}

/// The patch's elements must come in the order it asks for.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    if order.is_empty() || change.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let mut found = false;
        for candidate in wanted.by_ref() {
            if identity(item, key)? == identity(candidate, key)? {
                found = true;
                break;
            }
        }
        if !found {
            let (change, order) =
                (go_print(&Value::from(change.to_vec())), go_print(&Value::from(order.to_vec())));
            return Err(Status::unexplained(format!(
                "The order in patch list:\n{change}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

fn merge_field_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    schema: Option<Cursor<'_>>,
) -> Result<Vec<Value>, Status> {
    if !schema.is_some_and(|schema| schema.patch_strategy().merge) {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let key = schema.and_then(Cursor::patch_merge_key);
    let maps = original.iter().chain(&patch).filter(|item| item.is_object()).count();
    if maps == 0 {
        return merge_scalars(original, patch);
    }
    if maps != original.len() + patch.len() {
        return Err(Status::unexplained("list element types are not identical"));
    }
    let Some(key) = key else {
        return Err(Status::unexplained("cannot merge lists without merge key"));
    };
    merge_maps(original, patch, key, schema.and_then(Cursor::items))
}

fn merge_scalars(original: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, Status> {
    if original.iter().chain(&patch).any(Value::is_array) {
        let message = "lists of lists are not supported";
        return Err(Status::new(422, "Invalid", message).with_details(Details::default()));
    }
    let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
    for value in original.iter().chain(&patch) {
        if !merged.contains(value) {
            merged.push(value.clone());
        }
    }
    let (ordered, rest) = partition(merged, &patch, None)?;
    Ok(interleave(ordered, rest, &patch, &original, None))
}

fn merge_maps(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    schema: Option<Cursor<'_>>,
) -> Result<Vec<Value>, Status> {
    let (original, patch) = apply_element_directives(original, patch, key)?;
    let mut merged = original.clone();
    for change in &patch {
        let value = identity(change, Some(key))?;
        let same = merged.iter_mut().find(|item| item.get(key) == Some(value));
        match (same, change) {
            (Some(Value::Object(current)), Value::Object(change)) => {
                merge_map(current, change.clone(), schema)?;
            }
            _ => merged.push(change.clone()),
        }
    }
    let (ordered, rest) = partition(merged, &patch, Some(key))?;
    Ok(interleave(ordered, rest, &patch, &original, Some(key)))
}

/// Carries out the deletions and replacements among a patch's elements; what is left is to be merged.
fn apply_element_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = identity(&item, Some(key))?;
                original.retain(|one| one.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(Status::unexplained(message));
            }
            _ => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(directive, &map));
            }
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// Splits a merged list into what `by` names and what only the server has.
fn partition(
    merged: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for item in merged {
        identity(&item, key)?;
        if position(by, &item, key).is_some() { named.push(item) } else { rest.push(item) }
    }
    Ok((named, rest))
}

/// Orders both parts, then weaves them: the server's elements keep their place before those that
/// followed them, the patch's order wins everywhere else.
fn interleave(
    mut named: Vec<Value>,
    mut rest: Vec<Value>,
    order: &[Value],
    server: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let rank = |list: &[Value], item: &Value| position(list, item, key).unwrap_or(usize::MAX);
    named.sort_by_key(|item| rank(order, item));
    rest.sort_by_key(|item| rank(server, item));
    let mut woven = Vec::with_capacity(named.len() + rest.len());
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    while let (Some(left), Some(right)) = (rest.peek(), named.peek()) {
        let before = match (position(server, left, key), position(server, right, key)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        woven.extend(if before { rest.next() } else { named.next() });
    }
    woven.extend(named);
    woven.extend(rest);
    woven
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    match key {
        Some(key) => list.iter().position(|one| one.get(key) == item.get(key)),
        None => list.iter().position(|one| one == item),
    }
}

/// What tells an element from its neighbours: the merge key's value, or the scalar itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, Status> {
    let Some(key) = key else { return Ok(item) };
    match item {
        Value::Object(map) => map.get(key).ok_or_else(|| {
            let map = go_print(item);
            Status::unexplained(format!("map: {map} does not contain declared merge key: {key}"))
        }),
        _ => Err(Status::unexplained(format!(
            "expected a map[string]interface {{}}, but received a {}",
            super::go_type(item)
        ))),
    }
}

fn unknown_directive(directive: &Value, map: &Map) -> Status {
    let (directive, map) = (go_print(directive), go_print(&Value::Object(map.clone())));
    Status::unexplained(format!("unknown patch type: {directive} in map: {map}"))
}

fn into_list(value: Value) -> Result<Vec<Value>, Status> {
    match value {
        Value::Array(list) => Ok(list.into()),
        other => Err(Status::unexplained(format!(
            "expected a []interface {{}}, but received a {}",
            super::go_type(&other)
        ))),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes the maps that carry a directive; nothing is left of a value that is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(key, value)| without_directives(value).map(|value| (key, value)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => {
            Some(Value::Array(list.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}
