//! `--sort-by`: orders rows and objects by the value at a path.

use std::cmp::Ordering;

use karmada_apimachinery::jsonpath::{self, Template};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, json};

use crate::error::{Error, Result};
use crate::output::table::Part;

fn parse(path: &str) -> Result<Template> {
    let path = jsonpath::complete_path(path).map_err(|error| error.to_string())?;
    Ok(Template::parse(&path).map_err(|error| error.to_string())?.allowing_missing())
}

pub(super) fn sort_objects(objects: &mut [Value], path: &str) -> Result<()> {
    let template = parse(path)?;
    check(objects.iter(), &template, path)?;
    objects.sort_by(|a, b| compare(&key(&template, a), &key(&template, b)));
    Ok(())
}

/// Sorts the rows of all servers together: the order is what was asked for, not where a row is from.
pub(super) fn sort_tables(parts: &mut Vec<Part>, path: &str) -> Result<()> {
    let template = parse(path)?;
    let mut rows: Vec<(Value, Part)> = Vec::new();
    for part in parts.drain(..) {
        let Some(list) = part.table.get("rows").and_then(Value::as_array) else { continue };
        for row in list {
            let table = json!({
                "columnDefinitions": part.table["columnDefinitions"], "rows": [row],
            });
            rows.push((row["object"].clone(), Part { table, ..part.clone() }));
        }
    }
    check(rows.iter().map(|(object, _)| object), &template, path)?;
    rows.sort_by(|(a, _), (b, _)| compare(&key(&template, a), &key(&template, b)));
    parts.extend(rows.into_iter().map(|(_, part)| part));
    Ok(())
}

fn check<'a>(
    mut objects: impl Iterator<Item = &'a Value>,
    template: &Template,
    path: &str,
) -> Result<()> {
    let mut any = false;
    if objects.any(|object| {
        any = true;
        key(template, object).is_some()
    }) || !any
    {
        return Ok(());
    }
    Err(Error::Message(format!(
        "couldn't find any field with path \"{path}\" in the list of objects"
    )))
}

fn key(template: &Template, object: &Value) -> Option<Value> {
    let found = template.find_first(object).ok()?;
    found.first().map(|value| value.clone().into_owned()).filter(|value| !value.is_null())
}

/// Missing values come first; numbers and quantities by size, texts with their numbers by size.
fn compare(a: &Option<Value>, b: &Option<Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default())
        }
        (Some(Value::String(a)), Some(Value::String(b))) => {
            match (Quantity::parse(a), Quantity::parse(b)) {
                (Ok(a), Ok(b)) => a.nanos().cmp(&b.nanos()),
                _ => natural(a, b),
            }
        }
        (Some(a), Some(b)) => a.to_string().cmp(&b.to_string()),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn natural(a: &str, b: &str) -> Ordering {
    let split = |text: &str| {
        let mut pieces: Vec<(String, u64)> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(letters);
            let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
            let (number, tail) = tail.split_at(digits);
            pieces.push((word.to_owned(), number.parse().unwrap_or_default()));
            rest = tail;
        }
        pieces
    };
    split(a).cmp(&split(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_ordered_by_the_value_at_a_path() {
        let object = |name: &str, size: &str| json!({"metadata": {"name": name}, "size": size});
        let mut objects = vec![object("a10", "1Gi"), object("a9", "200Mi"), object("a1", "2Gi")];
        let names = |objects: &[Value]| -> Vec<String> {
            objects.iter().map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        sort_objects(&mut objects, "{.metadata.name}").unwrap();
        assert_eq!(names(&objects), ["a1", "a9", "a10"]);
        sort_objects(&mut objects, ".size").unwrap();
        assert_eq!(names(&objects), ["a9", "a10", "a1"]);
        assert!(sort_objects(&mut objects, ".nosuch").is_err());
    }
}
