//! Resources that are never kept: worked out on request, such as metrics, or names that lead
//! somewhere else. They have a place in discovery and pass authorization like all others; the
//! embedding program answers for them.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::schema::Cursor;

use crate::connect::Connect;
use crate::registry::{
    Column, Propagation, Rules, Served, ServedSubresource, Source, Strategy, VersionPlace,
};

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

/// A resource of the whole cluster whose names lead somewhere else.
pub struct Passage {
    pub gvk: Gvk,
    /// The resource is spelled like this for one and for many.
    pub name: String,
    pub place: VersionPlace,
    pub entrance: Entrance,
    /// Answers for everything below a name.
    pub connect: Arc<dyn Connect>,
}

/// Where a [`Passage`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// Behind the name: the rest of the path can be read, whatever it is.
    Name,
    /// Behind this subresource, for every method.
    Subresource(&'static str),
}

/// The verbs that stand for the methods of a connection.
const CONNECT_VERBS: [&str; 5] = ["create", "delete", "get", "patch", "update"];

pub(crate) fn serve(computed: &Computed) -> Served {
    let names = (computed.plural.as_str(), computed.singular.as_str());
    let verbs = vec!["get".to_owned(), "list".to_owned()];
    Served { namespaced: computed.namespaced, verbs, ..unkept(&computed.gvk, names) }
}

pub(crate) fn serve_passage(passage: &Passage) -> Served {
    let served = unkept(&passage.gvk, (&passage.name, &passage.name));
    match passage.entrance {
        Entrance::Name => Served { verbs: vec!["get".to_owned()], ..served },
        Entrance::Subresource(name) => {
            let subresource = ServedSubresource {
                name: name.to_owned(),
                group: String::new(),
                version: String::new(),
                kind: passage.gvk.kind.clone(),
                verbs: CONNECT_VERBS.map(str::to_owned).to_vec(),
            };
            Served { subresources: vec![subresource], ..served }
        }
    }
}

fn unkept(gvk: &Gvk, (plural, singular): (&str, &str)) -> Served {
    Served {
        list_kind: format!("{}List", gvk.kind),
        plural: plural.to_owned(),
        singular: singular.to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: Vec::new(),
        subresources: Vec::new(),
        source: Source::Native,
        storage_version_hash: None,
        storage: None,
        strategy: Arc::new(Unkept),
        deprecation: None,
        create_refusal: None,
        gvk: gvk.clone(),
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
