//! Takes the paths and definitions of another server's v2 document into one of ours.

use std::collections::HashMap;

use crate::{Map, Value};

const REFERENCE: &str = "#/definitions/";

/// Adds what `document` does not have. A definition of the same name that says something else is added
/// under another name, and what refers to it follows.
pub fn merge_v2(document: &mut Value, other: &Value) {
    let none = Map::new();
    let paths = other.get("paths").and_then(Value::as_object).unwrap_or(&none);
    let definitions = other.get("definitions").and_then(Value::as_object).unwrap_or(&none);
    let renamed = {
        let own = document.get("definitions").and_then(Value::as_object).unwrap_or(&none);
        rename(own, definitions)
    };
    let follow = |value: &Value| {
        let mut value = value.clone();
        redirect(&mut value, &renamed);
        value
    };
    if let Some(own) = document.get_mut("definitions").and_then(Value::as_object_mut) {
        for (name, definition) in definitions {
            let name = renamed.get(name.as_str()).map_or(name.as_str(), String::as_str);
            if !own.contains_key(name) {
                own.insert(name, follow(definition));
            }
        }
    }
    if let Some(own) = document.get_mut("paths").and_then(Value::as_object_mut) {
        for (path, item) in paths {
            if !own.contains_key(path) {
                own.insert(path.clone(), follow(item));
            }
        }
    }
}

/// New names for definitions whose name stands for something else already.
fn rename<'a>(own: &Map, definitions: &'a Map) -> HashMap<&'a str, String> {
    let mut renamed = HashMap::new();
    for (name, definition) in definitions {
        if own.get(name).is_none_or(|known| known == definition) {
            continue;
        }
        let is_free = |fresh: &String| {
            own.get(fresh).is_none_or(|known| known == definition)
                && !definitions.contains_key(fresh)
        };
        let fresh = (2..).map(|number| format!("{name}_v{number}")).find(is_free);
        renamed.extend(fresh.map(|fresh| (name.as_str(), fresh)));
    }
    renamed
}

fn redirect(value: &mut Value, renamed: &HashMap<&str, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let target = value.as_str().and_then(|text| text.strip_prefix(REFERENCE));
                match target.filter(|_| key == "$ref").and_then(|name| renamed.get(name)) {
                    Some(fresh) => *value = format!("{REFERENCE}{fresh}").into(),
                    None => redirect(value, renamed),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, renamed)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn what_has_the_same_name_and_says_something_else_is_renamed() {
        let mut document = json!({
            "paths": {"/a": 1},
            "definitions": {"Same": {"x": 1}, "Other": {"mine": true}},
        });
        let other = json!({
            "paths": {"/a": 2, "/b": {"$ref": "#/definitions/Other"}},
            "definitions": {"Same": {"x": 1}, "Other": {"$ref": "#/definitions/Same"}, "New": {}},
        });
        merge_v2(&mut document, &other);
        assert_eq!(
            document,
            json!({
                "paths": {"/a": 1, "/b": {"$ref": "#/definitions/Other_v2"}},
                "definitions": {
                    "Same": {"x": 1}, "Other": {"mine": true}, "New": {},
                    "Other_v2": {"$ref": "#/definitions/Same"},
                },
            })
        );
    }
}
