//! Edits at paths that a policy names: in the object itself, and in documents inside its strings.

use karmada_api::policy::{
    FieldOverrider, JSONPatchOperation, OverriderOperator, PlaintextOverrider, YAMLPatchOperation,
};
use karmada_apimachinery::field::go_escape;
use karmada_apimachinery::{Value, decode, yaml};

use super::document::Document;
use super::pointer::{self, PointerError, Tree};
use super::{Cause, Changes};

/// One edit of an object or of a document inside a string.
pub(super) struct Edit<'a> {
    pub(super) path: &'a str,
    pub(super) operator: &'a OverriderOperator,
    pub(super) value: &'a Value,
}

impl<'a> From<&'a JSONPatchOperation> for Edit<'a> {
    fn from(edit: &'a JSONPatchOperation) -> Self {
        Self { path: &edit.sub_path, operator: &edit.operator, value: &edit.value }
    }
}

impl<'a> From<&'a YAMLPatchOperation> for Edit<'a> {
    fn from(edit: &'a YAMLPatchOperation) -> Self {
        Self { path: &edit.sub_path, operator: &edit.operator, value: &edit.value }
    }
}

impl<'a> From<&'a PlaintextOverrider> for Edit<'a> {
    fn from(edit: &'a PlaintextOverrider) -> Self {
        Self { path: &edit.path, operator: &edit.operator, value: &edit.value }
    }
}

impl Edit<'_> {
    pub(super) fn perform<T: Tree>(&self, root: &mut T) -> Result<(), PointerError> {
        match self.operator {
            OverriderOperator::Add => pointer::add(root, self.path, T::of(self.value)),
            OverriderOperator::Replace => pointer::replace(root, self.path, T::of(self.value)),
            OverriderOperator::Remove => pointer::remove(root, self.path),
            _ => Ok(()),
        }
    }

    fn describe(&self, prefix: &str) -> String {
        let Self { path, operator, value } = self;
        match self.operator {
            OverriderOperator::Remove => format!("{operator} {prefix}{path}"),
            _ => format!("{operator} {prefix}{path} = {value}"),
        }
    }
}

pub(super) fn override_field(
    object: &mut Value,
    overrider: &FieldOverrider,
) -> Result<Changes, Cause> {
    let path = &overrider.field_path;
    let is_yaml = !overrider.yaml.is_empty();
    let edits: Vec<Edit<'_>> = if is_yaml {
        overrider.yaml.iter().map(Edit::from).collect()
    } else {
        overrider.json.iter().map(Edit::from).collect()
    };
    if edits.is_empty() {
        return Ok(Changes::new());
    }
    let place = pointer::get_mut(object, path)?;
    let text = place.as_str().ok_or_else(|| Cause::NotText(path.clone()))?;
    if text.is_empty() && !is_yaml {
        // Compat: there is nothing to edit in an empty text, and nothing to complain about.
        return Ok(Changes::new());
    }
    let edited = if is_yaml {
        let bad = |problem: String| Cause::BadYaml { path: path.clone(), problem };
        let decoded = decode::yaml_untyped(text.as_bytes());
        let mut document = decoded.map_err(|error| bad(error.to_string()))?.value;
        edits.iter().try_for_each(|edit| edit.perform(&mut document))?;
        yaml::to_string(&document)
    } else {
        let mut document: Document = serde_json::from_str(text).map_err(|_| Cause::BadJson)?;
        edits.iter().try_for_each(|edit| edit.perform(&mut document))?;
        go_escape(&document.to_string())
    };
    *place = edited.into();
    Ok(edits.iter().map(|edit| edit.describe(&format!("{path}:"))).collect())
}

pub(super) fn override_plaintext(
    object: &mut Value,
    overriders: &[PlaintextOverrider],
) -> Result<Changes, Cause> {
    let mut changes = Changes::new();
    for edit in overriders.iter().map(Edit::from) {
        edit.perform(object)?;
        changes.push(edit.describe(""));
    }
    Ok(changes)
}
