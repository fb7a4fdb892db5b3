//! CustomResourceDefinitions as objects: defaults, preparation, validation of creations and updates.
//!
//! Kubernetes keeps what all versions share once, at the top of its internal form; errors name that place
//! (`spec.validation`, `spec.subresources`, …), so the same is done here.

use crate::Value;

use super::approval::validate_approval;
use super::coerced_name;
use super::conversion::{validate_client, validate_review_versions};
use super::resource::Rules;
use super::structural;
use super::version_parts::{
    validate_column, validate_schema, validate_selectable, validate_subresources,
};
use crate::field::{FieldError, Path, Shown};
use crate::names;
use crate::object::{ObjectExt, ObjectMutExt};

/// Fills in what a definition may leave out.
pub fn apply_defaults(definition: &mut Value) {
    let kind = definition.str_at(&["spec", "names", "kind"]).unwrap_or_default().to_owned();
    for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
        let path = ["spec", "names", field];
        if !kind.is_empty() && definition.str_at(&path).unwrap_or_default().is_empty() {
            definition.set(&path, value);
        }
    }
    definition.set_default(&["spec", "conversion", "strategy"], "None");
    let conversion = definition.at(&["spec", "conversion"]).cloned().unwrap_or_default();
    let client = ["spec", "conversion", "webhook", "clientConfig", "service"];
    if conversion.at(&["webhook", "clientConfig", "service"]).is_some_and(Value::is_object) {
        let mut port = client.to_vec();
        port.push("port");
        definition.set_default(&port, 443);
    }
    stored_versions(definition);
}

/// The storage version joins the versions that were ever stored.
fn stored_versions(definition: &mut Value) {
    let storage = definition
        .list_at(&["spec", "versions"])
        .iter()
        .find(|version| version.bool_at(&["storage"]) == Some(true))
        .and_then(|version| version.str_at(&["name"]))
        .map(str::to_owned);
    let Some(storage) = storage else { return };
    let mut stored = definition.list_at(&["status", "storedVersions"]).to_vec();
    if !stored.iter().any(|version| *version == storage) {
        stored.push(storage.into());
        definition.set(&["status", "storedVersions"], stored);
    }
}

/// Prepares a definition for its creation: it has no status yet but its storage version.
pub fn prepare_create(definition: &mut Value) {
    definition.set(&["metadata", "generation"], 1);
    definition.set(
        &["status"],
        crate::json!({
            "acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null,
        }),
    );
    stored_versions(definition);
}

/// Prepares an update: the status stays as it was, except for a new storage version.
pub fn prepare_update(new: &mut Value, old: &Value) {
    if let Some(status) = old.get("status") {
        new.set(&["status"], status.clone());
    }
    stored_versions(new);
    let generation = old.i64_at(&["metadata", "generation"]).unwrap_or_default();
    let next = if new.get("spec") == old.get("spec") { generation } else { generation + 1 };
    new.set(&["metadata", "generation"], next);
}

pub fn validate_create(definition: &Value, rules: &dyn Rules) -> Vec<FieldError> {
    let metadata = definition.get("metadata").unwrap_or(&Value::Null);
    let mut errors =
        names::validate_object_meta(metadata, false, names::subdomain_name, &Path::new("metadata"));
    let spec = Spec::of(definition);
    let expected = format!("{}.{}", spec.text(&["names", "plural"]), spec.text(&["group"]));
    if !definition.name().is_empty() && definition.name() != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(&Path::from("metadata.name"), definition.name(), detail));
    }
    errors.extend(spec.validate(rules));
    errors.extend(validate_status(definition));
    errors.extend(validate_approval(definition, None));
    errors.extend(validate_preserve(definition, None));
    errors
}

pub fn validate_update(new: &Value, old: &Value, rules: &dyn Rules) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(new, old);
    errors.extend(Spec::of(new).validate(rules));
    let is_established = old.list_at(&["status", "conditions"]).iter().any(|condition| {
        condition.str_at(&["type"]) == Some("Established")
            && condition.str_at(&["status"]) == Some("True")
    });
    let immutable: &[&[&str]] = if is_established {
        &[&["scope"], &["names", "kind"], &["group"], &["names", "plural"]]
    } else {
        &[&["group"], &["names", "plural"]]
    };
    for path in immutable {
        let (new, old) = (Spec::of(new), Spec::of(old));
        if new.text(path) != old.text(path) {
            let place = Path::from(&*format!("spec.{}", path.join(".")));
            errors.push(FieldError::invalid(&place, new.text(path), "field is immutable"));
        }
    }
    errors.extend(validate_status(new));
    errors.extend(validate_approval(new, Some(old)));
    errors.extend(validate_preserve(new, Some(old)));
    errors
}

