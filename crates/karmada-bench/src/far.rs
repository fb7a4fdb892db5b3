//! Members on threads of their own, so that what they cost can be told apart from the control plane.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use http::{Request, Response};
use karmada_apiserver::http::body::Body as Answer;
use karmada_client::Body;
use tokio::runtime::Handle;

/// The name of their threads, within the length Linux keeps.
const THREADS: &str = "bench-members";

/// Runs members until it is dropped.
pub(crate) struct Elsewhere(Option<tokio::runtime::Runtime>);

impl Elsewhere {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_name(THREADS).enable_all().build();
        runtime.context("start the runtime of the members").map(|runtime| Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.as_ref().expect("there until it is dropped").handle().clone()
    }

    /// Processor time of the members so far.
    pub(crate) fn cpu_seconds() -> f64 {
        crate::table::cpu_seconds_of_threads(THREADS)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // It may be dropped inside of another runtime, which must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A service whose requests are answered there.
#[derive(Clone)]
pub(crate) struct Far<S> {
    pub(crate) service: S,
    pub(crate) there: Handle,
}

impl<S> tower::Service<Request<Body>> for Far<S>
where
    S: tower::Service<Request<Body>, Response = Response<Answer>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    type Response = Response<Answer>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Answer>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answered = self.there.spawn(self.service.call(request));
        Box::pin(async move { answered.await.map_err(io::Error::other)?.map_err(io::Error::other) })
    }
}
