//! Single values whose Go types read and write themselves: times, quantities, bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Mismatch;
use crate::field::quote;
use crate::quantity::Quantity;
use crate::schema::Cursor;
use crate::time::{format_micro_time, format_time, parse_time};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

/// Definitions that are not structs in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
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

    /// What Go writes for a value that was never set.
    pub(super) fn zero(self) -> Value {
        match self {
            Self::Time | Self::MicroTime | Self::Raw | Self::SchemaOr => Value::Null,
            Self::Quantity => "0".into(),
            Self::IntOrString => 0.into(),
        }
    }
}

/// Whether Go reads the value by itself, so that nothing inside can be an unknown field.
pub(super) fn is_raw(cursor: Cursor<'_>) -> bool {
    match cursor.definition() {
        Some(name) => Special::of(name).is_some(),
        None => cursor.is_opaque(),
    }
}

/// The name of the definition of a schema node inside a CustomResourceDefinition.
pub(super) fn schema_props() -> String {
    format!("{EXTENSIONS}JSONSchemaProps")
}

/// Reads an RFC 3339 time and writes it in UTC.
pub(super) fn time(text: &str, micro: bool) -> Result<Value, Mismatch> {
    let Some(parsed) = parse_time(text) else {
        let layout =
            if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        let (text, layout) = (quote(text), quote(layout));
        let reason = format!("parsing time {text} as {layout}: cannot parse {text} as \"2006\"");
        return Err(Mismatch::custom(reason));
    };
    Ok(if micro { format_micro_time(parsed) } else { format_time(parsed) }.into())
}

/// Reads an amount and writes it in canonical form.
pub(super) fn quantity(value: &Value) -> Result<Value, Mismatch> {
    Quantity::from_value(value)
        .map(|quantity| quantity.canonical().into())
        .map_err(|error| Mismatch::custom(error.to_string()))
}

/// Checks base64 text; line breaks inside are dropped, as Go's decoder drops them.
pub(super) fn bytes(text: &str) -> Result<Value, Mismatch> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match STANDARD.decode(&compact) {
        Ok(raw) => Ok(STANDARD.encode(raw).into()),
        Err(error) => {
            let offset = match error {
                base64::DecodeError::InvalidByte(offset, _)
                | base64::DecodeError::InvalidLastSymbol(offset, _) => offset,
                base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                    compact.len() / 4 * 4
                }
            };
            Err(Mismatch::custom(format!("illegal base64 data at input byte {offset}")))
        }
    }
}
