//! A Deployment in words.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, selector::LabelSelector, time};
use karmada_client::ListOptions;

use super::pairs;
use crate::context::Server;

/// The column of the values.
const WIDTH: usize = 24;

pub(super) async fn describe(server: &Server, object: &Value) -> String {
    let sets =
        server.client.api(&Gvr::new("apps", "v1", "replicasets")).namespaced(object.namespace());
    // Members have replica sets, the control plane has none: that is no failure.
    let sets =
        sets.list_all(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
    let own: Vec<Value> = sets
        .iter()
        .filter(|set| set.meta().owner_references.iter().any(|owner| owner.uid == object.uid()))
        .map(|set| set.value())
        .collect();
    render(object, &own)
}

fn render(object: &Value, sets: &[Value]) -> String {
    let line = |heading: &str, value: &str| format!("{:<WIDTH$}{value}\n", format!("{heading}:"));
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
    let number = |path: &[&str]| object.i64_at(path).unwrap_or_default();
    let created = object.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse_time);
    let created = created
        .map(|at| at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
        .unwrap_or_default();
    let selector = LabelSelector::from_object(object.at(&["spec", "selector"]));
    let selector = selector.map(|selector| selector.to_string()).unwrap_or_default();
    let mut out = line("Name", object.name());
    out.push_str(&line("Namespace", object.namespace()));
    out.push_str(&line("CreationTimestamp", &created));
    out.push_str(&pairs("Labels", WIDTH, object, "labels", "="));
    out.push_str(&pairs("Annotations", WIDTH, object, "annotations", ": "));
    out.push_str(&line("Selector", &selector));
    out.push_str(&line(
        "Replicas",
        &format!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            number(&["spec", "replicas"]),
            number(&["status", "updatedReplicas"]),
            number(&["status", "replicas"]),
            number(&["status", "availableReplicas"]),
            number(&["status", "unavailableReplicas"])
        ),
    ));
    out.push_str(&line("StrategyType", &text(&["spec", "strategy", "type"])));
    out.push_str(&line("MinReadySeconds", &number(&["spec", "minReadySeconds"]).to_string()));
    if let Some(rolling) = object.at(&["spec", "strategy", "rollingUpdate"]) {
        let bound = |field: &str| rolling.get(field).map(show).unwrap_or_default();
        let value =
            format!("{} max unavailable, {} max surge", bound("maxUnavailable"), bound("maxSurge"));
        out.push_str(&line("RollingUpdateStrategy", &value));
    }
    out.push_str(&template(object.at(&["spec", "template"]).unwrap_or(&Value::Null)));
    out.push_str(&conditions(object));
    out.push_str(&replica_sets(object, sets));
    out
}

fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn template(template: &Value) -> String {
    let labels = template.map_at(&["metadata", "labels"]).into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", show(value))).collect();
    let labels = if labels.is_empty() { "<none>".to_owned() } else { labels.join("\n           ") };
    let mut out = format!("Pod Template:\n  Labels:  {labels}\n");
    for (field, heading) in [("initContainers", "Init Containers"), ("containers", "Containers")] {
        let list = template.list_at(&["spec", field]);
        if list.is_empty() {
            continue;
        }
        out.push_str(&format!("  {heading}:\n"));
        list.iter().for_each(|one| out.push_str(&container(one)));
    }
    let names = |field: &str| -> String {
        let names: Vec<&str> =
            template.list_at(&["spec", field]).iter().filter_map(|v| v.str_at(&["name"])).collect();
        if names.is_empty() { "<none>".to_owned() } else { names.join(", ") }
    };
    let selectors = template.map_at(&["spec", "nodeSelector"]).into_iter().flatten();
    let selectors: Vec<String> =
        selectors.map(|(key, value)| format!("{key}={}", show(value))).collect();
    let selectors = if selectors.is_empty() { "<none>".to_owned() } else { selectors.join(",") };
    let tolerations: Vec<String> =
        template.list_at(&["spec", "tolerations"]).iter().map(toleration).collect();
    let tolerations = if tolerations.is_empty() {
        "<none>".to_owned()
    } else {
        tolerations.join("\n                   ")
    };
    out.push_str(&format!(
        "  Volumes:         {}\n  Node-Selectors:  {selectors}\n  Tolerations:     {tolerations}\n",
        names("volumes")
    ));
    out
}

fn toleration(toleration: &Value) -> String {
    let part = |field: &str| toleration.str_at(&[field]).unwrap_or_default();
    let value =
        if part("value").is_empty() { String::new() } else { format!("={}", part("value")) };
    let effect =
        if part("effect").is_empty() { String::new() } else { format!(":{}", part("effect")) };
    let exists = if part("operator") == "Exists" { " op=Exists" } else { "" };
    format!("{}{value}{effect}{exists}", part("key"))
}

