//! Expressions and what they come to.

use std::collections::BTreeMap;

use karmada_apimachinery::json;
use proptest::prelude::*;

use crate::{Budget, Declarations, Type, Value, compile};

fn run(source: &str) -> Result<karmada_apimachinery::Value, String> {
    let object = json!({"a": 1, "name": "x", "list": [1, 2, 3], "map": {"k": "v"}});
    let declarations = Declarations::from([("o".to_owned(), Type::Dyn)]);
    let program = compile(source, &declarations)?;
    let bindings = BTreeMap::from([("o".to_owned(), Value::from_json(&object))]);
    let mut budget = Budget::new(1_000_000);
    program.run(&bindings, &mut budget).map(|v| v.to_json()).map_err(|e| e.to_string())
}

// Shows: CRD-11
#[test]
fn expressions_mean_what_they_mean_elsewhere() {
    for (source, expected) in [
        ("1 + 2 * 3 - 4 / 2 % 3", json!(5)),
        ("-o.a", json!(-1)),
        ("!(o.a == 1) || 'b' in ['a', 'b']", json!(true)),
        ("o.a == 1.0 && 1u < 2 && 2 > 1.5", json!(true)),
        ("'k' in o.map && has(o.map.k) && !has(o.map.z)", json!(true)),
        ("o.list.all(x, x > 0) && o.list.exists(x, x == 2)", json!(true)),
        ("o.list.exists_one(x, x == 2)", json!(true)),
        ("o.list.map(x, x > 1, x * 2)", json!([4, 6])),
        ("o.list.filter(x, x != 2)", json!([1, 3])),
        ("o.list.all(i, v, v == i + 1)", json!(true)),
        ("o.list.transformList(i, v, i * v)", json!([0, 2, 6])),
        ("{'a': 1}.transformMap(k, v, v + 1)", json!({"a": 2})),
        ("cel.bind(x, o.a + 1, x * x)", json!(4)),
        ("o.?zzz.orValue('none')", json!("none")),
        ("o.?name.optMap(n, n + '!').value()", json!("x!")),
        ("o.list[?9].hasValue()", json!(false)),
        ("[1, ?optional.none(), 3]", json!([1, 3])),
        ("size('héllo')", json!(5)),
        ("'a,b,c'.split(',').join('-')", json!("a-b-c")),
        ("'hello'.substring(1, 3) + 'x'.upperAscii()", json!("elX")),
        ("'abcabc'.lastIndexOf('bc')", json!(4)),
        ("'%s is %d (%.2f)'.format(['x', 3, 1.5])", json!("x is 3 (1.50)")),
        ("'aaa'.matches('^a+$')", json!(true)),
        ("'a1b22'.findAll('[0-9]+')", json!(["1", "22"])),
        ("[3, 1, 2].max() + [1, 2].sum()", json!(6)),
        ("[1, 2, 3].isSorted()", json!(true)),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", json!(true)),
        ("string(quantity('500m').add(quantity('500m')))", json!("1")),
        ("ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('x')", json!(true)),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", json!(true)),
        ("cidr('10.1.2.3/8').masked().ip() == ip('10.0.0.0')", json!(true)),
        ("url('https://u@h:1/p?a=b').getHostname() + url('https://h:1').getPort()", json!("h1")),
        ("semver('1.2.3').isLessThan(semver('1.10.0-rc.1'))", json!(true)),
        ("format.dns1123Label().validate('a-b').hasValue()", json!(false)),
        ("sets.equivalent([1, 2], [2, 1, 1])", json!(true)),
        ("duration('90m') > duration('1h') && string(duration('90s')) == '1m30s'", json!(true)),
        ("timestamp('2024-05-06T07:08:09Z').getMonth()", json!(4)),
        ("type(1) == int && type('a') != bytes", json!(true)),
        ("true || 1 / 0 > 0", json!(true)),
        ("1 / 0 > 0 || true", json!(true)),
        ("r'\\d' + \"\\u00e9\" + '''x'''", json!("\\dé".to_owned() + "x")),
        ("Object{spec: Object.spec{replicas: 4}}", json!({"spec": {"replicas": 4}})),
    ] {
        assert_eq!(run(source), Ok(expected), "{source}");
    }
}

#[test]
fn failures_are_worded_as_clients_know_them() {
    for (source, expected) in [
        ("1 / (o.a - 1) > 0", "division by zero"),
        ("o.zzz", "no such key: zzz"),
        ("o.list[7]", "index out of bounds: 7"),
        ("9223372036854775807 + 1", "integer overflow"),
        (
            "nosuch == 1",
            "ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n | nosuch == 1\n | ^",
        ),
        (
            "1 + 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
        ),
        (
            "'a'.size(1)",
            "ERROR: <input>:1:9: found no matching overload for 'size' applied to 'string.(int)'\n | 'a'.size(1)\n | ........^",
        ),
    ] {
        assert_eq!(run(source), Err(expected.to_owned()), "{source}");
    }
}

// Shows: CRD-11
#[test]
fn texts_that_cannot_be_read_are_told_by_their_type() {
    for (source, to) in [
        ("int('a')", "int"),
        ("uint('-1')", "uint"),
        ("double('a')", "double"),
        ("bool('yes')", "bool"),
        ("duration('a') > duration('1s')", "google.protobuf.Duration"),
        ("timestamp('a') > timestamp('b')", "google.protobuf.Timestamp"),
    ] {
        let expected = format!("type conversion error from 'string' to '{to}'");
        assert_eq!(run(source), Err(expected), "{source}");
    }
}

/// Definitions are refused or taken by this estimate, so it is Kubernetes' own, oddities included.
// Shows: CRD-11
#[test]
fn a_part_of_what_was_split_is_estimated_as_large_as_the_whole() {
    let cost = |of: Type, source: &str| {
        compile(source, &Declarations::from([("self".to_owned(), of)])).expect("compile").max_cost
    };
    let source = "self.split('@')[1].matches('^sha256:[a-f0-9]{64}$')";
    let (short, long) = (Type::String(447), Type::string());
    assert!(cost(short, source) < 1_000, "it fits");
    assert!(cost(long, source) > 1_000_000, "without a bound it does not");
}

// Shows: CRD-11
#[test]
fn a_field_may_be_called_as_a_word_of_the_language() {
    let field = Type::Object(std::sync::Arc::new(crate::types::ObjectType {
        name: "self".to_owned(),
        fields: BTreeMap::from([("__namespace__".to_owned(), Type::string())]),
    }));
    let declarations = Declarations::from([("self".to_owned(), field)]);
    let value = Value::from_json(&json!({"__namespace__": "n"}));
    let bindings = BTreeMap::from([("self".to_owned(), value)]);
    for source in ["self.namespace == 'n'", "has(self.namespace)", "self.__namespace__ == 'n'"] {
        let program = compile(source, &declarations).expect("compile");
        let outcome = program.run(&bindings, &mut Budget::new(1_000)).expect("run");
        assert_eq!(outcome.to_json(), json!(true), "{source}");
    }
    assert!(compile("self.package == 'n'", &declarations).is_err());
}

// Shows: CRD-11
#[test]
fn a_dear_expression_stops_at_its_budget() {
    let list = format!("[{}]", vec!["1"; 100].join(","));
    let source =
        format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, a + b + c + d > 0))))");
    assert_eq!(run(&source), Err("operation cancelled: actual cost limit exceeded".to_owned()));
}

proptest! {
    #[test]
    fn no_text_makes_it_fall_over(source in "[-+*/%!?:.,()\\[\\]{}<>=&|'\"a-z0-9 \\\\_]{0,60}") {
        let _ = run(&source);
    }
}
