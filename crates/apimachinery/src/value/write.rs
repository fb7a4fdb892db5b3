//! Values to whatever serde writes, and values from types of Rust.

use ecow::EcoVec;
use serde::ser::{
    Error as _, Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};
use serde_json::Error;

use super::{List, Map, Text, Value};

/// The name by which `serde_json` hands over a value as its text.
const RAW: &str = "$serde_json::private::RawValue";

/// Makes a tree of a type.
pub fn to_value<T: Serialize>(value: T) -> Result<Value, Error> {
    value.serialize(Tree)
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(yes) => serializer.serialize_bool(*yes),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(list) => list.serialize(serializer),
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self {
            fields.serialize_entry(name.as_str(), value)?;
        }
        fields.end()
    }
}

/// Makes trees.
struct Tree;

macro_rules! plain {
    ($($function:ident: $type:ty),*) => {$(
        fn $function(self, value: $type) -> Result<Value, Error> {
            Ok(value.into())
        }
    )*};
}

impl Serializer for Tree {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    plain! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64, serialize_str: &str, serialize_bytes: &[u8]
    }

    fn serialize_char(self, letter: char) -> Result<Value, Error> {
        Ok(letter.to_string().into())
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok([(variant, value.serialize(self)?)].into_iter().collect())
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, Error> {
        Ok(Items { list: List::with_capacity(length.unwrap_or_default()), variant: None })
    }

    fn serialize_tuple(self, length: usize) -> Result<Items, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items, Error> {
        Ok(Items { list: List::with_capacity(length), variant: Some(variant) })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields { length: length.unwrap_or_default(), ..Fields::default() })
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Fields, Error> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Fields, Error> {
        Ok(Fields { length, variant: Some(variant), ..Fields::default() })
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<Value, Error> {
        Ok(smol_str::format_smolstr!("{value}").into())
    }
}

fn of_variant(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(variant) => [(variant, value)].into_iter().collect(),
        None => value,
    }
}

struct Items {
    list: List,
    variant: Option<&'static str>,
}

impl SerializeSeq for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.list.push(to_value(value)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(of_variant(self.variant, self.list.into()))
    }
}

impl SerializeTuple for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Value, Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleStruct for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Value, Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleVariant for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Value, Error> {
        SerializeSeq::end(self)
    }
}

#[derive(Default)]
struct Fields {
    /// How many are expected.
    length: usize,
    fields: EcoVec<(Text, Value)>,
    name: Option<Text>,
    variant: Option<&'static str>,
    /// What was handed over as text.
    raw: Option<Value>,
}

impl Fields {
    fn put(&mut self, name: Text, value: Value) {
        if self.fields.is_empty() {
            self.fields.reserve(self.length);
        }
        self.fields.push((name, value));
    }
}

impl SerializeMap for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), Error> {
        self.name = Some(name.serialize(Name)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let name = self.name.take().ok_or_else(|| Error::custom("a value without its key"))?;
        self.put(name, to_value(value)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        match self.raw {
            Some(raw) => Ok(raw),
            None => Ok(of_variant(self.variant, Map::from_fields(self.fields).into())),
        }
    }
}

impl SerializeStruct for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let value = to_value(value)?;
        if name == RAW {
            self.raw = Some(value.as_str().unwrap_or_default().parse()?);
        } else {
            self.put(Text::new_static(name), value);
        }
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        SerializeMap::end(self)
    }
}

impl SerializeStructVariant for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        SerializeStruct::serialize_field(self, name, value)
    }

    fn end(self) -> Result<Value, Error> {
        SerializeMap::end(self)
    }
}

/// Makes the name of a field of what can be one.
struct Name;

fn no_name<T>() -> Result<T, Error> {
    Err(Error::custom("key must be a string"))
}

macro_rules! names {
    ($($function:ident: $type:ty),*) => {$(
        fn $function(self, value: $type) -> Result<Text, Error> {
            Ok(smol_str::format_smolstr!("{value}"))
        }
    )*};
}

impl Serializer for Name {
    type Ok = Text;
    type Error = Error;
    type SerializeSeq = Impossible<Text, Error>;
    type SerializeTuple = Impossible<Text, Error>;
    type SerializeTupleStruct = Impossible<Text, Error>;
    type SerializeTupleVariant = Impossible<Text, Error>;
    type SerializeMap = Impossible<Text, Error>;
    type SerializeStruct = Impossible<Text, Error>;
    type SerializeStructVariant = Impossible<Text, Error>;

    names! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_char: char
    }

    fn serialize_str(self, text: &str) -> Result<Text, Error> {
        Ok(text.into())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Text, Error> {
        Ok(Text::new_static(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Text, Error> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Text, Error> {
        value.serialize(self)
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<Text, Error> {
        Ok(smol_str::format_smolstr!("{value}"))
    }

    fn serialize_f32(self, _: f32) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_f64(self, _: f64) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_none(self) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_unit(self) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Text, Error> {
        no_name()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        no_name()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        no_name()
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        no_name()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        no_name()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        no_name()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Error> {
        no_name()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        no_name()
    }
}
