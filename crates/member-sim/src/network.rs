//! The network between a member and everybody outside it, with the faults set at the time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::http::body::{self, Body};

use crate::faults::{Faults, Link, Trouble};

/// The member as it is seen from outside: a service for clients of the same process.
#[derive(Clone)]
pub struct Network {
    handle: Handle,
    faults: Faults,
    credentials: Credentials,
}

#[derive(Clone)]
enum Credentials {
    /// Whatever the request carries.
    Own,
    Identity(Arc<Identity>),
    Token(HeaderValue),
}

impl Network {
    pub(crate) fn new(handle: Handle, faults: Faults) -> Self {
        Self { handle, faults, credentials: Credentials::Own }
    }

    /// Every request comes from this user.
    pub fn acting_as(mut self, identity: Identity) -> Self {
        self.credentials = Credentials::Identity(Arc::new(identity));
        self
    }

    /// Every request carries this token.
    pub fn with_token(mut self, token: &str) -> Self {
        // What is no token at all is refused by the server like any wrong one.
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        self.credentials =
            Credentials::Token(value.unwrap_or_else(|_| HeaderValue::from_static("Bearer -")));
        self
    }

    /// Sends a request through whatever is wrong with the network.
    pub async fn answer(&self, mut request: Request<Body>) -> io::Result<Response<Body>> {
        match &self.credentials {
            Credentials::Own => {}
            Credentials::Identity(identity) => {
                request.extensions_mut().insert(identity.clone());
            }
            Credentials::Token(value) => {
                request.headers_mut().insert(header::AUTHORIZATION, value.clone());
            }
        }
        let now = until_through(&self.faults, Passing::Request).await?;
        if !now.latency.is_zero() {
            tokio::time::sleep(now.latency).await;
            until_through(&self.faults, Passing::Request).await?;
        }
        if self.faults.draws_error(now.error_rate) {
            return Ok(body::refusal(&Status::internal("a fault was injected")));
        }
        if now.webhook_denies && is_admitted(&request) {
            return Ok(body::refusal(&denial()));
        }
        if now.empty_lists {
            select_nothing(&mut request);
        }
        let answered = tokio::select! {
            biased;
            error = cut(&self.faults) => return Err(error),
            answered = self.handle.answer(request) => answered,
        };
        // A black hole swallows the answer just as well.
        until_through(&self.faults, Passing::Request).await?;
        Ok(answered.map(|answer| guarded(answer, self.faults.clone(), now.empty_lists)))
    }
}

impl<B> tower::Service<Request<B>> for Network
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(|body| body.map_err(io::Error::other).boxed_unsync());
        let own = self.clone();
        Box::pin(async move { own.answer(request).await })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Passing {
    Request,
    /// A piece of an answer that comes bit by bit.
    Stream,
}

/// Waits until something can pass; fails at once while there is no way at all.
async fn until_through(faults: &Faults, what: Passing) -> io::Result<Arc<Trouble>> {
    let passes_or_fails = |now: &Trouble| match now.link {
        Link::Up | Link::Partitioned => true,
        Link::BlackHole => false,
        Link::Frozen => what == Passing::Request,
    };
    let now = faults.until(passes_or_fails).await;
    if now.link == Link::Partitioned { Err(refused()) } else { Ok(now) }
}

/// Ends when the member is cut off.
async fn cut(faults: &Faults) -> io::Error {
    faults.until(|now| now.link == Link::Partitioned).await;
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}

/// Makes a list or watch ask for what does not exist, so that its answer is whole, true in form and
/// empty.
fn select_nothing(request: &mut Request<Body>) {
    let query = request.uri().query().unwrap_or_default();
    let lists = ["limit=", "watch=", "resourceVersionMatch=", "labelSelector="];
    if request.method() != http::Method::GET || !lists.iter().any(|word| query.contains(word)) {
        return;
    }
    let kept = query.split('&').filter(|pair| !pair.starts_with("labelSelector="));
    let kept: String = kept.flat_map(|pair| [pair, "&"]).collect();
    let path = request.uri().path();
    let target = format!("{path}?{kept}labelSelector=simulated.karmada.io%2Fnothing%3Dtrue");
    if let Ok(uri) = target.parse() {
        *request.uri_mut() = uri;
    }
}

/// Whether admission has a say: not in who somebody is and what they may do.
fn is_admitted(request: &Request<Body>) -> bool {
    use http::Method;
    let reviews = ["/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"];
    let path = request.uri().path();
    matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH)
        && !reviews.iter().any(|reviews| path.starts_with(reviews))
}

fn denial() -> Status {
    let message = "admission webhook \"guard.simulated.karmada.io\" denied the request: not today";
    Status::new(403, "Forbidden", message)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "connect: connection refused")
}

/// An answer that stalls and breaks as the network does. What is whole already passes as it is.
fn guarded(answer: Body, faults: Faults, empty: bool) -> Body {
    use http_body::Body as _;
    if answer.size_hint().exact().is_some() {
        return answer;
    }
    let pieces =
        stream::unfold(Some((answer, faults)), move |state: Option<(Body, Faults)>| async move {
            let (mut answer, faults) = state?;
            let piece = tokio::select! {
                biased;
                error = cut(&faults) => return Some((Err(error), None)),
                // What it tells from here on would not fit what it told before.
                _ = faults.until(|now| now.empty_lists != empty) => return None,
                piece = answer.frame() => piece?,
            };
            match until_through(&faults, Passing::Stream).await {
                Ok(_) => Some((piece, Some((answer, faults)))),
                Err(error) => Some((Err(error), None)),
            }
        });
    StreamBody::new(pieces).boxed_unsync()
}
