//! The name of an object within its kind.

use std::fmt;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Object;

/// Namespace and name; the namespace of cluster-scoped objects is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    pub fn of(object: &Object) -> Self {
        Self::new(object.namespace(), object.name())
    }

    pub fn of_value(object: &Value) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
