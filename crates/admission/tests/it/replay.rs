//! The recorded answers of the original against ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value};

use crate::normalise::Normaliser;
use crate::plane::{Plane, Target};

/// Topics and cases that are about the API server itself.
const NEEDS_SERVER: [&str; 1] = ["table"];

pub(crate) fn cases() -> Vec<Value> {
    let packed: &[u8] = include_bytes!("../golden/admission.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Ids of cases that differ on purpose, with the reason.
fn known_differences() -> BTreeMap<&'static str, &'static str> {
    include_str!("../golden/known-differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap())
        .collect()
}

/// Whether the case asks for something only a server has.
fn needs_server(case: &Value) -> bool {
    let topic = case.str_at(&["topic"]).unwrap();
    let asks_server = |step: &Value| {
        let path = step.str_at(&["request", "path"]).unwrap_or_default();
        Target::parse(path).is_none_or(|target| {
            target.group == "cluster.karmada.io" && target.query.contains("fieldSelector")
        })
    };
    NEEDS_SERVER.contains(&topic) || case.list_at(&["steps"]).iter().any(asks_server)
}

/// Plays a case; the error tells the first difference.
fn play(case: &Value) -> Result<(), String> {
    let mut plane = Plane::new(case.str_at(&["profile"]) == Some("gates"));
    for step in case.list_at(&["setup"]) {
        send(&mut plane, step);
    }
    let mut normaliser = Normaliser::default();
    for step in case.list_at(&["steps"]) {
        let (code, mut body) = send(&mut plane, step).ok_or("not a request on an object")?;
        normaliser.apply(&mut body);
        let expected = step.at(&["response", "body"]).cloned().unwrap_or_default();
        let body = selected(body, step.list_at(&["select"]));
        let expected_code = step.i64_at(&["response", "code"]).unwrap_or_default();
        if i64::from(code) != expected_code || body != comparable(expected.clone()) {
            return Err(format!("expected {expected_code} {expected}\n  observed {code} {body}"));
        }
    }
    Ok(())
}

fn send(plane: &mut Plane, step: &Value) -> Option<(u16, Value)> {
    let request = step.get("request")?;
    let target = Target::parse(request.str_at(&["path"])?)?;
    let body = request.get("body").cloned().unwrap_or_default();
    Some(plane.answer(request.str_at(&["method"])?, &target, &body))
}

fn selected(body: Value, select: &[Value]) -> Value {
    let body = comparable(body);
    if select.is_empty() {
        return body;
    }
    let kept: Map = select
        .iter()
        .filter_map(Value::as_str)
        .filter_map(|field| Some((field.to_owned(), body.get(field)?.clone())))
        .collect();
    Value::Object(kept)
}

/// Loopback addresses stand as `<server>` in the recordings.
fn comparable(body: Value) -> Value {
    let text = body.to_string().replace("https://127.0.0.1:1", "<server>");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn answers_equal_the_recorded_ones() {
    let known = known_differences();
    let mut report = String::new();
    let (mut judged, mut agreed, mut wrong) = (0, 0, 0);
    for case in cases() {
        if needs_server(&case) {
            continue;
        }
        let id = case.str_at(&["id"]).unwrap();
        judged += 1;
        match (play(&case), known.contains_key(id)) {
            (Ok(()), false) => agreed += 1,
            (Err(_), true) => {}
            (Ok(()), true) => {
                wrong += 1;
                writeln!(report, "{id}: agrees although it is listed as a difference").unwrap();
            }
            (Err(difference), false) => {
                wrong += 1;
                writeln!(report, "{id}: {difference}").unwrap();
            }
        }
    }
    assert_eq!(wrong, 0, "{agreed} of {judged} agree\n{report}");
    assert!(agreed * 100 >= judged * 98, "{agreed} of {judged} agree");
    assert!(judged > 500, "only {judged} cases were judged");
}
