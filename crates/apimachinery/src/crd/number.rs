//! Numbers as Go prints them in messages, and the checks schemas make on them.

use std::fmt;

use crate::Value;
use serde_json::Number;

use crate::field::Shown;

/// Prints a floating-point number as Go's `%v` does: shortest digits, an exponent from 10^6
/// on or below 10^-4.
pub(super) fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The number as an error shows it.
pub(super) fn shown(number: &Number) -> Shown {
    match number.as_i64() {
        Some(whole) => Shown::Json(whole.into()),
        None => Shown::Verbatim(go_float(number.as_f64().unwrap_or_default())),
    }
}

/// Whether a float holds a whole number JSON readers agree on.
pub(super) fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0
}

/// A bound of a schema as it is compared with one number: whole where both are, else a float.
pub(super) struct Bound {
    pub(super) value: f64,
    is_whole: bool,
}

impl Bound {
    /// `fits` says whether the bound itself is of the schema's type.
    pub(super) fn new(number: &Number, written: f64, fits: bool) -> Self {
        let is_whole = number.is_i64() && fits;
        Self { value: if is_whole { written.trunc() } else { written }, is_whole }
    }

    pub(super) fn divides(&self, number: &Number) -> bool {
        let value = number.as_f64().unwrap_or_default();
        match number.as_i64() {
            // The factor is whole, so the cast is exact.
            Some(whole) if self.is_whole => whole % (self.value as i64).max(1) == 0,
            _ if self.value < 1.0 => is_whole(1.0 / self.value * value),
            _ => is_whole(value / self.value),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole {
            write!(f, "{}", self.value as i64)
        } else {
            f.write_str(&go_float(self.value))
        }
    }
}

/// Turns floats that are whole numbers into integers, as writing and reading JSON in Go does.
pub(super) fn settle(value: &mut Value) {
    // Most values have none, and looking leaves them shared.
    if is_settled(value) {
        return;
    }
    match value {
        Value::Number(number) => {
            if let Some(float) = unsettled(number) {
                // Whole and below 2^53, so the cast is exact.
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(fields) => fields.values_mut().for_each(settle),
        _ => {}
    }
}

fn unsettled(number: &Number) -> Option<f64> {
    number.as_f64().filter(|float| !number.is_i64() && is_whole(*float))
}

fn is_settled(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64() || unsettled(number).is_none(),
        Value::Array(items) => items.iter().all(is_settled),
        Value::Object(fields) => fields.values().all(is_settled),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (number, text) in [
            (1.5, "1.5"),
            (10.0, "10"),
            (1e5, "100000"),
            (1_234_567.0, "1.234567e+06"),
            (0.000_01, "1e-05"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }
}
