//! Messages into object trees.

use crate::{Map, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Number;

use super::wire::{FIXED64, LENGTH, Reader, VARINT};
use super::{Descriptors, Error, Field, Form, Kind, MAX_DEPTH, Message, Repeat};
use crate::time::{format_micro_time, format_time};

impl Descriptors {
    /// Decodes a message into the tree it stands for, zero values included.
    pub fn decode(&self, message: &str, bytes: &[u8]) -> Result<Value, Error> {
        self.value(self.message(message)?, bytes, 0)
    }

    fn value(&self, message: &Message, bytes: &[u8], depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        match message.form {
            Form::Time => stamp(bytes, false),
            Form::MicroTime => stamp(bytes, true),
            Form::Raw => raw_json(bytes),
            form => {
                let mut fields = Map::new();
                self.fields(message, bytes, &mut fields, depth)?;
                Ok(fold(form, fields))
            }
        }
    }

    fn fields(
        &self,
        message: &Message,
        bytes: &[u8],
        out: &mut Map,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            let Some(field) = message.fields.iter().find(|field| field.number == number) else {
                reader.skip(wire)?;
                continue;
            };
            match field.repeat {
                Repeat::Single => self.single(field, wire, &mut reader, out, depth)?,
                Repeat::List => self.list(field, wire, &mut reader, out, depth)?,
                Repeat::Map => self.entry(field, wire, &mut reader, out, depth)?,
            }
        }
        Ok(())
    }

    fn single(
        &self,
        field: &Field,
        wire: u8,
        reader: &mut Reader<'_>,
        out: &mut Map,
        depth: usize,
    ) -> Result<(), Error> {
        let Kind::Message(name) = &field.kind else {
            let value = scalar(field, wire, reader)?;
            out.insert(field.name.to_string(), value);
            return Ok(());
        };
        let bytes = payload(field, wire, reader)?;
        let message = self.message(name)?;
        if field.name.is_empty() {
            return self.fields(message, bytes, out, depth + 1);
        }
        // A message sent in several parts is merged.
        let earlier = out.remove(&*field.name);
        let value = match earlier {
            Some(Value::Object(mut earlier)) if message.form == Form::Object => {
                self.fields(message, bytes, &mut earlier, depth + 1)?;
                Value::Object(earlier)
            }
            _ => self.value(message, bytes, depth + 1)?,
        };
        out.insert(field.name.to_string(), value);
        Ok(())
    }

    fn list(
        &self,
        field: &Field,
        wire: u8,
        reader: &mut Reader<'_>,
        out: &mut Map,
        depth: usize,
    ) -> Result<(), Error> {
        let mut items = match out.remove(&*field.name) {
            Some(Value::Array(items)) => items,
            _ => Vec::new().into(),
        };
        let is_packed = wire == LENGTH
            && matches!(field.kind, Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double);
        if is_packed {
            let mut packed = Reader::new(reader.bytes()?);
            let wire = if field.kind == Kind::Double { FIXED64 } else { VARINT };
            while !packed.is_empty() {
                items.push(scalar(field, wire, &mut packed)?);
            }
        } else {
            items.push(self.element(field, wire, reader, depth)?);
        }
        out.insert(field.name.to_string(), Value::Array(items));
        Ok(())
    }

    fn entry(
        &self,
        field: &Field,
        wire: u8,
        reader: &mut Reader<'_>,
        out: &mut Map,
        depth: usize,
    ) -> Result<(), Error> {
        let mut entry = Reader::new(payload(field, wire, reader)?);
        let mut key = String::new();
        let mut value = None;
        while let Some((number, wire)) = entry.tag()? {
            match number {
                1 => key = text(field, payload(field, wire, &mut entry)?)?,
                2 => value = Some(self.element(field, wire, &mut entry, depth)?),
                _ => entry.skip(wire)?,
            }
        }
        let value = match (value, &field.kind) {
            (Some(value), _) => value,
            (None, Kind::Message(name)) => self.value(self.message(name)?, &[], depth + 1)?,
            (None, kind) => zero(kind),
        };
        let map = out.entry(field.name.to_string()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(map) = map {
            map.insert(key, value);
        }
        Ok(())
    }

    fn element(
        &self,
        field: &Field,
        wire: u8,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<Value, Error> {
        match &field.kind {
            Kind::Message(name) => {
                let bytes = payload(field, wire, reader)?;
                self.value(self.message(name)?, bytes, depth + 1)
            }
            _ => scalar(field, wire, reader),
        }
    }
}

fn scalar(field: &Field, wire: u8, reader: &mut Reader<'_>) -> Result<Value, Error> {
    let mismatched = || Error::Mismatched { wire, field: field.name.to_string() };
    Ok(match (&field.kind, wire) {
        (Kind::Text, LENGTH) => text(field, reader.bytes()?)?.into(),
        (Kind::Bytes, LENGTH) => STANDARD.encode(reader.bytes()?).into(),
        (Kind::Bool, VARINT) => (reader.varint()? != 0).into(),
        // The casts keep the low bits, as protobuf demands.
        (Kind::Int32, VARINT) => (reader.varint()? as i32).into(),
        (Kind::Int64, VARINT) => (reader.varint()? as i64).into(),
        (Kind::Double, FIXED64) => {
            let number = f64::from_bits(reader.fixed64()?);
            Number::from_f64(number).map(Value::Number).ok_or_else(mismatched)?
        }
        _ => return Err(mismatched()),
    })
}

fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Text | Kind::Bytes => "".into(),
        Kind::Bool => false.into(),
        Kind::Int32 | Kind::Int64 | Kind::Double => 0.into(),
        Kind::Message(_) => Value::Null,
    }
}

