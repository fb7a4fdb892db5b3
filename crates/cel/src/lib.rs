//! The Common Expression Language as Kubernetes speaks it: [`compile`] turns text into a [`Program`] whose
//! types are known and whose cost is estimated, [`Program::run`] evaluates it under a [`Budget`].
//! [`schema`] applies it to the rules of custom resources.

mod ast;
mod check;
mod compile;
mod eval;
mod formatting;
mod functions;
mod lexer;
mod library;
mod number;
mod parser;
pub mod schema;
mod signatures;
mod source;
mod types;
mod value;

pub use compile::{Declarations, Program, compile};
pub use eval::{Bindings, Budget, Error};
pub use parser::is_reserved;
pub use types::{ObjectType, Type};
pub use value::{Key, Struct, Value};

#[cfg(test)]
mod tests;
