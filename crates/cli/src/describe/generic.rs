//! Any object as an indented dump of its fields, laid out as kubectl lays out kinds it does not know.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Map, Value};

use super::config;
use super::fields::heading;
use super::pairs;

pub(super) fn describe(object: &Value) -> String {
    let mut object = object.clone();
    config::hide_secrets(&mut object);
    let object = &object;
    let mut text =
        format!("Name:         {}\nNamespace:    {}\n", object.name(), object.namespace());
    text.push_str(&pairs("Labels", 14, object, "labels", "="));
    text.push_str(&pairs("Annotations", 14, object, "annotations", ": "));
    text.push_str(&format!(
        "API Version:  {}\nKind:         {}\n",
        object.api_version(),
        object.kind()
    ));
    let mut rest = Map::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        if !["apiVersion", "kind"].contains(&field.as_str()) {
            rest.insert(field.clone(), value.clone());
        }
    }
    if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
        for shown in ["name", "namespace", "labels", "annotations", "managedFields"] {
            metadata.remove(shown);
        }
    }
    let mut lines = Vec::new();
    write_map(&mut lines, &rest, 0);
    text.push_str(&lay_out(&lines));
    text
}

/// A line: its depth, its heading, and the value beside it if there is one.
struct Line {
    depth: usize,
    heading: String,
    value: Option<String>,
}

fn write_map(lines: &mut Vec<Line>, map: &Map<String, Value>, depth: usize) {
    // Ordered by heading, as they are read.
    let mut fields: Vec<(String, &Value)> =
        map.iter().map(|(field, value)| (heading(field), value)).collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (heading, value) in fields {
        match value {
            Value::Object(inner) => {
                lines.push(Line { depth, heading: format!("{heading}:"), value: None });
                write_map(lines, inner, depth + 1);
            }
            Value::Array(list) => {
                lines.push(Line { depth, heading: format!("{heading}:"), value: None });
                for item in list {
                    match item {
                        Value::Object(inner) => write_map(lines, inner, depth + 1),
                        scalar => lines.push(Line {
                            depth: depth + 1,
                            heading: show(scalar),
                            value: None,
                        }),
                    }
                }
            }
            Value::Null => lines.push(Line {
                depth,
                heading: format!("{heading}:"),
                value: Some("<nil>".to_owned()),
            }),
            scalar => lines.push(Line {
                depth,
                heading: format!("{heading}:"),
                value: Some(show(scalar)),
            }),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Values line up within a run of lines that have one, as Go's writer does it: whatever their depth.
fn lay_out(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut start = 0;
    while start < lines.len() {
        let run = lines[start..].iter().take_while(|line| line.value.is_some()).count();
        if run == 0 {
            let line = &lines[start];
            text.push_str(&format!("{}{}\n", "  ".repeat(line.depth), line.heading));
            start += 1;
            continue;
        }
        let block = &lines[start..start + run];
        let width = block
            .iter()
            .map(|line| line.depth * 2 + line.heading.chars().count())
            .max()
            .unwrap_or_default()
            + 2;
        for line in block {
            let head = format!("{}{}", "  ".repeat(line.depth), line.heading);
            text.push_str(&format!(
                "{head:<width$}{}\n",
                line.value.as_deref().unwrap_or_default()
            ));
        }
        start += run;
    }
    text
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
        assert_eq!(describe(&binding), expected);
    }
}