pub fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(new, old);
    let names = new.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
    errors.extend(validate_names(names, &Path::from("status.acceptedNames")));
    errors
}

fn validate_metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or(Value::Null);
    names::validate_object_meta_update(&metadata(new), &metadata(old), &Path::new("metadata"))
}

/// A definition's spec, seen as Kubernetes sees it internally.
struct Spec<'a> {
    spec: &'a Value,
    versions: &'a [Value],
}

impl<'a> Spec<'a> {
    fn of(definition: &'a Value) -> Self {
        let spec = definition.get("spec").unwrap_or(&Value::Null);
        Self { spec, versions: spec.list_at(&["versions"]) }
    }

    fn text(&self, path: &[&str]) -> &'a str {
        self.spec.str_at(path).unwrap_or_default()
    }

    /// What all versions say alike, under a key of the version.
    fn shared(&self, key: &str) -> bool {
        let value = |version: &'a Value| version.get(key).filter(|value| !is_empty(value));
        self.versions
            .first()
            .is_some_and(|first| self.versions.iter().all(|version| value(version) == value(first)))
    }

    /// Where the values of a key are checked: once at the top, or in each version.
    fn places(&self, key: &str, top: &str) -> Vec<(Path, &'a Value, Option<usize>)> {
        let found = |version: &'a Value| version.get(key).filter(|value| !is_empty(value));
        if self.shared(key) {
            let value = self.versions.first().and_then(found);
            return value
                .map(|value| (Path::new("spec").child(top), value, None))
                .into_iter()
                .collect();
        }
        let versions = self.versions.iter().enumerate();
        versions
            .filter_map(|(index, version)| {
                let path = Path::new("spec").child("versions").index(index).child(key);
                Some((path, found(version)?, Some(index)))
            })
            .collect()
    }

    fn has_status(&self, index: Option<usize>) -> bool {
        let has = |version: &Value| {
            version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null())
        };
        match index {
            Some(index) if !self.shared("subresources") => {
                self.versions.get(index).is_some_and(has)
            }
            _ => self.versions.iter().any(has),
        }
    }

    fn validate(&self, rules: &dyn Rules) -> Vec<FieldError> {
        let mut errors = self.validate_identity();
        let mut top = Vec::new();
        let mut per_version: Vec<Vec<FieldError>> = vec![Vec::new(); self.versions.len()];
        self.validate_parts(rules, |index, found| match index {
            Some(index) => per_version[index].extend(found),
            None => top.extend(found),
        });
        for (index, version) in self.versions.iter().enumerate() {
            errors.extend(validate_version(version, index));
            errors.append(&mut per_version[index]);
        }
        errors.extend(self.validate_version_set());
        errors.extend(self.validate_required_names());
        let names = self.spec.get("names").unwrap_or(&Value::Null);
        errors.extend(validate_names(names, &Path::from("spec.names")));
        errors.extend(top);
        errors.extend(self.validate_conversion());
        errors
    }

    fn validate_identity(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let group = self.text(&["group"]);
        let place = Path::from("spec.group");
        if group.is_empty() {
            errors.push(FieldError::required(&place, ""));
        } else {
            let problems = names::dns1123_subdomain(group);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(&place, group, problems.join(",")));
            } else if !group.contains('.') {
                let detail = "should be a domain with at least one dot";
                errors.push(FieldError::invalid(&place, group, detail));
            }
        }
        errors.extend(one_of(
            &Path::from("spec.scope"),
            self.text(&["scope"]),
            &["Cluster", "Namespaced"],
        ));
        for (index, version) in self.versions.iter().enumerate() {
            if !version.at(&["schema", "openAPIV3Schema"]).is_some_and(Value::is_object) {
                let place = Path::from("spec.versions").index(index).child("schema");
                errors.push(FieldError::required(&place.child("openAPIV3Schema"), ""));
            }
        }
        errors
    }

    /// Runs the checks of schemas, subresources, columns and selectable fields in their order.
    fn validate_parts(
        &self,
        rules: &dyn Rules,
        mut report: impl FnMut(Option<usize>, Vec<FieldError>),
    ) {
        for (path, value, index) in self.places("schema", "validation") {
            let has_status = self.has_status(index);
            report(index, validate_schema(value, &path, has_status, rules));
        }
        for (path, value, index) in self.places("subresources", "subresources") {
            report(index, validate_subresources(value, &path));
        }
        for (path, value, index) in
            self.places("additionalPrinterColumns", "additionalPrinterColumns")
        {
            let columns = value.as_array().into_iter().flatten().enumerate();
            report(
                index,
                columns.flat_map(|(i, column)| validate_column(column, &path.index(i))).collect(),
            );
        }
        for (path, value, index) in self.places("selectableFields", "selectableFields") {
            if index.is_none() && !self.shared("schema") {
                let detail = "may only be set when validations.schema is included";
                report(index, vec![FieldError::invalid(&path, "", detail)]);
                continue;
            }
            let version = self.versions.get(index.unwrap_or_default());
            let schema = version.and_then(|version| version.at(&["schema", "openAPIV3Schema"]));
            let readable = schema.filter(|schema| structural::is_readable(schema));
            if let Some(schema) = readable.and_then(Value::as_object) {
                report(index, validate_selectable(value, schema, &path));
            }
        }
    }

    fn validate_version_set(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let place = Path::from("spec.versions");
        let names: Vec<&str> =
            self.versions.iter().map(|v| v.str_at(&["name"]).unwrap_or_default()).collect();
        let has_twins = names.iter().enumerate().any(|(index, name)| names[..index].contains(name));
        if has_twins {
            let detail = "must contain unique version names";
            errors.push(FieldError::invalid(&place, self.shown_versions(), detail));
        }
        let storage =
            self.versions.iter().filter(|v| v.bool_at(&["storage"]) == Some(true)).count();
        if storage != 1 {
            let detail = "must have exactly one version marked as storage version";
            errors.push(FieldError::invalid(&place, self.shown_versions(), detail));
        }
        if let Some(first) = names.first().filter(|name| !name.is_empty()) {
            let problems = names::dns1035_label(first);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(
                    &Path::from("spec.version"),
                    *first,
                    problems.join(","),
                ));
            }
        }
        errors
    }

    /// The versions in Go's field names; what is kept at the top shows as null.
    fn shown_versions(&self) -> Shown {
        if !self.spec.get("versions").is_some_and(Value::is_array) {
            return Value::Null.into();
        }
        let part = |version: &Value, key: &str| match version.get(key) {
            Some(value) if !self.shared(key) => value.to_string(),
            _ => "null".to_owned(),
        };
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|v| {
                let name = Value::from(v.str_at(&["name"]).unwrap_or_default());
                let flag = |key: &str| v.bool_at(&[key]).unwrap_or_default();
                format!(
                    "{{\"Name\":{name},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
                     \"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                    flag("served"),
                    flag("storage"),
                    flag("deprecated"),
                    v.get("deprecationWarning").unwrap_or(&Value::Null),
                    part(v, "schema"),
                    part(v, "subresources"),
                    part(v, "additionalPrinterColumns"),
                    part(v, "selectableFields"),
                )
            })
            .collect();
        Shown::Verbatim(format!("[{}]", versions.join(",")))
    }

    fn validate_required_names(&self) -> Vec<FieldError> {
        ["plural", "singular", "kind", "listKind"]
            .into_iter()
            .filter(|name| self.text(&["names", name]).is_empty())
            .map(|name| FieldError::required(&Path::from("spec.names").child(name), ""))
            .collect()
    }

    fn validate_conversion(&self) -> Vec<FieldError> {
        let Some(conversion) = self.spec.get("conversion").filter(|c| c.is_object()) else {
            return Vec::new();
        };
        let path = Path::from("spec.conversion");
        let strategy = conversion.str_at(&["strategy"]).unwrap_or_default();
        let mut errors = one_of(&path.child("strategy"), strategy, &["None", "Webhook"]);
        let client = conversion.at(&["webhook", "clientConfig"]).filter(|c| c.is_object());
        let versions = conversion.list_at(&["webhook", "conversionReviewVersions"]);
        let client_path = path.child("webhookClientConfig");
        let versions_path = path.child("conversionReviewVersions");
        if strategy == "Webhook" {
            errors.extend(validate_client(client, &client_path));
            errors.extend(validate_review_versions(versions, &versions_path));
            return errors;
        }
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(&client_path, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&versions_path, detail));
        }
        errors
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(|list| list.is_empty())
}

