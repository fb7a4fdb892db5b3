//! Deletion protection: an object with the label set to `Always` stays until the label goes.

use karmada_api::labels;
use karmada_apimachinery::object::ObjectExt;

use crate::request::{Denial, Environment, Operation, Request, Verdict};

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let protection = request.old_object.label(labels::DELETION_PROTECTED);
    if request.operation == Operation::Delete
        && protection == Some(labels::DELETION_PROTECTED_ALWAYS)
    {
        return Err(Denial::forbidden(format!(
            "This resource is protected, please make sure to remove the label: {}",
            labels::DELETION_PROTECTED
        )));
    }
    Ok(Verdict::default())
}
