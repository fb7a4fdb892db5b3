//! Times and durations in the spellings Kubernetes uses: RFC 3339 stamps, Go durations, and the
//! short ages of tables. Nothing here reads the clock.

use std::fmt::Write;

use jiff::fmt::StdFmtWrite;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

use crate::field::quote;

const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
const MICROS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// Prints a `Time`: UTC, whole seconds.
pub fn format_time(time: Timestamp) -> String {
    print(&SECONDS, truncate(time, 1_000_000_000))
}

/// Prints a `MicroTime`: UTC, always six places.
pub fn format_micro_time(time: Timestamp) -> String {
    print(&MICROS, truncate(time, 1_000))
}

/// Reads an RFC 3339 stamp with any offset and fraction.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    // RFC 3339 alone: no bracketed zone, no space, no missing seconds.
    let shaped = text.as_bytes().get(10).is_some_and(|c| *c == b'T')
        && text.as_bytes().get(16).is_some_and(|c| *c == b':')
        && !text.contains('[');
    if shaped { text.parse().ok() } else { None }
}

fn truncate(time: Timestamp, unit: i128) -> Timestamp {
    let nanos = time.as_nanosecond();
    Timestamp::from_nanosecond(nanos - nanos.rem_euclid(unit)).unwrap_or(time)
}

fn print(printer: &DateTimePrinter, time: Timestamp) -> String {
    let mut text = String::with_capacity(27);
    // Writing to a string cannot fail.
    let _ = printer.print_timestamp(&time, StdFmtWrite(&mut text));
    text
}

/// Prints the age of something, as the Age column shows it: two or three significant figures.
pub fn human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    let pair = |big: i64, unit: char, small: i64, sub: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        // A clock slightly behind counts as now.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * 60 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 8 * 24 => pair(days, 'd', hours % 24, 'h'),
        _ if hours < 2 * 365 * 24 => format!("{days}d"),
        _ if hours < 8 * 365 * 24 => pair(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

/// Prints an age with one unit only.
pub fn short_human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// Prints a duration as Go does, such as `1h30m0s` or `1.5s`.
pub fn format_go_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let nanos = nanos.unsigned_abs();
    if nanos < 1_000_000_000 {
        let (unit, size) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        push_decimal(&mut text, nanos, size);
        text.push_str(unit);
        return text;
    }
    let minutes = nanos / 60_000_000_000;
    if minutes >= 60 {
        let _ = write!(text, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(text, "{}m", minutes % 60);
    }
    push_decimal(&mut text, nanos % 60_000_000_000, 1_000_000_000);
    text.push('s');
    text
}

fn push_decimal(text: &mut String, value: u128, unit: u128) {
    let _ = write!(text, "{}", value / unit);
    let (mut rest, mut place) = (value % unit, unit / 10);
    if rest > 0 {
        text.push('.');
    }
    while rest > 0 {
        let _ = write!(text, "{}", rest / place);
        rest %= place;
        place /= 10;
    }
}

/// Reads a Go duration; the error is Go's.
pub fn parse_go_duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_length =
            after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let size: i128 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                let (unit, text) = (quote(unit), quote(text));
                return Err(format!("time: unknown unit {unit} in duration {text}"));
            }
        };
        let amount = decimal_nanos(whole, fraction, size).ok_or_else(invalid)?;
        total = total.checked_add(amount).ok_or_else(invalid)?;
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map(SignedDuration::from_nanos).map_err(|_| invalid())
}

fn decimal_nanos(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let places = fraction.len().min(18);
    let part: i128 = fraction.get(..places)?.parse().unwrap_or(0);
    whole.checked_mul(unit)?.checked_add(part * unit / 10i128.pow(places as u32))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_or_three_figures() {
        let (m, h, d, y) = (60, 3600, 86_400, 365 * 86_400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * m, "2m"),
            (9 * m + 5, "9m5s"),
            (10 * m + 5, "10m"),
            (179 * m, "179m"),
            (3 * h, "3h"),
            (3 * h + 5 * m, "3h5m"),
            (47 * h, "47h"),
            (48 * h, "2d"),
            (50 * h, "2d2h"),
            (8 * d, "8d"),
            (729 * d, "729d"),
            (2 * y, "2y"),
            (2 * y + d, "2y1d"),
            (9 * y + d, "9y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text);
        }
        assert_eq!(short_human_duration(SignedDuration::from_secs(50 * h)), "2d");
    }

    #[test]
    fn go_durations_are_read_and_printed() {
        let cases = [
            ("1h30m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("300ms", "300ms"),
            ("90s", "1m30s"),
            ("-2us", "-2µs"),
            ("0", "0s"),
            ("1h0.5s", "1h0m0.5s"),
        ];
        for (text, printed) in cases {
            assert_eq!(format_go_duration(parse_go_duration(text).expect(text)), printed);
        }
        let cases = [
            ("", r#"time: invalid duration """#),
            ("x", r#"time: invalid duration "x""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
        ];
        for (text, message) in cases {
            assert_eq!(parse_go_duration(text).expect_err(text), message);
        }
    }

    #[test]
    fn stamps_are_utc_with_fixed_places() {
        let time = parse_time("2001-02-03T04:05:06.789+01:00").expect("a stamp");
        assert_eq!(format_time(time), "2001-02-03T03:05:06Z");
        assert_eq!(format_micro_time(time), "2001-02-03T03:05:06.789000Z");
        for bad in ["", "2001-02-03", "2001-02-03 04:05:06Z", "x", "2001-02-03T04:05Z"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
