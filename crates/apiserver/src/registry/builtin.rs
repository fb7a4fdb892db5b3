//! The kinds of Kubernetes itself: rows of [`karmada_kinds::resources`] behind [`Strategy`].

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::crd::{self, ScalePaths};
use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::schema::Cursor;
use karmada_apimachinery::{Value, decode, json};
use karmada_cel::schema::SchemaRules;
use karmada_kinds::{
    Resource, convert, defaults, fields, schema, strategy, table, validation, warnings,
};

use crate::cache::{Reading, Transform};

use super::{Column, Rules, Served, ServedSubresource, Source, Storage, Strategy};

/// One built-in kind in one version.
pub struct BuiltIn {
    resource: &'static Resource,
    selectable: Vec<Arc<str>>,
}

impl BuiltIn {
    pub fn new(resource: &'static Resource) -> Self {
        let selectable = SELECTABLE
            .iter()
            .filter(|(group, kind, _)| *group == resource.storage.0 && *kind == resource.kind)
            .flat_map(|(_, _, labels)| labels.iter().map(|label| Arc::from(*label)))
            .collect();
        Self { resource, selectable }
    }

    /// The row of the served table, with `storage` where objects of it are kept.
    pub fn serve(resource: &'static Resource, storage: Option<Arc<Storage>>) -> Served {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let subresources = resource.subresources.iter().map(|sub| ServedSubresource {
            name: sub.name.to_owned(),
            group: sub.group.to_owned(),
            version: sub.version.to_owned(),
            kind: sub.kind(resource).to_owned(),
            verbs: owned(sub.verbs),
        });
        Served {
            gvk: Gvk::new(resource.group, resource.version, resource.kind),
            list_kind: resource.list_kind(),
            plural: resource.plural.to_owned(),
            singular: resource.singular(),
            short_names: owned(resource.short_names),
            categories: owned(resource.categories),
            namespaced: resource.namespaced,
            verbs: owned(resource.verbs),
            subresources: subresources.collect(),
            source: Source::BuiltIn,
            storage_version_hash: resource.storage_version_hash(),
            storage,
            strategy: Arc::new(Self::new(resource)),
            deprecation: (resource.group.is_empty() && resource.kind == "Endpoints").then(|| {
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned()
            }),
            create_refusal: None,
        }
    }

    /// What is done with objects of the resource as they are read.
    pub fn reading(resource: &'static Resource) -> Reading {
        let own = Self::new(resource);
        let fields = (!own.selectable.is_empty())
            .then(|| Arc::new(move |object: &Value| own.fields(object)) as _);
        let is_secret = resource.group.is_empty() && resource.kind == "Secret";
        Reading { transform: completion(resource), fields, is_secret, ..Reading::default() }
    }

    fn is_definition(&self) -> bool {
        self.resource.group == "apiextensions.k8s.io"
    }

    /// The group whose validation applies: both kinds of Event are judged as what they were sent as.
    fn judged_group(&self) -> &'static str {
        self.resource.group
    }

    /// The group under which the rules of the kind are listed.
    fn stored_group(&self) -> &'static str {
        self.resource.group
    }
}

/// An object is judged and answered as it will be read from the store.
fn drop_empty_lists(object: &mut Value) {
    let gvk = object.gvk();
    if let Some(schema) = karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind) {
        decode::drop_empty_lists(object, schema);
    }
}

impl Strategy for BuiltIn {
    fn rules(&self) -> Rules {
        Rules {
            put_creates: self.resource.put_creates,
            unconditional_update: self.resource.unconditional_update,
            has_generation: self.resource.has_generation,
            returns_deleted: self.resource.returns_deleted,
            graceful_deletion: self.resource.graceful_deletion,
            default_propagation: self.resource.default_propagation,
        }
    }

