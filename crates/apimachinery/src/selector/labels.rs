//! Label selectors: conjunctions of requirements on single labels, from text or from
//! `LabelSelector` objects.

use std::collections::BTreeMap;
use std::fmt;

use crate::value::Text;
use crate::{Map, Value};

use super::ParseError;
use crate::field::{FieldError, Path, join_errors, quote};
use crate::names::{self, validate_labels};
use crate::object::ObjectExt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// A condition on one label; values are sorted and unique when parsed from text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

/// A conjunction of requirements, or the selector that selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Parses the form of the `labelSelector` parameter, such as `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        super::label_parser::parse(text).map(Self::new)
    }

    /// Reads a `LabelSelector` object: an absent one selects nothing, an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, ParseError> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.map_at(&["matchLabels"]).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.list_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]).unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message =
                        format!("{} is not a valid label selector operator", quote(other));
                    return Err(ParseError(message));
                }
            };
            let values = expression.list_at(&["values"]).iter().filter_map(Value::as_str);
            let key = expression.str_at(&["key"]).unwrap_or_default();
            let values = values.map(str::to_owned).collect();
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(Self::new(requirements))
    }

    /// Reads a plain map of labels that all must be present, such as a Service's selector.
    pub fn from_set(labels: &Map) -> Self {
        let equals = |(key, value): (&Text, &Value)| Requirement {
            key: key.to_string(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Self::new(labels.iter().map(equals).collect())
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    pub fn selects_nothing(&self) -> bool {
        self.nothing
    }

    /// Matches labels given as a JSON map; anything else counts as no labels.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        self.matches_with(|key| labels?.get(key)?.as_str())
    }

    /// Matches the labels in an object's metadata.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(object.at(&["metadata", "labels"]))
    }

    pub fn matches_map(&self, labels: &(impl Labelled + ?Sized)) -> bool {
        self.matches_with(|key| labels.label(key))
    }

    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|one| one.matches(lookup(&one.key)))
    }

    /// The only value the label can have on selected objects, for indexes.
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let one = self.requirements.iter().find(|one| one.key == key)?;
        match (one.operator, one.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

/// Labels in any form.
pub trait Labelled: fmt::Debug + Send + Sync {
    fn label(&self, name: &str) -> Option<&str>;

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;
}

impl Labelled for BTreeMap<String, String> {
    fn label(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

/// Values that are no strings do not count.
impl Labelled for Map {
    fn label(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))))
    }
}

/// No labels at all.
impl Labelled for () {
    fn label(&self, _: &str) -> Option<&str> {
        None
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(std::iter::empty())
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    /// Makes a requirement whose key, operator and values fit together.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, ParseError> {
        let mut errors = Vec::new();
        let wrong = names::qualified_name(key);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&Path::new("key"), key, wrong.join("; ")));
        }
        let path = Path::new("values");
        errors.extend(operator.check_count(&values, &path));
        for (index, value) in values.iter().enumerate() {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                let path = path.index(index).key(key);
                errors.push(FieldError::invalid(&path, value.as_str(), wrong.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Self { key: key.to_owned(), operator, values })
        } else {
            Err(ParseError(join_errors(&errors)))
        }
    }

    /// Whether a label with this value, or its absence, satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value).is_some_and(|(have, want)| have > want),
            Operator::LessThan => self.compares(value).is_some_and(|(have, want)| have < want),
        }
    }

    fn compares(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl Operator {
    fn check_count(self, values: &[String], path: &Path) -> Vec<FieldError> {
        let (fits, detail) = match self {
            Self::In | Self::NotIn => {
                (!values.is_empty(), "for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Equals | Self::DoubleEquals | Self::NotEquals => {
                (values.len() == 1, "exact-match compatibility requires one single value")
            }
            Self::Exists | Self::DoesNotExist => {
                (values.is_empty(), "values set must be empty for exists and does not exist")
            }
            Self::GreaterThan | Self::LessThan => {
                (values.len() == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        let mut errors = Vec::new();
        if !fits {
            errors.push(FieldError::invalid(path, values.to_vec(), detail));
        }
        if matches!(self, Self::GreaterThan | Self::LessThan) {
            for (index, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(&path.index(index), value.as_str(), detail));
                }
            }
        }
        errors
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Checks a `LabelSelector` object as part of another object.
pub fn validate_label_selector(selector: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let mut errors = validate_labels(selector.get("matchLabels"), &path.child("matchLabels"));
    for (index, expression) in selector.list_at(&["matchExpressions"]).iter().enumerate() {
        errors
            .extend(validate_expression(expression, &path.child("matchExpressions").index(index)));
    }
    errors
}

fn validate_expression(expression: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let values = expression.list_at(&["values"]);
    let values_path = path.child("values");
    match expression.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values_path, detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values_path, detail));
            }
        }
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&path.child("operator"), other, detail));
        }
    }
    let key = expression.str_at(&["key"]).unwrap_or_default();
    for message in names::qualified_name(key) {
        errors.push(FieldError::invalid(&path.child("key"), key, message));
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value) {
            errors.push(FieldError::invalid(&values_path.index(index), value, message));
        }
    }
    errors
}
