//! A Namespace in words, with the limits that hold in it.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::ListOptions;

use super::access::NEVER;
use super::limits::{write_limits, write_scopes};
use super::moment;
use super::tabs::{Text, plain};
use crate::context::Server;

pub(super) async fn describe(server: &Server, namespace: &Value) -> Text {
    let list = async |resource: &str| -> Vec<Value> {
        let api = server.client.api(&Gvr::new("", "v1", resource)).namespaced(namespace.name());
        // Without the right to read them there are none to show.
        let list =
            api.list_all(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
        list.iter().map(|item| item.value()).collect()
    };
    render(namespace, &list("resourcequotas").await, &list("limitranges").await)
}

fn render(namespace: &Value, quotas: &[Value], ranges: &[Value]) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", namespace.name());
    out.pairs("Labels", namespace, "labels", "=");
    out.pairs("Annotations", namespace, "annotations", ": ");
    out.field(0, "Status", namespace.str_at(&["status", "phase"]).unwrap_or_default());
    let conditions = namespace.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
        out.line(1, "----\t------\t------------------\t------\t-------");
        for condition in conditions {
            let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
            out.line(
                1,
                &format!(
                    "{}\t{}\t{}\t{}\t{}",
                    part("type"),
                    part("status"),
                    moment(condition, &["lastTransitionTime"]).unwrap_or_else(|| NEVER.to_owned()),
                    part("reason"),
                    part("message")
                ),
            );
        }
    }
    out.line(0, "");
    if quotas.is_empty() {
        out.line(0, "No resource quota.");
    } else {
        out.line(0, "Resource Quotas");
    }
    for quota in quotas {
        out.field(1, "Name", quota.name());
        write_scopes(&mut out, quota, 1, "* ");
        out.line(1, "Resource\tUsed\tHard");
        out.line(1, "--------\t---\t---");
        for (resource, hard) in quota.map_at(&["status", "hard"]).into_iter().flatten() {
            let used = quota.at(&["status", "used", resource]).map(plain).unwrap_or("0".to_owned());
            out.line(1, &format!("{resource}\t{used}\t{}", plain(hard)));
        }
    }
    out.line(0, "");
    if ranges.is_empty() {
        out.line(0, "No LimitRange resource.");
        return out;
    }
    out.line(0, "Resource Limits");
    let limits = ranges.iter().flat_map(|range| range.list_at(&["spec", "limits"]));
    write_limits(&mut out, " ", limits);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn limits_are_shown_or_said_to_be_none() {
        let namespace = json!({
            "metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"phase": "Active"}});
        let expected = "\
Name:         a
Labels:       x=y
Annotations:  <none>
Status:       Active

No resource quota.

No LimitRange resource.
";
        assert_eq!(render(&namespace, &[], &[]).align(), expected);
        let quota = json!({
            "metadata": {"name": "q"}, "status": {"hard": {"pods": "10"}, "used": {"pods": "3"}}});
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
        let text = render(&namespace, &[quota], &[range]).align();
        assert!(text.contains("  pods      3     10\n"), "{text}");
        assert!(
            text.contains(" Container  cpu       -    -    -                1              -\n"),
            "{text}"
        );
    }
}
