//! Types of expressions. Texts, lists and maps carry how large they can get, for the estimate of costs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Nothing is known about the size.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub enum Type {
    /// Known only when it runs.
    Dyn,
    Null,
    Bool,
    Int,
    UInt,
    Double,
    String(u64),
    Bytes(u64),
    Timestamp,
    Duration,
    List(Arc<Type>, u64),
    Map(Arc<Type>, Arc<Type>, u64),
    Object(Arc<ObjectType>),
    Optional(Arc<Type>),
    Kind,
    /// A type of Kubernetes' libraries.
    Opaque(&'static str),
    /// A place in a signature that any type may take.
    Param(u8),
}

/// A type with named fields.
#[derive(Debug, Clone, Default)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    pub fn string() -> Self {
        Self::String(UNBOUNDED)
    }

    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of), UNBOUNDED)
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value), UNBOUNDED)
    }

    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
        Self::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
    }

    /// How large a value can get: characters, elements, or one.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::String(max) | Self::Bytes(max) | Self::List(_, max) | Self::Map(_, _, max) => {
                *max
            }
            Self::Dyn => UNBOUNDED,
            _ => 1,
        }
    }

    pub(crate) fn sized(&self, size: u64) -> Self {
        match self {
            Self::String(_) => Self::String(size),
            Self::Bytes(_) => Self::Bytes(size),
            Self::List(of, _) => Self::List(of.clone(), size),
            Self::Map(key, value, _) => Self::Map(key.clone(), value.clone(), size),
            other => other.clone(),
        }
    }

    /// Whether a value of the other type can stand here; binds parameters on the way.
    pub(crate) fn accepts(&self, other: &Self, bound: &mut BTreeMap<u8, Type>) -> bool {
        use Type as T;
        match (self, other) {
            (T::Param(name), _) => match bound.get(name).cloned() {
                None => {
                    bound.insert(*name, other.clone());
                    true
                }
                Some(T::Dyn) => true,
                Some(before) => {
                    let fits = before.accepts(other, bound);
                    if fits && matches!(other, T::Dyn) {
                        bound.insert(*name, T::Dyn);
                    }
                    fits
                }
            },
            (T::Dyn, _) | (_, T::Dyn) => true,
            (T::Null, T::Null)
            | (T::Bool, T::Bool)
            | (T::Int, T::Int)
            | (T::UInt, T::UInt)
            | (T::Double, T::Double)
            | (T::String(_), T::String(_))
            | (T::Bytes(_), T::Bytes(_))
            | (T::Timestamp, T::Timestamp)
            | (T::Duration, T::Duration)
            | (T::Kind, T::Kind) => true,
            // What has a message form may be absent.
            (
                T::Object(_) | T::Timestamp | T::Duration | T::Opaque(_) | T::Optional(_),
                T::Null,
            )
            | (
                T::Null,
                T::Object(_) | T::Timestamp | T::Duration | T::Opaque(_) | T::Optional(_),
            ) => true,
            (T::List(a, _), T::List(b, _)) => a.accepts(b, bound),
            (T::Map(ak, av, _), T::Map(bk, bv, _)) => {
                ak.accepts(bk, bound) && av.accepts(bv, bound)
            }
            (T::Optional(a), T::Optional(b)) => a.accepts(b, bound),
            (T::Object(a), T::Object(b)) => a.name == b.name,
            (T::Opaque(a), T::Opaque(b)) => a == b,
            _ => false,
        }
    }

    /// The type with its parameters filled in.
    pub(crate) fn filled(&self, bound: &BTreeMap<u8, Type>) -> Self {
        match self {
            Self::Param(name) => bound.get(name).cloned().unwrap_or(Self::Dyn),
            Self::List(of, size) => Self::List(Arc::new(of.filled(bound)), *size),
            Self::Map(key, value, size) => {
                Self::Map(Arc::new(key.filled(bound)), Arc::new(value.filled(bound)), *size)
            }
            Self::Optional(of) => Self::Optional(Arc::new(of.filled(bound))),
            other => other.clone(),
        }
    }

    /// The one type of two branches; what they do not share is dynamic.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        if matches!(self, Self::Dyn) || matches!(other, Self::Dyn) {
            return Some(Self::Dyn);
        }
        if !self.accepts(other, &mut BTreeMap::new()) {
            return None;
        }
        let kept = if matches!(self, Self::Null) { other } else { self };
        Some(kept.sized(self.size().max(other.size())))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::UInt => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String(_) => f.write_str("string"),
            Self::Bytes(_) => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of, _) => write!(f, "list({of})"),
            Self::Map(key, value, _) => write!(f, "map({key}, {value})"),
            Self::Object(of) => f.write_str(&of.name),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Kind => f.write_str("type"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(_) => f.write_str("<T>"),
        }
    }
}
