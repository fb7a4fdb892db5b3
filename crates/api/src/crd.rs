//! The custom resource definitions of Karmada, made from the types so that schema and code agree.
//!
//! The same definitions lie as YAML in `crates/api/crds`, for people and for other API servers; a test keeps
//! them equal to what this module makes.

use std::sync::LazyLock;

use karmada_apimachinery::Value;
use karmada_apimachinery::{Map, json};

use crate::meta::Kind;
use crate::wire::GO_TYPE;
use crate::{apps, autoscaling, config, multicluster, networking, operator, policy, remedy, work};

/// One custom resource definition.
#[derive(Debug, Clone)]
pub struct Crd {
    /// `<plural>.<group>`.
    pub name: String,
    /// The whole CustomResourceDefinition object.
    pub object: Value,
    /// The same as YAML, as checked in.
    pub yaml: &'static str,
}

/// How values of a column are shown.
#[derive(Debug, Clone, Copy)]
enum Column {
    Text(&'static str, &'static str),
    /// A text with a description of its own.
    Described(&'static str, &'static str, &'static str),
    Integer(&'static str, &'static str),
    Date(&'static str, &'static str),
}

/// What a definition says beyond the schema.
#[derive(Clone, Copy)]
struct Facts {
    singular: &'static str,
    short: &'static [&'static str],
    in_category: bool,
    has_status: bool,
    columns: &'static [Column],
    /// The text under `crds/`.
    yaml: &'static str,
}

struct Version {
    name: &'static str,
    schema: Value,
    columns: &'static [Column],
    is_stored: bool,
}

const AGE: Column = Column::Date("AGE", ".metadata.creationTimestamp");
const POLICY_COLUMNS: &[Column] = &[
    Column::Text("CONFLICT-RESOLUTION", ".spec.conflictResolution"),
    Column::Text("PRIORITY", ".spec.priority"),
    AGE,
];
const BINDING_COLUMNS: &[Column] = &[
    Column::Text("SCHEDULED", r#".status.conditions[?(@.type=="Scheduled")].status"#),
    Column::Text("FULLYAPPLIED", r#".status.conditions[?(@.type=="FullyApplied")].status"#),
    AGE,
];

macro_rules! text_of {
    ($file:literal) => {
        include_str!(concat!("../crds/", $file, ".yaml"))
    };
}

/// The 19 definitions, in the order of their groups.
pub fn crds() -> &'static [Crd] {
    static CRDS: LazyLock<Vec<Crd>> = LazyLock::new(build);
    &CRDS
}

/// The definition called `<plural>.<group>`.
pub fn find(name: &str) -> Option<&'static Crd> {
    crds().iter().find(|crd| crd.name == name)
}

