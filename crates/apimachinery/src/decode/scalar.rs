//! Single values whose Go types read and write themselves: times, quantities, bytes.

use crate::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Mismatch;
use crate::field::quote;
use crate::quantity::Quantity;
use crate::schema::{Cursor, Special};
use crate::time::{format_micro_time, format_time, parse_time};

/// What Go writes for a value that was never set.
pub(super) fn zero_of(special: Special) -> Value {
    match special {
        Special::Time | Special::MicroTime | Special::Raw | Special::SchemaOr => Value::Null,
        Special::Quantity => "0".into(),
        Special::IntOrString => 0.into(),
    }
}

/// Whether Go reads the value by itself, so that nothing inside can be an unknown field.
pub(super) fn is_raw(cursor: Cursor<'_>) -> bool {
    match cursor.definition() {
        Some(_) => cursor.special().is_some(),
        None => cursor.is_opaque(),
    }
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
