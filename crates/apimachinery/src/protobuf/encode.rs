//! Object trees into messages, byte for byte as Go's generated code writes them: fields in the order of
//! their numbers, values that are not pointers always, maps in the order of their keys.

use crate::{Map, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::wire::{FIXED64, put_bytes, put_int, put_tag};
use super::{Descriptors, Error, Field, Form, Kind, MAX_DEPTH, Message, Repeat};
use crate::schema::{Cursor, Definitions, Presence};
use crate::time::parse_time;

impl Descriptors {
    /// Encodes a normalised tree; `definitions` say which fields Go holds as pointers.
    pub fn encode(
        &self,
        definitions: &Definitions,
        message: &str,
        value: &Value,
    ) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let encoder = Encoder { descriptors: self, definitions };
        encoder.message(message, Some(value), &mut out, 0)?;
        Ok(out)
    }
}

struct Encoder<'a> {
    descriptors: &'a Descriptors,
    definitions: &'a Definitions,
}

impl Encoder<'_> {
    fn message(
        &self,
        name: &str,
        value: Option<&Value>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let message = self.descriptors.message(name)?;
        let value = value.filter(|value| !value.is_null());
        match message.form {
            Form::Object => {
                let empty = Map::new();
                let fields = match value {
                    None => &empty,
                    Some(Value::Object(fields)) => fields,
                    Some(other) => return Err(unfit(name, other)),
                };
                self.fields(message, fields, self.definitions.cursor(name), out, depth)
            }
            Form::Time | Form::MicroTime => stamp(name, value, out),
            Form::Quantity => {
                let amount = match value {
                    None => "0".to_owned(),
                    Some(Value::String(text)) => text.to_string(),
                    Some(Value::Number(number)) => number.to_string(),
                    Some(other) => return Err(unfit(name, other)),
                };
                put_bytes(out, 1, amount.as_bytes());
                Ok(())
            }
            Form::IntOrString => int_or_string(name, value, out),
            Form::Raw => {
                if let Some(value) = value {
                    put_bytes(out, 1, value.to_string().as_bytes());
                }
                Ok(())
            }
            Form::Strings | Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => {
                self.wrapped(message, value, out, depth)
            }
        }
    }

    /// Values that protobuf has to wrap: field 1 or 2 of the message, by the type of the value.
    fn wrapped(
        &self,
        message: &Message,
        value: Option<&Value>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        for field in &message.fields {
            let fits = match value {
                Value::Object(_) => {
                    matches!(field.kind, Kind::Message(_)) && field.repeat == Repeat::Single
                }
                Value::Array(_) => field.repeat == Repeat::List,
                Value::Bool(_) => field.kind == Kind::Bool,
                _ => false,
            };
            if fits {
                self.present(field, value, out, depth)?;
            } else if field.kind == Kind::Bool && field.repeat == Repeat::Single {
                // Beside a schema the flag stands too; Go sets it when it reads one.
                put_int(out, field.number, 1);
            }
        }
        Ok(())
    }

    fn fields(
        &self,
        message: &Message,
        fields: &Map,
        schema: Option<Cursor<'_>>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        for field in &message.fields {
            if field.name.is_empty() {
                self.inlined(field, fields, schema, out, depth)?;
                continue;
            }
            let value = fields.get(&*field.name).filter(|value| !value.is_null());
            if let Some(value) = value {
                self.present(field, value, out, depth)?;
            } else {
                let place = schema.and_then(|schema| schema.property(&field.name));
                self.absent(field, place, out, depth)?;
            }
        }
        Ok(())
    }

    fn inlined(
        &self,
        field: &Field,
        fields: &Map,
        schema: Option<Cursor<'_>>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        let Kind::Message(name) = &field.kind else { return Ok(()) };
        let mut inner = Vec::new();
        self.fields(self.descriptors.message(name)?, fields, schema, &mut inner, depth + 1)?;
        put_bytes(out, field.number, &inner);
        Ok(())
    }

    /// Go writes the zero of everything that is not a pointer, a list, a map or bytes.
    fn absent(
        &self,
        field: &Field,
        place: Option<Cursor<'_>>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        let is_pointer = place.is_none_or(|place| {
            matches!(place.site().presence, Presence::Pointer | Presence::Nullable)
        });
        if is_pointer || field.repeat != Repeat::Single {
            return Ok(());
        }
        match &field.kind {
            Kind::Text => put_bytes(out, field.number, b""),
            Kind::Bool | Kind::Int32 | Kind::Int64 => put_int(out, field.number, 0),
            Kind::Double => {
                put_tag(out, field.number, FIXED64);
                out.extend_from_slice(&0_f64.to_le_bytes());
            }
            Kind::Bytes => {}
            Kind::Message(name) => {
                let mut inner = Vec::new();
                self.message(name, None, &mut inner, depth + 1)?;
                put_bytes(out, field.number, &inner);
            }
        }
        Ok(())
    }

    fn present(
        &self,
        field: &Field,
        value: &Value,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        match (field.repeat, value) {
            (Repeat::Single, value) => self.element(field, field.number, value, out, depth),
            (Repeat::List, Value::Array(items)) => items
                .iter()
                .try_for_each(|item| self.element(field, field.number, item, out, depth)),
            (Repeat::Map, Value::Object(entries)) => {
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    self.element(field, 2, value, &mut entry, depth)?;
                    put_bytes(out, field.number, &entry);
                }
                Ok(())
            }
            (_, other) => Err(unfit(&field.name, other)),
        }
    }

    fn element(
        &self,
        field: &Field,
        number: u32,
        value: &Value,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Error> {
        match (&field.kind, value) {
            (Kind::Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
            (Kind::Bytes, Value::String(text)) => {
                let raw = STANDARD.decode(text).map_err(|_| unfit(&field.name, value))?;
                put_bytes(out, number, &raw);
            }
            (Kind::Bool, Value::Bool(set)) => put_int(out, number, i64::from(*set)),
            (Kind::Int32 | Kind::Int64, Value::Number(_)) => {
                let integer = value.as_i64().ok_or_else(|| unfit(&field.name, value))?;
                put_int(out, number, integer);
            }
            (Kind::Double, Value::Number(_)) => {
                let double = value.as_f64().ok_or_else(|| unfit(&field.name, value))?;
                put_tag(out, number, FIXED64);
                out.extend_from_slice(&double.to_le_bytes());
            }
            (Kind::Message(name), value) => {
                let mut inner = Vec::new();
                self.message(name, Some(value), &mut inner, depth + 1)?;
                put_bytes(out, number, &inner);
            }
            (_, other) => return Err(unfit(&field.name, other)),
        }
        Ok(())
    }
}

fn stamp(name: &str, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let time = value.as_str().and_then(parse_time).ok_or_else(|| unfit(name, value))?;
    put_int(out, 1, time.as_second());
    // Compat: Go drops the fraction of a Time and keeps the microseconds of a MicroTime.
    put_int(
        out,
        2,
        if name.ends_with("MicroTime") { i64::from(time.subsec_nanosecond()) } else { 0 },
    );
    Ok(())
}

fn int_or_string(name: &str, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    let (kind, number, text) = match value {
        None => (0, 0, ""),
        Some(Value::String(text)) => (1, 0, text.as_str()),
        Some(value) => (0, value.as_i64().ok_or_else(|| unfit(name, value))?, ""),
    };
    put_int(out, 1, kind);
    put_int(out, 2, number);
    put_bytes(out, 3, text.as_bytes());
    Ok(())
}

fn unfit(field: &str, value: &Value) -> Error {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Error::Unfit { field: field.to_owned(), found }
}
