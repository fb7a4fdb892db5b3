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
use karmada_client::{Client, ListOptions, Object};
use karmada_interpreter::webhook::{Caller, Hook};
use karmada_interpreter::{Interpreter, Operation, Result, Source};
use karmada_signal::Signal;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::context::Context;

/// How long a resource has to be unknown to the API server until it counts as not served.
const ABSENCE: Duration = Duration::from_secs(10);

/// How often the API server is asked about a resource whose list has not come yet.
const LOOK: Duration = Duration::from_secs(1);

/// What the interpreter is configured by, and whether all of it is known. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Configuration {
    customizations: Signal<bool>,
    webhooks: Signal<bool>,
}

impl Configuration {
    /// Waits until the interpreter knows everything it is configured by. Whoever asks before that would
    /// take a kind for one that has no replicas, no dependencies and nothing to retain.
    pub(crate) async fn known(&self) {
        self.customizations.until(|known| *known).await;
        self.webhooks.until(|known| *known).await;
    }
}

/// Keeps the interpreter's knowledge equal to what is configured.
pub(crate) fn start(context: &Context) {
    let interpreter = context.interpreter.clone();
    let known = &context.interpretation.customizations;
    follow(context, known, move |all: &[Arc<ResourceInterpreterCustomization>]| {
        interpreter.set_customizations(all.iter().map(|customization| &**customization));
    });
    let interpreter = context.interpreter.clone();
    let known = &context.interpretation.webhooks;
    follow(context, known, move |all: &[Arc<ResourceInterpreterWebhookConfiguration>]| {
        interpreter.set_webhooks(all.iter().map(|configuration| &**configuration));
    });
}

/// Tells all objects of a kind, once they are complete and whenever one of them changes.
fn follow<K: Kind>(
    context: &Context,
    known: &Signal<bool>,
    tell: impl Fn(&[Arc<K>]) + Send + Sync + 'static,
) {
    let gvr = Gvr::new(K::GROUP, K::VERSION, K::PLURAL);
    let informer = context.informers.all(&gvr);
    let (own, known_now, turn) = (Arc::downgrade(&informer), known.clone(), Mutex::new(()));
    let tell = Arc::new(move || {
        let Some(informer) = own.upgrade().filter(|informer| informer.is_synced()) else { return };
        // One after the other, or an older state could be told last.
        let _turn = turn.lock();
        tell(&read::<K>(&informer.cache().list()));
        known_now.set(true);
    });
    let each = tell.clone();
    context.keep(informer.subscribe(move |_| each()));
    let whole = tell.clone();
    informer.after_every_list(move || whole());
    tell();
    let (client, known) = (context.client.clone(), known.clone());
    context.shutdown.spawn_until(async move {
        tokio::select! {
            biased;
            _ = known.until(|known| *known) => {}
            () = absence(&client, &gvr) => {
                tracing::info!(resource = %gvr, "the resource is not served, nothing is configured by it");
                known.set(true);
            }
        }
    });
}

/// Waits until the API server has said for a while that it has no such resource.
async fn absence(client: &Client, gvr: &Gvr) {
    let mut since = None;
    let options = ListOptions { limit: Some(1), ..ListOptions::default() };
    loop {
        tokio::time::sleep(LOOK).await;
        match client.api(gvr).list(&options).await {
            Err(error) if error.is_not_found() => {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= ABSENCE {
                    return;
                }
            }
            _ => since = None,
        }
    }
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

/// What a webhook said, or why it said nothing.
type Answer = std::result::Result<ResourceInterpreterContext, String>;

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

    fn call(&self, hook: &Hook, question: &ResourceInterpreterContext) -> Answer {
        let patience = Duration::from_secs(u64::try_from(hook.timeout_seconds()).unwrap_or(10));
        let (hook, body) = (hook.clone(), serde_json::to_vec(question));
        let body = body.map_err(|error| error.to_string())?;
        self.wait(patience, async move {
            let asked = tokio::time::timeout(patience, send(&hook, body)).await;
            asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
        })
    }
}

impl WebhookCaller {
    /// Waits for an answer on this thread. A worker of the runtime hands its other tasks to another one
    /// first; the exchange would be among them and never come to its turn.
    fn wait(
        &self,
        patience: Duration,
        exchange: impl Future<Output = Answer> + Send + 'static,
    ) -> Answer {
        let here = Handle::try_current().map(|here| here.runtime_flavor());
        if matches!(here, Ok(RuntimeFlavor::MultiThread)) {
            return tokio::task::block_in_place(|| exchange_on(&self.runtime, patience, exchange));
        }
        if self.runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            return exchange_on(&self.runtime, patience, exchange);
        }
        // The one thread there is may be this one.
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let alone = alone.map_err(|error| error.to_string())?;
        let exchanged = std::thread::spawn(move || alone.block_on(exchange)).join();
        exchanged.unwrap_or_else(|_| Err("the call to the webhook broke off".to_owned()))
    }
}

fn exchange_on(
    runtime: &Handle,
    patience: Duration,
    exchange: impl Future<Output = Answer> + Send + 'static,
) -> Answer {
    let (sender, answer) = mpsc::channel();
    runtime.spawn(async move {
        // Whoever asked may have stopped waiting.
        drop(sender.send(exchange.await));
    });
    // The exchange ends in time; the rest is for a runtime too busy to notice.
    let limit = patience + Duration::from_secs(5);
    answer.recv_timeout(limit).unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

async fn send(hook: &Hook, body: Vec<u8>) -> Answer {
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
