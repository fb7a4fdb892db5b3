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

/// Whether a time is written as [`time`] would write it. A no may be wrong: days that few months have are left to it.
pub(super) fn is_plain_time(text: &str) -> bool {
    let Ok(text) = <&[u8; 20]>::try_from(text.as_bytes()) else { return false };
    let two = |at: usize| match text[at..at + 2] {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + ones - b'0'),
        _ => None,
    };
    let within = |at: usize, low: u8, high: u8| two(at).is_some_and(|n| (low..=high).contains(&n));
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    signs.iter().all(|(at, sign)| text[*at] == *sign)
        && within(0, 19, 99)
        && within(2, 0, 99)
        && within(5, 1, 12)
        && within(8, 1, 28)
        && within(11, 0, 23)
        && within(14, 0, 59)
        && within(17, 0, 59)
}

/// Whether an amount is written as [`quantity`] would write it. A no may be wrong.
pub(super) fn is_plain_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    matches!(&text[digits.len()..], "" | "m" | "Ki" | "Mi" | "Gi")
        && matches!(
            digits.as_bytes(),
            [b'1'..=b'9'] | [b'1'..=b'9', b'0'..=b'9'] | [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_plain_is_written_as_it_stands(
            year in "[12][09][0-9]{2}", rest in "-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z",
            amount in "[0-9]{1,4}(m|k|Ki|Mi|Gi|M|)",
        ) {
            let text = year + &rest;
            if is_plain_time(&text) {
                prop_assert_eq!(time(&text, false).unwrap(), text);
            }
            if is_plain_quantity(&amount) {
                prop_assert_eq!(quantity(&amount.as_str().into()).unwrap(), amount);
            }
        }
    }
}
