//! How Karmada's structs look on the wire, told once per field: the [`wire!`] macro turns a struct with
//! documented fields into a serde type *and* into the schema of its CRD, so the two cannot drift apart.
//!
//! A field is written `name: Type` (required, always sent), `name?: Type` (optional, left out at its zero
//! value) or `name+: Type` (optional, yet always sent, because Go never leaves out a struct). `as "json"`
//! overrides the camel-case name, `= {…}` adds schema facts, `flatten` puts a struct's fields in line.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use karmada_apimachinery::Value;
use karmada_apimachinery::{Map, json};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::form::Form;
pub use crate::time::Time;

/// A type that knows its JSON schema.
pub trait Described {
    /// The schema node, descriptions included.
    fn schema() -> Value;

    /// The Go spelling of the type, as decoding errors of the original name it.
    fn go_type() -> String;

    /// What the type writes.
    fn form() -> Form;
}

/// The schema of a type, built once per process.
pub fn schema_of<T: Described + 'static>() -> &'static Value {
    static BUILT: LazyLock<RwLock<HashMap<TypeId, &'static Value>>> =
        LazyLock::new(Default::default);
    let key = TypeId::of::<T>();
    let known = BUILT.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    known.unwrap_or_else(|| {
        let mut built = BUILT.write().unwrap_or_else(PoisonError::into_inner);
        // Kept for ever: there are as many as there are types.
        built.entry(key).or_insert_with(|| Box::leak(Box::new(T::schema())))
    })
}

/// Schema keyword (ours, never published) that holds the Go name of a node's type.
pub const GO_TYPE: &str = "x-go-type";

/// Collects the fields of one struct.
pub struct ObjectSchema {
    description: String,
    go_type: String,
    properties: Map,
    required: Vec<Value>,
}

impl ObjectSchema {
    pub fn new(docs: &[&str], go_type: String) -> Self {
        Self { description: prose(docs), go_type, properties: Map::new(), required: Vec::new() }
    }

    /// Adds a field; `json` is its wire name, or empty for the camel-case form of `field`.
    pub fn field(
        mut self,
        (field, json): (&str, &str),
        docs: &[&str],
        required: bool,
        mut schema: Value,
        facts: Value,
    ) -> Self {
        let name = if json.is_empty() { camel_case(field) } else { json.to_owned() };
        let description = prose(docs);
        if let Some(node) = schema.as_object_mut() {
            if !description.is_empty() {
                node.insert("description", description.into());
            }
            merge(node, facts);
        }
        if required {
            self.required.push(name.as_str().into());
        }
        self.properties.insert(name, schema);
        self
    }

    /// Adds the fields of an embedded struct.
    pub fn inline(mut self, schema: Value) -> Self {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            self.properties.extend(properties.clone());
        }
        if let Some(Value::Array(required)) = schema.get("required") {
            self.required.extend(required.iter().cloned());
        }
        self
    }

    pub fn build(self, facts: Value) -> Value {
        let mut node = json!({ "type": "object", GO_TYPE: self.go_type });
        if !self.description.is_empty() {
            node["description"] = self.description.into();
        }
        if !self.properties.is_empty() {
            node["properties"] = self.properties.into();
        }
        if !self.required.is_empty() {
            let mut required = self.required;
            required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            node["required"] = required.into();
        }
        if let Some(node) = node.as_object_mut() {
            merge(node, facts);
        }
        node
    }
}

/// Facts replace what the type says, except that `properties` and `items` are refined in place.
fn merge(node: &mut Map, facts: Value) {
    let Value::Object(facts) = facts else { return };
    for (key, fact) in facts {
        match (node.get_mut(&key), fact) {
            (_, Value::Null) => {
                node.remove(&key);
            }
            (Some(Value::Object(inner)), fact @ Value::Object(_)) => merge(inner, fact),
            (_, fact) => {
                node.insert(key, fact);
            }
        }
    }
}

