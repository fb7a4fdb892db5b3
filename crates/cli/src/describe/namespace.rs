//! A Namespace in words, with the limits that hold in it.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::ListOptions;

use super::tabs::{Text, plain};
use crate::context::Server;

pub(super) async fn describe(server: &Server, namespace: &Value) -> String {
    let list = async |resource: &str| -> Vec<Value> {
        let api = server.client.api(&Gvr::new("", "v1", resource)).namespaced(namespace.name());
        // Without the right to read them there are none to show.
        let list =
            api.list_all(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
        list.iter().map(|item| item.value()).collect()
    };
    render(namespace, &list("resourcequotas").await, &list("limitranges").await)
}

fn render(namespace: &Value, quotas: &[Value], ranges: &[Value]) -> String {
    let mut out = Text::default();
    out.field(0, "Name", namespace.name());
    out.pairs("Labels", namespace, "labels", "=");
    out.pairs("Annotations", namespace, "annotations", ": ");
    out.field(0, "Status", namespace.str_at(&["status", "phase"]).unwrap_or_default());
    let conditions = namespace.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tReason\tMessage");
        out.line(1, "----\t------\t------\t-------");
        for condition in conditions {
            let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
            out.line(
                1,
                &format!(
                    "{}\t{}\t{}\t{}",
                    part("type"),
                    part("status"),
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
        return out.align();
    }
    out.line(0, "Resource Limits");
    out.line(
        1,
        "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio",
    );
    out.line(
        1,
        "----\t--------\t---\t---\t---------------\t-------------\t-----------------------",
    );
    for limit in ranges.iter().flat_map(|range| range.list_at(&["spec", "limits"])) {
        let fields = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
        let mut resources: Vec<&String> = fields
            .iter()
            .flat_map(|field| {
                limit.map_at(&[field]).into_iter().flatten().map(|(resource, _)| resource)
            })
            .collect();
        resources.sort();
        resources.dedup();
        for resource in resources {
            let cells: Vec<String> = fields
                .iter()
                .map(|field| limit.at(&[field, resource]).map(plain).unwrap_or("-".to_owned()))
                .collect();
            let kind = limit.str_at(&["type"]).unwrap_or_default();
            out.line(1, &format!("{kind}\t{resource}\t{}", cells.join("\t")));
        }
    }
    out.align()
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
        assert_eq!(render(&namespace, &[], &[]), expected);
        let quota = json!({
            "metadata": {"name": "q"}, "status": {"hard": {"pods": "10"}, "used": {"pods": "3"}}});
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
        let text = render(&namespace, &[quota], &[range]);
        assert!(text.contains("  pods      3     10\n"), "{text}");
        assert!(
            text.contains("  Container  cpu       -    -    -                1              -\n"),
            "{text}"
        );
    }
}
