//! The whole of admission in order: built-in and embedded steps, pod security, policies, webhooks, quotas; first those that
//! change the object, then those that judge what will be stored.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::status::Status;
use karmada_kinds::admission::service_account_name;

use super::request::Subject;
use super::{Attributes, Operation, matching, policies, quota, security, webhooks};
use crate::call::Call;
use crate::handlers::write::store_error;
use crate::server::Handle;

/// Lets every step change the object or refuse the write.
pub(crate) async fn admit(
    call: &Call,
    attributes: &Attributes,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    know_what_it_needs(call, attributes, object).await?;
    for warning in call.state.admission.admit(attributes, object, old)? {
        call.warn(warning);
    }
    if matching::is_exempt(&attributes.gvk.group, &attributes.resource) {
        return Ok(());
    }
    let mut hooks = webhooks::mutating(call);
    if hooks.is_empty() && !policies::may_mutate(call) {
        return Ok(());
    }
    let before = object.clone();
    policies::mutate(call, attributes, object, old, policies::Round::First).await?;
    hooks.run(call, attributes, object, old).await?;
    if *object != before {
        // Whoever saw the object before others changed it may ask to see it again, once.
        policies::mutate(call, attributes, object, old, policies::Round::Second).await?;
        hooks.run_again(call, attributes, object, old).await?;
    }
    Ok(())
}

/// A namespace that is not known, or the account of a pod, may have been made a moment ago, by others
/// or through another server.
async fn know_what_it_needs(
    call: &Call,
    attributes: &Attributes,
    object: &Value,
) -> Result<(), Status> {
    let namespace = attributes.namespace.as_str();
    if attributes.operation != Operation::Create || namespace.is_empty() {
        return Ok(());
    }
    let knows = |resource: &str, namespace: &str, name: &str| {
        call.state.objects.exists(&GroupResource::new("", resource), namespace, name)
    };
    let is_pod = attributes.gvk.group.is_empty()
        && attributes.gvk.kind == "Pod"
        && attributes.subresource.is_empty();
    let account = || knows("serviceaccounts", namespace, service_account_name(object));
    if !knows("namespaces", "", namespace) || (is_pod && !account()) {
        call.state.caches.catch_up().await.map_err(store_error)?;
    }
    Ok(())
}

/// Lets every step look at what is about to be stored, in the version served.
pub(crate) async fn validate(
    call: &Call,
    attributes: &Attributes,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    for warning in call.state.admission.validate(attributes, object, old)? {
        call.warn(warning);
    }
    if !matching::is_exempt(&attributes.gvk.group, &attributes.resource) {
        let subject = Subject { call, attributes, object, old };
        security::check(&subject)?;
        policies::validate(&subject).await?;
        webhooks::validate(&subject).await?;
        quota::reserve(&subject).await?;
    }
    if attributes.dry_run {
        return Ok(());
    }
    let server = Handle::of(call.state.clone());
    call.state.admission.settle(&server, attributes, object, old).await
}
