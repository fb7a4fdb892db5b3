//! The name of an object within its kind.

use std::fmt;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::value::Text;
use karmada_client::Object;

/// How keys are hashed: fast, and for every map in a way that nobody can know who names objects.
pub type Hashed = hashbrown::DefaultHashBuilder;

/// Namespace and name; the namespace of cluster-scoped objects is empty. A copy shares what is long.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey {
    pub namespace: Text,
    pub name: Text,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn cluster(name: impl Into<Text>) -> Self {
        Self::new("", name)
    }

    pub fn of(object: &Object) -> Self {
        let meta = object.meta();
        Self { namespace: meta.namespace.clone(), name: meta.name.clone() }
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
