//! What a kind does at each step of a request. The server itself knows no kind: built-in ones,
//! definitions and the embedding program's own all come behind this trait.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::crd::ScalePaths;
use karmada_apimachinery::decode::Problems;
use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::schema::{Cursor, Schema};
use karmada_apimachinery::{Value, json};

use super::ConversionWebhook;

pub use karmada_kinds::resource::Propagation;

/// The rules of writing and deleting that differ between kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A PUT of a missing object creates it.
    pub put_creates: bool,
    /// A PUT may leave out the resource version.
    pub unconditional_update: bool,
    pub has_generation: bool,
    /// An immediate deletion answers with the object instead of a Status.
    pub returns_deleted: bool,
    /// Deletion waits for a grace period.
    pub graceful_deletion: bool,
    pub default_propagation: Propagation,
}

/// A column of a Table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
}

impl Column {
    /// As a Table names it.
    pub fn definition(self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The steps of one kind in one version. Objects come in the version served up to
/// [`Strategy::prepare_create`] and in the stored version from there on.
pub trait Strategy: Send + Sync + 'static {
    fn rules(&self) -> Rules;

    /// Fills in what a decoded object leaves out.
    fn apply_defaults(&self, object: &mut Value);

    fn prepare_create(&self, object: &mut Value);

    /// `subresource` is empty for the object itself.
    fn prepare_update(&self, subresource: &str, new: &mut Value, old: &Value, now: Timestamp);

    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError>;

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String>;

    /// Rewrites the object into another version of its kind.
    fn convert(&self, object: &mut Value, group: &str, version: &str);

    /// Rewrites the object into the version in which a manager wrote it, to see what it still owns.
    fn show_owner(&self, object: &mut Value, group: &str, version: &str) {
        self.convert(object, group, version);
    }

    /// Whether stored objects may be in another version than the one that is written now.
    fn keeps_former_versions(&self) -> bool {
        false
    }

    /// Who rewrites objects before [`Strategy::convert`] gives them their last touch.
    fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        None
    }

    /// The canonical form of a field-selector label, or the text of the refusal.
    fn canonical_field(&self, label: &str) -> Result<String, String>;

    /// The values of all selectable fields beside name and namespace.
    fn fields(&self, object: &Value) -> Vec<(Arc<str>, String)>;

    fn columns(&self) -> Vec<Column>;

    /// Brings a decoded tree into the shape of the kind and tells what it does not know. Built-in
    /// kinds are shaped by their schema before this is asked.
    fn shape(&self, object: Value) -> Result<(Value, Problems), String> {
        Ok((object, Problems::default()))
    }

    /// The schema of the kind in one of its versions.
    fn schema_of(&self, gvk: &Gvk) -> Option<Cursor<'_>>;

    /// Whether [`Strategy::convert`] can write this version.
    fn knows_version(&self, version: &GroupVersion) -> bool;

    /// Where the scale subresource finds its numbers; absent for kinds that cannot be scaled.
    fn scale(&self) -> Option<ScalePaths> {
        None
    }

    /// The schema of a kind that is not built in, for its description to clients.
    fn custom_schema(&self) -> Option<&Schema> {
        None
    }

    /// Something that changes whenever that schema does, where it is known without reading all of it.
    fn schema_digest(&self) -> Option<&str> {
        None
    }

    /// An object that says nothing, as bookmarks carry it.
    fn empty(&self, gvk: &Gvk) -> Value {
        json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": {}})
    }

    /// One cell per column.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;
}
