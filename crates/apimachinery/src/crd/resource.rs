//! One version of a custom resource, ready to be used: how its objects are read, prepared and checked.

use crate::value::Text;
use crate::{Map, Value};

use super::validate::{blocks_rules, validate, validate_change};
use super::{coerced_name, lists, shape, shaped};
use crate::decode::Problems;
use crate::field::{FieldError, Path};
use crate::gvk::GroupVersion;
use crate::names;
use crate::object::{ObjectExt, ObjectMutExt};
use crate::schema::{Additional, Cursor, Schema};

/// Evaluates `x-kubernetes-validations`. The language of the rules lives elsewhere.
pub trait Rules: Send + Sync {
    /// The errors of all rules in `schema` for a whole object; `old` is there on updates.
    fn check(&self, schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError>;

    /// The errors in the rules themselves, found when a definition is written; `path` is the schema's place.
    fn check_definition(&self, schema: &Schema, path: &Path) -> Vec<FieldError>;
}

/// Accepts every object and every rule.
pub struct NoRules;

impl Rules for NoRules {
    fn check(&self, _: &Schema, _: &Value, _: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }

    fn check_definition(&self, _: &Schema, _: &Path) -> Vec<FieldError> {
        Vec::new()
    }
}

/// Where the scale subresource finds its numbers, as dotted paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// One version of a custom resource.
#[derive(Debug, Clone)]
pub struct CustomResource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespaced: bool,
    pub schema: Schema,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    has_rules: bool,
    /// Whether it holds other resources whole.
    has_embedded: bool,
    /// Whether it has lists in which nothing may stand twice.
    has_unique_lists: bool,
}

impl CustomResource {
    /// Reads one version of a definition; nothing when it has no such version or an unusable schema.
    pub fn compile(definition: &Value, version: &str) -> Option<Self> {
        let versions = definition.list_at(&["spec", "versions"]);
        let declared = versions.iter().find(|v| v.str_at(&["name"]) == Some(version))?;
        let schema = match declared.at(&["schema", "openAPIV3Schema"]) {
            Some(schema) => Schema::parse(schema).ok()?,
            None => {
                let mut open = Schema::default();
                open.extensions.preserve_unknown_fields = true;
                open
            }
        };
        let scale = declared.at(&["subresources", "scale"]).map(|scale| {
            let path = |key: &str| scale.str_at(&[key]).unwrap_or_default().to_owned();
            ScalePaths {
                spec_replicas: path("specReplicasPath"),
                status_replicas: path("statusReplicasPath"),
                label_selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
            }
        });
        let text = |path: &[&str]| definition.str_at(path).unwrap_or_default().to_owned();
        Some(Self {
            group: text(&["spec", "group"]),
            version: version.to_owned(),
            kind: text(&["spec", "names", "kind"]),
            namespaced: definition.str_at(&["spec", "scope"]) == Some("Namespaced"),
            has_status: declared.at(&["subresources", "status"]).is_some_and(|s| !s.is_null()),
            has_rules: has_rules(&schema),
            has_embedded: has_embedded(&schema),
            has_unique_lists: lists::has_unique_lists(&schema),
            scale,
            schema,
        })
    }

    /// Brings a decoded body into shape; an error is the text that refuses it.
    pub fn shape(
        &self,
        value: &mut Value,
        object_meta: Cursor<'_>,
        problems: &mut Problems,
    ) -> Result<(), String> {
        shape::shape_written(value, (&self.schema, self.has_embedded), object_meta, problems)
    }

    /// Brings an object from the store into shape; `self` is the storage version.
    pub fn shape_stored(&self, value: &mut Value) -> bool {
        shape::shape_stored(value, &self.schema)
    }

    /// Whether the text of a stored object is that of one in shape, as far as can be told without a tree.
    pub fn is_shaped(&self, text: &[u8]) -> bool {
        shaped::is_shaped(text, &self.schema)
    }

