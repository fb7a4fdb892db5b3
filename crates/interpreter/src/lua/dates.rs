//! `os.time` and `os.date` over the clock of the call; all times are UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use mlua::{Lua, Table, Value as LuaValue};

/// Seconds since 1970 of a table with year, month, day and optionally hour, min and sec.
pub(super) fn seconds_of(table: &Table) -> mlua::Result<f64> {
    let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
        let number: Option<f64> = table.raw_get(name)?;
        match number.map(|number| number as i64).or(default) {
            Some(number) if number.abs() <= 1_000_000 => Ok(number),
            Some(_) => Err(mlua::Error::runtime(format!("field '{name}' is out of range"))),
            None => Err(mlua::Error::runtime(format!("field '{name}' missing in date table"))),
        }
    };
    let out_of_range = |_| mlua::Error::runtime("date is out of range");
    let year = i16::try_from(field("year", None)?)
        .map_err(|_| mlua::Error::runtime("field 'year' is out of range"))?;
    let start = DateTime::new(year, 1, 1, 0, 0, 0, 0).map_err(out_of_range)?;
    // Months beyond twelve and days beyond the month roll over, as in C.
    let span = (field("month", None)? - 1)
        .months()
        .days(field("day", None)? - 1)
        .hours(field("hour", Some(12))?)
        .minutes(field("min", Some(0))?)
        .seconds(field("sec", Some(0))?);
    let moment = start.checked_add(span).map_err(out_of_range)?;
    let zoned = moment.to_zoned(TimeZone::UTC).map_err(out_of_range)?;
    Ok(zoned.timestamp().as_second() as f64)
}

/// A moment in the form that `format` asks for: text, or a table for `*t`.
pub(super) fn date(lua: &Lua, format: &str, seconds: f64) -> mlua::Result<LuaValue> {
    let moment = Timestamp::from_second(seconds as i64)
        .map_err(|_| mlua::Error::runtime("time is out of range"))?
        .to_zoned(TimeZone::UTC);
    let format = format.strip_prefix('!').unwrap_or(format);
    if format.starts_with("*t") {
        let table = lua.create_table_with_capacity(0, 9)?;
        let weekday = i64::from(moment.weekday().to_sunday_one_offset());
        let fields = [
            ("year", i64::from(moment.year())),
            ("month", i64::from(moment.month())),
            ("day", i64::from(moment.day())),
            ("hour", i64::from(moment.hour())),
            ("min", i64::from(moment.minute())),
            ("sec", i64::from(moment.second())),
            ("wday", weekday),
            ("yday", i64::from(moment.day_of_year())),
        ];
        for (name, number) in fields {
            table.raw_set(name, number)?;
        }
        table.raw_set("isdst", false)?;
        return Ok(LuaValue::Table(table));
    }
    let mut text = String::with_capacity(format.len() + 16);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        match (letter, if letter == '%' { letters.next() } else { None }) {
            ('%', Some('%')) => text.push('%'),
            ('%', Some('c')) => text.push_str(&moment.strftime("%d %b %y %H:%M UTC").to_string()),
            ('%', Some('x')) => text.push_str(&moment.strftime("%m/%d/%y").to_string()),
            ('%', Some('X')) => text.push_str(&moment.strftime("%H:%M:%S").to_string()),
            ('%', Some(letter)) if "aAbBdFHImMpPSyYzZw".contains(letter) => {
                text.push_str(&moment.strftime(&format!("%{letter}")).to_string());
            }
            ('%', Some(other)) => text.extend(['%', other]),
            (plain, _) => text.push(plain),
        }
    }
    lua.create_string(text).map(LuaValue::String)
}
