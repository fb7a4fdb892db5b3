//! The schema of quantities in CRDs; the arithmetic is `apimachinery`'s.

pub use karmada_apimachinery::quantity::Quantity;

use karmada_apimachinery::Value;
use karmada_apimachinery::json;

use crate::form::Form;
use crate::wire::Described;

const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

impl Described for Quantity {
    fn schema() -> Value {
        json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
    fn go_type() -> String {
        "resource.Quantity".to_owned()
    }
    fn form() -> Form {
        Form::Amount
    }
}
