//! Signs the public `cluster-info` with every bootstrap token that may, so that a cluster that
//! joins with such a token can tell whether what it read is genuine.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Clock, Controller, Informer, InformerSpec, ObjectKey};

use crate::{Plane, bootstrap_token};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

#[derive(Debug, thiserror::Error)]
#[error("sign {NAMESPACE}/{NAME}")]
struct Error(#[source] karmada_client::Error);

struct Ctx {
    client: Client,
    clock: Clock,
    config_maps: Gvr,
    info: Arc<Informer>,
    tokens: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let config_maps = Gvr::new("", "v1", "configmaps");
    let info = InformerSpec::all(config_maps.clone())
        .namespaced(NAMESPACE)
        .with_fields(format!("metadata.name={NAME}"));
    let info = plane.informers.get(info);
    let tokens = plane.informers.get(bootstrap_token::secrets());
    let controller = Controller::new("bootstrap-signer-controller", &plane.metrics);
    // There is one thing to do, whatever changed.
    for informer in [&info, &tokens] {
        let queue = controller.queue().clone();
        plane.keep(informer.subscribe(move |_| queue.add(ObjectKey::new(NAMESPACE, NAME))));
    }
    let inputs = vec![info.clone(), tokens.clone()];
    let (client, clock) = (plane.client.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, config_maps, info, tokens });
    plane.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(info) = ctx.info.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let now = ctx.clock.now();
    let secrets: Vec<Value> =
        ctx.tokens.cache().list().iter().map(|object| object.value()).collect();
    let tokens = secrets.iter().filter_map(|secret| bootstrap_token::for_signing(secret, now));
    let Some(signed) = sign_info(info.value(), &tokens.collect()) else {
        return Ok(Action::AwaitChange);
    };
    let api = ctx.client.api(&ctx.config_maps).namespaced(NAMESPACE);
    match api.update(&signed).await {
        Ok(_) => Ok(Action::AwaitChange),
        // Whoever changed or deleted it wakes us again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Action::AwaitChange),
        Err(error) => Err(Error(error)),
    }
}

/// Returns the ConfigMap with exactly the signatures it should have; nothing if it has them.
fn sign_info(mut info: Value, tokens: &BTreeMap<String, String>) -> Option<Value> {
    let content = info.str_at(&["data", "kubeconfig"])?.to_owned();
    let before = info.get("data").cloned();
    let data = info.map_at_mut(&["data"]);
    data.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
    for (id, key) in tokens {
        data.insert(format!("{SIGNATURE_PREFIX}{id}"), detached_jws(&content, id, key).into());
    }
    (info.get("data") != before.as_ref()).then_some(info)
}

/// A JWS whose middle part, the content, is left out.
fn detached_jws(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": id}).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    format!("{header}..{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::time::parse_time;

    #[test]
    fn signatures_are_those_of_the_usable_tokens_and_no_others() {
        let info =
            json!({"data": {"kubeconfig": "x", "jws-kubeconfig-gone00": "old", "other": "y"}});
        let tokens = BTreeMap::from([("abcdef".to_owned(), "0123456789abcdef".to_owned())]);
        let signed = sign_info(info, &tokens).unwrap();
        let keys: Vec<_> = signed["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "kubeconfig", "other"]);
        assert_eq!(sign_info(signed, &tokens), None, "nothing is written twice");
        assert_eq!(sign_info(json!({"data": {}}), &tokens), None);
    }

    #[test]
    fn a_signature_leaves_the_content_out() {
        let parts: Vec<_> = detached_jws("content", "abcdef", "0123456789abcdef")
            .split('.')
            .map(str::to_owned)
            .collect();
        assert_eq!(parts[0], "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9");
        assert_eq!((parts.len(), parts[1].as_str(), parts[2].len()), (3, "", 43));
    }

    #[test]
    fn tokens_sign_only_when_they_may() {
        let now = parse_time("2026-01-01T00:00:00Z").unwrap();
        let signing = ("usage-bootstrap-signing", "true");
        let cases: [(&[(&str, &str)], bool); 5] = [
            (&[signing], true),
            (&[], false),
            (&[signing, ("expiration", "2026-01-02T00:00:00Z")], true),
            (&[signing, ("expiration", "2025-01-02T00:00:00Z")], false),
            (&[signing, ("expiration", "soon")], false),
        ];
        for (fields, usable) in cases {
            let secret = bootstrap_token::example("abcdef", fields);
            assert_eq!(bootstrap_token::for_signing(&secret, now).is_some(), usable, "{fields:?}");
        }
    }
}
