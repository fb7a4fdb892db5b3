//! Kubernetes quantities such as `100m`, `1.5Gi` or `2e3`: exact to a billionth, parsed, rounded
//! and printed as Kubernetes does.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use crate::Value;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS: i128 = 1_000_000_000;
/// Binary quantities are capped at the largest 64-bit integer.
const BINARY_MAX: i128 = i64::MAX as i128;
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The family of suffixes a quantity is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    #[default]
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount in billionths with the family of suffixes it was written in. Comparison is by amount.
#[derive(Debug, Clone, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text it was parsed from, where Kubernetes keeps that instead of the canonical form.
    text: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi, text: None };

    pub fn new(value: i64, format: Format) -> Self {
        Self { nanos: i128::from(value) * NANOS, format, text: None }
    }

    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * 1_000_000, format: Format::DecimalSi, text: None }
    }

    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format, text: None }
    }

    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let parts = Parts::split(text)?;
        let suffix = Suffix::parse(parts.suffix)?;
        let nanos = suffix.scale(parts.whole, parts.fraction).ok_or(ParseError::Number)?;
        let mut format = suffix.format();
        // Compat: a binary quantity below one is printed in decimal from then on.
        if format == Format::BinarySi && nanos > 0 && nanos < NANOS {
            format = Format::DecimalSi;
        }
        let text = suffix.keeps_text(&parts).then(|| text.into());
        let nanos = if parts.negative { -nanos } else { nanos };
        Ok(Self { nanos, format, text })
    }

    /// Reads a quantity from a JSON string or number.
    pub fn from_value(value: &Value) -> Result<Self, ParseError> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(ParseError::Format),
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub fn signum(&self) -> i32 {
        self.nanos.signum() as i32
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        saturate(divide_up(self.nanos, NANOS))
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        saturate(divide_up(self.nanos, 1_000_000))
    }

    /// The amount if it is a whole 64-bit number.
    pub fn as_i64(&self) -> Option<i64> {
        (self.nanos % NANOS == 0).then(|| i64::try_from(self.nanos / NANOS).ok()).flatten()
    }

    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    pub fn times(&self, factor: i64) -> Self {
        let nanos = self.nanos.saturating_mul(i128::from(factor));
        Self { nanos, format: self.format, text: None }
    }

    /// The form Kubernetes prints computed quantities in: no fraction, largest fitting suffix.
    pub fn canonical(&self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let whole = self.nanos / NANOS;
        let binary = self.format == Format::BinarySi
            && self.nanos % NANOS == 0
            && whole.unsigned_abs() >= 1024;
        if binary {
            return canonical_binary(whole);
        }
        let (mut mantissa, mut exponent) = (self.nanos, -9);
        let max = if self.format == Format::DecimalExponent { i32::MAX } else { 18 };
        while mantissa % 1000 == 0 && exponent < max {
            mantissa /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 {
                mantissa.to_string()
            } else {
                format!("{mantissa}e{exponent}")
            };
        }
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent);
        format!("{mantissa}{}", suffix.map_or("", |(suffix, _)| suffix))
    }

    fn combine(&self, other: &Self, nanos: i128) -> Self {
        // A sum that starts from zero takes the look of what is added.
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos, format, text: None }
    }
}

fn canonical_binary(mut whole: i128) -> String {
    let mut suffix = "";
    for (next, _) in BINARY_SUFFIXES {
        if whole % 1024 != 0 {
            break;
        }
        whole /= 1024;
        suffix = next;
    }
    format!("{whole}{suffix}")
}

fn divide_up(value: i128, by: i128) -> i128 {
    let away = if value % by == 0 { 0 } else { value.signum() };
    value / by + away
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The pieces of a quantity's text; leading zeros of the whole part are dropped.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !digits.bytes().all(|c| c.is_ascii_digit()) {
            return Err(ParseError::Format);
        }
        Ok(Self { negative, whole, fraction, suffix })
    }

    /// The digits as Kubernetes counts them: an empty whole part is a zero.
    fn digits(&self) -> String {
        let whole = if self.whole.is_empty() { "0" } else { self.whole };
        format!("{whole}{}", self.fraction)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32),
    Binary(u32),
    Exponent(i32),
}

