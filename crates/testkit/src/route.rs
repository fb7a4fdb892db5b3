//! The way to the members: whoever answers at an address now is asked, also after a member was
//! replaced by another one.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{Request, Response};
use karmada_apiserver::http::body::Body;
use karmada_member_sim::Sim;
use parking_lot::Mutex;
use tower::Service;

pub(crate) type Sims = Arc<Mutex<BTreeMap<String, Arc<Sim>>>>;

/// Every way to a member that was opened: its address, and something that lives as long as it is used.
pub(crate) type Ways = Arc<Mutex<Vec<(String, Weak<()>)>>>;

/// Requests to one address with the token of one service account.
#[derive(Clone)]
pub(crate) struct Route {
    sims: Sims,
    endpoint: String,
    token: String,
    _life: Arc<()>,
}

impl Route {
    pub(crate) fn open(sims: &Sims, ways: &Ways, endpoint: &str, token: &str) -> Self {
        let life = Arc::new(());
        ways.lock().push((endpoint.to_owned(), Arc::downgrade(&life)));
        let (endpoint, token) = (endpoint.to_owned(), token.to_owned());
        Self { sims: sims.clone(), endpoint, token, _life: life }
    }

    fn sim(&self) -> Option<Arc<Sim>> {
        let sims = self.sims.lock();
        sims.values().find(|sim| sim.endpoint() == self.endpoint).cloned()
    }
}

impl<B> Service<Request<B>> for Route
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let sim = self.sim().map(|sim| sim.network().with_token(&self.token));
        match sim {
            Some(mut network) => network.call(request),
            None => Box::pin(async { Err(io::Error::from(io::ErrorKind::ConnectionRefused)) }),
        }
    }
}