fn one_of(path: &Path, value: &str, allowed: &[&str]) -> Vec<FieldError> {
    match value {
        "" => vec![FieldError::required(path, "")],
        value if allowed.contains(&value) => Vec::new(),
        value => vec![FieldError::not_supported(path, value, allowed)],
    }
}

fn validate_version(version: &Value, index: usize) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::from("spec.versions").index(index);
    let name = version.str_at(&["name"]).unwrap_or_default();
    let problems = names::dns1035_label(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(&path.child("name"), name, problems.join(",")));
    }
    if let Some(warning) = version.str_at(&["deprecationWarning"]) {
        let is_deprecated = version.bool_at(&["deprecated"]).unwrap_or_default();
        for detail in warning_problems(warning, is_deprecated) {
            errors.push(FieldError::invalid(&path.child("deprecationWarning"), warning, detail));
        }
    }
    errors
}

fn warning_problems(warning: &str, is_deprecated: bool) -> Vec<String> {
    if !is_deprecated {
        return vec!["can only be set for deprecated versions".into()];
    }
    let mut problems = Vec::new();
    if warning.len() > 256 {
        problems.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        problems.push("must not be an empty string".to_owned());
    }
    let unprintable = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| unprintable(*c)) {
        problems.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    problems
}

fn validate_names(names: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = |key: &str| names.str_at(&[key]).unwrap_or_default();
    let label = |value: &str, place: Path| {
        let problems = names::dns1035_label(value);
        (!problems.is_empty()).then(|| FieldError::invalid(&place, value, problems.join(",")))
    };
    for key in ["plural", "singular"] {
        errors.extend(
            Some(name(key)).filter(|n| !n.is_empty()).and_then(|n| label(n, path.child(key))),
        );
    }
    for key in ["kind", "listKind"] {
        let problem = Some(name(key)).filter(|n| !n.is_empty()).and_then(coerced_name);
        errors
            .extend(problem.map(|detail| FieldError::invalid(&path.child(key), name(key), detail)));
    }
    for (index, short) in names.list_at(&["shortNames"]).iter().enumerate() {
        let place = path.child("shortNames").index(index);
        errors.extend(label(short.as_str().unwrap_or_default(), place));
    }
    if !name("kind").is_empty() && name("kind") == name("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), name("listKind"), detail));
    }
    for (index, category) in names.list_at(&["categories"]).iter().enumerate() {
        let place = path.child("categories").index(index);
        errors.extend(label(category.as_str().unwrap_or_default(), place));
    }
    errors
}