impl Suffix {
    fn parse(text: &str) -> Result<Self, ParseError> {
        if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(suffix, _)| *suffix == text) {
            return Ok(Self::Decimal(*power));
        }
        if let Some((_, power)) = BINARY_SUFFIXES.iter().find(|(suffix, _)| *suffix == text) {
            return Ok(Self::Binary(*power));
        }
        let exponent = text.strip_prefix(['e', 'E']).ok_or(ParseError::Suffix)?;
        exponent.parse().map(Self::Exponent).map_err(|_| ParseError::Suffix)
    }

    fn format(self) -> Format {
        match self {
            Self::Decimal(_) => Format::DecimalSi,
            Self::Binary(_) => Format::BinarySi,
            Self::Exponent(_) => Format::DecimalExponent,
        }
    }

    /// Billionths of `whole.fraction` times this suffix, rounded up.
    fn scale(self, whole: &str, fraction: &str) -> Option<i128> {
        match self {
            Self::Decimal(power) | Self::Exponent(power) => scale_decimal(whole, fraction, power),
            Self::Binary(power) => Some(scale_binary(whole, fraction, power)),
        }
    }

    /// Whether Kubernetes keeps the text: short numbers already in their canonical suffix.
    fn keeps_text(self, parts: &Parts<'_>) -> bool {
        let digits = parts.digits();
        match self {
            Self::Decimal(power) | Self::Exponent(power) => {
                let scale = i64::from(power) - parts.fraction.len() as i64;
                digits.len() <= 18
                    && scale >= -9
                    && scale % 3 == 0
                    && !digits.ends_with("000")
                    && !digits.starts_with('0')
            }
            Self::Binary(power) => {
                let room = 14 - digits.len() as i64 - i64::from(power * 3 / 10);
                let units = digits.parse::<i64>().unwrap_or(0);
                parts.fraction.is_empty() && room >= 0 && units & 7 != 0
            }
        }
    }
}

fn scale_decimal(whole: &str, fraction: &str, power: i32) -> Option<i128> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let shift = i64::from(power) - fraction.len() as i64 + 9;
    if shift >= 0 {
        let factor = 10i128.checked_pow(u32::try_from(shift).ok()?)?;
        return digits.parse::<i128>().ok()?.checked_mul(factor);
    }
    let kept = digits.len().saturating_sub(usize::try_from(-shift).ok()?);
    let (kept, dropped) = digits.split_at(kept);
    let nanos = if kept.is_empty() { 0 } else { kept.parse::<i128>().ok()? };
    nanos.checked_add(i128::from(dropped.bytes().any(|digit| digit != b'0')))
}

fn scale_binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let unit = 1i128 << power;
    let cap = BINARY_MAX * NANOS;
    let Some(whole) = (if whole.is_empty() { Some(0) } else { whole.parse::<i64>().ok() }) else {
        return cap;
    };
    // Eighteen places decide the last billionth but for one digit, which rounds up anyway.
    let places = fraction.len().min(18);
    let (kept, dropped) = fraction.split_at(places);
    let sticky = i128::from(dropped.bytes().any(|digit| digit != b'0'));
    let part = kept.parse::<i128>().unwrap_or(0) + sticky;
    let part = if places <= 9 {
        part * unit * 10i128.pow(9 - places as u32)
    } else {
        divide_up(part * unit, 10i128.pow(places as u32 - 9))
    };
    let whole = (i128::from(whole) * unit).min(BINARY_MAX) * NANOS;
    (whole + part).min(cap)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add<&Quantity> for &Quantity {
    type Output = Quantity;
    fn add(self, other: &Quantity) -> Quantity {
        self.combine(other, self.nanos.saturating_add(other.nanos))
    }
}

