//! Which fields a list or watch may select on, per kind, and what stands there in an object.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::object::ObjectExt as _;

/// How a kind words the refusal of a field it does not know.
#[derive(Clone, Copy)]
enum Refusal {
    Plain,
    ForJob,
    ForSlice,
}

/// Kinds with fields of their own; all others know name and namespace only.
struct Fields {
    group: &'static str,
    kind: &'static str,
    /// Pairs of the name clients use and the name values are looked up by.
    fields: &'static [(&'static str, &'static str)],
    refusal: Refusal,
}

const NAME: (&str, &str) = ("metadata.name", "metadata.name");
const NAMESPACE: (&str, &str) = ("metadata.namespace", "metadata.namespace");

const fn same(field: &'static str) -> (&'static str, &'static str) {
    (field, field)
}

static FIELDS: &[Fields] = &[
    Fields {
        group: "",
        kind: "Pod",
        fields: &[
            NAME,
            NAMESPACE,
            same("spec.nodeName"),
            ("spec.host", "spec.nodeName"),
            same("spec.restartPolicy"),
            same("spec.schedulerName"),
            same("spec.serviceAccountName"),
            same("spec.hostNetwork"),
            same("status.phase"),
            same("status.podIP"),
            same("status.podIPs"),
            same("status.nominatedNodeName"),
        ],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "Node",
        fields: &[NAME, same("spec.unschedulable")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "Namespace",
        fields: &[NAME, same("status.phase")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "Secret",
        fields: &[NAME, NAMESPACE, same("type")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "Service",
        fields: &[NAME, NAMESPACE, same("spec.clusterIP"), same("spec.type")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "ReplicationController",
        fields: &[NAME, NAMESPACE, same("status.replicas")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "",
        kind: "Event",
        fields: &[
            NAME,
            NAMESPACE,
            same("involvedObject.kind"),
            same("involvedObject.namespace"),
            same("involvedObject.name"),
            same("involvedObject.uid"),
            same("involvedObject.apiVersion"),
            same("involvedObject.resourceVersion"),
            same("involvedObject.fieldPath"),
            same("reason"),
            same("reportingComponent"),
            same("source"),
            same("type"),
        ],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "events.k8s.io",
        kind: "Event",
        fields: &[
            NAME,
            NAMESPACE,
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
            same("reason"),
            ("reportingController", "reportingComponent"),
            same("type"),
        ],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "batch",
        kind: "Job",
        fields: &[NAME, NAMESPACE, same("status.successful")],
        refusal: Refusal::ForJob,
    },
    Fields {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        fields: &[NAME, same("spec.signerName")],
        refusal: Refusal::Plain,
    },
    Fields {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        fields: &[NAME, same("spec.nodeName"), same("spec.driver")],
        refusal: Refusal::ForSlice,
    },
];

/// Checks a field of a selector; returns the name to look its value up by, or the message of the
/// 400 answer.
pub fn canonical(group: &str, kind: &str, field: &str) -> Result<&'static str, String> {
    let own = FIELDS.iter().find(|fields| (fields.group, fields.kind) == (group, kind));
    let (known, refusal) = match own {
        Some(own) => (own.fields, Some(own.refusal)),
        None => (&[NAME, NAMESPACE][..], None),
    };
    if let Some((_, canonical)) = known.iter().find(|(name, _)| *name == field) {
        return Ok(canonical);
    }
    Err(match refusal {
        Some(Refusal::Plain) => format!("field label not supported: {field}"),
        Some(Refusal::ForJob) => format!("field label {} not supported for Job", quote(field)),
        Some(Refusal::ForSlice) => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
        }
        None => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(field)
        ),
    })
}

/// Returns the canonical fields of a kind beyond name and namespace, as an index would keep them.
pub fn selectable(group: &str, kind: &str) -> Vec<&'static str> {
    let own = FIELDS.iter().filter(|fields| (fields.group, fields.kind) == (group, kind));
    let mut names: Vec<&str> = own.flat_map(|own| own.fields).map(|(_, name)| *name).collect();
    names.retain(|name| ![NAME.1, NAMESPACE.1].contains(name));
    names.dedup();
    names
}

/// Returns what a selector compares for a canonical field; absent fields read as empty. Objects are
/// those of the store, so events are looked at in their core form.
pub fn value(group: &str, kind: &str, field: &str, object: &Value) -> String {
    let at = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
    let flag = |path: &[&str]| object.bool_at(path).unwrap_or_default().to_string();
    let number = |path: &[&str]| object.i64_at(path).unwrap_or_default().to_string();
    match (group, kind, field) {
        ("", "Pod", "spec.hostNetwork") => flag(&["spec", "hostNetwork"]),
        ("", "Pod", "status.podIP") => {
            let first = object.list_at(&["status", "podIPs"]).first();
            first.and_then(|address| address.str_at(&["ip"])).unwrap_or_default().to_owned()
        }
        // Compat: this field is accepted and never filled.
        ("", "Pod", "status.podIPs") => String::new(),
        ("", "Node", "spec.unschedulable") => flag(&["spec", "unschedulable"]),
        ("", "ReplicationController", "status.replicas") => number(&["status", "replicas"]),
        ("batch", "Job", "status.successful") => number(&["status", "succeeded"]),
        ("" | "events.k8s.io", "Event", "source") => {
            let component = at(&["source", "component"]);
            if component.is_empty() { at(&["reportingComponent"]) } else { component }
        }
        _ => at(&field.split('.').collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn unknown_fields_are_refused_in_the_words_of_the_kind() {
        let cases = [
            ("", "Pod", "field label not supported: x"),
            ("batch", "Job", "field label \"x\" not supported for Job"),
            (
                "resource.k8s.io",
                "ResourceSlice",
                "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
            ),
            (
                "apps",
                "Deployment",
                "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ];
        for (group, kind, message) in cases {
            assert_eq!(canonical(group, kind, "x"), Err(message.to_owned()));
        }
        assert!(canonical("", "Node", "metadata.namespace").is_err());
        assert_eq!(selectable("", "Service"), ["spec.clusterIP", "spec.type"]);
        assert!(selectable("apps", "Deployment").is_empty());
        assert_eq!(
            canonical("rbac.authorization.k8s.io", "ClusterRole", NAMESPACE.0),
            Ok(NAMESPACE.0)
        );
    }

    #[test]
    fn values_are_found_under_old_and_new_names() {
        let pod = json!({
            "spec": {"nodeName": "n", "hostNetwork": true},
            "status": {"podIPs": [{"ip": "10.0.0.1"}]},
        });
        for (field, expected) in [
            ("spec.host", "n"),
            ("spec.hostNetwork", "true"),
            ("status.podIP", "10.0.0.1"),
            ("status.phase", ""),
        ] {
            let field = canonical("", "Pod", field).expect("the field is known");
            assert_eq!(value("", "Pod", field, &pod), expected, "{field}");
        }
        let event =
            json!({"involvedObject": {"name": "p"}, "reportingComponent": "c", "source": {}});
        let field = canonical("events.k8s.io", "Event", "regarding.name").expect("known");
        assert_eq!(value("events.k8s.io", "Event", field, &event), "p");
        assert_eq!(value("events.k8s.io", "Event", "source", &event), "c");
        assert_eq!(value("", "Node", "spec.unschedulable", &json!({})), "false");
    }
}
