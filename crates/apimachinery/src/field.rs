//! Paths into an object and what is wrong there, worded as Kubernetes words it.

use std::fmt;

use crate::Value;

/// A path such as `spec.template.spec.containers[0].env[FOO].name`. Validation makes one for every value it
/// looks at, so short ones are kept in place.
#[derive(Clone)]
pub struct Path {
    short: [u8; SHORT],
    length: u8,
    /// Set where the path is too long for that.
    long: Option<Box<str>>,
}

const SHORT: usize = 39;

impl Path {
    /// Starts a path at a top-level field; the empty name is the root.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self::joined([name.as_ref(), "", "", ""])
    }

    pub fn root() -> Self {
        Self { short: [0; SHORT], length: 0, long: None }
    }

    pub fn child(&self, name: &str) -> Self {
        if self.is_root() { Self::joined([name, "", "", ""]) } else { self.longer([".", name, ""]) }
    }

    pub fn index(&self, index: usize) -> Self {
        self.longer(["[", &index.to_string(), "]"])
    }

    pub fn key(&self, key: &str) -> Self {
        self.longer(["[", key, "]"])
    }

    fn longer(&self, [open, name, close]: [&str; 3]) -> Self {
        let added = open.len() + name.len() + close.len();
        if self.long.is_some() || usize::from(self.length) + added > SHORT {
            return Self::joined([self.as_str(), open, name, close]);
        }
        let mut path = self.clone();
        path.append([open, name, close]);
        path
    }

    fn joined(parts: [&str; 4]) -> Self {
        let mut path = Self::root();
        if parts.iter().map(|part| part.len()).sum::<usize>() <= SHORT {
            path.append(parts);
        } else {
            path.long = Some(parts.concat().into());
        }
        path
    }

    /// Appends what fits.
    fn append<const N: usize>(&mut self, parts: [&str; N]) {
        let mut end = usize::from(self.length);
        for part in parts {
            self.short[end..end + part.len()].copy_from_slice(part.as_bytes());
            end += part.len();
        }
        self.length = end as u8;
    }

    fn is_root(&self) -> bool {
        self.length == 0 && self.long.is_none()
    }

    pub fn as_str(&self) -> &str {
        match &self.long {
            Some(long) => long,
            None => std::str::from_utf8(&self.short[..usize::from(self.length)])
                .expect("a path is made of whole texts"),
        }
    }
}

impl Default for Path {
    fn default() -> Self {
        Self::root()
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Path {}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl std::hash::Hash for Path {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Path").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: Kubernetes prints the path of the object itself as `<nil>`.
        if self.is_root() { f.write_str("<nil>") } else { f.write_str(self.as_str()) }
    }
}

impl From<&str> for Path {
    fn from(path: &str) -> Self {
        Self::joined([path, "", "", ""])
    }
}

/// The class of a [`FieldError`]; `code` is the wire reason, `Display` the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The `reason` of the cause in a Status.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        })
    }
}

/// The offending value as an error shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// Nothing is shown.
    Omitted,
    /// A JSON value: strings quoted, scalars plain, the rest as compact JSON.
    Json(Value),
    /// Text printed exactly as it stands, for values whose printed form is not JSON.
    Verbatim(String),
}

impl<T: Into<Value>> From<T> for Shown {
    fn from(value: T) -> Self {
        Self::Json(value.into())
    }
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: ErrorType,
    pub path: Path,
    pub value: Shown,
    pub detail: String,
}

