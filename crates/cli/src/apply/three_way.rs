//! The merge behind client-side apply: what the file says wins, what it said last time and no longer says goes, what
//! it never said stays. Lists of built-in kinds merge by the key their schema declares.

use karmada_apimachinery::schema::Cursor;
use karmada_apimachinery::{Map, Value};

/// The object that `modified` makes of `live`, knowing what was applied `last`.
pub(super) fn merge(
    last: &Value,
    modified: &Value,
    live: &Value,
    schema: Option<Cursor<'_>>,
) -> Value {
    match (modified, live) {
        (Value::Object(modified), Value::Object(live)) => Value::Object(merge_maps(
            last.as_object().unwrap_or(&Map::new()),
            modified,
            live,
            schema,
        )),
        (Value::Array(modified), Value::Array(live)) => {
            let key = schema.and_then(merge_key);
            let last = last.as_array().map_or(&[][..], |it| it.as_slice());
            match key {
                Some(key) => {
                    merge_lists(last, modified, live, &key, schema.and_then(Cursor::items))
                }
                None if schema.is_some_and(|at| at.patch_strategy().merge) => {
                    merge_sets(last, modified, live)
                }
                None => Value::Array(modified.clone()),
            }
        }
        _ => modified.clone(),
    }
}

fn merge_key(at: Cursor<'_>) -> Option<String> {
    at.patch_strategy().merge.then(|| at.patch_merge_key().map(|key| key.to_owned()))?
}

fn merge_maps(last: &Map, modified: &Map, live: &Map, schema: Option<Cursor<'_>>) -> Map {
    let mut merged = live.clone();
    for (key, wanted) in modified {
        let at = schema.and_then(|schema| schema.field(key));
        let before = last.get(key).unwrap_or(&Value::Null);
        match live.get(key) {
            // A null in a file says nothing about a field nobody set.
            _ if wanted.is_null() => drop(merged.remove(key)),
            Some(present) => drop(merged.insert(key.clone(), merge(before, wanted, present, at))),
            None => drop(merged.insert(key.clone(), wanted.clone())),
        }
    }
    for key in last.keys().filter(|key| !modified.contains_key(*key)) {
        merged.remove(key);
    }
    merged
}

/// Elements are the same if they have the same key. Those of the file come in its order, others keep their place
/// behind them.
fn merge_lists(
    last: &[Value],
    modified: &[Value],
    live: &[Value],
    key: &str,
    items: Option<Cursor<'_>>,
) -> Value {
    let same = |a: &Value, b: &Value| a.get(key).is_some() && a.get(key) == b.get(key);
    let find = |list: &[Value], item: &Value| list.iter().find(|other| same(other, item)).cloned();
    let mut merged: Vec<Value> = modified
        .iter()
        .map(|wanted| match find(live, wanted) {
            Some(present) => {
                merge(&find(last, wanted).unwrap_or_default(), wanted, &present, items)
            }
            None => wanted.clone(),
        })
        .collect();
    for present in live {
        let is_unwanted = find(last, present).is_some();
        if !is_unwanted && find(modified, present).is_none() {
            merged.push(present.clone());
        }
    }
    // Written in the same order as before, a list that means the same stays the same.
    if merged.len() == live.len() && live.iter().all(|item| merged.contains(item)) {
        return Value::Array(live.to_vec().into());
    }
    Value::Array(merged.into())
}

/// Lists of plain values whose union is kept, such as finalizers.
fn merge_sets(last: &[Value], modified: &[Value], live: &[Value]) -> Value {
    let mut merged: Vec<Value> = live
        .iter()
        .filter(|item| modified.contains(item) || !last.contains(item))
        .cloned()
        .collect();
    let new: Vec<Value> = modified.iter().filter(|item| !merged.contains(item)).cloned().collect();
    merged.extend(new);
    Value::Array(merged.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn deployment() -> Option<Cursor<'static>> {
        karmada_kinds::schema::of("apps", "v1", "Deployment")
    }

    #[test]
    fn fields_are_set_removed_and_left_alone() {
        let last = json!({"spec": {"a": 1, "b": 2}});
        let modified = json!({"spec": {"a": 3}});
        let live = json!({"spec": {"a": 1, "b": 2, "default": 9}, "status": {}});
        let expected = json!({"spec": {"a": 3, "default": 9}, "status": {}});
        assert_eq!(merge(&last, &modified, &live, None), expected);
    }

    #[test]
    fn containers_merge_by_name_and_keep_what_the_server_added() {
        let containers =
            |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
        let file = containers(json!([{"name": "a", "image": "x"}]));
        let live = containers(json!([
            {"name": "a", "image": "x", "imagePullPolicy": "Always"}, {"name": "sidecar", "image": "s"}]));
        assert_eq!(merge(&file, &file, &live, deployment()), live);
        let changed = containers(json!([{"name": "a", "image": "y"}]));
        let merged = merge(&file, &changed, &live, deployment());
        assert_eq!(
            merged,
            containers(json!([
                {"name": "a", "image": "y", "imagePullPolicy": "Always"}, {"name": "sidecar", "image": "s"}]))
        );
        let renamed = containers(json!([{"name": "b", "image": "x"}]));
        let merged = merge(&file, &renamed, &live, deployment());
        assert_eq!(
            merged,
            containers(json!([{"name": "b", "image": "x"}, {"name": "sidecar", "image": "s"}]))
        );
    }

    #[test]
    fn lists_without_a_key_are_replaced() {
        let (last, modified, live) = (json!({"l": [1]}), json!({"l": [2]}), json!({"l": [1, 5]}));
        assert_eq!(merge(&last, &modified, &live, None), json!({"l": [2]}));
    }
}
