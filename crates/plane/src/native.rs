//! Karmada's kinds that are served natively, with rules of their own instead of a definition:
//! `Cluster` and `ResourceRegistry`.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_admission::{cluster, registry};
use karmada_api::cluster::Cluster;
use karmada_api::features::Gates;
use karmada_api::meta::Kind as _;
use karmada_api::native::{API_SERVICES, NativeResource, RESOURCES};
use karmada_api::search::ResourceRegistry;
use karmada_apimachinery::decode::{Problems, unknown_fields};
use karmada_apimachinery::field::{FieldError, Path, quote};
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::schema::{Cursor, Schema};
use karmada_apimachinery::time::{human_duration, parse_time};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::Native;
use karmada_apiserver::registry::{
    Column, Propagation, Rules, ServedSubresource, Strategy, VersionPlace,
};
use karmada_kinds::schema::definitions;

/// Subresources and what may be done with them: `status` is a view of the object, connections to
/// `proxy` are served by `cluster_proxy`.
const SUBRESOURCES: &[(&str, &[&str])] = &[
    ("status", &["get", "patch", "update"]),
    ("proxy", &["create", "delete", "get", "patch", "update"]),
];

/// The natively served resources, ready to be registered.
pub fn resources(gates: &Gates) -> Vec<Native> {
    RESOURCES.iter().filter_map(|resource| native(resource, gates)).collect()
}

fn native(resource: &'static NativeResource, gates: &Gates) -> Option<Native> {
    let gvk = Gvk::new(resource.group, resource.version, resource.kind);
    let service = API_SERVICES
        .iter()
        .find(|service| service.group == resource.group && service.version == resource.version)?;
    let schema = Schema::parse(&(resource.schema)()).ok()?.with_object_fields();
    let served = SUBRESOURCES.iter().filter(|(name, _)| resource.subresources.contains(name));
    let subresources = served.map(|(name, verbs)| ServedSubresource {
        name: (*name).to_owned(),
        group: String::new(),
        version: String::new(),
        kind: resource.kind.to_owned(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    });
    Some(Native {
        plural: resource.plural.to_owned(),
        singular: resource.singular.to_owned(),
        storage_prefix: resource.storage_prefix.to_owned(),
        subresources: subresources.collect(),
        place: VersionPlace {
            version: resource.version.to_owned(),
            group_priority: service.group_priority,
            version_priority: service.version_priority,
        },
        strategy: match resource.kind {
            "Cluster" => Arc::new(Kept { schema, rules: Clusters { gates: gates.clone() } }),
            _ => Arc::new(Kept { schema, rules: Registries }),
        },
        gvk,
    })
}

/// What the two kinds do differently.
trait KindRules: Send + Sync + 'static {
    /// Reads the object as its type and writes it back: what the type does not know is gone.
    fn canonical(&self, object: &Value) -> Result<Value, String>;
    fn prepare_create(&self, object: &mut Value);
    fn prepare_update(&self, new: &mut Value, old: &Value, now: Timestamp);
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError>;
    fn columns(&self) -> Vec<Column>;
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;
}

struct Clusters {
    gates: Gates,
}

impl Clusters {
    /// Changes the object through its type; one that cannot be read is left for validation.
    fn edit(object: &mut Value, edit: impl FnOnce(&mut Cluster)) {
        if let Ok(mut cluster) = cluster::decode(object) {
            edit(&mut cluster);
            let mut edited = cluster::encode(&cluster);
            let generation = edited.at(&["metadata", "generation"]).cloned();
            if let Some(metadata) = object.get("metadata") {
                edited.set(&["metadata"], metadata.clone());
            }
            edited.set(&["metadata", "generation"], generation.unwrap_or(Value::Null));
            *object = edited;
        }
    }
}

impl KindRules for Clusters {
    fn canonical(&self, object: &Value) -> Result<Value, String> {
        cluster::decode(object).map(|cluster| cluster::encode(&cluster))
    }

    fn prepare_create(&self, object: &mut Value) {
        Self::edit(object, |cluster| {
            cluster::prepare_create(cluster, &self.gates);
            // Refusals name fields as the client wrote them, so only valid objects are rewritten.
            if cluster::validate_create(cluster).is_empty() {
                cluster::canonicalize(cluster, Timestamp::now());
            }
        });
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, now: Timestamp) {
        let Ok(old) = cluster::decode(old) else { return };
        Self::edit(new, |cluster| {
            cluster.metadata.generation = old.metadata.generation;
            cluster::prepare_update(cluster, &old, &self.gates);
            if cluster::validate_update(cluster, &old).is_empty() {
                cluster::canonicalize(cluster, now);
            }
        });
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let read = |object: &Value| {
            cluster::decode(object)
                .map_err(|problem| vec![FieldError::invalid(&Path::root(), Value::Null, problem)])
        };
        match (read(new), old.map(read)) {
            (Ok(cluster), None) => cluster::validate_create(&cluster),
            (Ok(cluster), Some(Ok(old))) => cluster::validate_update(&cluster, &old),
            (Err(errors), _) | (_, Some(Err(errors))) => errors,
        }
    }

