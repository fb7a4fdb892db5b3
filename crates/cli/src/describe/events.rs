//! The events of an object, as the end of its description.

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, time};
use karmada_client::ListOptions;

use super::tabs::Text;
use crate::context::Server;
use crate::error::Result;

pub(super) async fn describe(server: &Server, object: &Value, out: &mut Text) -> Result<()> {
    let selector = format!(
        "involvedObject.name={},involvedObject.kind={},involvedObject.uid={}",
        object.name(),
        object.kind(),
        object.uid()
    );
    let options = ListOptions { field_selector: selector, ..ListOptions::default() };
    let api = server.client.api(&Gvr::new("", "v1", "events")).namespaced(object.namespace());
    let mut events: Vec<Value> =
        api.list_all(&options).await?.items.iter().map(|item| item.value()).collect();
    events.sort_by_key(last_seen);
    render(out, &events, Timestamp::now());
    Ok(())
}

fn last_seen(event: &Value) -> Option<Timestamp> {
    let at = |path: &[&str]| event.str_at(path).and_then(time::parse_time);
    at(&["series", "lastObservedTime"])
        .or_else(|| at(&["lastTimestamp"]))
        .or_else(|| at(&["eventTime"]))
        .or_else(|| at(&["metadata", "creationTimestamp"]))
}

fn render(out: &mut Text, events: &[Value], now: Timestamp) {
    if events.is_empty() {
        return out.field(0, "Events", "");
    }
    out.line(0, "Events:");
    out.line(1, "Type\tReason\tAge\tFrom\tMessage");
    out.line(1, "----\t------\t----\t----\t-------");
    for event in events {
        let text = |path: &[&str]| event.str_at(path).unwrap_or_default();
        let from = [text(&["source", "component"]), text(&["reportingComponent"])];
        let from = from.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let (kind, reason, age) = (text(&["type"]), text(&["reason"]), age(event, now));
        let about = match text(&["involvedObject", "fieldPath"]) {
            "" => String::new(),
            path => format!("{path}: "),
        };
        let message = text(&["message"]).trim();
        out.line(1, &format!("{kind}\t{reason}\t{age}\t{from}\t{about}{message}"));
    }
}

/// `10s`, or `10s (x2 over 1m)` where it happened more than once.
fn age(event: &Value, now: Timestamp) -> String {
    let since = |at: Option<Timestamp>| {
        at.map_or_else(|| "<unknown>".to_owned(), |at| time::human_duration(now.duration_since(at)))
    };
    let count =
        event.i64_at(&["series", "count"]).or_else(|| event.i64_at(&["count"])).unwrap_or(1);
    let first = event.str_at(&["eventTime"]).or_else(|| event.str_at(&["firstTimestamp"]));
    let first = first.and_then(time::parse_time);
    match count {
        0 | 1 => since(first.or_else(|| last_seen(event))),
        count => format!("{} (x{count} over {})", since(last_seen(event)), since(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn events_line_up_with_their_counts() {
        let event = |reason: &str, count: i64| {
            json!({
                "type": "Normal", "reason": reason, "message": "m", "count": count, "source": {"component": "c"},
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:50Z"})
        };
        let now = time::parse_time("2026-01-01T00:01:00Z").unwrap();
        let rendered = |events: &[Value]| {
            let mut out = Text::default();
            render(&mut out, events, now);
            out.align()
        };
        let text = rendered(&[event("SyncWorkSucceed", 2), event("Short", 1)]);
        let expected = "\
Events:
  Type    Reason           Age                From  Message
  ----    ------           ----               ----  -------
  Normal  SyncWorkSucceed  10s (x2 over 60s)  c     m
  Normal  Short            60s                c     m
";
        assert_eq!(text, expected);
        assert_eq!(rendered(&[]), "Events:  <none>\n");
    }
}