fn container(container: &Value) -> String {
    let text = |field: &str| container.str_at(&[field]).unwrap_or_default().to_owned();
    let line = |heading: &str, value: &str| format!("    {:<15}{value}\n", format!("{heading}:"));
    let ports = container.list_at(&["ports"]);
    let port = |field: &str| {
        let shown: Vec<String> = ports
            .iter()
            .map(|port| {
                let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
                format!("{}/{protocol}", port.i64_at(&[field]).unwrap_or_default())
            })
            .collect();
        if shown.is_empty() { "<none>".to_owned() } else { shown.join(", ") }
    };
    let mut out = format!("   {}:\n", text("name"));
    out.push_str(&line("Image", &text("image")));
    out.push_str(&line(if ports.len() > 1 { "Ports" } else { "Port" }, &port("containerPort")));
    out.push_str(&line(
        if ports.len() > 1 { "Host Ports" } else { "Host Port" },
        &port("hostPort"),
    ));
    for (field, heading) in [("command", "Command"), ("args", "Args")] {
        let words = container.list_at(&[field]);
        if !words.is_empty() {
            out.push_str(&format!("    {heading}:\n"));
            words.iter().for_each(|word| out.push_str(&format!("      {}\n", show(word))));
        }
    }
    for (field, heading) in [("limits", "Limits"), ("requests", "Requests")] {
        if let Some(amounts) = container.map_at(&["resources", field]).filter(|map| !map.is_empty())
        {
            out.push_str(&format!("    {heading}:\n"));
            for (name, amount) in amounts {
                out.push_str(&format!("      {:<9}{}\n", format!("{name}:"), show(amount)));
            }
        }
    }
    let variables = container.list_at(&["env"]);
    if variables.is_empty() {
        out.push_str(&line("Environment", "<none>"));
    } else {
        out.push_str("    Environment:\n");
        for variable in variables {
            let name = variable.str_at(&["name"]).unwrap_or_default();
            let value = variable.str_at(&["value"]).unwrap_or("<set from elsewhere>");
            out.push_str(&format!("      {name}:  {value}\n"));
        }
    }
    let mounts = container.list_at(&["volumeMounts"]);
    if mounts.is_empty() {
        out.push_str(&line("Mounts", "<none>"));
    } else {
        out.push_str("    Mounts:\n");
        for mount in mounts {
            let part = |field: &str| mount.str_at(&[field]).unwrap_or_default();
            let mode = if mount.bool_at(&["readOnly"]) == Some(true) { "ro" } else { "rw" };
            out.push_str(&format!("      {} from {} ({mode})\n", part("mountPath"), part("name")));
        }
    }
    out
}

fn conditions(object: &Value) -> String {
    let list = object.list_at(&["status", "conditions"]);
    if list.is_empty() {
        return String::new();
    }
    let mut out = "Conditions:\n  Type           Status  Reason\n  ----           ------  ------\n"
        .to_owned();
    for condition in list {
        let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        out.push_str(&format!("  {:<15}{:<8}{}\n", part("type"), part("status"), part("reason")));
    }
    out
}

/// The set of the present revision, and those before it that still have pods.
fn replica_sets(object: &Value, sets: &[Value]) -> String {
    const REVISION: &str = "deployment.kubernetes.io/revision";
    let Some(newest) =
        sets.iter().find(|set| set.annotation(REVISION) == object.annotation(REVISION))
    else {
        return String::new();
    };
    let show = |set: &Value| {
        let count = |path: &[&str]| set.i64_at(path).unwrap_or_default();
        format!(
            "{} ({}/{} replicas created)",
            set.name(),
            count(&["status", "replicas"]),
            count(&["spec", "replicas"])
        )
    };
    let old: Vec<String> = sets
        .iter()
        .filter(|set| {
            set.uid() != newest.uid() && set.i64_at(&["status", "replicas"]).unwrap_or_default() > 0
        })
        .map(show)
        .collect();
    let old = if old.is_empty() { "<none>".to_owned() } else { old.join(", ") };
    format!("OldReplicaSets:  {old}\nNewReplicaSet:   {}\n", show(newest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_deployment_reads_as_kubectl_shows_it() {
        let deployment = json!({
            "metadata": {
                "name": "nginx", "namespace": "default", "creationTimestamp": "2026-11-15T19:27:33Z",
                "labels": {"app": "nginx"}},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "nginx"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {
                    "metadata": {"labels": {"app": "nginx"}},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}},
            "status": {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2},
        });
        let expected = "\
Name:                   nginx
Namespace:              default
CreationTimestamp:      Sun, 15 Nov 2026 19:27:33 +0000
Labels:                 app=nginx
Annotations:            <none>
Selector:               app=nginx
Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable
StrategyType:           RollingUpdate
MinReadySeconds:        0
RollingUpdateStrategy:  25% max unavailable, 25% max surge
Pod Template:
  Labels:  app=nginx
  Containers:
   nginx:
    Image:         nginx
    Port:          <none>
    Host Port:     <none>
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
";
        assert_eq!(render(&deployment, &[]), expected);
    }
}
