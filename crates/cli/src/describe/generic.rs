//! Any object as an indented dump of its fields, laid out as kubectl lays out kinds it does not know.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Map, Value};

use super::config;
use super::fields::heading;
use super::tabs::Text;

pub(super) fn describe(object: &Value) -> Text {
    let mut object = object.clone();
    config::hide_secrets(&mut object);
    let mut out = Text::default();
    out.line(0, &format!("Name:\t{}", object.name()));
    out.line(0, &format!("Namespace:\t{}", object.namespace()));
    out.pairs("Labels", &object, "labels", "=");
    out.pairs("Annotations", &object, "annotations", ": ");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for shown in ["name", "namespace", "labels", "annotations", "managedFields"] {
            metadata.remove(shown);
        }
    }
    if let Some(fields) = object.as_object() {
        write_map(&mut out, fields, 0);
    }
    out
}

fn write_map(out: &mut Text, map: &Map, depth: usize) {
    for (field, value) in map {
        let heading = heading(field);
        match value {
            Value::Object(inner) => {
                out.line(depth, &format!("{heading}:"));
                write_map(out, inner, depth + 1);
            }
            Value::Array(list) => {
                out.line(depth, &format!("{heading}:"));
                for item in list {
                    match item {
                        Value::Object(inner) => write_map(out, inner, depth + 1),
                        scalar => out.line(depth + 1, &show(scalar)),
                    }
                }
            }
            scalar => out.line(depth, &format!("{heading}:\t{}", show(scalar))),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn objects_are_dumped_as_kubectl_dumps_them() {
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {
                "name": "nginx-deployment", "namespace": "default", "generation": 2, "resourceVersion": "1795",
                "labels": {"a": "b", "c": "d"}, "finalizers": ["karmada.io/binding-controller"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
            "spec": {
                "clusters": [{"name": "member1", "replicas": 2}], "conflictResolution": "Abort",
                "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}, "replicas": 2},
        });
        let expected = "\
Name:         nginx-deployment
Namespace:    default
Labels:       a=b
              c=d
Annotations:  <none>
API Version:  work.karmada.io/v1alpha2
Kind:         ResourceBinding
Metadata:
  Finalizers:
    karmada.io/binding-controller
  Generation:  2
  Owner References:
    API Version:     apps/v1
    Kind:            Deployment
  Resource Version:  1795
Spec:
  Clusters:
    Name:               member1
    Replicas:           2
  Conflict Resolution:  Abort
  Placement:
    Cluster Affinity:
      Cluster Names:
        member1
  Replicas:  2
";
        assert_eq!(describe(&binding).align(), expected);
    }
}
