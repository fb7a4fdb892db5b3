//! The vocabulary of a Kubernetes API as plain values: objects, names, selectors, quantities,
//! patches, schemas, errors. Nothing here does I/O or reads the clock.
//!
//! Objects are [`Value`] trees with sorted keys; they live for the duration of one request or decision.

pub mod crd;
pub mod cron;
pub mod decode;
pub mod field;
pub mod gvk;
pub mod int_or_string;
pub mod jsonpath;
pub mod managed;
pub mod names;
pub mod object;
pub mod openapi;
pub mod pairs;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod readable;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;
pub mod value;
pub mod yaml;

pub use value::{Map, Value, from_value, to_value};
