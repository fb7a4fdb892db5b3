//! Clusters as rows of a Table, the wide columns included.

use karmada_api::conditions;
use karmada_apimachinery::Value;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;

/// Definitions of the columns of a table of clusters: name, priority, description.
const COLUMNS: [(&str, i32, &str); 10] = [
    ("Name", 0, "Name of the cluster."),
    ("Version", 0, "Kubernetes version of the cluster."),
    ("Mode", 0, "Who applies Works in the cluster: Push or Pull."),
    ("Ready", 0, "Whether the cluster can take workloads."),
    ("Age", 0, "Time since the cluster was registered."),
    ("Zones", 1, "Failure zones of the cluster."),
    ("Region", 1, "Region of the cluster."),
    ("Provider", 1, "Cloud provider of the cluster."),
    ("API-Endpoint", 1, "URL of the cluster's API server."),
    ("Proxy-URL", 1, "Proxy on the way to the cluster."),
];

/// The column definitions as they stand in a Table.
pub fn column_definitions() -> Vec<Value> {
    COLUMNS
        .iter()
        .map(|(name, priority, description)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({
                "name": name, "type": "string", "format": format,
                "description": description, "priority": priority,
            })
        })
        .collect()
}

/// The cells of a cluster's row; `age` is the printed age.
pub fn cells(object: &Value, age: &str) -> Vec<Value> {
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
    let is_ready = |condition: &&Value| condition["type"] == conditions::cluster::READY;
    let ready = object
        .list_at(&["status", "conditions"])
        .iter()
        .find(is_ready)
        .and_then(|condition| condition.str_at(&["status"]))
        .unwrap_or("Unknown");
    let zones: Vec<&str> =
        object.list_at(&["spec", "zones"]).iter().filter_map(Value::as_str).collect();
    vec![
        object.name().into(),
        text(&["status", "kubernetesVersion"]).into(),
        text(&["spec", "syncMode"]).into(),
        ready.into(),
        age.into(),
        or_none(&zones.join(",")).into(),
        or_none(text(&["spec", "region"])).into(),
        or_none(text(&["spec", "provider"])).into(),
        text(&["spec", "apiEndpoint"]).into(),
        or_none(text(&["spec", "proxyURL"])).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_what_is_known_and_say_so_where_nothing_is() {
        let full = json!({
            "metadata": {"name": "m"},
            "spec": {
                "syncMode": "Pull", "region": "r", "zones": ["a", "b"], "provider": "p",
                "apiEndpoint": "https://a", "proxyURL": "http://p",
            },
            "status": {
                "kubernetesVersion": "v1.36.3",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let cases = [
            (
                full,
                ["m", "v1.36.3", "Pull", "True", "5m", "a,b", "r", "p", "https://a", "http://p"],
            ),
            (
                json!({"metadata": {"name": "m"}, "spec": {"syncMode": "Push"}}),
                ["m", "", "Push", "Unknown", "5m", "<none>", "<none>", "<none>", "", "<none>"],
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(cells(&object, "5m"), expected);
        }
        assert_eq!(column_definitions().len(), COLUMNS.len());
    }
}
