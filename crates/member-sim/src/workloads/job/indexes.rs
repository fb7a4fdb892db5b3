//! Sets of completion indexes, written as `0,2-4,7`.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Reads a set; parts that cannot be read or lie beyond `completions` are left out.
pub(super) fn parse(text: &str, completions: i64) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            indexes.extend(first.max(0)..=last.min(completions - 1));
        }
    }
    indexes
}

/// Writes a set; runs of more than two become ranges.
pub(super) fn format(indexes: &BTreeSet<i64>) -> String {
    let mut text = String::new();
    let mut rest = indexes.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while rest.peek() == Some(&(last + 1)) {
            last += 1;
            rest.next();
        }
        let separator = if text.is_empty() { "" } else { "," };
        let written = match last - first {
            0 => write!(text, "{separator}{first}"),
            1 => write!(text, "{separator}{first},{last}"),
            _ => write!(text, "{separator}{first}-{last}"),
        };
        written.expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        for text in ["", "0", "0,1", "0-2", "0,2-4,7", "1,2,4"] {
            assert_eq!(format(&parse(text, 10)), text);
        }
        assert_eq!(parse("0-100,x", 3), BTreeSet::from([0, 1, 2]));
    }
}
