//! Kinds that a CustomResourceDefinition brought, behind [`Strategy`].

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::crd::{CustomResource, ScalePaths, at_dotted};
use karmada_apimachinery::decode::Problems;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::jsonpath::Template;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::schema::{Cursor, Schema};
use karmada_apimachinery::time::{human_duration, parse_time};
use karmada_apimachinery::{Value, json, names};
use karmada_cel::schema::SchemaRules;
use karmada_kinds::schema;
use sha2::{Digest as _, Sha256};

use super::{
    Column, ConversionWebhook, Propagation, Rules, Served, ServedSubresource, Source, Storage,
    Strategy,
};
use crate::admission::webhooks;
use crate::auth::Objects;
use crate::cache::{self, Reading};

const ALL_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const VIEW_VERBS: &[&str] = &["get", "patch", "update"];

/// Knows how to rewrite objects of some custom kinds into another version.
pub trait Converter: Send + Sync + 'static {
    /// Whether the kind is one of its own.
    fn knows(&self, group: &str, kind: &str) -> bool;
    /// Returns the object in the version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Who rewrites the objects of a kind into another version, beyond its name. What this program can do itself is
/// not asked of a webhook.
#[derive(Clone, Default)]
pub struct Converters {
    native: Option<Arc<dyn Converter>>,
    webhook: Option<Arc<ConversionWebhook>>,
}

impl Converters {
    pub(crate) fn of(
        definition: &Value,
        native: Option<&Arc<dyn Converter>>,
        client: &Arc<webhooks::Client>,
        objects: &Arc<dyn Objects>,
    ) -> Self {
        let text = |path: &[&str]| definition.str_at(path).unwrap_or_default();
        let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
        let native = native.filter(|native| native.knows(group, kind));
        let webhook = match native {
            Some(_) => None,
            None => ConversionWebhook::of(definition, client, objects).map(Arc::new),
        };
        Self { native: native.cloned(), webhook }
    }
}

/// The versions of a kind by name, compiled where that is possible. There may be hundreds of definitions with
/// large schemas, so everybody shares one.
type Versions = Vec<(String, Option<Arc<CustomResource>>)>;

/// One version of a custom kind.
pub struct Custom {
    own: Arc<CustomResource>,
    stored: Arc<CustomResource>,
    /// Changes whenever the schema does.
    digest: String,
    columns: Vec<(Column, Option<Template>)>,
    /// Labels a selector may name, and where their values are.
    selectable: Vec<(Arc<str>, String)>,
    /// The schema of every version there is, by name.
    versions: Arc<Versions>,
    converters: Converters,
    /// Whether objects may still be stored in another version than the newest.
    has_former: bool,
    rules: SchemaRules,
}

impl Custom {
    /// The name of the version objects are stored in.
    pub fn storage_version(definition: &Value) -> Option<&str> {
        let versions = definition.list_at(&["spec", "versions"]);
        versions.iter().find(|v| v.bool_at(&["storage"]) == Some(true))?.str_at(&["name"])
    }

    /// The versions that objects may still be stored in, besides the one they are stored in now.
    pub fn former_versions(definition: &Value) -> Vec<&str> {
        let stored = definition.list_at(&["status", "storedVersions"]).iter();
        let newest = Self::storage_version(definition);
        stored.filter_map(Value::as_str).filter(|name| Some(*name) != newest).collect()
    }

    /// What is done with stored objects of a definition as they are read.
    pub fn reading(definition: &Value) -> Option<Reading> {
        let stored = CustomResource::compile(definition, Self::storage_version(definition)?)?;
        let selectable: Vec<(Arc<str>, String)> =
            definition.list_at(&["spec", "versions"]).iter().flat_map(selectable_fields).collect();
        let fields = (!selectable.is_empty()).then(|| {
            Arc::new(move |object: &Value| {
                selectable.iter().map(|(l, path)| (l.clone(), text_at(object, path))).collect()
            }) as _
        });
        // Objects stay in the version they were stored in until they are asked for: it is its schema that says
        // what they have by default, and a webhook may know what to make of them.
        let converted = definition.str_at(&["spec", "conversion", "strategy"]) == Some("Webhook");
        let kept = converted || !Self::former_versions(definition).is_empty();
        let former: Vec<CustomResource> = definition
            .list_at(&["spec", "versions"])
            .iter()
            .filter(|_| kept)
            .filter_map(|version| CustomResource::compile(definition, version.str_at(&["name"])?))
            .collect();
        let stored = Arc::new(stored);
        let api_version = GroupVersion::new(&*stored.group, &*stored.version).to_string();
        let is_whole = {
            let kind = definition.str_at(&["spec", "names", "kind"]).unwrap_or_default();
            let (stored, beginning) = (stored.clone(), cache::beginning_of(kind, &api_version));
            Arc::new(move |text: &[u8]| {
                text.starts_with(beginning.as_bytes()) && stored.is_shaped(text)
            }) as _
        };
        let transform = Arc::new(move |object: &mut Value| {
            if object.api_version() == api_version {
                return stored.shape_stored(object);
            }
            let version = object.gvk().version;
            match former.iter().find(|former| former.version == version) {
                Some(own) => own.shape_stored(object),
                // The definition says that there are none of these any more.
                None => {
                    stored.serve(object);
                    stored.shape_stored(object);
                    true
                }
            }
        });
        Some(Reading {
            transform: Some(transform),
            is_whole: Some(is_whole),
            rules: rules_of(definition),
            fields,
            observe: None,
            is_secret: false,
        })
    }