fn validate_status(definition: &Value) -> Vec<FieldError> {
    let names = definition.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
    let mut errors = validate_names(names, &Path::from("status.acceptedNames"));
    let place = Path::from("status.storedVersions");
    let stored = definition.list_at(&["status", "storedVersions"]);
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(&place, Value::Null, detail));
        return errors;
    }
    let versions = definition.list_at(&["spec", "versions"]);
    let name = |version: &Value| version.get("name").cloned().unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        // Compat: of versions of the same name only the first is found.
        let is_known = stored.contains(&name(version))
            && !versions[..index].iter().any(|earlier| name(earlier) == name(version));
        if version.bool_at(&["storage"]) == Some(true) && !is_known {
            let detail = format!(
                "must have the storage version {}",
                name(version).as_str().unwrap_or_default()
            );
            errors.push(FieldError::invalid(&place, Value::from(stored.to_vec()), detail));
        }
    }
    for (index, version) in stored.iter().enumerate() {
        if !versions.iter().any(|declared| name(declared) == *version) {
            let v = version.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {v} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {v} and removes \
                 {v} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&place.index(index), v, detail));
        }
    }
    errors
}

fn validate_preserve(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    let is_set =
        |definition: &Value| definition.bool_at(&["spec", "preserveUnknownFields"]) == Some(true);
    (is_set(new) && !old.is_some_and(is_set)).then(|| {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        FieldError::invalid(&Path::from("spec.preserveUnknownFields"), true, detail)
    })
}
