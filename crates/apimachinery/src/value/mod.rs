//! JSON trees that share what they have in common: a copy of a tree is a new owner of its maps and
//! lists, which are copied one by one where somebody changes them. Names of fields and short texts lie
//! inside the tree, so that reading an object asks for little more memory than it has maps and lists.
//!
//! The names are those of `serde_json`, whose reader, writer, numbers and errors are used.

mod list;
mod macros;
mod map;
mod read;
mod text;
mod write;

use std::borrow::Cow;
use std::fmt;
use std::ops;

pub use list::List;
pub use map::{Entry, Map};
pub use read::from_value;
pub use serde_json::Number;
pub use smol_str::SmolStr as Text;
pub(crate) use text::{write_number, write_string};
pub use write::to_value;

#[doc(hidden)]
pub use macros::{Made, Taken, Written};

/// Any JSON value. Fields of objects are sorted by name.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Text),
    Array(List),
    Object(Map),
}

impl Value {
    /// The field of an object or the item of a list; nothing where there is none.
    pub fn get(&self, index: impl Index) -> Option<&Self> {
        index.of(self)
    }

    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Self> {
        index.of_mut(self)
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_i64())
    }

    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_u64())
    }

    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_f64())
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(yes) => Some(*yes),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    pub fn as_array(&self) -> Option<&List> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    pub fn as_array_mut(&mut self) -> Option<&mut List> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// What a JSON pointer (RFC 6901) leads to.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get(&step),
            Self::Array(list) => list.get(place(&step)?),
            _ => None,
        })
    }

    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get_mut(&step),
            Self::Array(list) => list.get_mut(place(&step)?),
            _ => None,
        })
    }

    /// The value itself; null takes its place.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// The steps of a JSON pointer, or nothing where it is not one.
fn steps(pointer: &str) -> Option<impl Iterator<Item = Cow<'_, str>>> {
    let rest = match pointer.strip_prefix('/') {
        Some(rest) => Some(rest),
        None if pointer.is_empty() => None,
        None => return None,
    };
    Some(rest.into_iter().flat_map(|rest| rest.split('/')).map(|step| match step.contains('~') {
        true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(step),
    }))
}

/// The place in a list that a step of a JSON pointer names.
fn place(step: &str) -> Option<usize> {
    let is_plain = !step.starts_with('+') && (step == "0" || !step.starts_with('0'));
    if is_plain { step.parse().ok() } else { None }
}

/// What leads into a value: the name of a field or a place in a list.
pub trait Index {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;

    /// The place, made where it is missing in an object or in null.
    fn of_made<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn of_made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(map) => map.entry(self).or_insert(Value::Null),
            other => panic!("no field {self:?} in {other}"),
        }
    }
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn of_made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        match self.of_mut(value) {
            Some(item) => item,
            None => panic!("no item {self}"),
        }
    }
}

macro_rules! index_by_text {
    ($($text:ty),*) => {$(
        impl Index for $text {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                self.as_str().of(value)
            }

            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                self.as_str().of_mut(value)
            }

            fn of_made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                self.as_str().of_made(value)
            }
        }
    )*};
}

index_by_text!(String, Text);

impl<I: Index + ?Sized> Index for &I {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn of_made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).of_made(value)
    }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Self;

    fn index(&self, index: I) -> &Self {
        static NOTHING: Value = Value::Null;
        index.of(self).unwrap_or(&NOTHING)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Self {
        index.of_made(self)
    }
}

/// Compact JSON; indented with `{:#}`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?);
        }
        f.write_str(std::str::from_utf8(&self.to_text()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a value from its text.
impl std::str::FromStr for Value {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_text(text.as_bytes())
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Null
    }
}

macro_rules! from_text {
    ($($text:ty),*) => {$(
        impl From<$text> for Value {
            fn from(text: $text) -> Self {
                Self::String(text.into())
            }
        }
    )*};
}

from_text!(&str, String, &String, Text, Box<str>, Cow<'_, str>);

impl From<&Text> for Value {
    fn from(text: &Text) -> Self {
        Self::String(text.clone())
    }
}

macro_rules! from_whole {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

from_whole!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<f32> for Value {
    fn from(number: f32) -> Self {
        Self::from(f64::from(number))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::Array(list)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Self> + Clone> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<Text>, V: Into<Self>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(fields: I) -> Self {
        Self::Object(fields.into_iter().collect())
    }
}

/// A value as `serde_json` has it, for the programs of others that ask for one.
impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(yes) => Self::Bool(yes),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(list) => list.into_iter().map(Self::from).collect(),
            Value::Object(map) => {
                let fields = map.into_iter().map(|(name, value)| (name.into(), value.into()));
                Self::Object(fields.collect())
            }
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(yes) => Self::Bool(yes),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(list) => list.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(map) => map.into_iter().collect(),
        }
    }
}

macro_rules! equals_text {
    ($($text:ty),*) => {$(
        impl PartialEq<$text> for Value {
            fn eq(&self, other: &$text) -> bool {
                self.as_str().is_some_and(|text| text == AsRef::<str>::as_ref(other))
            }
        }

        impl PartialEq<Value> for $text {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

equals_text!(str, &str, String, Text);

macro_rules! equals_number {
    ($($number:ty => $as:ident as $wide:ty),*) => {$(
        impl PartialEq<$number> for Value {
            fn eq(&self, other: &$number) -> bool {
                self.$as() == Some(*other as $wide)
            }
        }

        impl PartialEq<Value> for $number {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }

        impl PartialEq<$number> for &Value {
            fn eq(&self, other: &$number) -> bool {
                **self == *other
            }
        }
    )*};
}

equals_number!(
    i8 => as_i64 as i64, i16 => as_i64 as i64, i32 => as_i64 as i64, i64 => as_i64 as i64,
    isize => as_i64 as i64, u8 => as_u64 as u64, u16 => as_u64 as u64, u32 => as_u64 as u64,
    u64 => as_u64 as u64, usize => as_u64 as u64, f32 => as_f64 as f64, f64 => as_f64 as f64,
    bool => as_bool as bool
);

#[cfg(test)]
mod tests;
