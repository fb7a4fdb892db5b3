//! Resources that are worked out on request and never kept, such as metrics. They have a place in
//! discovery and pass authorization like all others; the embedding program answers for them.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::schema::Cursor;

use crate::connect::Connect;
use crate::registry::{Column, Propagation, Rules, Served, Source, Strategy, VersionPlace};

/// A resource that can be read and nothing else.
pub struct Computed {
    pub gvk: Gvk,
    pub plural: String,
    pub singular: String,
    pub namespaced: bool,
    pub place: VersionPlace,
    /// Answers `get` and `list`; the name of a list is empty.
    pub answer: Arc<dyn Connect>,
}

pub(crate) fn serve(computed: &Computed) -> Served {
    Served {
        list_kind: format!("{}List", computed.gvk.kind),
        plural: computed.plural.clone(),
        singular: computed.singular.clone(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: computed.namespaced,
        verbs: vec!["get".to_owned(), "list".to_owned()],
        subresources: Vec::new(),
        source: Source::Native,
        storage_version_hash: None,
        storage: None,
        strategy: Arc::new(Unkept),
        deprecation: None,
        create_refusal: None,
        gvk: computed.gvk.clone(),
    }
}

/// Nothing is ever written, so there is nothing to do.
struct Unkept;

impl Strategy for Unkept {
    fn rules(&self) -> Rules {
        Rules {
            put_creates: false,
            unconditional_update: false,
            has_generation: false,
            returns_deleted: false,
            graceful_deletion: false,
            default_propagation: Propagation::Background,
        }
    }

    fn apply_defaults(&self, _: &mut Value) {}

    fn prepare_create(&self, _: &mut Value) {}

    fn prepare_update(&self, _: &str, _: &mut Value, _: &Value, _: Timestamp) {}

    fn validate_create(&self, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _: &str, _: &Value, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn warnings(&self, _: &Value, _: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    fn convert(&self, _: &mut Value, _: &str, _: &str) {}

    fn canonical_field(&self, label: &str) -> Result<String, String> {
        Err(format!("field label not supported: {label}"))
    }

    fn fields(&self, _: &Value) -> Vec<(Arc<str>, String)> {
        Vec::new()
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn schema_of(&self, _: &Gvk) -> Option<Cursor<'_>> {
        None
    }

    fn knows_version(&self, _: &GroupVersion) -> bool {
        false
    }

    fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}