    /// Turns a shaped object of another version into one of this version, without a conversion webhook: the
    /// version is rewritten and what this schema lacks is dropped. Defaults are not filled in again.
    pub fn serve(&self, value: &mut Value) {
        let api_version = GroupVersion::new(&*self.group, &*self.version).to_string();
        value.set(&["apiVersion"], api_version);
        shape::prune(value, &self.schema);
    }

    /// Prepares an object for its creation.
    pub fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            object.remove_at(&["status"]);
            // What is absent has its default, as it would when it is read again.
            let status = self.schema.properties.get("status");
            if let Some(default) = status.and_then(|status| status.default.as_deref()) {
                object.set(&["status"], default.clone());
            }
        }
        object.set(&["metadata", "generation"], 1);
    }

    /// Prepares an update of the main resource: the status stays, changes elsewhere count a generation.
    pub fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status {
            match old.get("status") {
                Some(status) if new.get("status") == Some(status) => {}
                Some(status) => new.set(&["status"], status.clone()),
                None => drop(new.remove_at(&["status"])),
            }
        }
        let generation = old.i64_at(&["metadata", "generation"]).unwrap_or_default();
        let changed = differ_beside_metadata(new, old);
        let next = if changed { generation + 1 } else { generation };
        new.set(&["metadata", "generation"], next);
    }

    /// Prepares an update of the status: nothing but the status and the managed fields changes.
    pub fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        let nothing = Map::new();
        let fields = old.as_object().unwrap_or(&nothing);
        let metadata = old.map_at(&["metadata"]).unwrap_or(&nothing);
        take_over(new.map_at_mut(&[]), fields, &["metadata", "status"]);
        take_over(new.map_at_mut(&["metadata"]), metadata, &["managedFields"]);
    }

    pub fn validate_create(&self, object: &Value, rules: &dyn Rules) -> Vec<FieldError> {
        let mut errors = self.validate_type(object);
        if !errors.is_empty() {
            return errors;
        }
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let path = Path::new("metadata");
        let rule = names::subdomain_name;
        errors.extend(names::validate_object_meta(metadata, self.namespaced, rule, &path));
        errors.extend(validate(object, &self.schema, &Path::root()));
        errors.extend(self.validate_scale_spec(object));
        errors.extend(self.validate_scale_status(object));
        if self.has_embedded {
            errors.extend(validate_embedded(object, &self.schema, &Path::root()));
        }
        if self.has_unique_lists {
            errors.extend(lists::validate_lists(object, &self.schema, &Path::root()));
        }
        self.run_rules(&mut errors, object, None, rules);
        errors
    }

    pub fn validate_update(&self, new: &Value, old: &Value, rules: &dyn Rules) -> Vec<FieldError> {
        let mut errors = self.validate_type(new);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(metadata_update(new, old));
        errors.extend(validate_change(new, old, &self.schema, &Path::root()));
        errors.extend(self.validate_scale_spec(new));
        errors.extend(self.validate_scale_status(new));
        if self.has_embedded {
            errors.extend(validate_embedded(new, &self.schema, &Path::root()));
        }
        errors.extend(self.validate_changed_lists(new, old));
        self.run_rules(&mut errors, new, Some(old), rules);
        errors
    }

    pub fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        rules: &dyn Rules,
    ) -> Vec<FieldError> {
        let mut errors = self.validate_type(new);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(metadata_update(new, old));
        let schema = self.schema.properties.get("status");
        if let (Some(status), Some(schema)) = (new.get("status"), schema) {
            let path = Path::new("status");
            let old = old.get("status").unwrap_or(&Value::Null);
            errors.extend(validate_change(status, old, schema, &path));
        }
        errors.extend(self.validate_scale_status(new));
        errors.extend(self.validate_changed_lists(new, old));
        self.run_rules(&mut errors, new, Some(old), rules);
        errors
    }

    fn validate_type(&self, object: &Value) -> Vec<FieldError> {
        if object.kind() == self.kind
            && !self.group.is_empty()
            && object.api_version().split_once('/') == Some((&*self.group, &*self.version))
        {
            return Vec::new();
        }
        let api_version = GroupVersion::new(&*self.group, &*self.version).to_string();
        [("kind", object.kind(), &self.kind), ("apiVersion", object.api_version(), &api_version)]
            .into_iter()
            .filter(|(_, found, wanted)| found != wanted)
            .map(|(field, found, wanted)| {
                FieldError::invalid(&Path::new(field), found, format!("must be {wanted}"))
            })
            .collect()
    }

    /// Lists that were broken before are not held against this update.
    fn validate_changed_lists(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        if !self.has_unique_lists {
            return Vec::new();
        }
        let errors = lists::validate_lists(new, &self.schema, &Path::root());
        if errors.is_empty() || !lists::validate_lists(old, &self.schema, &Path::root()).is_empty()
        {
            return Vec::new();
        }
        errors
    }

    fn run_rules(
        &self,
        errors: &mut Vec<FieldError>,
        object: &Value,
        old: Option<&Value>,
        rules: &dyn Rules,
    ) {
        if !self.has_rules {
            return;
        }
        if errors.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            errors.push(FieldError::invalid(&Path::root(), Value::Null, detail));
        } else {
            errors.extend(rules.check(&self.schema, object, old));
        }
    }

    fn validate_scale_spec(&self, object: &Value) -> Option<FieldError> {
        replicas_error(object, &self.scale.as_ref()?.spec_replicas)
    }

    fn validate_scale_status(&self, object: &Value) -> Vec<FieldError> {
        let Some(scale) = &self.scale else { return Vec::new() };
        let mut errors: Vec<FieldError> =
            replicas_error(object, &scale.status_replicas).into_iter().collect();
        if let Some(path) = &scale.label_selector {
            let selector = at_dotted(object, path);
            if let Some(value) = selector.filter(|value| !value.is_string()) {
                let detail = accessor_error(path, value, "string");
                errors.push(FieldError::invalid(&Path::new(path.as_str()), "", detail));
            }
        }
        errors
    }
}

