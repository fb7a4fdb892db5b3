//! Ways to a server, and the one path all requests take.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Collected};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_handover::{Asked, Content, Reply, Server};
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::{BoxError, Service, ServiceBuilder};

use crate::api::Api;
use crate::error::{ApiError, Error, Result};
use crate::request::spelled_out;
use crate::tunnel::{Connector, Proxy};

/// Stands between a client and its server: may delay, refuse or time requests.
pub trait Warden: Send + Sync + 'static {
    /// Sends the request through `connection`, or not.
    fn send<'a>(
        &'a self,
        request: Request<Body>,
        connection: &'a kube::Client,
    ) -> BoxFuture<'a, Result<Response<Body>, BoxError>>;

    /// Resolves when a watch that is opened now should end and be opened again.
    fn watch_end(&self) -> BoxFuture<'static, ()>;
}

/// A connection to one API server. Cloning is cheap and shares it.
#[derive(Clone)]
pub struct Client(Arc<Way>);

/// How the server is reached.
#[derive(Clone)]
struct Way {
    kube: kube::Client,
    user_agent: Option<HeaderValue>,
    warden: Option<Arc<dyn Warden>>,
    /// Set where the server is one of the same process that takes and gives objects as they are.
    beside: Option<Arc<dyn Server>>,
}

impl Client {
    pub fn new(kube: kube::Client) -> Self {
        Self(Arc::new(Way { kube, user_agent: None, warden: None, beside: None }))
    }

    fn way_mut(&mut self) -> &mut Way {
        Arc::make_mut(&mut self.0)
    }

    /// Lets every request go through `warden`; those made through [`Client::kube`] do not.
    pub fn with_warden(mut self, warden: Arc<dyn Warden>) -> Self {
        self.way_mut().warden = Some(warden);
        self
    }

    /// Names the program in every request. Servers record it as the manager of what it writes.
    pub fn with_user_agent(mut self, name: &str) -> Self {
        self.way_mut().user_agent = HeaderValue::from_str(name).ok();
        self
    }