/// Joins the lines of a doc comment into one paragraph.
fn prose(docs: &[&str]) -> String {
    docs.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

pub(crate) fn camel_case(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut upper = false;
    for c in field.trim_start_matches("r#").chars() {
        if c == '_' {
            upper = true;
        } else {
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    out
}

/// Reads an explicit null as the zero value, as Go does.
pub(crate) fn null_as_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether Go's `omitempty` leaves the value out.
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

macro_rules! scalar_schema {
    ($($ty:ty => $go:literal, $form:expr, $schema:tt;)*) => {$(
        impl Described for $ty {
            fn schema() -> Value { json!($schema) }
            fn go_type() -> String { $go.to_owned() }
            fn form() -> Form { $form }
        }
    )*};
}

scalar_schema! {
    String => "string", Form::Text, {"type": "string"};
    bool => "bool", Form::Flag, {"type": "boolean"};
    i32 => "int32", Form::whole::<i32>(), {"type": "integer", "format": "int32"};
    i64 => "int64", Form::whole::<i64>(), {"type": "integer", "format": "int64"};
    Int => "int", Form::whole::<i64>(), {"type": "integer"};
    Uint => "uint", Form::whole::<u64>(), {"type": "integer"};
    Carried => "interface {}", Form::Carried, {"x-kubernetes-preserve-unknown-fields": true};
    Value => "interface {}", Form::Any, {"x-kubernetes-preserve-unknown-fields": true};
    Time => "v1.Time", Form::Moment, {"type": "string", "format": "date-time"};
    Bytes => "[]uint8", Form::Text, {"type": "string", "format": "byte"};
}

impl<T: Described> Described for Option<T> {
    fn schema() -> Value {
        T::schema()
    }
    fn go_type() -> String {
        T::go_type()
    }
    fn form() -> Form {
        Form::Option(Box::new(T::form()))
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
    fn go_type() -> String {
        format!("[]{}", T::go_type())
    }
    fn form() -> Form {
        Form::List(Box::new(T::form()))
    }
}

impl<T: Described> Described for BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
    fn go_type() -> String {
        format!("map[string]{}", T::go_type())
    }
    fn form() -> Form {
        Form::Map(Box::new(T::form()))
    }
}

macro_rules! plain_number {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

plain_number! {
    /// An integer whose schema names no width.
    Int(i64)
}
plain_number! {
    /// An unsigned integer whose schema names no width.
    Uint(u64)
}

/// Bytes that travel as base64 text; kept as the text, because nobody here looks inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub String);

/// A part that nobody here looks into: it is carried along as the text it is.
#[derive(Debug, Clone, Default)]
pub struct Carried(Option<Arc<RawValue>>);

impl Carried {
    fn text(&self) -> Option<&str> {
        self.0.as_deref().map(RawValue::get)
    }
}

impl PartialEq for Carried {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Carried {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_deref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Carried {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self((text.get() != "[]").then(|| text.into())))
    }
}

/// Defines structs that are serde types and schema nodes at once; see the module docs.
macro_rules! wire {
    ($( $(#[doc = $doc:literal])* pub struct $name:ident $(= $facts:tt)? { $($body:tt)* } )*) => {$(
        $crate::wire::wire!(@fields $name [[$($doc,)*] [$($facts)?]] [] [] [] $($body)*);
    )*};
    (@fields $name:ident $doc:tt [$($rust:tt)*] [$($schema:tt)*] [$($form:tt)*]
        $(#[doc = $fdoc:literal])* flatten $field:ident : $ty:ty, $($rest:tt)*) => {
        $crate::wire::wire!(@fields $name $doc
            [$($rust)* $(#[doc = $fdoc])* #[serde(flatten)] pub $field: $ty,]
            [$($schema)* .inline(<$ty as $crate::wire::Described>::schema())]
            [$($form)* .inline()] $($rest)*);
    };
    (@fields $name:ident $doc:tt [$($rust:tt)*] [$($schema:tt)*] [$($form:tt)*]
        $(#[doc = $fdoc:literal])* $field:ident $(as $json:literal)? ? : $ty:ty $(= $facts:tt)?, $($rest:tt)*) => {
        $crate::wire::wire!(@fields $name $doc
            [$($rust)* $(#[doc = $fdoc])* $(#[serde(rename = $json)])?
             #[serde(deserialize_with = "crate::wire::null_as_zero", skip_serializing_if = "crate::wire::is_zero")]
             pub $field: $ty,]
            [$($schema)* .field((stringify!($field), concat!($($json)?)), &[$($fdoc),*], false,
                <$ty as $crate::wire::Described>::schema(), karmada_apimachinery::json!({ $( "+": $facts )? })["+"].take())]
            [$($form)* .field((stringify!($field), concat!($($json)?)), false, <$ty as $crate::wire::Described>::form())] $($rest)*);
    };
    (@fields $name:ident $doc:tt [$($rust:tt)*] [$($schema:tt)*] [$($form:tt)*]
        $(#[doc = $fdoc:literal])* $field:ident $(as $json:literal)? + : $ty:ty $(= $facts:tt)?, $($rest:tt)*) => {
        $crate::wire::wire!(@fields $name $doc
            [$($rust)* $(#[doc = $fdoc])* $(#[serde(rename = $json)])?
             #[serde(deserialize_with = "crate::wire::null_as_zero")] pub $field: $ty,]
            [$($schema)* .field((stringify!($field), concat!($($json)?)), &[$($fdoc),*], false,
                <$ty as $crate::wire::Described>::schema(), karmada_apimachinery::json!({ $( "+": $facts )? })["+"].take())]
            [$($form)* .field((stringify!($field), concat!($($json)?)), true, <$ty as $crate::wire::Described>::form())] $($rest)*);
    };
    (@fields $name:ident $doc:tt [$($rust:tt)*] [$($schema:tt)*] [$($form:tt)*]
        $(#[doc = $fdoc:literal])* $field:ident $(as $json:literal)? : $ty:ty $(= $facts:tt)?, $($rest:tt)*) => {
        $crate::wire::wire!(@fields $name $doc
            [$($rust)* $(#[doc = $fdoc])* $(#[serde(rename = $json)])?
             #[serde(deserialize_with = "crate::wire::null_as_zero")] pub $field: $ty,]
            [$($schema)* .field((stringify!($field), concat!($($json)?)), &[$($fdoc),*], true,
                <$ty as $crate::wire::Described>::schema(), karmada_apimachinery::json!({ $( "+": $facts )? })["+"].take())]
            [$($form)* .field((stringify!($field), concat!($($json)?)), true, <$ty as $crate::wire::Described>::form())] $($rest)*);
    };
    (@fields $name:ident [[$($doc:literal,)*] [$($facts:tt)?]] [$($rust:tt)*] [$($schema:tt)*] [$($form:tt)*]) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name { $($rust)* }

        impl $crate::wire::Described for $name {
            fn schema() -> karmada_apimachinery::Value {
                $crate::wire::ObjectSchema::new(&[$($doc),*], <Self as $crate::wire::Described>::go_type())
                    $($schema)*
                    .build(karmada_apimachinery::json!({ $( "+": $facts )? })["+"].take())
            }
            fn go_type() -> String {
                concat_package(stringify!($name))
            }
            fn form() -> $crate::form::Form {
                $crate::form::StructForm::default() $($form)* .build()
            }
        }
    };
}
pub(crate) use wire;

/// States the Go package the structs of a module live in; used by [`wire!`] and [`text!`].
macro_rules! go_package {
    ($package:literal) => {
        fn concat_package(name: &str) -> String {
            format!("{}.{name}", $package)
        }
    };
}
pub(crate) use go_package;

/// Defines an open set of words: known ones are variants, others are kept as they came.
macro_rules! text {
    ($( $(#[doc = $doc:literal])* pub enum $name:ident { $( $(#[doc = $vdoc:literal])* $variant:ident $(= $word:literal)? ),* $(,)? } )*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            /// Nothing was said.
            #[default]
            Unset,
            $( $(#[doc = $vdoc])* $variant, )*
            /// A word this version does not know.
            Other(String),
        }

        impl $name {
            /// The words with a meaning, in their documented order.
            pub const KNOWN: &'static [&'static str] = &[$( $crate::wire::text!(@word $variant $($word)?) ),*];

            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unset => "",
                    $( Self::$variant => $crate::wire::text!(@word $variant $($word)?), )*
                    Self::Other(word) => word,
                }
            }

            pub fn is_unset(&self) -> bool {
                matches!(self, Self::Unset)
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    "" => Self::Unset,
                    $( $crate::wire::text!(@word $variant $($word)?) => Self::$variant, )*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }

        impl $crate::wire::Described for $name {
            fn schema() -> karmada_apimachinery::Value {
                karmada_apimachinery::json!({"type": "string", $crate::wire::GO_TYPE: Self::go_type()})
            }
            fn go_type() -> String {
                concat_package(stringify!($name))
            }
            fn form() -> $crate::form::Form {
                $crate::form::Form::Text
            }
        }
    )*};
    (@word $variant:ident) => { stringify!($variant) };
    (@word $variant:ident $word:literal) => { $word };
}
pub(crate) use text;

#[cfg(test)]
#[allow(unreachable_pub, dead_code, reason = "the macros make whole public types")]
mod tests {
    use super::*;

    go_package!("v1alpha1");

    text! {
        /// A fruit.
        pub enum Fruit { Apple, WildCherry = "cherry" }
    }

    wire! {
        /// A basket
        /// of things.
        pub struct Basket {
            /// What is inside.
            fruit: Fruit = {"enum": ["Apple", "cherry"]},
            /// How many.
            item_count?: i32,
            /// The lid.
            lid+: Lid,
            flatten handle: Handle,
            owner_url as "ownerURL"?: String,
        }
        pub struct Lid {
            colour?: Option<String>,
        }
        pub struct Handle {
            length: i64,
        }
    }

    #[test]
    fn zero_values_are_left_out_but_structs_are_not() {
        let basket = Basket::default();
        assert_eq!(serde_json::to_string(&basket).unwrap(), r#"{"fruit":"","lid":{},"length":0}"#);
        let text =
            r#"{"fruit":"cherry","itemCount":2,"lid":{"colour":""},"length":3,"ownerURL":"x"}"#;
        let basket: Basket = serde_json::from_str(text).unwrap();
        assert_eq!(basket.fruit, Fruit::WildCherry);
        assert_eq!(serde_json::to_string(&basket).unwrap(), text);
    }

    #[test]
    fn nulls_read_as_zero_and_unknown_words_survive() {
        let value = json!({"fruit": "Fig", "itemCount": null, "lid": null, "length": 1});
        let basket: Basket = karmada_apimachinery::from_value(value).unwrap();
        assert_eq!(basket.fruit, Fruit::Other("Fig".into()));
        assert_eq!(basket.item_count, 0);
    }

    #[test]
    fn schema_says_what_serde_does() {
        let schema = Basket::schema();
        assert_eq!(schema["required"], json!(["fruit", "length"]));
        assert_eq!(schema["description"], "A basket of things.");
        assert_eq!(schema["properties"]["fruit"]["enum"], json!(["Apple", "cherry"]));
        assert_eq!(schema["properties"]["itemCount"]["description"], "How many.");
        assert_eq!(schema["properties"]["ownerURL"]["type"], "string");
        assert_eq!(schema["properties"]["lid"][GO_TYPE], "v1alpha1.Lid");
    }

    #[test]
    fn times_have_second_precision() {
        let time: Time =
            karmada_apimachinery::from_value(json!("2020-01-02T03:04:05.678+02:00")).unwrap();
        assert_eq!(karmada_apimachinery::to_value(time).unwrap(), "2020-01-02T01:04:05Z");
    }
}
