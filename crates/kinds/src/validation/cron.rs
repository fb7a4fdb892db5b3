//! Whether a schedule of a CronJob can be read. When it is due next is not decided here.

use karmada_apimachinery::field::quote;

/// One of the five fields: its bounds and the names its values go by.
struct Field {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field { min: 1, max: 12, names: &MONTHS },
    Field { min: 0, max: 6, names: &DAYS },
];

const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule and says what is wrong with it.
pub(crate) fn parse(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    for prefix in ["TZ=", "CRON_TZ="] {
        if let Some(rest) = schedule.strip_prefix(prefix) {
            let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            schedule = rest.trim();
            break;
        }
    }
    if schedule.starts_with('@') {
        return parse_descriptor(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            parse_range(range, field)?;
        }
    }
    Ok(())
}

fn parse_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    let Some(duration) = descriptor.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {descriptor}"));
    };
    if is_duration(duration) {
        return Ok(());
    }
    let quoted = quote(duration);
    Err(format!("failed to parse duration {descriptor}: time: invalid duration {quoted}"))
}

/// Durations such as `1h30m` or `1.5s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..digits];
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return false;
        }
        let after = &rest[digits..];
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"]
            .into_iter()
            .filter(|unit| after.starts_with(unit))
            .max_by_key(|unit| unit.len());
        let Some(unit) = unit else { return false };
        rest = &after[unit.len()..];
    }
    true
}

fn parse_range(range: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let bounds: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match bounds[..] {
        ["*" | "?", ..] => (field.min, field.max),
        [single] => {
            let value = parse_value(single, field)?;
            (value, value)
        }
        [low, high] => (parse_value(low, field)?, parse_value(high, field)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if bounds.len() == 1 {
                end = field.max;
            }
            parse_number(step)?
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if start < field.min {
        let min = field.min;
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > field.max {
        let max = field.max;
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn parse_value(text: &str, field: &Field) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match field.names.iter().position(|name| *name == lower) {
        Some(position) => Ok(position as u64 + field.min),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|_| {
        let quoted = quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_read_as_cron_reads_them() {
        let cases = [
            ("*/5 * * * *", None),
            ("0 9-17 1,15 jan-jun MON", None),
            ("@hourly", None),
            ("@every 1h30m", None),
            ("60 * * * *", Some("end of range (60) above maximum (59): 60")),
            ("5-1 * * * *", Some("beginning of range (5) beyond end of range (1): 5-1")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Some("too many hyphens: 1-2-3")),
            ("@never", Some("unrecognized descriptor: @never")),
            ("* * *", Some("expected exactly 5 fields, found 3: [* * *]")),
            (
                "x * * * *",
                Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ),
        ];
        for (schedule, problem) in cases {
            assert_eq!(parse(schedule).err().as_deref(), problem, "{schedule}");
        }
    }
}