fn payload<'a>(field: &Field, wire: u8, reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    match wire {
        LENGTH => reader.bytes(),
        _ => Err(Error::Mismatched { wire, field: field.name.to_string() }),
    }
}

fn text(field: &Field, bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::Utf8(field.name.to_string()))
}

/// Seconds and nanoseconds; a message without content is no time at all.
fn stamp(bytes: &[u8], micro: bool) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => nanos = reader.varint()? as i32,
            (_, wire) => reader.skip(wire)?,
        }
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| Error::Overflow)?;
    Ok(if micro { format_micro_time(time) } else { format_time(time) }.into())
}

fn raw_json(bytes: &[u8]) -> Result<Value, Error> {
    let mut raw: &[u8] = b"";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, LENGTH) => raw = reader.bytes()?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    crate::decode::json_untyped(raw)
        .map(|decoded| decoded.value)
        .map_err(|_| Error::RawJson("raw".to_owned()))
}

/// The JSON of messages that are not objects there.
fn fold(form: Form, mut fields: Map) -> Value {
    let mut take = |name: &str| fields.remove(name);
    match form {
        Form::Quantity => take("string").filter(|text| text != "").unwrap_or_else(|| "0".into()),
        Form::IntOrString => {
            let is_text = take("type").and_then(|kind| kind.as_i64()) == Some(1);
            if is_text {
                take("strVal").unwrap_or_else(|| "".into())
            } else {
                take("intVal").unwrap_or_else(|| 0.into())
            }
        }
        Form::Strings => take("items").unwrap_or_else(|| Value::Array(Default::default())),
        Form::SchemaOrArray => {
            take("schema").or_else(|| take("jSONSchemas")).unwrap_or(Value::Null)
        }
        Form::SchemaOrBool => {
            take("schema").or_else(|| take("allows")).unwrap_or_else(|| false.into())
        }
        Form::SchemaOrStrings => take("schema").or_else(|| take("property")).unwrap_or(Value::Null),
        Form::Object | Form::Time | Form::MicroTime | Form::Raw => Value::Object(fields),
    }
}