impl FieldError {
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::build(ErrorType::Required, path, Shown::Omitted, detail)
    }

    pub fn invalid(path: &Path, value: impl Into<Shown>, detail: impl Into<String>) -> Self {
        Self::build(ErrorType::Invalid, path, value, detail)
    }

    pub fn type_invalid(path: &Path, value: impl Into<Shown>, detail: impl Into<String>) -> Self {
        Self::build(ErrorType::TypeInvalid, path, value, detail)
    }

    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::build(ErrorType::Forbidden, path, Shown::Omitted, detail)
    }

    pub fn duplicate(path: &Path, value: impl Into<Shown>) -> Self {
        Self::build(ErrorType::Duplicate, path, value, "")
    }

    pub fn not_found(path: &Path, value: impl Into<Shown>) -> Self {
        Self::build(ErrorType::NotFound, path, value, "")
    }

    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Self::build(ErrorType::Internal, path, Shown::Omitted, detail)
    }

    /// A value outside an enumeration; `supported` is printed in the order given.
    pub fn not_supported<S: AsRef<str>>(
        path: &Path,
        value: impl Into<Shown>,
        supported: &[S],
    ) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|s| quote(s.as_ref())).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::build(ErrorType::NotSupported, path, value, detail)
    }

    /// A string over its limit in bytes; the value itself is never printed.
    pub fn too_long(path: &Path, max_bytes: usize) -> Self {
        let bytes = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {bytes}");
        Self::build(ErrorType::TooLong, path, Shown::Omitted, detail)
    }

    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Self::build(ErrorType::TooMany, path, actual as u64, detail)
    }

    fn build(
        kind: ErrorType,
        path: &Path,
        value: impl Into<Shown>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, path: path.clone(), value: value.into(), detail: detail.into() }
    }

    /// The error without its path: what a cause in a Status carries as message.
    pub fn body(&self) -> String {
        let mut text = self.kind.to_string();
        let shows_value = !matches!(
            self.kind,
            ErrorType::Required | ErrorType::Forbidden | ErrorType::TooLong | ErrorType::Internal
        );
        if shows_value {
            match &self.value {
                Shown::Omitted => {}
                Shown::Verbatim(shown) => {
                    text.push_str(": ");
                    text.push_str(shown);
                }
                Shown::Json(value) => {
                    text.push_str(": ");
                    text.push_str(&show_json(value));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

fn show_json(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Object(_) | Value::Array(_) => go_json(value),
        scalar => scalar.to_string(),
    }
}

/// Compact JSON as Go writes it: `<`, `>`, `&` and the two Unicode line separators are escaped.
pub fn go_json(value: &Value) -> String {
    go_escape(&value.to_string())
}

/// Escapes in a JSON text what Go escapes.
pub fn go_escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Quotes a string as Go's `%q` does.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            // Control, separator and private-use characters beyond ASCII are escaped too.
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Joins errors as Kubernetes' aggregate does: one alone, several in brackets, repeats once.
pub fn join_errors(errors: &[FieldError]) -> String {
    let mut seen: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    match seen.len() {
        1 => seen.remove(0),
        _ => format!("[{}]", seen.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn errors_read_as_kubernetes_prints_them() {
        let path = Path::new("spec").child("ports").index(0).child("port");
        let cases = [
            (FieldError::required(&path, ""), "spec.ports[0].port: Required value"),
            (
                FieldError::invalid(&path, 70000, "must be between 1 and 65535, inclusive"),
                "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ),
            (
                FieldError::not_supported(&path, "a", &["b", "c"]),
                r#"spec.ports[0].port: Unsupported value: "a": supported values: "b", "c""#,
            ),
            (
                FieldError::too_long(&path, 63),
                "spec.ports[0].port: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_many(&path, 3, 2),
                "spec.ports[0].port: Too many: 3: must have at most 2 items",
            ),
            (
                FieldError::invalid(&path, json!({"x": "<"}), "no"),
                r#"spec.ports[0].port: Invalid value: {"x":"\u003c"}: no"#,
            ),
            (FieldError::invalid(&Path::root(), Value::Null, ""), "<nil>: Invalid value: null"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn several_errors_are_bracketed_and_repeats_shown_once() {
        let a = FieldError::required(&Path::new("a"), "");
        let b = FieldError::required(&Path::new("b"), "");
        assert_eq!(join_errors(std::slice::from_ref(&a)), "a: Required value");
        assert_eq!(join_errors(&[a.clone(), b, a]), "[a: Required value, b: Required value]");
    }
}
