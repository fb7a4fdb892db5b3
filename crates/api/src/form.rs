//! What the types of [`wire!`](crate::wire) write. It tells whether a tree is already what its type would
//! write after reading it, without reading it: most objects come from our own types and are.

use std::cmp::Ordering;

use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value};

use crate::wire::camel_case;

/// Values of any type deeper than this are left to the reader, which has a limit of its own.
const MAX_DEPTH: usize = 64;

/// What values of a type look like once they are written.
#[derive(Debug)]
pub enum Form {
    Text,
    Flag,
    Whole {
        least: i128,
        most: i128,
    },
    Moment,
    Amount,
    Any,
    /// A list that is carried along as it is.
    Carried,
    Option(Box<Self>),
    List(Box<Self>),
    Map(Box<Self>),
    /// Fields sorted by name.
    Struct(Vec<Field>),
    /// Only the reader can tell.
    Unknown,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    name: String,
    /// Whether the field is written even if it is zero.
    always: bool,
    form: Form,
}

/// Collects the fields of one struct.
#[derive(Default)]
pub struct StructForm {
    fields: Vec<Field>,
    has_inline: bool,
}

impl StructForm {
    /// Adds a field; `json` is its wire name, or empty for the camel-case form of `field`.
    pub(crate) fn field(mut self, (field, json): (&str, &str), always: bool, form: Form) -> Self {
        let name = if json.is_empty() { camel_case(field) } else { json.to_owned() };
        self.fields.push(Field { name, always, form });
        self
    }

    /// Adds an embedded struct, whose fields are read in a way of their own.
    pub(crate) fn inline(mut self) -> Self {
        self.has_inline = true;
        self
    }

    pub(crate) fn build(mut self) -> Form {
        if self.has_inline {
            return Form::Unknown;
        }
        self.fields.sort_by(|a, b| a.name.cmp(&b.name));
        Form::Struct(self.fields)
    }
}

impl Form {
    /// A whole number of a type of Rust.
    pub(crate) fn whole<T: Bounded>() -> Self {
        Self::Whole { least: T::LEAST, most: T::MOST }
    }

    /// Whether the object is what its type would write after reading it, except that it may have no field
    /// `lacking`. Nobody looks into `aside`, which is a list somewhere in the object. Where in doubt, the
    /// answer is no.
    pub fn is_written(&self, object: &Value, lacking: &str, aside: Option<&Value>) -> bool {
        match (self, object) {
            (Self::Struct(fields), Value::Object(map)) => {
                Look { aside }.fields(fields, map, lacking).is_some()
            }
            _ => false,
        }
    }
}

/// The bounds of a number.
pub(crate) trait Bounded {
    const LEAST: i128;
    const MOST: i128;
}

macro_rules! bounded {
    ($($type:ty),*) => {$(
        impl Bounded for $type {
            const LEAST: i128 = <$type>::MIN as i128;
            const MOST: i128 = <$type>::MAX as i128;
        }
    )*};
}

bounded!(i32, i64, u64);

/// A value that is written as it is.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// It may be the zero value of its type.
    Zero,
    /// It is not the zero value of its type.
    NonZero,
}

impl Written {
    fn unless_zero(is_zero: bool) -> Self {
        if is_zero { Self::Zero } else { Self::NonZero }
    }
}

#[derive(Clone, Copy)]
struct Look<'a> {
    aside: Option<&'a Value>,
}

impl Look<'_> {
    /// Nothing if the value changes on its way through the type, or may do so.
    fn value(self, form: &Form, value: &Value) -> Option<Written> {
        match (form, value) {
            // Nulls are read as zero or refused, and vanish where they are not needed.
            (_, Value::Null) => None,
            (Form::Text, Value::String(text)) => Some(Written::unless_zero(text.is_empty())),
            (Form::Flag, Value::Bool(flag)) => Some(Written::unless_zero(!flag)),
            (Form::Whole { least, most }, Value::Number(number)) => {
                let number = match number.as_i64() {
                    Some(number) => i128::from(number),
                    None => i128::from(number.as_u64()?),
                };
                let fits = (*least..=*most).contains(&number);
                fits.then(|| Written::unless_zero(number == 0))
            }
            (Form::Moment, Value::String(text)) => is_moment(text).then_some(Written::NonZero),
            (Form::Amount, Value::String(text)) => {
                let amount = Quantity::from_value(value).ok()?;
                (amount.to_string() == text.as_str()).then_some(Written::Zero)
            }
            (Form::Any, value) => is_plain(value, MAX_DEPTH).then_some(Written::NonZero),
            (Form::Carried, Value::Array(items)) => (!items.is_empty()).then_some(Written::NonZero),
            // What is there is never the zero value of an option, which is nothing.
            (Form::Option(inner), value) => self.value(inner, value).map(|_| Written::NonZero),
            (Form::List(inner), Value::Array(items)) => {
                let is_aside = self.aside.is_some_and(|aside| std::ptr::eq(aside, value));
                let all = is_aside || items.iter().all(|item| self.value(inner, item).is_some());
                all.then(|| Written::unless_zero(items.is_empty()))
            }
            (Form::Map(inner), Value::Object(map)) => {
                let all = map.values().all(|value| self.value(inner, value).is_some());
                all.then(|| Written::unless_zero(map.is_empty()))
            }
            (Form::Struct(fields), Value::Object(map)) => self.fields(fields, map, ""),
            _ => None,
        }
    }

    /// Both sides are sorted by name, so they are walked side by side.
    fn fields(self, fields: &[Field], map: &Map, lacking: &str) -> Option<Written> {
        let mut fields = fields.iter();
        let mut found = Written::Zero;
        for (name, value) in map {
            let field = loop {
                let field = fields.next()?;
                match field.name.as_str().cmp(name) {
                    Ordering::Equal => break field,
                    Ordering::Less if !field.always || field.name == lacking => {}
                    _ => return None,
                }
            };
            match (self.value(&field.form, value)?, field.always) {
                (_, true) => {}
                (Written::NonZero, false) => found = Written::NonZero,
                (Written::Zero, false) => return None,
            }
        }
        let is_whole = fields.all(|field| !field.always || field.name == lacking);
        is_whole.then_some(found)
    }
}

/// Whether the text is a moment as it is written: UTC, whole seconds. Leap days and far years are left to
/// the reader.
fn is_moment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |at: usize| match bytes[at..at + 2] {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some((a - b'0') * 10 + (b - b'0')),
        _ => None,
    };
    if bytes.len() != 20
        || [4, 7].iter().any(|at| bytes[*at] != b'-')
        || [13, 16].iter().any(|at| bytes[*at] != b':')
        || (bytes[10], bytes[19]) != (b'T', b'Z')
    {
        return false;
    }
    let last_day = match digits(5) {
        Some(2) => 28,
        Some(4 | 6 | 9 | 11) => 30,
        Some(1..=12) => 31,
        _ => return false,
    };
    digits(0).is_some_and(|century| (10..99).contains(&century))
        && digits(2).is_some()
        && digits(8).is_some_and(|day| (1..=last_day).contains(&day))
        && digits(11).is_some_and(|hour| hour < 24)
        && digits(14).is_some_and(|minute| minute < 60)
        && digits(17).is_some_and(|second| second < 60)
}

/// Whether a value of any type is the same after its text was read. Fractions may not be.
fn is_plain(value: &Value, depth: usize) -> bool {
    match value {
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_plain(item, depth - 1)),
        Value::Object(map) => depth > 0 && map.values().all(|value| is_plain(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
