//! The cron grammar that schedules are checked against: five to seven segments, names of months and days,
//! a few macros. It is wider than what the controller runs, as in the original.

const MACROS: [&str; 12] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@hourly",
    "@always",
    "@5minutes",
    "@10minutes",
    "@15minutes",
    "@30minutes",
    "@everysecond",
];
const WORDS: [(&str, &str); 19] = [
    ("SUN", "0"),
    ("MON", "1"),
    ("TUE", "2"),
    ("WED", "3"),
    ("THU", "4"),
    ("FRI", "5"),
    ("SAT", "6"),
    ("JAN", "1"),
    ("FEB", "2"),
    ("MAR", "3"),
    ("APR", "4"),
    ("MAY", "5"),
    ("JUN", "6"),
    ("JUL", "7"),
    ("AUG", "8"),
    ("SEP", "9"),
    ("OCT", "10"),
    ("NOV", "11"),
    ("DEC", "12"),
];
/// Smallest and largest value of second, minute, hour, day, month, weekday, year.
const BOUNDS: [(i64, i64); 7] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (0, 9999)];
const DAY_OF_MONTH: usize = 3;
const DAY_OF_WEEK: usize = 5;

pub(crate) fn is_valid(expression: &str) -> bool {
    let expression = expression.trim_matches([' ', '\t']);
    if MACROS.contains(&&*expression.to_lowercase()) {
        return true;
    }
    let mut text = expression.to_uppercase();
    for (word, number) in WORDS {
        text = text.replace(word, number);
    }
    let mut segments: Vec<&str> = text.split_whitespace().collect();
    let names_year = segments.len() == 6 && has_four_digits(segments[5]);
    if segments.len() == 5 || names_year {
        segments.insert(0, "0");
    }
    (6..=7).contains(&segments.len())
        && segments.iter().enumerate().all(|(position, segment)| is_segment(segment, position))
}

fn has_four_digits(segment: &str) -> bool {
    segment.as_bytes().windows(4).any(|window| window.iter().all(u8::is_ascii_digit))
}

fn is_segment(segment: &str, position: usize) -> bool {
    for item in segment.split(',') {
        // What follows a wildcard is never looked at.
        if item == "*" || item == "?" {
            return true;
        }
        if !is_item(item, position) {
            return false;
        }
    }
    true
}

fn is_item(item: &str, position: usize) -> bool {
    let bounds = BOUNDS[position];
    let is_day = position == DAY_OF_MONTH || position == DAY_OF_WEEK;
    if is_day && item.contains(['L', 'W', '#']) {
        return if position == DAY_OF_MONTH { is_month_day(item) } else { is_week_day(item) };
    }
    if item.contains('/') {
        return is_step(item, bounds);
    }
    if item.contains('-') {
        let item = if position == DAY_OF_WEEK { item.replacen("7-", "0-", 1) } else { item.into() };
        return is_range(&item, bounds);
    }
    number(item).is_some_and(|n| (bounds.0..=bounds.1).contains(&n))
}

fn is_step(item: &str, bounds: (i64, i64)) -> bool {
    let mut parts = item.split('/');
    let start = parts.next().unwrap_or_default();
    if parts.next().and_then(number).is_none_or(|step| step <= 0) {
        return false;
    }
    if start == "*" || start == "0" {
        return true;
    }
    match start.split_once('-') {
        Some(_) => is_range(start, bounds),
        None => number(start).is_some_and(|n| n >= bounds.0),
    }
}

fn is_range(item: &str, bounds: (i64, i64)) -> bool {
    let mut parts = item.split('-').map(number);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(start), Some(end)) => start <= end && start >= bounds.0 && end <= bounds.1,
        _ => false,
    }
}

/// `L` for the last day, `15W` for the nearest working day.
fn is_month_day(item: &str) -> bool {
    item == "L" || item.split_once('W').is_some_and(|(day, _)| number(day).is_some())
}

/// `5L` for the last Friday, `5#2` for the second one.
fn is_week_day(item: &str) -> bool {
    if let Some((day, _)) = item.split_once('L').filter(|(day, _)| !day.is_empty()) {
        return number(day).is_some();
    }
    let mut parts = item.split('#');
    let day = parts.next().unwrap_or_default();
    number(day).is_some() && parts.next().and_then(number).is_some()
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_told_from_other_text() {
        let valid = [
            "* * * * *",
            "*/5 0 1 1 0",
            "0 9 * * mon-fri",
            "0 0 1 JAN *",
            "0 0 * * 7-7",
            "1-5,10,20/2 * * * *",
            "0 0 L * *",
            "0 0 15W * *",
            "0 0 * * 5#2",
            "0 0 * * 5L",
            "* * * * * *",
            "0 0 0 1 1 * 2030",
            "0 0 1 1 * 2030",
            "@hourly",
            "@Daily",
            "  0 0 * * *  ",
            "? ? ? ? ?",
        ];
        let invalid = [
            "",
            "* * * *",
            "* * * * * * * *",
            "61 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5-1 * * * *",
            "@every 1h",
            "@sometimes",
            "every day",
            "a b c d e",
            "1/x * * * *",
        ];
        for text in valid {
            assert!(is_valid(text), "{text:?}");
        }
        for text in invalid {
            assert!(!is_valid(text), "{text:?}");
        }
    }
}
