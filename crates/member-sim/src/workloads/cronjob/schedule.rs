//! When a CronJob is due: five fields, `@hourly` and its like, `@every`, in any time zone.

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use karmada_apimachinery::time::parse_go_duration;

/// Schedules without a time within so many years never come.
const HORIZON_YEARS: i16 = 5;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    when: When,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq)]
enum When {
    Every(SignedDuration),
    /// Bits of the minutes, hours, days of the month, months and weekdays that fit.
    At {
        fields: [u64; 5],
        any_day: bool,
        any_weekday: bool,
    },
}

/// Least and greatest value of each field, and the names it knows.
const BOUNDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

impl Schedule {
    /// Reads a schedule; `zone` is where its hours are meant, UTC unless given.
    pub(super) fn parse(text: &str, zone: Option<&str>) -> Result<Self, String> {
        let (named, text) = match text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ=")) {
            Some(rest) => rest.split_once(' ').map_or((None, rest), |(z, rest)| (Some(z), rest)),
            None => (None, text),
        };
        let zone = match named.or(zone) {
            None | Some("") => TimeZone::UTC,
            Some(name) => TimeZone::get(name)
                .map_err(|error| format!("provided bad location {name}: {error}"))?,
        };
        Ok(Self { when: parse_when(text.trim())?, zone })
    }

    /// Returns the first time after `after`.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Every(interval) => {
                let second = Timestamp::from_second(after.as_second()).ok()?;
                second.checked_add(*interval).ok()
            }
            When::At { .. } => self.next_minute(after),
        }
    }

    fn next_minute(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(self.zone.clone());
        let mut date = start.date();
        let last_year = date.year() + HORIZON_YEARS;
        while date.year() <= last_year {
            let due = if self.is_day(date) { self.first_of_day(date, after) } else { None };
            if due.is_some() {
                return due;
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn first_of_day(&self, date: Date, after: Timestamp) -> Option<Timestamp> {
        let When::At { fields: [minutes, hours, ..], .. } = &self.when else { return None };
        let number = |bit: u32| i8::try_from(bit).unwrap_or_default();
        let times = bits(*hours).flat_map(|hour| bits(*minutes).map(move |minute| (hour, minute)));
        let due = |(hour, minute): (u32, u32)| {
            let time = date.at(number(hour), number(minute), 0, 0);
            let found = self.zone.to_ambiguous_timestamp(time);
            // An hour that is skipped in spring does not come.
            let skipped = matches!(found.offset(), AmbiguousOffset::Gap { .. });
            found.compatible().ok().filter(|due| !skipped && *due > after)
        };
        times.filter_map(due).next()
    }

    fn is_day(&self, date: Date) -> bool {
        let When::At { fields: [.., days, months, weekdays], any_day, any_weekday } = &self.when
        else {
            return false;
        };
        let fits = |set: &u64, value: i8| set & (1 << value) != 0;
        let day = fits(days, date.day());
        let weekday = fits(weekdays, date.weekday().to_sunday_zero_offset());
        // Compat: a day and a weekday that are both given are alternatives.
        let fits_day = if *any_day || *any_weekday { day && weekday } else { day || weekday };
        fits(months, date.month()) && fits_day
    }
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set & (1 << bit) != 0)
}

fn parse_when(text: &str) -> Result<When, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => match text.strip_prefix("@every ") {
            Some(interval) => {
                let interval = parse_go_duration(interval)?;
                let seconds = interval.as_secs().max(1);
                return Ok(When::Every(SignedDuration::from_secs(seconds)));
            }
            None => text,
        },
    };
    let parts: Vec<_> = fields.split_whitespace().collect();
    if parts.len() != 5 {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    let mut sets = [0; 5];
    for ((set, part), bounds) in sets.iter_mut().zip(&parts).zip(BOUNDS) {
        *set = parse_field(part, bounds)?;
    }
    let is_any = |part: &str| part.starts_with(['*', '?']);
    Ok(When::At { fields: sets, any_day: is_any(parts[2]), any_weekday: is_any(parts[4]) })
}

fn parse_field(text: &str, (least, greatest, names): (u32, u32, &[&str])) -> Result<u64, String> {
    let wrong = || format!("failed to parse {text:?}");
    let value = |part: &str| -> Result<u32, String> {
        let lower = part.to_lowercase();
        let named = names.iter().position(|name| *name == lower);
        let named = named.and_then(|place| u32::try_from(place).ok()).map(|place| place + least);
        named.map_or_else(|| part.parse().map_err(|_| wrong()), Ok)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
        let (first, mut last) = match range {
            "*" | "?" => (least, greatest),
            _ => match range.split_once('-') {
                Some((first, last)) => (value(first)?, value(last)?),
                None => (value(range)?, value(range)?),
            },
        };
        let step = match step {
            None => 1,
            Some(step) => {
                if !range.contains('-') {
                    last = greatest;
                }
                step.parse().ok().filter(|step| *step > 0).ok_or_else(wrong)?
            }
        };
        if first < least || last > greatest || first > last {
            return Err(wrong());
        }
        (first..=last).step_by(step).for_each(|bit| set |= 1 << bit);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: Option<&str>, after: &str) -> String {
        let schedule = Schedule::parse(schedule, zone).unwrap();
        schedule.next(after.parse().unwrap()).map_or("never".into(), |time| time.to_string())
    }

    #[test]
    fn times_are_found_as_cron_finds_them() {
        let cases = [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"),
            ("30 6-16/4 * * 1-5", "2026-01-02T15:00:00Z", "2026-01-05T06:30:00Z"),
            ("0 0 1 * *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("59 23 31 2 *", "2026-01-01T00:00:00Z", "never"),
            ("@hourly", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z"),
            ("@every 90s", "2026-01-01T00:00:01Z", "2026-01-01T00:01:31Z"),
            ("5/20 * * * ?", "2026-01-01T00:05:00Z", "2026-01-01T00:25:00Z"),
        ];
        for (schedule, after, expected) in cases {
            assert_eq!(next(schedule, None, after), expected, "{schedule}");
        }
    }

    #[test]
    fn hours_are_those_of_the_zone() {
        let berlin = Some("Europe/Berlin");
        assert_eq!(next("0 9 * * *", berlin, "2026-01-01T00:00:00Z"), "2026-01-01T08:00:00Z");
        assert_eq!(next("0 9 * * *", berlin, "2026-07-01T00:00:00Z"), "2026-07-01T07:00:00Z");
        // 02:30 does not exist on the day summer time begins.
        assert_eq!(next("30 2 * * *", berlin, "2026-03-28T12:00:00Z"), "2026-03-30T00:30:00Z");
        assert!(Schedule::parse("* * * * *", Some("Nowhere/None")).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "* * * *", "60 * * * *", "* 24 * * *", "*/0 * * * *", "5-1 * * * *", "x * * * *"]
        {
            assert!(Schedule::parse(text, None).is_err(), "{text}");
        }
    }
}
