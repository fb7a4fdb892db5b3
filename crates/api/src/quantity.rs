//! An amount of a resource as it stands in an object; arithmetic is done by `apimachinery`.

use karmada_apimachinery::Value;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::wire::Described;

/// An amount such as `500m` or `2Gi`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl Described for Quantity {
    fn schema() -> Value {
        json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
    fn go_type() -> String {
        "resource.Quantity".to_owned()
    }
}
