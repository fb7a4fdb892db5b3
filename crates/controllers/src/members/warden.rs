//! What stands between the control plane and a member: a rate, a time limit, and a breaker that
//! stops asking a member which does not answer. Watches wait behind the breaker and go on when the
//! member is back; every other request fails at once, so that nobody's queue fills up with waiting.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use karmada_client::{Body, Warden};
use karmada_signal::{Follow, Signal};
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Failures in a row after which a member counts as away.
const TOLERATED: u32 = 5;
/// How often one request may find out whether a member is back.
const TRIAL: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("cluster {0} does not answer; waiting until it does")]
    Away(String),
    #[error("cluster {cluster} did not answer within {seconds} s")]
    TimedOut { cluster: String, seconds: u64 },
}

/// How much may be asked of a member.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests per second; nothing is held back if it is zero.
    pub qps: f64,
    pub burst: f64,
    /// How long anything but a watch may take.
    pub timeout: Duration,
}

impl Default for Limits {
    /// The numbers of `--cluster-api-qps` and `--cluster-api-burst`.
    fn default() -> Self {
        Self { qps: 40.0, burst: 60.0, timeout: Duration::from_secs(32) }
    }
}

/// The guard of one member.
pub(super) struct MemberWarden {
    cluster: String,
    limits: Limits,
    bucket: Mutex<Bucket>,
    breaker: Mutex<Breaker>,
    /// Counts how often the member came back.
    returns: Signal<u64>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

#[derive(Debug)]
struct Breaker {
    failures: u32,
    next_trial: Instant,
}

/// What the breaker says to a request.
enum Verdict {
    Pass,
    Away { next_trial: Instant },
}

impl MemberWarden {
    pub(super) fn new(cluster: &str, limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            cluster: cluster.to_owned(),
            bucket: Mutex::new(Bucket { tokens: limits.burst, at: now }),
            limits,
            breaker: Mutex::new(Breaker { failures: 0, next_trial: now }),
            returns: Signal::new(0),
        }
    }

    /// Tells when the member is back after a time without an answer.
    pub(super) fn returns(&self) -> Follow<u64> {
        self.returns.follow()
    }

    fn is_away(&self) -> bool {
        self.breaker.lock().failures >= TOLERATED
    }

    /// Lets a request pass unless the member is away; then one may try every now and again.
    fn ask(&self) -> Verdict {
        let mut breaker = self.breaker.lock();
        let now = Instant::now();
        if breaker.failures < TOLERATED {
            return Verdict::Pass;
        }
        if now < breaker.next_trial {
            return Verdict::Away { next_trial: breaker.next_trial };
        }
        breaker.next_trial = now + TRIAL;
        Verdict::Pass
    }

    fn answered(&self) {
        let was_away = {
            let mut breaker = self.breaker.lock();
            std::mem::take(&mut breaker.failures) >= TOLERATED
        };
        if was_away {
            tracing::info!(cluster = self.cluster, "member answers again");
            self.returns.set(self.returns.get() + 1);
        }
    }

    fn failed(&self) {
        let mut breaker = self.breaker.lock();
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures == TOLERATED {
            breaker.next_trial = Instant::now() + TRIAL;
            tracing::warn!(cluster = self.cluster, "member does not answer");
        }
    }

    /// Takes a token; returns how long to wait for it.
    fn reserve(&self) -> Duration {
        let Limits { qps, burst, .. } = self.limits;
        if qps <= 0.0 {
            return Duration::ZERO;
        }
        let mut bucket = self.bucket.lock();
        let now = Instant::now();
        let gained = now.duration_since(bucket.at).as_secs_f64() * qps;
        bucket.tokens = (bucket.tokens + gained).min(burst.max(1.0)) - 1.0;
        bucket.at = now;
        Duration::from_secs_f64((-bucket.tokens).max(0.0) / qps)
    }

    async fn exchange(
        &self,
        request: Request<Body>,
        connection: &Client,
    ) -> Result<Response<Body>, BoxError> {
        let timeout = self.limits.timeout;
        let answer = tokio::time::timeout(timeout, async {
            let response = connection.send(request).await?;
            // A connection may also fall silent in the middle of an answer.
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await?.to_bytes();
            Ok::<_, BoxError>(Response::from_parts(parts, Body::from(bytes)))
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.timed_out()),
        };
        self.note(answer)
    }

    async fn watch(
        &self,
        request: Request<Body>,
        connection: &Client,
    ) -> Result<Response<Body>, BoxError> {
        let opened = tokio::time::timeout(self.limits.timeout, connection.send(request)).await;
        let opened = match opened {
            Ok(opened) => opened.map_err(Into::into),
            Err(_) => Err(self.timed_out()),
        };
        self.note(opened)
    }

    fn note<T>(&self, answer: Result<T, BoxError>) -> Result<T, BoxError> {
        match &answer {
            Ok(_) => self.answered(),
            Err(_) => self.failed(),
        }
        answer
    }

    fn timed_out(&self) -> BoxError {
        let seconds = self.limits.timeout.as_secs();
        Box::new(Refused::TimedOut { cluster: self.cluster.clone(), seconds })
    }

    /// Waits until the member may be asked.
    async fn wait_until_back(&self) {
        let mut returns = self.returns();
        while let Verdict::Away { next_trial } = self.ask() {
            tokio::select! {
                biased;
                () = returns.moved() => {}
                () = tokio::time::sleep_until(next_trial) => {}
            }
        }
    }
}

impl Warden for MemberWarden {
    fn send<'a>(
        &'a self,
        request: Request<Body>,
        connection: &'a Client,
    ) -> BoxFuture<'a, Result<Response<Body>, BoxError>> {
        async move {
            let delay = self.reserve();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if is_watch(&request) {
                self.wait_until_back().await;
                return self.watch(request, connection).await;
            }
            // Whoever asks for the health wants to know now, and is how a return is noticed.
            if !is_probe(&request)
                && self.is_away()
                && let Verdict::Away { .. } = self.ask()
            {
                return Err(Refused::Away(self.cluster.clone()).into());
            }
            self.exchange(request, connection).await
        }
        .boxed()
    }

    /// A watch ends when the member comes back after it was away: whatever the connection missed
    /// meanwhile, it will not tell.
    fn watch_end(&self) -> BoxFuture<'static, ()> {
        let mut returns = self.returns();
        async move { returns.moved().await }.boxed()
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"))
}

fn is_probe(request: &Request<Body>) -> bool {
    matches!(request.uri().path(), "/readyz" | "/healthz" | "/livez")
}

/// A warden and what it tells, for a client of this member.
pub(super) fn guard(
    client: karmada_client::Client,
    cluster: &str,
    limits: Limits,
) -> (karmada_client::Client, Arc<MemberWarden>) {
    let warden = Arc::new(MemberWarden::new(cluster, limits));
    (client.with_warden(warden.clone()), warden)
}