/// Adds the webhook that converts between the versions of a binding to its definition.
pub fn with_conversion_webhook(crd: &Crd, client_config: Value) -> Value {
    let mut object = crd.object.clone();
    object["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    });
    object
}

/// The definition that belongs into the cluster which hosts a control plane, for the operator.
pub fn host_crds() -> &'static [Crd] {
    static CRDS: LazyLock<Vec<Crd>> = LazyLock::new(|| {
        vec![one::<operator::Karmada>(Facts {
            singular: "karmada",
            short: &[],
            in_category: true,
            has_status: true,
            columns: &[
                Column::Text("READY", r#".status.conditions[?(@.type=="Ready")].status"#),
                AGE,
            ],
            yaml: text_of!("operator.karmada.io_karmadas"),
        })]
    });
    &CRDS
}

fn build() -> Vec<Crd> {
    let mut crds = Vec::with_capacity(19);
    crds.extend(plain_kinds());
    crds.extend(binding_kinds());
    crds.sort_by(|a, b| {
        let group = |crd: &Crd| crd.object["spec"]["group"].to_string();
        (group(a), &a.name).cmp(&(group(b), &b.name))
    });
    crds
}

fn plain_kinds() -> Vec<Crd> {
    let base = Facts {
        singular: "",
        short: &[],
        in_category: true,
        has_status: false,
        columns: &[],
        yaml: "",
    };
    vec![
        one::<policy::PropagationPolicy>(Facts {
            singular: "propagationpolicy",
            short: &["pp"],
            columns: POLICY_COLUMNS,
            yaml: text_of!("policy.karmada.io_propagationpolicies"),
            ..base
        }),
        one::<policy::ClusterPropagationPolicy>(Facts {
            singular: "clusterpropagationpolicy",
            short: &["cpp"],
            columns: POLICY_COLUMNS,
            yaml: text_of!("policy.karmada.io_clusterpropagationpolicies"),
            ..base
        }),
        one::<policy::OverridePolicy>(Facts {
            singular: "overridepolicy",
            short: &["op"],
            yaml: text_of!("policy.karmada.io_overridepolicies"),
            ..base
        }),
        one::<policy::ClusterOverridePolicy>(Facts {
            singular: "clusteroverridepolicy",
            short: &["cop"],
            yaml: text_of!("policy.karmada.io_clusteroverridepolicies"),
            ..base
        }),
        one::<policy::FederatedResourceQuota>(Facts {
            singular: "federatedresourcequota",
            has_status: true,
            columns: &[
                Column::Text("OVERALL", ".status.overall"),
                Column::Text("OVERALL_USED", ".status.overallUsed"),
            ],
            yaml: text_of!("policy.karmada.io_federatedresourcequotas"),
            ..base
        }),
        one::<policy::ClusterTaintPolicy>(Facts {
            singular: "clustertaintpolicy",
            in_category: false,
            yaml: text_of!("policy.karmada.io_clustertaintpolicies"),
            ..base
        }),
        one::<work::Work>(Facts {
            singular: "work",
            short: &["wk"],
            has_status: true,
            columns: &[
                Column::Text("WORKLOAD-KIND", ".spec.workload.manifests[*].kind"),
                Column::Text("APPLIED", r#".status.conditions[?(@.type=="Applied")].status"#),
                AGE,
            ],
            yaml: text_of!("work.karmada.io_works"),
            ..base
        }),
        one::<config::ResourceInterpreterCustomization>(Facts {
            singular: "resourceinterpretercustomization",
            short: &["ric"],
            columns: &[
                Column::Text("TARGET-API-VERSION", ".spec.target.apiVersion"),
                Column::Text("TARGET-KIND", ".spec.target.kind"),
                AGE,
            ],
            yaml: text_of!("config.karmada.io_resourceinterpretercustomizations"),
            ..base
        }),
        one::<config::ResourceInterpreterWebhookConfiguration>(Facts {
            singular: "resourceinterpreterwebhookconfiguration",
            yaml: text_of!("config.karmada.io_resourceinterpreterwebhookconfigurations"),
            ..base
        }),
        one::<autoscaling::FederatedHPA>(Facts {
            singular: "federatedhpa",
            short: &["fhpa"],
            has_status: true,
            columns: &[
                Column::Text("REFERENCE-KIND", ".spec.scaleTargetRef.kind"),
                Column::Text("REFERENCE-NAME", ".spec.scaleTargetRef.name"),
                Column::Integer("MINPODS", ".spec.minReplicas"),
                Column::Integer("MAXPODS", ".spec.maxReplicas"),
                Column::Integer("REPLICAS", ".status.currentReplicas"),
                AGE,
            ],
            yaml: text_of!("autoscaling.karmada.io_federatedhpas"),
            ..base
        }),
        one::<autoscaling::CronFederatedHPA>(Facts {
            singular: "cronfederatedhpa",
            short: &["cronfhpa"],
            has_status: true,
            columns: &[
                Column::Text("REFERENCE-KIND", ".spec.scaleTargetRef.kind"),
                Column::Text("REFERENCE-NAME", ".spec.scaleTargetRef.name"),
                AGE,
            ],
            yaml: text_of!("autoscaling.karmada.io_cronfederatedhpas"),
            ..base
        }),
        one::<networking::MultiClusterService>(Facts {
            singular: "multiclusterservice",
            short: &["mcs"],
            has_status: true,
            yaml: text_of!("networking.karmada.io_multiclusterservices"),
            ..base
        }),
        one::<networking::MultiClusterIngress>(Facts {
            singular: "multiclusteringress",
            short: &["mci"],
            has_status: true,
            yaml: text_of!("networking.karmada.io_multiclusteringresses"),
            ..base
        }),
        one::<apps::WorkloadRebalancer>(Facts {
            singular: "workloadrebalancer",
            in_category: false,
            has_status: true,
            yaml: text_of!("apps.karmada.io_workloadrebalancers"),
            ..base
        }),
        one::<remedy::Remedy>(Facts {
            singular: "remedy",
            yaml: text_of!("remedy.karmada.io_remedies"),
            ..base
        }),
        one::<multicluster::ServiceExport>(Facts {
            singular: "serviceexport",
            short: &["svcex"],
            in_category: false,
            has_status: true,
            columns: &[Column::Date("Age", ".metadata.creationTimestamp")],
            yaml: text_of!("multicluster.x-k8s.io_serviceexports"),
        }),
        one::<multicluster::ServiceImport>(Facts {
            singular: "serviceimport",
            short: &["svcim"],
            in_category: false,
            has_status: true,
            columns: &[
                // Compat: the only columns that are described.
                Column::Described("Type", ".spec.type", "The type of this ServiceImport"),
                Column::Described("IP", ".spec.ips", "The VIP for this ServiceImport"),
                Column::Date("Age", ".metadata.creationTimestamp"),
            ],
            yaml: text_of!("multicluster.x-k8s.io_serviceimports"),
        }),
    ]
}

/// The bindings are served in two versions.
fn binding_kinds() -> Vec<Crd> {
    let facts = |singular, short, yaml| Facts {
        singular,
        short,
        in_category: true,
        has_status: true,
        columns: BINDING_COLUMNS,
        yaml,
    };
    vec![
        two::<work::v1alpha1::ResourceBinding, work::ResourceBinding>(facts(
            "resourcebinding",
            &["rb"],
            text_of!("work.karmada.io_resourcebindings"),
        )),
        two::<work::v1alpha1::ClusterResourceBinding, work::ClusterResourceBinding>(facts(
            "clusterresourcebinding",
            &["crb"],
            text_of!("work.karmada.io_clusterresourcebindings"),
        )),
    ]
}

fn one<K: Kind>(facts: Facts) -> Crd {
    let version = Version {
        name: K::VERSION,
        schema: schema::<K>(),
        columns: facts.columns,
        is_stored: true,
    };
    definition::<K>(facts, vec![version])
}

fn two<Old: Kind, New: Kind>(facts: Facts) -> Crd {
    let old =
        Version { name: Old::VERSION, schema: schema::<Old>(), columns: &[], is_stored: false };
    let new = Version {
        name: New::VERSION,
        schema: schema::<New>(),
        columns: facts.columns,
        is_stored: true,
    };
    definition::<New>(facts, vec![old, new])
}

fn definition<K: Kind>(facts: Facts, versions: Vec<Version>) -> Crd {
    let mut names = json!({
        "kind": K::KIND,
        "listKind": format!("{}List", K::KIND),
        "plural": K::PLURAL,
        "singular": facts.singular,
    });
    if !facts.short.is_empty() {
        names["shortNames"] = json!(facts.short);
    }
    if facts.in_category {
        names["categories"] = json!(["karmada-io"]);
    }
    let versions: Vec<Value> =
        versions.into_iter().map(|version| version.to_value(facts.has_status)).collect();
    let name = format!("{}.{}", K::PLURAL, K::GROUP);
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": K::GROUP,
            "names": names,
            "scope": if K::NAMESPACED { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    });
    Crd { name, object, yaml: facts.yaml }
}

impl Version {
    fn to_value(&self, has_status: bool) -> Value {
        let mut version = json!({
            "name": self.name,
            "served": true,
            "storage": self.is_stored,
            "schema": {"openAPIV3Schema": self.schema},
        });
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] =
                self.columns.iter().map(|column| column.to_value()).collect();
        }
        if has_status {
            version["subresources"] = json!({"status": {}});
        }
        version
    }
}

