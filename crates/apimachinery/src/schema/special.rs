//! Definitions whose values are no structs in JSON although Go has types for them.

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Kept as written.
    Raw,
    /// A schema, a boolean, or lists of either.
    SchemaOr,
}

impl Special {
    pub(super) fn of(definition: &str) -> Option<Self> {
        if let Some(name) = definition.strip_prefix(META) {
            return match name {
                "Time" => Some(Self::Time),
                "MicroTime" => Some(Self::MicroTime),
                "FieldsV1" => Some(Self::Raw),
                _ => None,
            };
        }
        if let Some(name) = definition.strip_prefix(EXTENSIONS) {
            return match name {
                "JSON" => Some(Self::Raw),
                "JSONSchemaPropsOrArray"
                | "JSONSchemaPropsOrBool"
                | "JSONSchemaPropsOrStringArray" => Some(Self::SchemaOr),
                _ => None,
            };
        }
        match definition {
            "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Self::Quantity),
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(Self::IntOrString),
            "io.k8s.apimachinery.pkg.runtime.RawExtension" => Some(Self::Raw),
            _ => None,
        }
    }

    /// The name of the definition of a schema node inside a CustomResourceDefinition.
    pub(crate) fn schema_props() -> String {
        format!("{EXTENSIONS}JSONSchemaProps")
    }
}
