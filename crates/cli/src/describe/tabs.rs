//! Text whose cells line up: a cell ends with a tab, and is as wide as the widest in the unbroken run of lines that
//! have one there. This is how Go's writer does it, and so how descriptions have always looked.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Map, Value};

const PADDING: usize = 2;

/// What kubectl keeps for itself in an object, and does not show.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A description while it is written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Name, namespace, labels and annotations: how most descriptions begin.
    pub(super) fn head(object: &Value) -> Self {
        let mut out = Self::default();
        out.field(0, "Name", object.name());
        out.field(0, "Namespace", object.namespace());
        out.pairs("Labels", object, "labels", "=");
        out.pairs("Annotations", object, "annotations", ": ");
        out
    }

    /// A line with a heading and its value.
    pub(super) fn field(&mut self, level: usize, heading: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        let value = if value.is_empty() { "<none>" } else { value };
        self.line(level, &format!("{heading}:\t{value}"));
    }

    /// The same, unless there is no value.
    pub(super) fn field_if_any(&mut self, level: usize, heading: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.field(level, heading, value);
        }
    }

    pub(super) fn line(&mut self, level: usize, line: &str) {
        self.0.push_str(&"  ".repeat(level));
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Text that was lined up before.
    pub(super) fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// A heading with one value per line.
    pub(super) fn many(&mut self, level: usize, heading: &str, values: &[String]) {
        let mut values = values.iter();
        self.field(level, heading, values.next().map_or("", String::as_str));
        values.for_each(|value| self.line(level, &format!("\t{value}")));
    }

    /// Labels or annotations of an object.
    pub(super) fn pairs(&mut self, heading: &str, object: &Value, field: &str, separator: &str) {
        let map = object.map_at(&["metadata", field]).into_iter().flatten();
        let pairs: Vec<String> = map
            .filter(|(key, _)| *key != LAST_APPLIED)
            .flat_map(|(key, value)| {
                super::pair(key, value.as_str().unwrap_or_default(), separator)
            })
            .collect();
        self.many(0, heading, &pairs);
    }

    /// The text with its cells lined up.
    pub(super) fn align(&self) -> String {
        align(&self.0)
    }
}

/// A value without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `a=b,c=d`.
pub(super) fn on_one_line(map: Option<&Map>) -> String {
    let pairs = map.into_iter().flatten();
    pairs.map(|(key, value)| format!("{key}={}", plain(value))).collect::<Vec<_>>().join(",")
}

fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut out = String::new();
    // Per column, the width of the run that is being written and where it ends.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, cells) in lines.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            out.push_str(cell);
            if column + 1 == cells.len() {
                break;
            }
            if runs.len() == column {
                runs.push((0, 0));
            }
            if runs[column].1 <= place {
                let run = lines[place..].iter().take_while(|cells| cells.len() > column + 1);
                let (mut width, mut length) = (0, 0);
                for cells in run {
                    width = width.max(cells[column].chars().count() + PADDING);
                    length += 1;
                }
                runs[column] = (width, place + length);
            }
            let width = runs[column].0;
            out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::align;

    #[test]
    fn cells_line_up_within_unbroken_runs() {
        let text = "Name:\ta\nNamespace:\tb\nHeading:\n  x:\t1\t2\n  longer:\t33\t4\n";
        let expected =
            "Name:       a\nNamespace:  b\nHeading:\n  x:       1   2\n  longer:  33  4\n";
        assert_eq!(align(text), expected);
    }
}
