//! What a kind of object means to Karmada: how many replicas it asks for and what they need, whether it is
//! healthy, which part of its status matters, how statuses add up, and what it depends on.
//!
//! [`Interpreter`] is the way in. Four answerers are asked in order, per question, and the first that knows
//! the kind answers: customizations (scripts of users, [`lua`]), webhooks ([`webhook`]), bundled knowledge
//! about well-known custom kinds (`thirdparty`) and the built-in kinds (`native`).
//! Nothing here does I/O or reads the clock: the clock and the caller of webhooks are arguments.

mod customization;
mod dependency;
mod error;
#[cfg(test)]
mod examples;
mod fields;
mod interpreter;
pub mod lua;
mod native;
mod operation;
mod pod;
mod rules;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod thirdparty;
pub mod webhook;

pub use customization::Customizations;
pub use error::{Error, Result};
pub use interpreter::{Clock, Gates, Interpreter, Source};
pub use operation::Operation;
pub use rules::Replicas;