    fn columns(&self) -> Vec<Column> {
        cluster::column_definitions().iter().map(column).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let created = object.str_at(&["metadata", "creationTimestamp"]).and_then(parse_time);
        let age = created.map(|created| human_duration(now.duration_since(created)));
        cluster::cells(object, &age.unwrap_or_else(|| "<unknown>".to_owned()))
    }
}

struct Registries;

fn read_registry(object: &Value) -> Result<ResourceRegistry, String> {
    ResourceRegistry::from_value(object).map_err(|error| error.to_string())
}

impl KindRules for Registries {
    fn canonical(&self, object: &Value) -> Result<Value, String> {
        let registry = read_registry(object)?;
        registry.to_value().map_err(|error| error.to_string())
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set(&["status"], json!({}));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _now: Timestamp) {
        new.set(&["status"], old.get("status").cloned().unwrap_or_else(|| json!({})));
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match (read_registry(new), old.map(read_registry)) {
            (Ok(new), None) => registry::validate_create(&new),
            (Ok(new), Some(Ok(old))) => registry::validate_update(&new, &old),
            (Err(problem), _) | (_, Some(Err(problem))) => {
                vec![FieldError::invalid(&Path::root(), Value::Null, problem)]
            }
        }
    }

    fn columns(&self) -> Vec<Column> {
        let text = |name: &str, kind: &str, format: &str, description: &str| {
            column(
                &json!({"name": name, "type": kind, "format": format, "description": description}),
            )
        };
        vec![
            text("Name", "string", "name", "Name of the object, unique among its kind."),
            text("Created At", "date", "", "When the server created the object."),
        ]
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let created = object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default();
        vec![object.name().into(), created.into()]
    }
}

fn column(definition: &Value) -> Column {
    let text = |key: &str| definition.str_at(&[key]).unwrap_or_default().to_owned();
    Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: definition.i64_at(&["priority"]).unwrap_or_default(),
    }
}

/// A natively served kind behind the server's [`Strategy`].
struct Kept<K> {
    schema: Schema,
    rules: K,
}

impl<K: KindRules> Strategy for Kept<K> {
    fn rules(&self) -> Rules {
        Rules {
            put_creates: false,
            unconditional_update: true,
            has_generation: false,
            returns_deleted: false,
            graceful_deletion: false,
            default_propagation: Propagation::Background,
        }
    }

    fn apply_defaults(&self, _object: &mut Value) {}

    fn prepare_create(&self, object: &mut Value) {
        self.rules.prepare_create(object);
    }

    fn prepare_update(&self, subresource: &str, new: &mut Value, old: &Value, now: Timestamp) {
        if subresource == "status" {
            new.set(&["spec"], old.get("spec").cloned().unwrap_or_else(|| json!({})));
        } else {
            self.rules.prepare_update(new, old, now);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        self.rules.validate(object, None)
    }

    /// Compat: writes of the status are not validated.
    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        if subresource == "status" { Vec::new() } else { self.rules.validate(new, Some(old)) }
    }

    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// There is one version.
    fn convert(&self, _object: &mut Value, _group: &str, _version: &str) {}

    fn canonical_field(&self, label: &str) -> Result<String, String> {
        match label {
            "metadata.name" | "metadata.namespace" => Ok(label.to_owned()),
            other => Err(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(other)
            )),
        }
    }

    fn fields(&self, _object: &Value) -> Vec<(Arc<str>, String)> {
        Vec::new()
    }

    fn columns(&self) -> Vec<Column> {
        self.rules.columns()
    }

    fn shape(&self, object: Value) -> Result<(Value, Problems), String> {
        let problems = unknown_fields(&object, Cursor::new(definitions(), &self.schema));
        let mut shaped = self.rules.canonical(&object)?;
        if let Some(metadata) = object.get("metadata") {
            shaped.set(&["metadata"], metadata.clone());
        }
        Ok((shaped, problems))
    }

    fn schema_of(&self, _gvk: &Gvk) -> Option<Cursor<'_>> {
        Some(Cursor::new(definitions(), &self.schema))
    }

    fn knows_version(&self, version: &GroupVersion) -> bool {
        RESOURCES.iter().any(|own| own.group == version.group && own.version == version.version)
    }

    fn custom_schema(&self) -> Option<&Schema> {
        Some(&self.schema)
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.rules.cells(object, now)
    }
}
