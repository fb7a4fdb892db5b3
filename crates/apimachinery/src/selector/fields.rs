//! Field selectors: conjunctions of `field=value` and `field!=value`. Which fields a kind knows is
//! not decided here.

use std::fmt;

use super::ParseError;

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    /// `!=` instead of `=`.
    pub negated: bool,
}

/// A conjunction of terms; the empty one selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    pub fn new(terms: Vec<FieldTerm>) -> Self {
        Self { terms }
    }

    /// Parses the form of the `fieldSelector` parameter, such as `metadata.name=a,status.phase!=b`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let parse_term = |part: &str| {
            let (field, operator, value) = split_term(part).ok_or_else(|| {
                ParseError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let value = unescape(value)?;
            Ok(FieldTerm { field: field.to_owned(), value, negated: operator == "!=" })
        };
        let terms: Result<_, _> =
            parts.into_iter().filter(|part| !part.is_empty()).map(parse_term).collect();
        Ok(Self { terms: terms? })
    }

    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Matches against field values; an absent field has the empty value.
    pub fn matches_with<T: AsRef<str>>(&self, lookup: impl Fn(&str) -> Option<T>) -> bool {
        self.terms.iter().all(|term| {
            let value = lookup(&term.field);
            let same = value.as_ref().map_or("", |value| value.as_ref()) == term.value;
            same != term.negated
        })
    }

    /// The only value the field can have on selected objects.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        let term = self.terms.iter().find(|term| !term.negated && term.field == field)?;
        Some(&term.value)
    }

    /// Rewrites every term, for kinds that know a field under another name.
    pub fn try_map<E>(
        self,
        rewrite: impl FnMut(FieldTerm) -> Result<FieldTerm, E>,
    ) -> Result<Self, E> {
        let terms: Result<_, E> = self.terms.into_iter().map(rewrite).collect();
        Ok(Self { terms: terms? })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    term.char_indices().find_map(|(index, _)| {
        let (field, rest) = term.split_at(index);
        let operator = ["!=", "==", "="].into_iter().find(|one| rest.starts_with(one))?;
        Some((field, operator, rest.get(operator.len()..)?))
    })
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn unescape(value: &str) -> Result<String, ParseError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    let bad_escape = |sequence: String| {
        ParseError(format!("invalid field selector: invalid escape sequence: {sequence}"))
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(bad_escape(format!("\\{c}"))),
                None => return Err(bad_escape("\\".to_owned())),
            },
            // Compat: the character is shown by its number.
            ',' | '=' => {
                return Err(ParseError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}
