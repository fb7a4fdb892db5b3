//! Values of expressions. Lists and maps are shared, so passing them on is cheap.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value as Json;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::time::{format_go_duration, format_time};

use crate::library::{Semver, Url};

#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Value>>),
    Map(Arc<BTreeMap<Key, Value>>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    Type(Arc<str>),
    Optional(Option<Arc<Value>>),
    Struct(Arc<Struct>),
    Quantity(Arc<Quantity>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    /// A named format of Kubernetes.
    Format(&'static str),
}

/// What a structure literal such as `Object{…}` makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Struct {
    pub name: String,
    pub fields: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    UInt(u64),
    String(Arc<str>),
}

impl Key {
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Bool(v) => Value::Bool(*v),
            Self::Int(v) => Value::Int(*v),
            Self::UInt(v) => Value::UInt(*v),
            Self::String(v) => Value::String(v.clone()),
        }
    }

    /// A key as an error names it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Bool(v) => v.to_string(),
            Self::Int(v) => v.to_string(),
            Self::UInt(v) => v.to_string(),
            Self::String(v) => v.to_string(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl Value {
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn map(entries: impl IntoIterator<Item = (Key, Self)>) -> Self {
        Self::Map(Arc::new(entries.into_iter().collect()))
    }

    /// Reads JSON without a schema.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(v) => Self::Bool(*v),
            Json::Number(n) => match n.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::Double(n.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::String(text.as_str().into()),
            Json::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Json::Object(fields) => Self::map(
                fields.iter().map(|(k, v)| (Key::String(k.as_str().into()), Self::from_json(v))),
            ),
        }
    }

    /// Writes JSON; values JSON has no word for become text.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(v) => (*v).into(),
            Self::Int(v) => (*v).into(),
            Self::UInt(v) => (*v).into(),
            Self::Double(v) => (*v).into(),
            Self::String(v) => v.to_string().into(),
            Self::Bytes(v) => base64::engine::general_purpose::STANDARD.encode(v).into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| (key.shown(), value.to_json())).collect()
            }
            Self::Timestamp(time) => format_time(*time).into(),
            Self::Duration(duration) => format_go_duration(*duration).into(),
            Self::Optional(Some(inner)) => inner.to_json(),
            Self::Struct(of) => {
                of.fields.iter().map(|(key, value)| (key.clone(), value.to_json())).collect()
            }
            Self::Quantity(quantity) => quantity.canonical().into(),
            Self::Ip(ip) => ip.to_string().into(),
            Self::Cidr(ip, bits) => format!("{ip}/{bits}").into(),
            Self::Url(url) => url.text.clone().into(),
            Self::Semver(version) => version.to_string().into(),
            Self::Type(name) => name.to_string().into(),
            Self::Format(name) => (*name).into(),
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn to_key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(v) => Key::Bool(*v),
            Self::Int(v) => Key::Int(*v),
            // Numbers that are equal are one key, whatever their type.
            Self::UInt(v) => i64::try_from(*v).map_or(Key::UInt(*v), Key::Int),
            Self::Double(v) if v.fract() == 0.0 && v.abs() < 9e15 => Key::Int(*v as i64),
            Self::String(v) => Key::String(v.clone()),
            _ => return None,
        })
    }

    /// The name `type()` gives.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Struct(of) => &of.name,
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Whether it is what an absent field would be.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(v) => !v,
            Self::Int(v) => *v == 0,
            Self::UInt(v) => *v == 0,
            Self::Double(v) => *v == 0.0,
            Self::String(v) => v.is_empty(),
            Self::Bytes(v) => v.is_empty(),
            Self::List(v) => v.is_empty(),
            Self::Map(v) => v.is_empty(),
            Self::Duration(v) => v.is_zero(),
            _ => false,
        }
    }

    /// How large it is for costs: characters, elements, or one.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::String(v) => v.chars().count() as u64,
            Self::Bytes(v) => v.len() as u64,
            Self::List(v) => v.len() as u64,
            Self::Map(v) => v.len() as u64,
            _ => 1,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        use Value as V;
        match (self, other) {
            (V::Null, V::Null) => true,
            (V::Bool(a), V::Bool(b)) => a == b,
            (V::String(a), V::String(b)) => a == b,
            (V::Bytes(a), V::Bytes(b)) => a == b,
            (V::List(a), V::List(b)) => a == b,
            (V::Map(a), V::Map(b)) => a == b,
            (V::Timestamp(a), V::Timestamp(b)) => a == b,
            (V::Duration(a), V::Duration(b)) => a == b,
            (V::Type(a), V::Type(b)) => a == b,
            (V::Optional(a), V::Optional(b)) => a == b,
            (V::Struct(a), V::Struct(b)) => a == b,
            (V::Quantity(a), V::Quantity(b)) => a.nanos() == b.nanos(),
            (V::Ip(a), V::Ip(b)) => a == b,
            (V::Cidr(a, x), V::Cidr(b, y)) => a == b && x == y,
            (V::Url(a), V::Url(b)) => a == b,
            (V::Semver(a), V::Semver(b)) => a == b,
            (V::Format(a), V::Format(b)) => a == b,
            _ => crate::number::compare(self, other) == Some(std::cmp::Ordering::Equal),
        }
    }
}