/// Makes a map say what another one says, except about some fields. Most of it does already.
fn take_over(map: &mut Map, other: &Map, except: &[&str]) {
    let is_own = |name: &str| except.contains(&name);
    map.retain(|name, _| is_own(name) || other.contains_key(name));
    for (name, value) in other.iter().filter(|(name, _)| !is_own(name)) {
        if map.get(name) != Some(value) {
            map.insert(name.clone(), value.clone());
        }
    }
}

fn metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let [new, old] = [new, old].map(|object| object.get("metadata").unwrap_or(&Value::Null));
    names::validate_object_meta_update(new, old, &Path::new("metadata"))
}

/// Whether two objects differ in anything but their metadata.
fn differ_beside_metadata(one: &Value, other: &Value) -> bool {
    let beside = |(name, _): &(&Text, &Value)| name.as_str() != "metadata";
    let [one, other] = [one, other].map(|object| object.as_object().into_iter().flatten());
    !one.filter(beside).eq(other.filter(beside))
}

/// The value at a simple path such as `.spec.replicas`.
pub fn at_dotted<'o>(object: &'o Value, path: &str) -> Option<&'o Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, step| value.get(step))
}

/// Where a path leads through something that has no fields.
fn dead_end(object: &Value, path: &str) -> Option<String> {
    let (mut value, mut walked) = (object, String::new());
    for step in path.trim_start_matches('.').split('.') {
        walked = format!("{walked}.{step}");
        if value.is_null() {
            return None;
        }
        if !value.is_object() {
            return Some(accessor_error(&walked, value, "map[string]interface{}"));
        }
        value = value.get(step)?;
    }
    None
}

