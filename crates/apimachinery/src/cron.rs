//! When a schedule is due: five fields, `@hourly` and its like, `@every`, in any time zone. It reads what
//! CronJobs and the rules of a CronFederatedHPA say, and refuses the rest in the words of the original.

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::field::quote;
use crate::time::parse_go_duration;

/// Schedules without a time within so many years never come.
const HORIZON_YEARS: i16 = 5;

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

/// A schedule and the zone its hours are meant in.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    when: When,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq)]
enum When {
    Every(SignedDuration),
    At([Values; 5]),
}

/// The values of a field that fit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Values {
    bits: u64,
    /// Whether the field leaves the choice to others: `*` or `?`, not `*/2`.
    any: bool,
}

impl Values {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }

    fn iter(self) -> impl Iterator<Item = i8> {
        (0..60).filter(move |value| self.has(*value))
    }
}

impl Schedule {
    /// Reads a schedule. Its hours are those of `zone` unless it names another one itself, as
    /// `TZ=Asia/Tokyo 0 9 * * *` does.
    pub fn parse(text: &str, zone: &TimeZone) -> Result<Self, String> {
        let named = text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ="));
        let (zone, text) = match named {
            None => (zone.clone(), text),
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (find_zone(name)?, rest.trim())
            }
        };
        Ok(Self { when: parse_when(text)?, zone })
    }

    /// Returns the first time after `after`.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Every(interval) => {
                let second = Timestamp::from_second(after.as_second()).ok()?;
                second.checked_add(*interval).ok()
            }
            When::At(fields) => self.next_minute(fields, after),
        }
    }

    fn next_minute(&self, fields: &[Values; 5], after: Timestamp) -> Option<Timestamp> {
        let mut date = after.to_zoned(self.zone.clone()).date();
        let last_year = date.year() + HORIZON_YEARS;
        while date.year() <= last_year {
            let due =
                if is_day(fields, date) { self.first_of_day(fields, date, after) } else { None };
            if due.is_some() {
                return due;
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn first_of_day(
        &self,
        [minutes, hours, ..]: &[Values; 5],
        date: Date,
        after: Timestamp,
    ) -> Option<Timestamp> {
        // An hour that comes twice in autumn is due twice: the earliest moment of it counts, not the
        // earliest minute on the clock.
        let first_of_hour = |hour| {
            let moments = minutes.iter().flat_map(|minute| self.moments(date, hour, minute));
            moments.flatten().filter(|due| *due > after).min()
        };
        hours.iter().find_map(first_of_hour)
    }

    /// The moments at which the clock shows this time: one, or two when the clock is put back. A time that
    /// is skipped in spring does not come.
    fn moments(&self, date: Date, hour: i8, minute: i8) -> [Option<Timestamp>; 2] {
        let shown = date.at(hour, minute, 0, 0);
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(shown).ok();
        match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => [at(offset), None],
            AmbiguousOffset::Gap { .. } => [None, None],
            AmbiguousOffset::Fold { before, after } => [at(before), at(after)],
        }
    }
}

/// Returns the zone of a name; the empty one stands for UTC.
pub fn find_zone(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name)
        .map_err(|_| format!("provided bad location {name}: unknown time zone {name}"))
}

fn is_day([.., days, months, weekdays]: &[Values; 5], date: Date) -> bool {
    let day = days.has(date.day());
    let weekday = weekdays.has(date.weekday().to_sunday_zero_offset());
    // Compat: a day and a weekday that are both given are alternatives.
    let fits = if days.any || weekdays.any { day && weekday } else { day || weekday };
    months.has(date.month()) && fits
}

fn parse_when(text: &str) -> Result<When, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ if text.starts_with('@') => return parse_interval(text),
        _ => text,
    };
    let parts: Vec<&str> = fields.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let (found, parts) = (parts.len(), parts.join(" "));
        return Err(format!("expected exactly 5 fields, found {found}: [{parts}]"));
    }
    let mut values = [Values::default(); 5];
    for ((values, part), field) in values.iter_mut().zip(parts).zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            let more = parse_range(range, field)?;
            *values = Values { bits: values.bits | more.bits, any: values.any || more.any };
        }
    }
    Ok(When::At(values))
}

fn parse_interval(text: &str) -> Result<When, String> {
    let Some(interval) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let interval = parse_go_duration(interval)
        .map_err(|problem| format!("failed to parse duration {text}: {problem}"))?;
    Ok(When::Every(SignedDuration::from_secs(interval.as_secs().max(1))))
}

