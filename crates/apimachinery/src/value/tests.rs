//! That trees say what `serde_json`'s say.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::json;

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<i32>().prop_map(|number| (f64::from(number) / 8.0).into()),
        "\\PC{0,40}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Into::into),
            prop::collection::vec(("[a-e]{0,3}|\\PC{20,30}", inner), 0..12)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_and_writes_what_serde_json_does(theirs in any_json()) {
        let text = theirs.to_string();
        let ours: Value = text.parse().unwrap();
        prop_assert_eq!(ours.to_string(), &*text);
        prop_assert_eq!(&Value::from_text(format!("{theirs:#}").as_bytes()).unwrap(), &ours);
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &ours);
        prop_assert_eq!(serde_json::to_string(&ours).unwrap(), &*text);
        prop_assert_eq!(format!("{ours:#}"), format!("{theirs:#}"));
        prop_assert_eq!(&to_value(&theirs).unwrap(), &ours);
        prop_assert_eq!(&from_value::<serde_json::Value>(ours.clone()).unwrap(), &theirs);
        prop_assert_eq!(&Value::from(theirs.clone()), &ours);
        prop_assert_eq!(serde_json::Value::from(ours), theirs);
    }

    /// Also of text that is nearly JSON, or JSON in an unusual spelling.
    #[test]
    fn takes_and_refuses_what_serde_json_does(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                ",", ":", "{", "}", "[", "]", "{\"a\":", "\"b\":", "\"a\"", "\"", "\\", "\\u00e9", "\\n", "\n", " ", "\t", "\u{1}", "\u{0}", "é", "long enough", "0", "-", "-0", "01", "1", "12345678901234567", ".", "e", "+", "18446744073709551615", "1.5", "1e400", "true", "nul", "null",
            ]),
            0..9,
        ),
    ) {
        let text = parts.concat();
        for text in [text.clone(), format!("[{text}]"), format!("\"{text}\""), format!("{{\"k\":{text}}}")] {
            let ours = Value::from_text(text.as_bytes()).map_err(|error| error.to_string());
            let theirs = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            prop_assert_eq!(ours, theirs, "{}", text);
        }
        for text in [text.clone(), format!("{{\"k\":{text}}}"), format!("{{\"z\":1,\"k\":{{\"b\":[],\"a\":{text},\"c\":1}}}} ")] {
            let ours = Value::from_text_without(text.as_bytes(), ["k", "a"]).map_err(|error| error.to_string());
            let mut theirs = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            if let Some(fields) = theirs.as_mut().ok().and_then(|value| value.get_mut("k")).and_then(Value::as_object_mut) {
                fields.remove("a");
            }
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }

    #[test]
    fn fields_in_any_order_are_those_of_a_sorted_map(
        fields in prop::collection::vec(("[a-d]{0,2}", any::<u8>()), 0..30),
        gone in prop::collection::vec("[a-d]{0,2}", 0..10),
    ) {
        let read = format!("{{{}}}", fields.iter().map(|(name, n)| format!("{name:?}:{n}")).collect::<Vec<_>>().join(","));
        let read: Map = serde_json::from_str(&read).unwrap();
        let mut map = Map::new();
        let mut sorted = std::collections::BTreeMap::new();
        for (name, number) in &fields {
            prop_assert_eq!(map.insert(name, (*number).into()), sorted.insert(name.clone(), Value::from(*number)));
        }
        prop_assert_eq!(&map, &read);
        prop_assert_eq!(&map, &fields.iter().cloned().collect::<Map>());
        let kept = map.clone();
        for name in &gone {
            prop_assert_eq!(map.get(name), sorted.get(name));
            prop_assert_eq!(map.remove(name), sorted.remove(name));
        }
        let both = map.iter().map(|(name, value)| (name.to_string(), value.clone()));
        prop_assert_eq!(both.collect::<Vec<_>>(), sorted.into_iter().collect::<Vec<_>>());
        // A copy from before does not see what was removed.
        prop_assert_eq!(&kept, &read);
    }
}

