//! Tells the interpreter what customizations and webhooks there are, and carries its questions to
//! webhooks.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_interpreter::{Interpreter, Operation, Result, Source};

/// Asks the interpreter. Most questions are answered at once; those for a webhook block, so they
/// are asked on a thread of their own.
pub async fn ask<T: Send + 'static>(
    interpreter: &Arc<Interpreter>,
    operation: Operation,
    object: &Value,
    question: impl FnOnce(&Interpreter, &Value) -> Result<T> + Send + 'static,
) -> Result<T> {
    if interpreter.source(&object.gvk(), operation) != Some(Source::Webhook) {
        return question(interpreter, object);
    }
    let (interpreter, object) = (interpreter.clone(), object.clone());
    let asked = tokio::task::spawn_blocking(move || question(&interpreter, &object));
    match asked.await {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