    /// The rows of the served table for a definition.
    pub fn serve(
        definition: &Value,
        storage: &Arc<Storage>,
        converters: &Converters,
    ) -> Vec<Arc<Served>> {
        let versions = definition.list_at(&["spec", "versions"]).iter();
        let name = |version: &Value| version.str_at(&["name"]).map(str::to_owned);
        let schemas = versions.clone().filter_map(name).map(|name| {
            let own = CustomResource::compile(definition, &name).map(Arc::new);
            (name, own)
        });
        let schemas: Arc<Versions> = Arc::new(schemas.collect());
        versions
            .filter(|version| version.bool_at(&["served"]) == Some(true))
            .filter_map(|version| {
                Self::serve_version(definition, version, storage, (converters, &schemas))
            })
            .map(Arc::new)
            .collect()
    }

    fn serve_version(
        definition: &Value,
        version: &Value,
        storage: &Arc<Storage>,
        (converters, versions): (&Converters, &Arc<Versions>),
    ) -> Option<Served> {
        let name = version.str_at(&["name"])?;
        let compiled = |name: &str| {
            versions.iter().find(|(own, _)| own == name).and_then(|(_, own)| own.clone())
        };
        let (own, stored) = (compiled(name)?, compiled(&storage.version)?);
        let accepted = definition.at(&["status", "acceptedNames"]);
        let names = accepted.filter(|n| n.str_at(&["plural"]).is_some_and(|p| !p.is_empty()));
        let names = names.or_else(|| definition.at(&["spec", "names"]))?;
        let text = |key: &str| names.str_at(&[key]).unwrap_or_default().to_owned();
        let texts = |key: &str| -> Vec<String> {
            names.list_at(&[key]).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let verbs = |list: &[&str]| list.iter().map(|verb| (*verb).to_owned()).collect();
        let gvk = Gvk::new(&*own.group, name, &*own.kind);
        let mut subresources = Vec::new();
        let sub = |name: &str, group: &str, version: &str, kind: &str| ServedSubresource {
            name: name.into(),
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: verbs(VIEW_VERBS),
        };
        if own.has_status {
            subresources.push(sub("status", "", "", &gvk.kind));
        }
        if own.scale.is_some() {
            subresources.push(sub("scale", "autoscaling", "v1", "Scale"));
        }
        let hash = karmada_kinds::resource::storage_version_hash(
            &storage.group,
            &storage.version,
            &gvk.kind,
        );
        let strategy = Self {
            columns: columns(version),
            selectable: selectable_fields(version),
            versions: versions.clone(),
            converters: converters.clone(),
            has_former: !Self::former_versions(definition).is_empty(),
            rules: SchemaRules::default(),
            digest: digest(version.get("schema")),
            stored,
            own,
        };
        let deprecation = deprecation(definition, version, &strategy.own.kind);
        Some(Served {
            deprecation,
            namespaced: strategy.own.namespaced,
            gvk,
            list_kind: text("listKind"),
            plural: text("plural"),
            singular: text("singular"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
            verbs: verbs(ALL_VERBS),
            subresources,
            source: Source::Custom,
            storage_version_hash: Some(hash),
            storage: Some(storage.clone()),
            strategy: Arc::new(strategy),
            create_refusal: definition.is_being_deleted().then(|| {
                "create not allowed while custom resource definition is terminating".to_owned()
            }),
        })
    }

    pub fn schema(&self) -> &Schema {
        &self.own.schema
    }
}

fn digest(schema: Option<&Value>) -> String {
    let text = schema.map(Value::to_string).unwrap_or_default();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The warning of a deprecated version, which names a better one if there is one.
fn deprecation(definition: &Value, version: &Value, kind: &str) -> Option<String> {
    if version.bool_at(&["deprecated"]) != Some(true) {
        return None;
    }
    if let Some(own) = version.str_at(&["deprecationWarning"]) {
        return Some(own.to_owned());
    }
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    let name = version.str_at(&["name"]).unwrap_or_default();
    let versions = definition.list_at(&["spec", "versions"]).iter();
    let better = versions
        .filter(|v| {
            v.bool_at(&["served"]) == Some(true) && v.bool_at(&["deprecated"]) != Some(true)
        })
        .filter_map(|v| v.str_at(&["name"]))
        .filter(|other| super::compare_versions(other, name).is_gt())
        .max_by(|a, b| super::compare_versions(a, b));
    let mut warning = format!("{group}/{name} {kind} is deprecated");
    if let Some(better) = better {
        warning.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(warning)
}

fn selectable_fields(version: &Value) -> Vec<(Arc<str>, String)> {
    let fields = version.list_at(&["selectableFields"]).iter();
    fields
        .filter_map(|field| field.str_at(&["jsonPath"]))
        .map(|path| (Arc::from(path.trim_start_matches('.')), path.to_owned()))
        .collect()
}

fn text_at(object: &Value, path: &str) -> String {
    match at_dotted(object, path) {
        Some(Value::String(text)) => text.to_string(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        _ => String::new(),
    }
}

/// Compat: the words every Kubernetes server sends with these two columns of a custom resource; recordings
/// compare them.
const NAME_COLUMN: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_COLUMN: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn columns(version: &Value) -> Vec<(Column, Option<Template>)> {
    let column = |name: &str, kind: &str, format: &str, description: &str, priority: i64| Column {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: description.into(),
        priority,
    };
    let name = column("Name", "string", "name", NAME_COLUMN, 0);
    let mut columns = vec![(name, None)];
    let declared = version.list_at(&["additionalPrinterColumns"]);
    if declared.is_empty() {
        let age = column("Age", "date", "", AGE_COLUMN, 0);
        columns.push((age, Template::parse_path(".metadata.creationTimestamp").ok()));
    }
    for one in declared {
        let text = |key: &str| one.str_at(&[key]).unwrap_or_default();
        let description = match text("description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text("jsonPath")
            ),
            description => description.to_owned(),
        };
        let priority = one.i64_at(&["priority"]).unwrap_or_default();
        let column = column(text("name"), text("type"), text("format"), &description, priority);
        columns.push((column, Template::parse_path(text("jsonPath")).ok()));
    }
    columns
}

/// The cell of a column whose path leads to `value`.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
            whole.into()
        }
        ("number", Value::Number(number)) => number.as_f64().into(),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("date", Value::String(text)) => match parse_time(text) {
            Some(time) => human_duration(now.duration_since(time)).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

fn metadata_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let [new, old] = [new, old].map(|object| object.get("metadata").unwrap_or(&Value::Null));
    names::validate_object_meta_update(new, old, &Path::new("metadata"))
}

impl Strategy for Custom {
    fn rules(&self) -> Rules {
        Rules {
            put_creates: false,
            unconditional_update: false,
            has_generation: true,
            returns_deleted: false,
            graceful_deletion: false,
            default_propagation: Propagation::Background,
        }
    }

    /// Shaping has filled them in already.
    fn apply_defaults(&self, _object: &mut Value) {}

    fn prepare_create(&self, object: &mut Value) {
        self.own.prepare_create(object);
    }

    fn prepare_update(&self, subresource: &str, new: &mut Value, old: &Value, _now: Timestamp) {
        match subresource {
            "status" => {
                let version = new.at(&["metadata", "resourceVersion"]).cloned();
                self.own.prepare_status_update(new, old);
                if let Some(version) = version {
                    new.set(&["metadata", "resourceVersion"], version);
                }
            }
            _ => self.own.prepare_update(new, old),
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        self.own.validate_create(object, &self.rules)
    }

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        match subresource {
            "status" => self.own.validate_status_update(new, old, &self.rules),
            _ => {
                // Compat: metadata are judged once for all kinds and once more for custom ones.
                let mut errors = metadata_errors(new, old);
                errors.extend(self.own.validate_update(new, old, &self.rules));
                errors
            }
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let Some(old) = old else { return Vec::new() };
        let forgiven = self.rules.forgiven(&self.own.schema, new, old);
        forgiven.iter().map(ToString::to_string).collect()
    }

    fn convert(&self, object: &mut Value, group: &str, version: &str) {
        let api_version = GroupVersion::new(group, version).to_string();
        let native = self.converters.native.as_ref();
        let native = native.filter(|_| object.api_version() != api_version);
        match native.map(|native| native.convert(object, &api_version)) {
            Some(Ok(converted)) => *object = converted,
            Some(Err(error)) => tracing::warn!(error, api_version, "convert a custom object"),
            None => {}
        }
        if version == self.own.version {
            self.own.serve(object);
        } else if version == self.stored.version {
            self.stored.serve(object);
        } else {
            object.set(&["apiVersion"], GroupVersion::new(group, version).to_string());
        }
    }

    /// Compat: whoever judges owners drops nothing that the other version does not have.
    fn show_owner(&self, object: &mut Value, group: &str, version: &str) {
        match self.converters.native {
            Some(_) => self.convert(object, group, version),
            None => {
                let api_version = GroupVersion::new(group, version).to_string();
                object.set(&["apiVersion"], api_version);
            }
        }
    }

    fn keeps_former_versions(&self) -> bool {
        self.has_former || self.converters.webhook.is_some()
    }

    fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        self.converters.webhook.as_deref()
    }

    fn canonical_field(&self, label: &str) -> Result<String, String> {
        let known = matches!(label, "metadata.name" | "metadata.namespace")
            || self.selectable.iter().any(|(own, _)| **own == *label);
        if known {
            Ok(label.to_owned())
        } else {
            Err(format!("field label not supported: {label}"))
        }
    }

    fn fields(&self, object: &Value) -> Vec<(Arc<str>, String)> {
        self.selectable.iter().map(|(label, path)| (label.clone(), text_at(object, path))).collect()
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.iter().map(|(column, _)| column.clone()).collect()
    }

    fn shape(&self, mut object: Value) -> Result<(Value, Problems), String> {
        let mut problems = Problems::default();
        self.own.shape(&mut object, schema::object_meta(), &mut problems)?;
        Ok((object, problems))
    }

    fn schema_of(&self, gvk: &Gvk) -> Option<Cursor<'_>> {
        let named = self.versions.iter().find(|(name, _)| *name == gvk.version);
        let version = named.and_then(|(_, own)| own.as_ref()).unwrap_or(&self.own);
        let schema = &version.schema;
        Some(Cursor::alone(schema))
    }

    fn knows_version(&self, version: &GroupVersion) -> bool {
        let known = |(name, _): &(String, Option<Arc<CustomResource>>)| *name == version.version;
        version.group == self.own.group && self.versions.iter().any(known)
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.own.scale.clone()
    }

    fn empty(&self, gvk: &Gvk) -> Value {
        json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": {}})
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cell_of = |(column, template): &(Column, Option<Template>)| {
            if column.format == "name" && template.is_none() {
                return object.name().into();
            }
            let found = template.as_ref().and_then(|template| template.find_first(object).ok());
            let value = found.and_then(|values| values.into_iter().next());
            value.map_or(Value::Null, |value| cell(&column.kind, &value, now))
        };
        self.columns.iter().map(cell_of).collect()
    }

    fn custom_schema(&self) -> Option<&Schema> {
        Some(self.schema())
    }

    fn schema_digest(&self) -> Option<&str> {
        Some(&self.digest)
    }
}

/// Raised whenever the same definition shapes objects otherwise than before.
const SHAPING: u32 = 1;

/// Stands for everything that shapes the objects of a definition. It begins as no text of an object does.
fn rules_of(definition: &Value) -> Vec<u8> {
    let spec = definition.get("spec").map(Value::to_string).unwrap_or_default();
    let sum = Sha256::digest(spec.as_bytes());
    [&b"#shape"[..], &SHAPING.to_le_bytes(), &sum[..16]].concat()
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    #[test]
    fn what_is_stored_in_shape_is_known_without_a_tree() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"size": {"type": "integer", "default": 1}}}}});
        let definition = json!({"spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
        let reading = Custom::reading(&definition).unwrap();
        let (is_whole, transform) = (reading.is_whole.unwrap(), reading.transform.unwrap());
        for (api_version, spec, expected) in [
            ("example.io/v1", json!({"size": 3}), true),
            ("example.io/v1", json!({}), false),
            ("example.io/v2", json!({"size": 3}), false),
        ] {
            let mut object = json!({"apiVersion": api_version, "kind": "Thing",
                "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": spec});
            let text = cache::encode(&object).0;
            assert_eq!(is_whole(&text), expected, "{object}");
            assert_eq!(transform(&mut object), !expected, "{object}");
        }
    }
}
