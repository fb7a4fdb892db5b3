//! Conversion of bindings between v1alpha1 and v1alpha2, and the ConversionReview around it.

use karmada_api::meta::Kind;
use karmada_api::work::{self, v1alpha1};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;

/// Converts a binding; other objects and versions are refused.
pub fn convert(object: &Value, to: &str) -> Result<Value, String> {
    let from = object.api_version();
    if from == to {
        return Ok(object.clone());
    }
    let (old, new) =
        (v1alpha1::ResourceBinding::api_version(), work::ResourceBinding::api_version());
    match object.kind() {
        "ResourceBinding" if from == old && to == new => {
            through::<v1alpha1::ResourceBinding, work::ResourceBinding>(object)
        }
        "ResourceBinding" if from == new && to == old => {
            through::<work::ResourceBinding, v1alpha1::ResourceBinding>(object)
        }
        "ClusterResourceBinding" if from == old && to == new => {
            through::<v1alpha1::ClusterResourceBinding, work::ClusterResourceBinding>(object)
        }
        "ClusterResourceBinding" if from == new && to == old => {
            through::<work::ClusterResourceBinding, v1alpha1::ClusterResourceBinding>(object)
        }
        kind => Err(format!("no conversion of {} from {from} to {to}", quote(kind))),
    }
}

fn through<From: Kind, To: Kind + for<'a> std::convert::From<&'a From>>(
    object: &Value,
) -> Result<Value, String> {
    let source: From = From::from_value(object).map_err(|e| e.to_string())?;
    To::from(&source).to_value().map_err(|e| e.to_string())
}

/// Answers a ConversionReview.
pub fn review(review: &Value) -> Value {
    let to = review.str_at(&["request", "desiredAPIVersion"]).unwrap_or_default();
    let converted: Result<Vec<Value>, String> =
        review.list_at(&["request", "objects"]).iter().map(|object| convert(object, to)).collect();
    let mut response = match converted {
        Ok(objects) => json!({"convertedObjects": objects, "result": {"status": "Success"}}),
        Err(message) => json!({
            "convertedObjects": [],
            "result": {"status": "Failure", "message": message},
        }),
    };
    response["uid"] = review.str_at(&["request", "uid"]).unwrap_or_default().into();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": response,
    })
}
