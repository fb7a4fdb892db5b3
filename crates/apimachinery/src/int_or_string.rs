//! Values that are a number or a string, where a string is usually a percentage of some total.

use crate::Value;

use crate::field::quote;

/// Which way a share that is no whole number goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    Up,
    Down,
}

/// Resolves a number or percentage against `total`; the error is Kubernetes'.
pub fn scaled_value(value: &Value, total: i64, rounding: Rounding) -> Result<i64, String> {
    let wrong = |detail: &str| format!("invalid value for IntOrString: {detail}");
    let text = match value {
        Value::Number(number) => return Ok(number.as_i64().unwrap_or(0)),
        Value::String(text) => text,
        _ => return Err(wrong("invalid type: neither int nor percentage")),
    };
    let Some(percent) = text.strip_suffix('%') else {
        return Err(wrong("invalid type: string is not a percentage"));
    };
    let percent: i64 = percent.parse().map_err(|_| {
        let (text, percent) = (quote(text), quote(percent));
        wrong(&format!("invalid value {text}: strconv.Atoi: parsing {percent}: invalid syntax"))
    })?;
    let share = i128::from(percent) * i128::from(total);
    let whole = match rounding {
        Rounding::Down => share.div_euclid(100),
        Rounding::Up => -(-share).div_euclid(100),
    };
    Ok(i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX }))
}

/// The percentage a string stands for, if it is one.
pub fn percent_of(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

/// The text of a number or string, as tables show it.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn percentages_scale_and_round_as_asked() {
        let cases = [
            (json!(3), 10, Rounding::Up, Ok(3)),
            (json!("25%"), 10, Rounding::Up, Ok(3)),
            (json!("25%"), 10, Rounding::Down, Ok(2)),
            (json!("100%"), 7, Rounding::Down, Ok(7)),
            (
                json!("3"),
                7,
                Rounding::Up,
                Err("invalid value for IntOrString: invalid type: string is not a percentage"),
            ),
        ];
        for (value, total, rounding, expected) in cases {
            assert_eq!(scaled_value(&value, total, rounding), expected.map_err(str::to_owned));
        }
    }
}
