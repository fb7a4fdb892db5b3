//! Objects in Kubernetes' protobuf form: the `k8s\0` envelope, and a transcoder between messages and object
//! trees that is driven by a table of fields. Decoding gives every value on the wire; what of it shows in
//! JSON is then for [`crate::decode::normalise`] to say.

mod decode;
mod encode;
mod envelope;
pub(crate) mod wire;

use std::collections::HashMap;

use crate::Value;

pub use envelope::{Envelope, decode_envelope, encode_envelope, is_enveloped};

/// Messages nested deeper than this are refused.
const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("provided data does not appear to be a protobuf message")]
    NotEnveloped,
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: illegal wireType {0}")]
    WireType(u8),
    #[error("proto: wrong wireType = {wire} for field {field}")]
    Mismatched { wire: u8, field: String },
    #[error("proto: field {0} contains invalid UTF-8")]
    Utf8(String),
    #[error("proto: messages are nested too deep")]
    TooDeep,
    #[error("proto: field {0} holds no JSON")]
    RawJson(String),
    #[error("proto: no message is called {0}")]
    UnknownMessage(String),
    #[error("proto: field {field} cannot hold {found}")]
    Unfit { field: String, found: &'static str },
}

/// The messages of an API, by the names of their OpenAPI definitions.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    messages: HashMap<Box<str>, Message>,
}

#[derive(Debug, Clone)]
struct Message {
    /// In the order of their numbers, which is the order of encoding.
    fields: Vec<Field>,
    form: Form,
}

/// How a message appears in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Bytes that are JSON text.
    Raw,
    /// A list of strings wrapped into a message, since protobuf has no lists of lists.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
}

#[derive(Debug, Clone)]
struct Field {
    number: u32,
    /// Empty for a message whose fields appear in its parent's JSON.
    name: Box<str>,
    kind: Kind,
    repeat: Repeat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Message(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Single,
    List,
    Map,
}

impl Descriptors {
    /// Reads the table `{message: [[number, JSON name, type]…]}`; rows of another form are skipped.
    pub fn parse(table: &Value) -> Self {
        let mut messages = HashMap::new();
        for (name, rows) in table.as_object().into_iter().flatten() {
            let fields: Vec<Field> =
                rows.as_array().into_iter().flatten().filter_map(parse_field).collect();
            let form = form_of(name, &fields);
            messages.insert(name.as_str().into(), Message { fields, form });
        }
        Self { messages }
    }

    pub fn contains(&self, message: &str) -> bool {
        self.messages.contains_key(message)
    }

    /// Whether a message itself (not one inlined into it) has a field of this JSON name.
    pub fn has_field(&self, message: &str, name: &str) -> bool {
        let fields = self.messages.get(message).map(|message| &message.fields);
        fields.into_iter().flatten().any(|field| &*field.name == name)
    }

    fn message(&self, name: &str) -> Result<&Message, Error> {
        self.messages.get(name).ok_or_else(|| Error::UnknownMessage(name.to_owned()))
    }
}

fn parse_field(row: &Value) -> Option<Field> {
    let number = u32::try_from(row.get(0)?.as_u64()?).ok()?;
    let spelled = row.get(2)?.as_str()?;
    let (repeat, spelled) = match (spelled.strip_prefix("[]"), spelled.strip_prefix("{}")) {
        (Some(element), _) => (Repeat::List, element),
        (_, Some(value)) => (Repeat::Map, value),
        _ => (Repeat::Single, spelled),
    };
    let kind = match spelled {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Bool,
        "int32" | "uint32" => Kind::Int32,
        "int64" | "uint64" => Kind::Int64,
        "double" => Kind::Double,
        message => Kind::Message(message.into()),
    };
    Some(Field { number, name: row.get(1)?.as_str()?.into(), kind, repeat })
}

fn form_of(name: &str, fields: &[Field]) -> Form {
    let (package, short) = name.rsplit_once('.').unwrap_or_default();
    match short {
        "Time" if package.ends_with("meta.v1") => Form::Time,
        "MicroTime" if package.ends_with("meta.v1") => Form::MicroTime,
        "Quantity" if package.ends_with("api.resource") => Form::Quantity,
        "IntOrString" if package.ends_with("util.intstr") => Form::IntOrString,
        "FieldsV1" | "RawExtension" | "JSON" => Form::Raw,
        "JSONSchemaPropsOrArray" => Form::SchemaOrArray,
        "JSONSchemaPropsOrBool" => Form::SchemaOrBool,
        "JSONSchemaPropsOrStringArray" => Form::SchemaOrStrings,
        _ => match fields {
            [only] if &*only.name == "items" && only.kind == Kind::Text => Form::Strings,
            _ => Form::Object,
        },
    }
}

#[cfg(test)]
mod tests;