impl Sub<&Quantity> for &Quantity {
    type Output = Quantity;
    fn sub(self, other: &Quantity) -> Quantity {
        self.combine(other, self.nanos.saturating_sub(other.nanos))
    }
}

impl AddAssign<&Quantity> for Quantity {
    fn add_assign(&mut self, other: &Quantity) {
        *self = &*self + other;
    }
}

impl SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        *self = &*self - other;
    }
}

impl Neg for &Quantity {
    type Output = Quantity;
    fn neg(self) -> Quantity {
        Quantity { nanos: self.nanos.saturating_neg(), format: self.format, text: None }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_null() {
            return Ok(Self::ZERO);
        }
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_print_as_kubernetes_prints_them() {
        let cases = [
            ("0", "0"),
            ("0Ki", "0"),
            ("100m", "100m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("12Ki", "12Ki"),
            ("1e3", "1e3"),
            ("10e3", "10e3"),
            ("1E", "1E"),
            ("100e2", "10e3"),
            ("0.0000000001", "1n"),
            ("-1.5", "-1500m"),
            ("+1", "+1"),
            ("1.500", "1.500"),
            ("9Ei", "9223372036854775807"),
            ("-1000", "-1k"),
            ("1M", "1M"),
            ("2000Mi", "2000Mi"),
            ("2048Mi", "2Gi"),
            ("0.1Mi", "104857600m"),
        ];
        for (text, printed) in cases {
            assert_eq!(Quantity::parse(text).expect(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn bad_text_names_the_part_that_is_wrong() {
        let cases = [
            ("", ParseError::Format),
            ("a", ParseError::Format),
            ("1 Gi", ParseError::Format),
            ("1.2.3", ParseError::Format),
            ("1Kii", ParseError::Suffix),
            ("1m5", ParseError::Suffix),
            ("1ki", ParseError::Suffix),
            ("1e", ParseError::Suffix),
        ];
        for (text, error) in cases {
            assert_eq!(Quantity::parse(text).expect_err(text), error, "{text}");
        }
    }

    #[test]
    fn amounts_add_up_and_round_away_from_zero() {
        let parse = |text| Quantity::parse(text).expect(text);
        assert_eq!((&parse("100m") + &parse("0.9")).to_string(), "1");
        assert_eq!((&Quantity::ZERO + &parse("1Gi")).to_string(), "1Gi");
        assert_eq!((&parse("1Gi") - &parse("1Mi")).to_string(), "1023Mi");
        assert_eq!(parse("1500m").value(), 2);
        assert_eq!(parse("-1500m").value(), -2);
        assert_eq!(parse("1.5").milli_value(), 1500);
        assert_eq!(parse("1Ki").as_i64(), Some(1024));
        assert_eq!(parse("100m").as_i64(), None);
        assert!(parse("1Ki") > parse("1k"));
        assert_eq!(parse("1"), parse("1000m"));
        assert_eq!(serde_json::from_str::<Quantity>("1.5").expect("number"), parse("1500m"));
    }

    proptest! {
        #[test]
        fn canonical_text_keeps_the_amount(nanos in -(1i128 << 90)..(1i128 << 90), binary: bool) {
            let format = if binary { Format::BinarySi } else { Format::DecimalSi };
            let whole = if binary { (nanos / NANOS) % BINARY_MAX * NANOS } else { nanos };
            let quantity = Quantity::from_nanos(whole, format);
            let again = Quantity::parse(&quantity.canonical()).expect("canonical");
            prop_assert_eq!(again.nanos(), whole);
            // Without a suffix nothing says that a number was binary.
            if !binary {
                prop_assert_eq!(again.canonical(), quantity.canonical());
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[-+]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = quantity.to_string();
            }
        }
    }
}
