//! The columns `kubectl get` shows for each kind, and the cells of one object.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

/// One column of a Table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    pub description: &'static str,
    /// Above zero: shown only with `-o wide`.
    pub priority: u8,
}

const DEFAULT: &[Column] = &[
    Column {
        name: "Name",
        kind: "string",
        format: "name",
        description: "Name of the object, unique among its kind in a namespace.",
        priority: 0,
    },
    Column {
        name: "Created At",
        kind: "date",
        format: "",
        description: "When the server created the object.",
        priority: 0,
    },
];

/// Returns the columns of a kind; kinds without columns of their own show name and creation time.
pub fn columns(_group: &str, _kind: &str) -> &'static [Column] {
    DEFAULT
}

/// Returns one cell per column.
pub fn cells(_group: &str, _kind: &str, object: &Value, _now: jiff::Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().into(),
    ]
}
