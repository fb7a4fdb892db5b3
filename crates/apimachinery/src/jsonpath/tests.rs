use crate::{Value, json};
use proptest::prelude::*;

use super::*;

fn nodes() -> Value {
    json!({
        "kind": "List",
        "items": [
            {"name": "n1", "labels": {"example.com/zone": "a"}, "ready": true, "capacity": {"cpu": "4"},
             "addresses": [{"type": "ip", "address": "1"}]},
            {"name": "n2", "labels": {"example.com/zone": "b"}, "ready": false, "capacity": {"cpu": "8"},
             "addresses": [{"type": "ip", "address": "2"}, {"type": "dns", "address": "3"}]},
        ],
        "numbers": [0, 1, 2, 3],
        "none": null,
        "empty": [],
    })
}

#[test]
fn templates_render_as_kubectl_renders_them() {
    let cases = [
        ("plain", "plain"),
        ("{.kind}", "List"),
        ("{$.kind}-{@.kind}", "List-List"),
        ("{.items[*].name}", "n1 n2"),
        ("{.items[0].name}", "n1"),
        ("{.items[-1].name}", "n2"),
        ("{.items[0:1].name}", "n1"),
        ("{.numbers[1:3]}", "1 2"),
        ("{.numbers[::2]}", "0 2"),
        ("{.numbers[-2:]}", "2 3"),
        ("{.numbers[0:0]}", ""),
        ("{.numbers[0,2]}", "0 2"),
        ("{.numbers}", "[0,1,2,3]"),
        ("{.items[0].capacity}", r#"{"cpu":"4"}"#),
        (r"{.items[0].labels.example\.com/zone}", "a"),
        ("{.items[*]['name', 'capacity.cpu']}", "n1 n2 4 8"),
        (r#"{.items[?(@.name=="n2")].capacity.cpu}"#, "8"),
        (r"{.items[?(@.labels.example\.com/zone=='b')].name}", "n2"),
        ("{.items[?(@.ready==true)].name}", "n1"),
        ("{.items[?(@.addresses[1])].name}", "n2"),
        ("{.numbers[?(@>1)]}", "2 3"),
        ("{.numbers[?(@!=1)]}", "0 2 3"),
        ("{..address}", "1 2 3"),
        ("{.items[*].addresses[*].address}", "1 2 3"),
        (r#"{range .items[*]}{.name}{"\t"}{end}."#, "n1\tn2\t."),
        (r#"{range .items[*]}{range .addresses[*]}{.address},{end};{end}{.kind}"#, "1,;2,3,;List"),
        (r#"{"{"}"#, "{"),
        ("{.none}", "null"),
        ("{.empty[*]}", ""),
        ("{.items[0].capacity.*}", "4"),
    ];
    for (template, expected) in cases {
        let rendered = Template::parse(template).and_then(|parsed| parsed.render(&nodes()));
        assert_eq!(rendered, Ok(expected.to_owned()), "{template}");
    }
}

#[test]
fn missing_fields_are_errors_unless_allowed() {
    let strict = Template::parse("{.nope.deeper}").expect("parses");
    assert_eq!(strict.render(&nodes()), Err(Error::new("nope is not found")));
    assert_eq!(strict.allowing_missing().render(&nodes()), Ok(String::new()));
    let column = Template::parse_path(".items[*].name").expect("parses");
    assert_eq!(column.find_first(&nodes()).expect("found").len(), 2);
}

#[test]
fn what_cannot_be_parsed_or_evaluated_is_said_in_kubectl_words() {
    let cases = [
        ("{.kind", "unclosed action"),
        ("{.items[0}", "unterminated array"),
        ("{.items[x]}", "invalid array index x"),
        ("{.items[?(@.name}", "unterminated filter"),
        ("{.items[?(@.name)}", "unclosed array expect ]"),
        (r#"{"abc}"#, "unterminated quoted string"),
        ("{!}", "unrecognized character in action: U+0021 '!'"),
        ("{....name}", "invalid multiple recursive descent"),
        ("{end}", "not in range, nothing to end"),
        ("{hello}", "unrecognized identifier hello"),
        ("{.kind[0]}", "string is not array or slice"),
        ("{.items[5]}", "array index out of bounds: index 5, length 2"),
        ("{.numbers[3:1]}", "starting index 3 is greater than ending index 1"),
        ("{.numbers[?(@<>1)]}", "unrecognized filter operator <>"),
        ("{.numbers[?(@==\"x\")]}", "incompatible types for comparison"),
        ("{.numbers[::0]}", "step must be > 0"),
    ];
    for (template, message) in cases {
        let result = Template::parse(template).and_then(|parsed| parsed.render(&nodes()));
        assert_eq!(result, Err(Error::new(message)), "{template}");
    }
}

#[test]
fn short_forms_are_completed() {
    for short in ["a.b", ".a.b", "{a.b}", "{.a.b}"] {
        assert_eq!(complete_path(short), Ok("{.a.b}".to_owned()));
    }
    for bad in ["{a.b", "a.b}", "{{a}}", "."] {
        assert!(complete_path(bad).is_err(), "{bad}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{{{}", "[?(".repeat(5000));
    assert!(Template::parse(&deep).is_err());
    let deep = format!("{{{}@{}}}", "[?(".repeat(5000), ")]".repeat(5000));
    assert!(Template::parse(&deep).is_err());
}

proptest! {
    #[test]
    fn arbitrary_templates_never_panic(text in r#"[{}.@$*\[\]?()'"a-c0-3:,=<>! \\-]{0,40}"#) {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&nodes());
        }
    }
}