fn replicas_error(object: &Value, path: &str) -> Option<FieldError> {
    let place = Path::new(path);
    if let Some(detail) = dead_end(object, path) {
        return Some(FieldError::invalid(&place, 0, detail));
    }
    let value = at_dotted(object, path)?;
    let Some(replicas) = value.as_i64() else {
        return Some(FieldError::invalid(&place, 0, accessor_error(path, value, "int64")));
    };
    if replicas < 0 {
        return Some(FieldError::invalid(&place, replicas, "should be a non-negative integer"));
    }
    (replicas > i64::from(i32::MAX)).then(|| {
        let detail = format!("should be less than or equal to {}", i32::MAX);
        FieldError::invalid(&place, replicas, detail)
    })
}

/// The text of Go's accessor for a value of another type.
pub(super) fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, found) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(set) => (set.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (number.to_string(), "int64"),
        Value::Number(number) => {
            (super::number::go_float(number.as_f64().unwrap_or_default()), "float64")
        }
        Value::String(text) => (text.to_string(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}

/// Checks resources inside the object; the object itself is checked elsewhere.
pub(super) fn validate_embedded(value: &Value, schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Paths are made on the way to resources only.
    if shape::holds_resource(value, schema) {
        walk_embedded(value, schema, path, &mut errors);
    }
    errors
}

fn walk_embedded(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.extensions.embedded_resource {
                check_embedded(fields, path, errors);
            }
            for (key, value) in
                fields.iter().filter(|(_, value)| value.is_object() || value.is_array())
            {
                if let Some(property) = schema.properties.get(key.as_str()) {
                    if shape::holds_resource(value, property) {
                        walk_embedded(value, property, &path.child(key), errors);
                    }
                } else if let Additional::Schema(values) = &schema.additional {
                    walk_embedded(value, values, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk_embedded(item, element, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_embedded(fields: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let place = path.child(key);
        match fields.get(key) {
            None => errors.push(FieldError::required(&place, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&place, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                let problem = match key {
                    "kind" => coerced_name(text),
                    _ if GroupVersion::parse(text).is_none() => {
                        Some(format!("unexpected GroupVersion string: {text}"))
                    }
                    _ => None,
                };
                errors.extend(
                    problem.map(|detail| FieldError::invalid(&place, text.as_str(), detail)),
                );
            }
            Some(other) => {
                errors.push(FieldError::invalid(&place, other.clone(), "must be a string"))
            }
        }
    }
    let Some(metadata) = fields.get("metadata") else { return };
    let mut metadata = metadata.clone();
    // A template has no name of its own, so one is lent to it.
    if metadata.str_at(&["name"]).unwrap_or_default().is_empty() {
        metadata.set(&["name"], "fakename");
    }
    let namespaced = metadata.str_at(&["namespace"]).is_some_and(|ns| !ns.is_empty());
    let rule = names::path_segment_name;
    errors.extend(names::validate_object_meta(
        &metadata,
        namespaced,
        rule,
        &path.child("metadata"),
    ));
}

/// Whether any node carries rules.
pub(super) fn has_rules(schema: &Schema) -> bool {
    let here = schema
        .extensions
        .rules
        .as_ref()
        .is_some_and(|r| r.as_array().is_some_and(|r| !r.is_empty()));
    let values = match &schema.additional {
        Additional::Schema(values) => Some(&**values),
        _ => None,
    };
    here || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || values.is_some_and(has_rules)
        || schema.limits().all_of.iter().any(has_rules)
}

/// Whether a resource may stand at any place below a node.
pub(super) fn has_embedded(schema: &Schema) -> bool {
    let values = match &schema.additional {
        Additional::Schema(values) => Some(&**values),
        _ => None,
    };
    schema.extensions.embedded_resource
        || schema.properties.values().any(has_embedded)
        || schema.items.as_deref().is_some_and(has_embedded)
        || values.is_some_and(has_embedded)
}
