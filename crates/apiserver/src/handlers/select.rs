//! Which objects a list, watch or deletion of many is about.

use karmada_apimachinery::selector::{FieldSelector, FieldTerm, LabelSelector};
use karmada_apimachinery::status::Status;

use crate::cache::StoredObject;
use crate::call::Call;

/// The selectors of a request, checked and made canonical.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Keys below the resource's prefix that can match begin with this.
    pub(crate) prefix: String,
}

impl Selection {
    pub(crate) fn read(call: &Call) -> Result<Self, Status> {
        let parameter = |key| call.query.get(key).unwrap_or_default();
        let labels = LabelSelector::parse(parameter("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(parameter("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields.try_map(|term: FieldTerm| {
            let field = call.served.strategy.canonical_field(&term.field)?;
            Ok(FieldTerm { field, ..term })
        });
        let fields = fields.map_err(|why: String| Status::bad_request(why))?;
        let mut terms = fields.terms().to_vec();
        if !call.target.watched_name.is_empty() {
            let value = call.target.watched_name.to_string();
            terms.push(FieldTerm { field: "metadata.name".into(), value, negated: false });
        }
        let fields = FieldSelector::new(terms);
        let prefix = match call.namespace() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        Ok(Self { labels, fields, prefix })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        object.key.starts_with(&self.prefix)
            && self.labels.matches_with(|label| object.label(label))
            && self.fields.matches_with(|field| object.field(field))
    }
}
