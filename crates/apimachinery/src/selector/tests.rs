use crate::json;
use proptest::prelude::*;

use super::*;
use crate::field::Path;

#[test]
fn label_selectors_match_as_their_operators_say() {
    let labels = json!({"a": "1", "b": "x"});
    let cases = [
        ("", true),
        ("a", true),
        ("!a", false),
        ("!c", true),
        ("a=1", true),
        ("a==1,b=x", true),
        ("a!=1", false),
        ("c!=1", true),
        ("a in (1,2)", true),
        ("a notin (1,2)", false),
        ("c notin (1)", true),
        ("a>0", true),
        ("a<1", false),
        ("b>0", false),
        ("c=", false),
        ("in in (in)", false),
    ];
    for (text, expected) in cases {
        let selector = LabelSelector::parse(text).expect(text);
        assert_eq!(selector.matches(Some(&labels)), expected, "{text}");
    }
}

#[test]
fn label_selectors_print_sorted_and_normalised() {
    let cases = [
        ("b,a = 1", "a=1,b"),
        ("x in (c, a,b)", "x in (a,b,c)"),
        ("x notin ()", "x notin ()"),
        ("x in (,a)", "x in (,a)"),
        ("!y", "!y"),
        ("a == 1", "a==1"),
    ];
    for (text, printed) in cases {
        assert_eq!(LabelSelector::parse(text).expect(text).to_string(), printed);
    }
}

#[test]
fn bad_label_selectors_are_explained_in_kubernetes_words() {
    let cases = [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(b", "unable to parse requirement: found '(', expected: identifier"),
        (
            "a>x",
            r#"unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"#,
        ),
        (
            "-a",
            r#"unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
        ),
        (
            "a=-",
            r#"unable to parse requirement: values[0][a]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#,
        ),
    ];
    for (text, message) in cases {
        assert_eq!(LabelSelector::parse(text).expect_err(text).0, message);
    }
}

#[test]
fn selector_objects_select_nothing_when_absent_and_everything_when_empty() {
    let labels = json!({"a": "1"});
    let select = |object: Option<&crate::Value>| {
        LabelSelector::from_object(object).expect("valid").matches(Some(&labels))
    };
    assert!(!select(None));
    assert!(select(Some(&json!({}))));
    assert!(select(Some(&json!({"matchLabels": {"a": "1"}}))));
    let expressions = json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]});
    assert!(select(Some(&expressions)));
    let bad = json!({"matchExpressions": [{"key": "b", "operator": "Near"}]});
    assert_eq!(
        LabelSelector::from_object(Some(&bad)).expect_err("bad").0,
        r#""Near" is not a valid label selector operator"#
    );
}

#[test]
fn selector_objects_are_validated_in_place() {
    let path = Path::new("spec").child("selector");
    let selector = json!({"matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Near"},
    ]});
    let errors = validate_label_selector(Some(&selector), &path);
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            r#"spec.selector.matchExpressions[2].operator: Invalid value: "Near": not a valid selector operator"#,
        ]
    );
}

#[test]
fn field_selectors_split_escape_and_refuse() {
    let selector = FieldSelector::parse(r"metadata.name!=x,a=b\,c\=d").expect("valid");
    assert_eq!(selector.to_string(), r"a=b\,c\=d,metadata.name!=x");
    assert_eq!(selector.required_value("a"), Some("b,c=d"));
    assert!(selector.matches_with(|field| (field == "a").then_some("b,c=d")));
    let cases = [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ];
    for (text, message) in cases {
        assert_eq!(FieldSelector::parse(text).expect_err(text).0, message);
    }
    assert!(FieldSelector::parse(",,").expect("valid").is_empty());
}

proptest! {
    #[test]
    fn parsing_what_was_printed_gives_the_same_label_selector(
        parts in prop::collection::vec("[a-z]{1,3}( in \\([a-z]{1,2},[a-z]{1,2}\\)|=[a-z]{0,3}|!=x|)", 0..5)
    ) {
        let selector = LabelSelector::parse(&parts.join(",")).expect("well formed");
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).expect("printed"), selector);
    }

    #[test]
    fn parsing_what_was_printed_gives_the_same_field_selector(value in ".{0,12}", negated: bool) {
        let term = FieldTerm { field: "a.b".into(), value, negated };
        let selector = FieldSelector::new(vec![term]);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).expect("printed"), selector);
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,40}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