fn parse_range(range: &str, field: &Field) -> Result<Values, String> {
    let parts: Vec<&str> = range.split('/').collect();
    let bounds: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let mut any = matches!(bounds[..], ["*" | "?", ..]);
    let (first, mut last) = match bounds[..] {
        _ if any => (field.min, field.max),
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
                last = field.max;
            }
            parse_number(step)?
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    any &= step <= 1;
    if first < field.min {
        let min = field.min;
        return Err(format!("beginning of range ({first}) below minimum ({min}): {range}"));
    }
    if last > field.max {
        let max = field.max;
        return Err(format!("end of range ({last}) above maximum ({max}): {range}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (first..=last).step_by(step).fold(0, |bits, value| bits | (1 << value));
    Ok(Values { bits, any })
}

fn parse_value(text: &str, field: &Field) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match field.names.iter().zip(field.min..).find(|(name, _)| **name == lower) {
        Some((_, value)) => Ok(value),
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

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule, &find_zone(zone).unwrap()).unwrap();
        schedule.next(after.parse().unwrap()).map_or("never".into(), |time| time.to_string())
    }

    #[test]
    fn schedules_read_as_cron_reads_them() {
        let cases = [
            ("*/5 * * * *", None),
            ("0 9-17 1,15 jan-jun MON", None),
            ("@hourly", None),
            ("@every 1h30m", None),
            ("TZ=Asia/Tokyo 0 9 * * *", None),
            ("60 * * * *", Some("end of range (60) above maximum (59): 60")),
            ("5-1 * * * *", Some("beginning of range (5) beyond end of range (1): 5-1")),
            ("* * 0 * *", Some("beginning of range (0) below minimum (1): 0")),
            ("*/0 * * * *", Some("step of range should be a positive number: */0")),
            ("1-2-3 * * * *", Some("too many hyphens: 1-2-3")),
            ("1/2/3 * * * *", Some("too many slashes: 1/2/3")),
            ("@never", Some("unrecognized descriptor: @never")),
            (
                "@every day",
                Some("failed to parse duration @every day: time: invalid duration \"day\""),
            ),
            ("", Some("expected exactly 5 fields, found 0: []")),
            ("* * *", Some("expected exactly 5 fields, found 3: [* * *]")),
            ("0 0 0 1 1 *", Some("expected exactly 5 fields, found 6: [0 0 0 1 1 *]")),
            (
                "x * * * *",
                Some("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ),
            (
                "CRON_TZ=Nowhere/None * * * * *",
                Some("provided bad location Nowhere/None: unknown time zone Nowhere/None"),
            ),
        ];
        for (schedule, problem) in cases {
            let parsed = Schedule::parse(schedule, &TimeZone::UTC);
            assert_eq!(parsed.err().as_deref(), problem, "{schedule}");
        }
    }

    #[test]
    fn times_are_found_as_cron_finds_them() {
        let cases = [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"),
            ("30 6-16/4 * * 1-5", "2026-01-02T15:00:00Z", "2026-01-05T06:30:00Z"),
            ("0 0 1 * *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            // A step is a choice of days, so a Friday is an alternative to it.
            ("0 0 */10 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("59 23 31 2 *", "2026-01-01T00:00:00Z", "never"),
            ("@hourly", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z"),
            ("@every 90s", "2026-01-01T00:00:01Z", "2026-01-01T00:01:31Z"),
            ("5/20 * * * ?", "2026-01-01T00:05:00Z", "2026-01-01T00:25:00Z"),
        ];
        for (schedule, after, expected) in cases {
            assert_eq!(next(schedule, "", after), expected, "{schedule}");
        }
    }

    #[test]
    fn hours_are_those_of_the_zone() {
        let cases = [
            ("0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00Z"),
            ("0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"),
            ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            // 02:30 does not exist on the day summer time begins, and comes twice when it ends.
            ("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            ("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("*/20 * * * *", "2026-10-25T00:20:00Z", "2026-10-25T00:40:00Z"),
            ("*/20 * * * *", "2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z"),
            ("*/20 * * * *", "2026-10-25T01:40:00Z", "2026-10-25T02:00:00Z"),
        ];
        for (schedule, after, expected) in cases {
            assert_eq!(
                next(schedule, "Europe/Berlin", after),
                expected,
                "{schedule} after {after}"
            );
        }
    }
}
