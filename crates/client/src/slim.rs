//! Trees of objects without the record of who wrote which field. That record is often the larger half of
//! an object, and of those who work with objects hardly anybody reads it.

use std::borrow::Cow;
use std::ops::Range;

use karmada_apimachinery::Value;

const METADATA: &str = "metadata";
const RECORD: &str = "managedFields";

/// Reads an object as a tree and leaves the record out.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    Value::from_text_without(text, [METADATA, RECORD])
}

/// The text of an object without the record, given a valid one.
pub(crate) fn cut(text: &[u8]) -> Cow<'_, [u8]> {
    match find_record(text) {
        None => text.into(),
        Some(record) => [&text[..record.start], &text[record.end..]].concat().into(),
    }
}

/// Where the record is in the text of an object, with a comma beside it.
fn find_record(text: &[u8]) -> Option<Range<usize>> {
    let (_, metadata) = find_field(text, 0, METADATA)?;
    let (name, value) = find_field(text, metadata, RECORD)?;
    let end = skip_value(text, value)?;
    let before = text[..name].trim_ascii_end();
    let after = skip_space(text, end);
    Some(match (before.last()?, text.get(after)?) {
        (b',', _) => before.len() - 1..end,
        (_, b',') => name..after + 1,
        _ => name..end,
    })
}

/// Where the name of a field begins, and where its value does, in the map that begins at `at`.
fn find_field(text: &[u8], at: usize, wanted: &str) -> Option<(usize, usize)> {
    let mut at = skip_space(text, at);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        // Behind the brace or the comma.
        let name = skip_space(text, at + 1);
        let name_end = skip_text(text, name)?;
        let value = skip_space(text, skip_space(text, name_end) + 1);
        if text.get(name + 1..name_end - 1) == Some(wanted.as_bytes()) {
            return Some((name, value));
        }
        at = skip_space(text, skip_value(text, value)?);
        if text.get(at) != Some(&b',') {
            return None;
        }
    }
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The end of the text in quotes that begins at `at`.
fn skip_text(text: &[u8], at: usize) -> Option<usize> {
    let mut at = (text.get(at)? == &b'"').then_some(at + 1)?;
    loop {
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text.get(at)? == &b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The end of the value that begins at `at`.
fn skip_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => at = skip_text(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            // Behind a number or a word.
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn the_record_is_left_out_and_nothing_else() {
        let mut whole = json!({
            "kind": "Deployment", "spec": {"metadata": {"managedFields": [1]}, "paused": true},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "generation": 3},
            "managedFields": [null, 1.5, -2, {"x": []}],
        });
        let parsed = parse(whole.to_string().as_bytes()).unwrap();
        whole["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(parsed, whole);
    }

    #[test]
    fn the_record_is_cut_out_of_texts_however_they_are_written() {
        let record = json!([{"manager": "a\"]}", "fieldsV1": {"f:a": {}}}, "\\", 1.5e3, null]);
        let all = [
            json!({"managedFields": record, "name": "a", "zeta": 1}),
            json!({"labels": {"managedFields": "x"}, "managedFields": record, "name": "a"}),
            json!({"annotations": {"a": "{\"metadata\":{\"managedFields\":[]}}"}, "managedFields": record}),
            json!({"managedFields": record}),
            json!({"managedFields": null, "name": "a"}),
            json!({"name": "a"}),
            json!({}),
            json!(null),
        ];
        for metadata in all {
            let whole = json!({"apiVersion": "v1", "count": -1, "metadata": metadata,
                "spec": {"metadata": {"managedFields": [1]}}, "status": true});
            let mut expected = whole.clone();
            if let Some(metadata) = expected["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            for text in [whole.to_string(), serde_json::to_string_pretty(&whole).unwrap()] {
                let cut: Value = serde_json::from_slice(&cut(text.as_bytes())).unwrap();
                assert_eq!(cut, expected, "{text}");
            }
        }
        for odd in
            ["", "{", "{}", "[]", "{\"metadata\"", "{\"metadata\":{\"managedFields\":[", "7", "\""]
        {
            assert_eq!(cut(odd.as_bytes()), odd.as_bytes());
        }
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in ["null", "[1,{\"metadata\":{\"managedFields\":1}}]", "\"a\"", "7", "true"] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
        assert!(parse(b"{} {}").is_err() && parse(b"{").is_err());
        let odd = json!({"metadata": null});
        assert_eq!(parse(odd.to_string().as_bytes()).unwrap(), odd);
    }
}
