//! Which other objects a built-in kind needs beside it.

use karmada_api::config::DependentObjectReference;
use karmada_api::meta::LabelSelector;
use karmada_api::names::derived_service;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use crate::error::Result;
use crate::fields::{list, text, walk};
use crate::pod::{References, reference, template_references};

pub(super) fn workload(object: &Value) -> Result<Vec<DependentObjectReference>> {
    Ok(template_references(object, &["spec", "template"])?.into_list(object.namespace()))
}

pub(super) fn cron_job(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let template = &["spec", "jobTemplate", "spec", "template"];
    Ok(template_references(object, template)?.into_list(object.namespace()))
}

pub(super) fn pod(object: &Value) -> Result<Vec<DependentObjectReference>> {
    match walk(object, &["spec"])? {
        Some(spec) => {
            let references = References::of(spec).map_err(|e| e.under("spec"))?;
            Ok(references.into_list(object.namespace()))
        }
        None => Ok(Vec::new()),
    }
}

/// Claims made from the set's own templates are managed by the member.
pub(super) fn stateful_set(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut own = Vec::new();
    for template in list(object, &["spec", "volumeClaimTemplates"])? {
        own.push(text(template, &["metadata", "name"])?);
    }
    let mut references = template_references(object, &["spec", "template"])?;
    references.retain(|kind, name| kind != "PersistentVolumeClaim" || !own.contains(&name));
    Ok(references.into_list(object.namespace()))
}

/// Compat: an entry without a secret yields a reference without a name, which fails validation.
pub(super) fn ingress(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut references = Vec::new();
    for entry in list(object, &["spec", "tls"])? {
        references.push(reference("Secret", object.namespace(), text(entry, &["secretName"])?));
    }
    Ok(references)
}

pub(super) fn service_import(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let service = derived_service(object.name());
    let selector = LabelSelector {
        match_labels: [("kubernetes.io/service-name".to_owned(), service.clone())].into(),
        ..LabelSelector::default()
    };
    let slices = DependentObjectReference {
        api_version: "discovery.k8s.io/v1".to_owned(),
        kind: "EndpointSlice".to_owned(),
        namespace: object.namespace().to_owned(),
        name: String::new(),
        label_selector: Some(selector),
    };
    Ok(vec![slices, reference("Service", object.namespace(), &service)])
}