#[test]
fn depth_is_bounded_as_by_serde_json() {
    for depth in [99, 100, 101, 127, 128, 1000] {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(Value::from_text(text.as_bytes()).is_ok(), depth < 128, "{depth}");
    }
    assert!(Value::from_text(b"\"\xff\"").is_err());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Shape {
    Plain,
    Round(u32),
    Tall { high: i64 },
    Pair(i8, String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    shapes: Vec<Shape>,
    maybe: Option<f64>,
    none: Option<bool>,
    by_shape: std::collections::BTreeMap<String, Shape>,
    #[serde(flatten)]
    rest: Map,
}

#[test]
fn types_become_trees_and_trees_types() {
    let tree = json!({
        "shapes": ["plain", {"round": 3}, {"tall": {"high": -5}}, {"pair": [1, "x"]}],
        "maybe": 1.5, "none": null, "by_shape": {"a": "plain"}, "other": [{}],
    });
    let read: Everything = from_value(tree.clone()).unwrap();
    assert_eq!(read.rest, Map::from([("other", json!([{}]))]));
    assert_eq!(to_value(&read).unwrap(), tree);
    let refused = |tree: Value| {
        let theirs = serde_json::from_value::<Shape>(tree.clone().into()).unwrap_err();
        assert_eq!(from_value::<Shape>(tree).unwrap_err().to_string(), theirs.to_string());
    };
    for tree in [
        json!("other"),
        json!({"round": "x"}),
        json!({"round": 1, "tall": 2}),
        json!(7),
        json!("round"),
    ] {
        refused(tree);
    }
}

#[test]
fn text_in_a_type_is_text_in_the_tree_and_back() {
    #[derive(Serialize, Deserialize)]
    struct Holder {
        raw: Box<serde_json::value::RawValue>,
    }
    let tree = json!({"raw": {"a": [1, null]}});
    let holder: Holder = from_value(tree.clone()).unwrap();
    assert_eq!(holder.raw.get(), r#"{"a":[1,null]}"#);
    assert_eq!(to_value(&holder).unwrap(), tree);
}

#[test]
fn changing_a_copy_leaves_the_first_alone() {
    let first = json!({"a": {"b": [1, 2]}});
    let mut copy = first.clone();
    copy["a"]["b"][0] = json!(9);
    copy["a"]["c"]["d"] = json!("new");
    copy.pointer_mut("/a/b").unwrap().as_array_mut().unwrap().push(json!(3));
    assert_eq!(first, json!({"a": {"b": [1, 2]}}));
    assert_eq!(copy, json!({"a": {"b": [9, 2, 3], "c": {"d": "new"}}}));
}

#[test]
fn pointers_lead_where_rfc_6901_says() {
    let value = json!({"a/b": {"~": [10, 11]}, "": 1});
    for (pointer, expected) in [
        ("", Some(&value)),
        ("/a~1b/~0/1", Some(&json!(11))),
        ("/", Some(&json!(1))),
        ("/a~1b/~0/01", None),
        ("/a~1b/~0/+1", None),
        ("a", None),
    ] {
        assert_eq!(value.pointer(pointer), expected, "{pointer}");
    }
}

#[test]
fn a_value_is_three_words() {
    assert_eq!(size_of::<Value>(), 24);
    assert_eq!(size_of::<Map>(), 16);
}

#[test]
fn what_stands_in_a_source_may_be_an_expression() {
    const NAME: &str = "n";
    let inner = json!({"x": 1});
    let list = vec![inner.clone()];
    let made = json!({
        NAME: &inner, "list": list, ("a".to_owned() + "b"): [null, [], {}, 1 + 1, -2.5, "s", inner["x"]],
        inner["x"].to_string(): Some(true),
    });
    let expected = r#"{"1":true,"ab":[null,[],{},2,-2.5,"s",1],"list":[{"x":1}],"n":{"x":1}}"#;
    assert_eq!(made.to_string(), expected);
}

#[test]
fn whoever_keeps_items_is_asked_once_for_each() {
    let mut list = json!([1, 2, 3, 4, 5]).as_array().cloned().unwrap();
    let mut asked = Vec::new();
    list.retain(|value| {
        asked.push(value.clone());
        value.as_i64().is_some_and(|number| number % 2 == 1)
    });
    assert_eq!(asked, [1, 2, 3, 4, 5].map(Value::from));
    assert_eq!(Value::from(list), json!([1, 3, 5]));
}