    /// Calls a server of the same process; nothing goes over a socket.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new(kube::Client::new(service, "default"))
    }

    /// Calls an API server of the same process that takes and gives objects as they are: nothing becomes
    /// text on the way. As a service it is asked for what is no request about a resource, and for watches.
    pub fn beside<S, B>(server: S) -> Self
    where
        S: Server + Service<Request<Body>, Response = Response<B>> + Clone,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut client = Self::in_process(server.clone());
        client.way_mut().beside = Some(Arc::new(server));
        client
    }

    /// Whether objects are handed over as they are.
    pub(crate) fn is_beside(&self) -> bool {
        self.0.beside.is_some()
    }

    pub fn from_config(mut config: kube::Config) -> Result<Self> {
        if let Some(url) = config.proxy_url.take() {
            let proxy = Proxy::new(&url.to_string(), &BTreeMap::new());
            return Self::from_config_through(
                config,
                proxy.map_err(|error| Error::Config(error.into()))?,
            );
        }
        // A write that timed out may have been made, and who calls a server knows better for how
        // long an answer is worth waiting for: nothing is sent twice on its own.
        config.default_retry = false;
        kube::Client::try_from(config).map(Self::new).map_err(|error| Error::Config(error.into()))
    }

    /// Goes through a proxy, whatever the configuration says about one.
    pub fn from_config_through(config: kube::Config, proxy: Proxy) -> Result<Self> {
        let unusable = |error: kube::Error| Error::Config(error.into());
        let connector = Connector(Arc::new(proxy));
        let connector =
            config.rustls_https_connector_with_connector(connector).map_err(unusable)?;
        let connection = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer().map_err(unusable)?)
            .map_err(BoxError::from)
            .service(connection);
        Ok(Self::new(kube::Client::new(service, config.default_namespace)))
    }

    /// Uses a kubeconfig file, with its current context unless one is named.
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(path).map_err(|error| Error::Config(error.into()))?;
        Self::from_kubeconfig_value(kubeconfig, context).await
    }

    /// Uses a kubeconfig file for credentials and another address for the server.
    pub async fn from_kubeconfig_at(path: &Path, server: &str) -> Result<Self> {
        let mut kubeconfig =
            Kubeconfig::read_from(path).map_err(|error| Error::Config(error.into()))?;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(server.to_owned());
        }
        Self::from_kubeconfig_value(kubeconfig, None).await
    }

    pub async fn from_kubeconfig_value(
        kubeconfig: Kubeconfig,
        context: Option<&str>,
    ) -> Result<Self> {
        let options =
            KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| Error::Config(error.into()))?;
        Self::from_config(config)
    }

    /// Uses the service account of the pod this process runs in.
    pub fn in_cluster() -> Result<Self> {
        let config = kube::Config::incluster().map_err(|error| Error::Config(error.into()))?;
        Self::from_config(config)
    }

    /// Uses the kubeconfig of the user, or the service account of the pod.
    pub async fn infer() -> Result<Self> {
        let config = kube::Config::infer().await.map_err(|error| Error::Config(error.into()))?;
        Self::from_config(config)
    }

    pub(crate) fn warden(&self) -> Option<&dyn Warden> {
        self.0.warden.as_deref()
    }

    pub fn kube(&self) -> &kube::Client {
        &self.0.kube
    }

    /// Requests about all objects of a resource; narrow it with [`Api::namespaced`].
    pub fn api(&self, gvr: &Gvr) -> Api {
        Api::new(self.clone(), gvr.clone())
    }

    /// Reads any path of the server as JSON.
    pub async fn get_path(&self, path: &str, accept: &str) -> Result<Value> {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|error| Error::transport(format!("GET {path}"), error))?;
        self.request_json(request).await
    }

    /// Reads a path as it is sent.
    pub async fn get_text(&self, path: &str, accept: &str) -> Result<Bytes> {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty());
        let request = request.map_err(|error| Error::transport(format!("GET {path}"), error))?;
        self.request_bytes(request).await
    }

    /// Sends a request and returns the whole answer, or the error it carries.
    pub async fn request_bytes(&self, request: Request<Body>) -> Result<Bytes> {
        let attempt = Attempt::of(&request);
        let body = self.send(request).await?.into_body().collect().await;
        body.map(Collected::to_bytes).map_err(|error| attempt.failed(error))
    }

    pub async fn request_json(&self, request: Request<Body>) -> Result<Value> {
        let attempt = Attempt::of(&request);
        let text = self.request_bytes(request).await?;
        let read = serde_json::from_slice(&text);
        read.map_err(|source| Error::Decode { attempt: attempt.to_string(), source })
    }

    /// Asks about a resource, by a call where the server is one of the same process. The attempt is put into
    /// words only if it fails.
    pub(crate) async fn ask(
        &self,
        mut asked: Asked,
        attempt: impl FnOnce() -> String,
    ) -> Result<Content> {
        let Way { user_agent, warden, beside, .. } = &*self.0;
        let server = match (warden, beside) {
            (None, Some(server)) if asked.is_plain() => server,
            _ => return self.request_bytes(spelled_out(asked)?).await.map(Content::Text),
        };
        asked.agent.clone_from(user_agent);
        let reply = server.ask(asked).await;
        let Reply { code, content } = reply.map_err(|error| Error::transport(attempt(), error))?;
        match content {
            content if !is_refusal(code) => Ok(content),
            Content::Tree(value) => {
                Err(Error::Api(Box::new(ApiError::from_status(&value, code.as_u16()))))
            }
            Content::Text(text) => Err(Error::Api(Box::new(refusal(code, &text)))),
        }
    }

    /// Sends a request and returns its answer once it is known to be no error.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>> {
        let Way { kube, user_agent, warden, .. } = &*self.0;
        if let Some(name) = user_agent {
            request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| name.clone());
        }
        let attempt = Attempt::of(&request);
        let response = match warden {
            Some(warden) => warden.send(request, kube).await,
            None => kube.send(request).await.map_err(Into::into),
        };
        let response = response.map_err(|error| attempt.failed(error))?;
        let status = response.status();
        if !is_refusal(status) {
            return Ok(response);
        }
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| attempt.failed(error))?.to_bytes();
        Err(Error::Api(Box::new(refusal(status, &body))))
    }
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// What was asked, put into words only if it fails.
struct Attempt(Method, Uri);

impl Attempt {
    fn of(request: &Request<Body>) -> Self {
        Self(request.method().clone(), request.uri().clone())
    }

    fn failed(&self, source: impl Into<BoxError>) -> Error {
        Error::transport(self.to_string(), source)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(method, uri) = self;
        write!(f, "{method} {}", uri.path())
    }
}

/// Proxies answer in plain text, so whatever is no `Status` becomes the message.
fn refusal(status: StatusCode, body: &[u8]) -> ApiError {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.get("kind").is_some_and(|kind| kind == "Status") => {
            ApiError::from_status(&value, status.as_u16())
        }
        _ => ApiError {
            code: status.as_u16(),
            message: String::from_utf8_lossy(body).trim().to_owned(),
            ..ApiError::default()
        },
    }
}