    fn apply_defaults(&self, object: &mut Value) {
        let resource = self.resource;
        defaults::apply(resource.group, resource.version, resource.kind, object);
        let (group, version) = resource.storage;
        if group == resource.group && version != resource.version {
            // What only the stored version can say is defaulted there.
            convert::convert(object, group, version);
            defaults::apply(group, version, resource.kind, object);
            convert::convert(object, resource.group, resource.version);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        drop_empty_lists(object);
        strategy::prepare_create(self.stored_group(), self.resource.kind, object);
    }

    fn prepare_update(&self, subresource: &str, new: &mut Value, old: &Value, now: Timestamp) {
        drop_empty_lists(new);
        let (group, kind) = (self.stored_group(), self.resource.kind);
        strategy::prepare_update(group, kind, subresource, new, old, now);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        if self.is_definition() {
            return crd::validate_create(object, &SchemaRules::default());
        }
        validation::validate_create(self.judged_group(), self.resource.kind, object)
    }

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        match subresource {
            "status" if self.is_definition() => crd::validate_status_update(new, old),
            _ if self.is_definition() => crd::validate_update(new, old, &SchemaRules::default()),
            _ => validation::validate_update(
                self.judged_group(),
                self.resource.kind,
                subresource,
                new,
                old,
            ),
        }
    }

    fn schema_of(&self, gvk: &Gvk) -> Option<Cursor<'_>> {
        schema::of(&gvk.group, &gvk.version, &gvk.kind)
    }

    fn knows_version(&self, version: &GroupVersion) -> bool {
        schema::of(&version.group, &version.version, self.resource.kind).is_some()
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.resource.subresource("scale")?;
        Some(ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: None,
        })
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::warnings(self.resource.group, self.resource.version, self.resource.kind, new, old)
    }

    fn convert(&self, object: &mut Value, group: &str, version: &str) {
        convert::convert(object, group, version);
    }

    fn canonical_field(&self, label: &str) -> Result<String, String> {
        fields::canonical(self.resource.group, self.resource.kind, label).map(str::to_owned)
    }

    fn fields(&self, object: &Value) -> Vec<(Arc<str>, String)> {
        let value = |label: &Arc<str>| {
            fields::value(self.resource.storage.0, self.resource.kind, label, object)
        };
        self.selectable.iter().map(|label| (label.clone(), value(label))).collect()
    }

    fn columns(&self) -> Vec<Column> {
        let columns = table::columns(self.resource.group, self.resource.kind);
        columns
            .iter()
            .map(|column| Column {
                name: column.name.to_owned(),
                kind: column.kind.to_owned(),
                format: column.format.to_owned(),
                description: column.description.to_owned(),
                priority: column.priority.into(),
            })
            .collect()
    }

    fn empty(&self, gvk: &Gvk) -> Value {
        let empty = json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": {}});
        match schema::of(&gvk.group, &gvk.version, &gvk.kind) {
            Some(schema) => decode::normalise(empty.clone(), schema).unwrap_or(empty),
            None => empty,
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        table::cells(self.resource.group, self.resource.kind, object, now)
    }
}

/// Kinds whose stored objects lack defaults that follow from what the server itself filled in.
const COMPLETED: &[(&str, &str)] = &[("batch", "Job"), ("", "PersistentVolumeClaim")];

fn completion(resource: &'static Resource) -> Option<Transform> {
    let completed = COMPLETED.contains(&(resource.group, resource.kind));
    completed.then(|| {
        Arc::new(|object: &mut Value| {
            let before = object.clone();
            defaults::apply(resource.group, resource.version, resource.kind, object);
            *object != before
        }) as _
    })
}

type Selectable = (&'static str, &'static str, &'static [&'static str]);

/// Canonical labels a selector may name beyond name and namespace, by stored group and kind.
const SELECTABLE: &[Selectable] = &[
    (
        "",
        "Pod",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("", "Node", &["spec.unschedulable"]),
    ("", "ReplicationController", &["status.replicas"]),
    (
        "",
        "Event",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("", "Namespace", &["status.phase"]),
    ("", "Secret", &["type"]),
    ("", "Service", &["spec.clusterIP", "spec.type"]),
    ("batch", "Job", &["status.successful"]),
    ("certificates.k8s.io", "CertificateSigningRequest", &["spec.signerName"]),
    ("resource.k8s.io", "ResourceSlice", &["spec.nodeName", "spec.driver"]),
];
