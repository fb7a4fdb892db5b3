//! Moments as they stand in objects. A text that is none is refused in the words of the original's parser.

use std::fmt;

use karmada_apimachinery::field::quote;
use karmada_apimachinery::time::parse_time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A moment with second precision, in UTC on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub jiff::Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(moment: jiff::Timestamp) -> Self {
        Self(jiff::Timestamp::from_second(moment.as_second()).unwrap_or(moment))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_time(&text).map(Self::from).ok_or_else(|| serde::de::Error::custom(problem(&text)))
    }
}

/// What is wrong with a text that is no time: the first part that does not fit the layout.
fn problem(text: &str) -> String {
    /// Separator before each number, the number in the layout, its bounds and its name.
    const NUMBERS: [(&str, &str, u32, u32, &str); 6] = [
        ("", "2006", 0, 9999, "year"),
        ("-", "01", 1, 12, "month"),
        ("-", "02", 1, 31, "day"),
        ("T", "15", 0, 23, "hour"),
        (":", "04", 0, 59, "minute"),
        (":", "05", 0, 59, "second"),
    ];
    let cannot = |rest: &str, element: &str| {
        let (text, layout) = (quote(text), quote(LAYOUT));
        format!(
            "parsing time {text} as {layout}: cannot parse {} as {}",
            quote(rest),
            quote(element)
        )
    };
    let mut rest = text;
    for (separator, layout, low, high, name) in NUMBERS {
        let Some(after) = rest.strip_prefix(separator) else { return cannot(rest, separator) };
        let digits =
            after.get(..layout.len()).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let Some(digits) = digits else { return cannot(after, layout) };
        if !digits.parse().is_ok_and(|number: u32| (low..=high).contains(&number)) {
            return format!("parsing time {}: {name} out of range", quote(text));
        }
        rest = &after[layout.len()..];
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let zone = match rest.as_bytes() {
        [b'Z', ..] => 1,
        [b'+' | b'-', h1, h2, b':', m1, m2, ..]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
        {
            6
        }
        _ => return cannot(rest, "Z07:00"),
    };
    match &rest[zone..] {
        // All parts fit, so it is the day that its month does not have.
        "" => format!("parsing time {}: day out of range", quote(text)),
        extra => format!("parsing time {}: extra text: {}", quote(text), quote(extra)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_refused_in_the_words_of_the_original() {
        let cases = [
            ("x", r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            ("", r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            (
                "2020-01-01",
                r#"parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            (
                "2020-01-01T00:00:00",
                r#"parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
            ("2020-13-01T00:00:00Z", r#"parsing time "2020-13-01T00:00:00Z": month out of range"#),
            ("2020-02-30T00:00:00Z", r#"parsing time "2020-02-30T00:00:00Z": day out of range"#),
            ("2020-01-01T00:00:00Zé", r#"parsing time "2020-01-01T00:00:00Zé": extra text: "é""#),
        ];
        for (text, expected) in cases {
            let error = karmada_apimachinery::from_value::<Time>(text.into()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
