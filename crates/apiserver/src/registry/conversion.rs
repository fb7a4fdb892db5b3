//! Conversion webhooks: another program rewrites the objects of a custom kind into another version.
//!
//! Only what a version holds is theirs to say. Names, owners and everything else in the metadata stay as they were,
//! labels and annotations aside.

use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

use crate::admission::webhooks::Client;
use crate::auth::Objects;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Versions of the review that are spoken here, the ones webhooks should have first.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// The program that converts one kind.
pub struct ConversionWebhook {
    config: Value,
    review: &'static str,
    client: Arc<Client>,
    objects: Arc<dyn Objects>,
}

impl ConversionWebhook {
    /// The webhook a definition names, if it names one.
    pub(crate) fn of(
        definition: &Value,
        client: &Arc<Client>,
        objects: &Arc<dyn Objects>,
    ) -> Option<Self> {
        let conversion = definition.at(&["spec", "conversion"])?;
        if conversion.str_at(&["strategy"]) != Some("Webhook") {
            return None;
        }
        let offered = conversion.list_at(&["webhook", "conversionReviewVersions"]);
        let spoken = offered
            .iter()
            .find_map(|offer| REVIEWS.into_iter().find(|own| offer.as_str() == Some(own)));
        Some(Self {
            config: conversion.at(&["webhook", "clientConfig"])?.clone(),
            review: spoken.unwrap_or(REVIEWS[0]),
            client: client.clone(),
            objects: objects.clone(),
        })
    }

    /// Rewrites all objects that are in another version, in one call.
    pub(crate) async fn convert(
        &self,
        objects: &mut [Value],
        api_version: &str,
    ) -> Result<(), String> {
        let mut foreign: Vec<&mut Value> =
            objects.iter_mut().filter(|object| object.api_version() != api_version).collect();
        let Some(first) = foreign.first() else { return Ok(()) };
        // Compat: errors name the kind of the list when there is one, the kind of the object here.
        let what = format!("conversion webhook for {}", shown_kind(first));
        let sent: Vec<&Value> = foreign.iter().map(|object| &**object).collect();
        let converted = self
            .ask(&json!(sent), api_version)
            .await
            .map_err(|why| format!("{what} failed: {why}"))?;
        if converted.len() != foreign.len() {
            let (got, wanted) = (converted.len(), foreign.len());
            return Err(format!("{what} returned {got} objects, expected {wanted}"));
        }
        for (index, (original, converted)) in foreign.iter_mut().zip(converted).enumerate() {
            let invalid = |why: String| {
                format!("{what} returned invalid converted object at index {index}: {why}")
            };
            **original = accept(original, converted, api_version).map_err(invalid)?;
        }
        Ok(())
    }

    async fn ask(&self, objects: &Value, api_version: &str) -> Result<Vec<Value>, String> {
        let uid = uuid::Uuid::new_v4().to_string();
        let of_review = format!("apiextensions.k8s.io/{}", self.review);
        let review = json!({
            "kind": "ConversionReview",
            "apiVersion": of_review,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        });
        let mut answer = self.client.post(&*self.objects, &self.config, &review, LIMIT).await?;
        let (said, kind) = (answer.api_version(), answer.kind());
        if (said, kind) != (of_review.as_str(), "ConversionReview") {
            return Err(format!(
                "expected webhook response of {of_review}, Kind=ConversionReview, got {said}, Kind={kind}"
            ));
        }
        let Some(response) = answer.get_mut("response").filter(|response| response.is_object())
        else {
            return Err("no response provided".to_owned());
        };
        let said = response.str_at(&["uid"]).unwrap_or_default();
        if said != uid {
            return Err(format!("expected response.uid={uid:?}, got {said:?}"));
        }
        let status = response.str_at(&["result", "status"]).unwrap_or_default();
        if status != "Success" {
            return Err(match response.str_at(&["result", "message"]) {
                Some(message) if !message.is_empty() => message.to_owned(),
                _ => format!("response.result.status was '{status}', not 'Success'"),
            });
        }
        Ok(match response.get_mut("convertedObjects").map(Value::take) {
            Some(Value::Array(converted)) => converted.to_vec(),
            _ => Vec::new(),
        })
    }
}

/// Checks that it is the same object in the version asked for, and gives it back its metadata.
fn accept(original: &Value, mut converted: Value, api_version: &str) -> Result<Value, String> {
    let said = converted.api_version();
    if said != api_version {
        return Err(format!("invalid groupVersion (expected {api_version}, received {said})"));
    }
    let same = [
        ("kind", original.kind(), converted.kind()),
        ("name", original.name(), converted.name()),
        ("namespace", original.namespace(), converted.namespace()),
        ("UID", original.uid(), converted.uid()),
    ];
    for (what, was, is) in same {
        if was != is {
            return Err(format!("must have the same {what}: {was} != {is}"));
        }
    }
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(|| json!({}));
    for theirs in ["labels", "annotations"] {
        let texts = converted.at(&["metadata", theirs]).filter(|texts| !texts.is_null());
        let is_text = |texts: &Value| {
            texts.as_object().is_some_and(|texts| texts.values().all(Value::is_string))
        };
        match texts {
            Some(texts) if !is_text(texts) => {
                return Err(format!("invalid metadata: metadata.{theirs} must hold texts"));
            }
            Some(texts) => metadata.set(&[theirs], texts.clone()),
            None => drop(metadata.remove_at(&[theirs])),
        }
    }
    converted.set(&["metadata"], metadata);
    Ok(converted)
}

fn shown_kind(object: &Value) -> String {
    format!("{}, Kind={}", object.api_version(), object.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_annotations_and_what_a_version_holds_are_theirs() {
        let original = json!({
            "apiVersion": "a/v1", "kind": "K",
            "metadata": {"name": "n", "uid": "u", "labels": {"a": "1"}, "finalizers": ["f"]},
            "spec": {"old": 1},
        });
        let converted = json!({
            "apiVersion": "a/v2", "kind": "K",
            "metadata": {"name": "n", "uid": "u", "labels": {"b": "2"}, "ownerReferences": [{}]},
            "spec": {"new": 1},
        });
        assert_eq!(
            accept(&original, converted, "a/v2"),
            Ok(json!({
                "apiVersion": "a/v2", "kind": "K",
                "metadata": {"name": "n", "uid": "u", "labels": {"b": "2"}, "finalizers": ["f"]},
                "spec": {"new": 1},
            }))
        );
    }

    #[test]
    fn another_object_is_not_accepted() {
        let original = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}});
        for (version, name, kind, why) in [
            ("a/v1", "n", "K", "invalid groupVersion (expected a/v2, received a/v1)"),
            ("a/v2", "m", "K", "must have the same name: n != m"),
            ("a/v2", "n", "L", "must have the same kind: K != L"),
        ] {
            let other = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
            assert_eq!(accept(&original, other, "a/v2"), Err(why.to_owned()));
        }
    }
}
