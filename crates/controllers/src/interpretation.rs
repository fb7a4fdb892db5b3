//! Tells the interpreter what customizations and webhooks there are, and carries its questions to
//! webhooks over HTTPS.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use karmada_api::Kind;
use karmada_api::config::{
    ResourceInterpreterContext, ResourceInterpreterCustomization,
    ResourceInterpreterWebhookConfiguration,
};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Object;
use karmada_interpreter::webhook::{Caller, Hook};
use karmada_interpreter::{Interpreter, Operation, Result, Source};
use tokio::runtime::Handle;

use crate::context::Context;

/// Keeps the interpreter's knowledge equal to what is configured.
pub(crate) fn start(context: &Context) {
    let informer = context.informers.all(&Gvr::new(
        ResourceInterpreterCustomization::GROUP,
        ResourceInterpreterCustomization::VERSION,
        ResourceInterpreterCustomization::PLURAL,
    ));
    let (interpreter, own) = (context.interpreter.clone(), Arc::downgrade(&informer));
    context.keep(informer.subscribe(move |_| {
        let Some(informer) = own.upgrade() else { return };
        let all = read::<ResourceInterpreterCustomization>(&informer.cache().list());
        interpreter.set_customizations(all.iter().map(|customization| &**customization));
    }));
    let informer = context.informers.all(&Gvr::new(
        ResourceInterpreterWebhookConfiguration::GROUP,
        ResourceInterpreterWebhookConfiguration::VERSION,
        ResourceInterpreterWebhookConfiguration::PLURAL,
    ));
    let (interpreter, own) = (context.interpreter.clone(), Arc::downgrade(&informer));
    context.keep(informer.subscribe(move |_| {
        let Some(informer) = own.upgrade() else { return };
        let all = read::<ResourceInterpreterWebhookConfiguration>(&informer.cache().list());
        interpreter.set_webhooks(all.iter().map(|configuration| &**configuration));
    }));
}

fn read<K: Kind>(objects: &[Arc<Object>]) -> Vec<Arc<K>> {
    objects.iter().filter_map(|object| object.typed::<K>().ok()).collect()
}

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

/// Carries questions to webhooks over HTTPS.
pub struct WebhookCaller {
    runtime: Handle,
}

impl WebhookCaller {
    /// Must be called inside the runtime that is to do the work.
    #[expect(clippy::new_without_default, reason = "it needs a runtime around it")]
    pub fn new() -> Self {
        Self { runtime: Handle::current() }
    }
}

impl Caller for WebhookCaller {
    fn fresh_uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn call(
        &self,
        hook: &Hook,
        question: &ResourceInterpreterContext,
    ) -> std::result::Result<ResourceInterpreterContext, String> {
        let patience = Duration::from_secs(u64::try_from(hook.timeout_seconds()).unwrap_or(10));
        let (hook, body) = (hook.clone(), serde_json::to_vec(question));
        let body = body.map_err(|error| error.to_string())?;
        let (sender, answer) = mpsc::channel();
        self.runtime.spawn(async move {
            let asked = tokio::time::timeout(patience, send(&hook, body)).await;
            let asked = asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
            // Whoever asked may have stopped waiting.
            drop(sender.send(asked));
        });
        // The call above ends in time; the rest is for a runtime too busy to notice.
        let limit = patience + Duration::from_secs(5);
        answer.recv_timeout(limit).unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

async fn send(
    hook: &Hook,
    body: Vec<u8>,
) -> std::result::Result<ResourceInterpreterContext, String> {
    let url = address(hook)?;
    let uri: http::Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let authority = uri.authority().ok_or_else(|| format!("{url} names no host"))?;
    let server = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
    let server = server.parse().map_err(|error| format!("{server}: {error}"))?;
    let mut config = kube::Config::new(server);
    // Whoever asks tries again by itself.
    config.default_retry = false;
    if let Some(bundle) = trusted(hook)? {
        config.root_cert = Some(bundle);
    }
    let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
    let request = Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json")
        .body(body)
        .map_err(|error| error.to_string())?;
    client.request(request).await.map_err(|error| error.to_string())
}

/// Where the webhook listens: its URL, or the name of its service.
fn address(hook: &Hook) -> std::result::Result<String, String> {
    let client = &hook.webhook.client_config;
    if let Some(url) = client.url.as_ref().filter(|url| !url.is_empty()) {
        return Ok(url.clone());
    }
    let service = client.service.as_ref().ok_or("neither url nor service is given")?;
    let path = service.path.as_deref().unwrap_or_default();
    let port = service.port.unwrap_or(443);
    Ok(format!("https://{}.{}.svc:{port}{path}", service.name, service.namespace))
}

/// The certificates the webhook is trusted by.
fn trusted(hook: &Hook) -> std::result::Result<Option<Vec<Vec<u8>>>, String> {
    let bundle = &hook.webhook.client_config.ca_bundle.0;
    if bundle.is_empty() {
        return Ok(None);
    }
    let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
    let pem = String::from_utf8(pem).map_err(|error| format!("caBundle: {error}"))?;
    let mut certificates = Vec::new();
    for block in pem.split("-----BEGIN CERTIFICATE-----").skip(1) {
        let body = block.split("-----END CERTIFICATE-----").next().unwrap_or_default();
        let text: String = body.chars().filter(|letter| !letter.is_whitespace()).collect();
        certificates.push(STANDARD.decode(text).map_err(|error| format!("caBundle: {error}"))?);
    }
    Ok(Some(certificates))
}