impl Column {
    fn to_value(self) -> Value {
        let (name, path, kind) = match self {
            Self::Text(name, path) => (name, path, "string"),
            Self::Described(name, path, description) => {
                let mut column = Self::Text(name, path).to_value();
                column["description"] = description.into();
                return column;
            }
            Self::Integer(name, path) => (name, path, "integer"),
            Self::Date(name, path) => (name, path, "date"),
        };
        json!({"name": name, "jsonPath": path, "type": kind})
    }
}

/// The published schema of a kind: metadata is the API server's business, Go names are ours alone.
pub fn schema<K: Kind>() -> Value {
    let mut schema = K::schema();
    schema["properties"]["metadata"] = json!({"type": "object"});
    strip(&mut schema);
    schema
}

fn strip(node: &mut Value) {
    match node {
        Value::Object(map) => {
            map.remove(GO_TYPE);
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Whether a node of a schema has a description; used to keep `kubectl explain` useful.
pub fn undescribed_fields(schema: &Value) -> Vec<String> {
    fn walk(node: &Map, path: &str, found: &mut Vec<String>) {
        if let Some(Value::Object(properties)) = node.get("properties") {
            for (name, property) in properties {
                let path = format!("{path}.{name}");
                let Some(property) = property.as_object() else { continue };
                if name != "metadata" && !property.contains_key("description") {
                    found.push(path.clone());
                }
                walk(property, &path, found);
            }
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(Value::Object(inner)) = node.get(inner) {
                walk(inner, &format!("{path}[]"), found);
            }
        }
    }
    let mut found = Vec::new();
    if let Some(node) = schema.as_object() {
        walk(node, "", &mut found);
    }
    found
}
