//! Numbers of the three kinds, compared by value.

use std::cmp::Ordering;

use crate::value::Value;

/// Compares two numbers; nothing if one is none, or not a number at all.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => whole(b).and_then(|b| compare_double(*a, b)),
        (a, Value::Double(b)) => {
            whole(a).and_then(|a| compare_double(*b, a)).map(Ordering::reverse)
        }
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int(v) => Some(i128::from(*v)),
        Value::UInt(v) => Some(i128::from(*v)),
        _ => None,
    }
}

fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    // Beyond the whole numbers there are, the sign decides.
    if a.abs() >= 1.9e19 {
        return Some(if a > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let floor = a.floor();
    let order = (floor as i128).cmp(&b);
    Some(if order == Ordering::Equal && a > floor { Ordering::Greater } else { order })
}
