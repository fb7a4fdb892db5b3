//! A Deployment in words.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, selector::LabelSelector};
use karmada_client::ListOptions;

use super::containers::{self, Within};
use super::moment;
use super::tabs::{Text, plain};
use super::volumes;
use crate::context::Server;

pub(super) async fn describe(server: &Server, object: &Value) -> Text {
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

fn render(object: &Value, sets: &[Value]) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    let number = |path: &[&str]| object.i64_at(path).unwrap_or_default();
    let selector = LabelSelector::from_object(object.at(&["spec", "selector"]));
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.field(
        0,
        "CreationTimestamp",
        moment(object, &["metadata", "creationTimestamp"]).unwrap_or_default(),
    );
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.field(0, "Selector", selector.map(|selector| selector.to_string()).unwrap_or_default());
    out.field(
        0,
        "Replicas",
        format!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            number(&["spec", "replicas"]),
            number(&["status", "updatedReplicas"]),
            number(&["status", "replicas"]),
            number(&["status", "availableReplicas"]),
            number(&["status", "unavailableReplicas"])
        ),
    );
    out.field(0, "StrategyType", text(&["spec", "strategy", "type"]));
    out.field(0, "MinReadySeconds", number(&["spec", "minReadySeconds"]).to_string());
    if let Some(rolling) = object.at(&["spec", "strategy", "rollingUpdate"]) {
        let bound = |field: &str| rolling.get(field).map(plain).unwrap_or_default();
        let value =
            format!("{} max unavailable, {} max surge", bound("maxUnavailable"), bound("maxSurge"));
        out.field(0, "RollingUpdateStrategy", value);
    }
    template(&mut out, object.at(&["spec", "template"]).unwrap_or(&Value::Null));
    conditions(&mut out, object);
    replica_sets(&mut out, object, sets);
    out
}

pub(super) fn template(out: &mut Text, template: &Value) {
    out.line(0, "Pod Template:");
    let labels = template.map_at(&["metadata", "labels"]).into_iter().flatten();
    let labels: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    out.many(1, "Labels", &labels);
    let notes = template.map_at(&["metadata", "annotations"]).into_iter().flatten();
    let notes: Vec<String> = notes
        .filter(|(key, _)| *key != super::tabs::LAST_APPLIED)
        .flat_map(|(key, value)| super::pair(key, value.as_str().unwrap_or_default(), ": "))
        .collect();
    if !notes.is_empty() {
        out.many(1, "Annotations", &notes);
    }
    out.field_if_any(1, "Service Account", template.str_at(&["spec", "serviceAccountName"]));
    let spec = template.at(&["spec"]).cloned().unwrap_or_default();
    containers::lists(out, &spec, Within::Template);
    volumes::list(out, &spec, 1);
    containers::spread(out, &spec, 1);
    out.field_if_any(1, "Priority Class Name", spec.str_at(&["priorityClassName"]));
    containers::selectors_and_tolerations(out, &spec, 1);
    containers::scheduling_group(out, &spec, 1);
}

pub(super) fn conditions(out: &mut Text, object: &Value) {
    let list = object.list_at(&["status", "conditions"]);
    if list.is_empty() {
        return;
    }
    out.line(0, "Conditions:");
    out.line(1, "Type\tStatus\tReason");
    out.line(1, "----\t------\t------");
    for condition in list {
        let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        // Compat: a blank behind the type.
        out.line(1, &format!("{} \t{}\t{}", part("type"), part("status"), part("reason")));
    }
}

/// The set of the present revision, and those before it that still have pods.
fn replica_sets(out: &mut Text, object: &Value, sets: &[Value]) {
    const REVISION: &str = "deployment.kubernetes.io/revision";
    let Some(newest) =
        sets.iter().find(|set| set.annotation(REVISION) == object.annotation(REVISION))
    else {
        return;
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
    out.field(0, "OldReplicaSets", old.join(", "));
    out.field(0, "NewReplicaSet", show(newest));
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
        assert_eq!(render(&deployment, &[]).align(), expected);
    }
}
