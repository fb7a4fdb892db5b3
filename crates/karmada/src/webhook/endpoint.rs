//! The paths of the webhook: reviews in, answers out. A review that cannot be read is answered with a refusal
//! that says why.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use karmada_admission::review::{self, Answer, CONVERT_PATH};
use karmada_admission::{Denial, QuotaUse, Settings, convert, hooks};
use karmada_api::features::Gates;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Error;
use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::plane::{Freshness, Plane, Written, describe};

/// The largest review, as the original has it.
const MAX_BODY: usize = 7 << 20;
/// How often the use of a quota is counted anew because the quota changed meanwhile.
const MAX_ATTEMPTS: usize = 5;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const CUSTOMIZATIONS: &str = "/validate-resourceinterpretercustomization";
const BINDINGS: &str = "/validate-resourcebinding";

pub(super) struct Endpoint {
    plane: Plane,
    gates: Gates,
    allow_no_execute_taints: bool,
    requests: Family<Counted, Counter>,
    latency: Family<Path, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Counted {
    webhook: &'static str,
    code: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Path {
    webhook: &'static str,
}

/// What is served at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Hook(&'static str),
    Conversion,
    Health,
    Nothing,
}

impl Served {
    fn at(path: &str) -> Self {
        match path {
            CONVERT_PATH => Self::Conversion,
            "/healthz" | "/livez" | "/readyz" | "/readyz/" => Self::Health,
            _ => match hooks().iter().find(|hook| hook.path == path) {
                Some(hook) => Self::Hook(hook.path),
                None => Self::Nothing,
            },
        }
    }
}

impl Endpoint {
    pub(super) fn new(
        plane: Plane,
        gates: Gates,
        allow_no_execute_taints: bool,
        metrics: &Metrics,
    ) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let (requests, latency) = (Family::default(), Family::new_with_constructor(seconds));
        metrics.register(|registry| {
            let (counted, timed): (Family<Counted, Counter>, Family<Path, Histogram, _>) =
                (requests.clone(), latency.clone());
            let help = "Admission requests by path and HTTP status code";
            registry.register("controller_runtime_webhook_requests", help, counted);
            let help = "Seconds it took to answer admission requests";
            registry.register("controller_runtime_webhook_latency_seconds", help, timed);
        });
        Self { plane, gates, allow_no_execute_taints, requests, latency }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let began = Instant::now();
        let (webhook, response) = match Served::at(request.uri().path()) {
            Served::Nothing => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Served::Health => return text(StatusCode::OK, "ok"),
            Served::Conversion => (CONVERT_PATH, convert_all(request).await),
            Served::Hook(path) => (path, self.review(path, request).await),
        };
        self.latency.get_or_create(&Path { webhook }).observe(began.elapsed().as_secs_f64());
        let code = response.status().as_u16();
        self.requests.get_or_create(&Counted { webhook, code }).inc();
        response
    }

    async fn review(
        &self,
        path: &'static str,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let review = match read_review(request, "AdmissionReview").await {
            Ok(review) => review,
            Err(problem) => return json(&refusal(&Value::Null, &Denial::unreadable(problem))),
        };
        let answer = match self.admit(path, &review).await {
            Ok(answer) => answer,
            Err(error) => {
                let message = describe(&error);
                tracing::warn!(path, error = message, "review not answered");
                refusal(&review, &Denial::internal(message))
            }
        };
        json(&answer)
    }

    /// Answers the review and writes what its admission entails.
    async fn admit(&self, path: &str, review: &Value) -> Result<Value, Error> {
        let (settings, answer) = self.ask(path, review, Freshness::Cached).await?;
        if review.bool_at(&["request", "dryRun"]).unwrap_or_default() {
            return Ok(answer.review);
        }
        for used in answer.quota_uses {
            if let Some(refused) = self.charge(path, review, &settings, used).await? {
                return Ok(refused);
            }
        }
        Ok(answer.review)
    }

    async fn ask(
        &self,
        path: &str,
        review: &Value,
        freshness: Freshness,
    ) -> Result<(Settings, Answer), Error> {
        let mut settings = Settings {
            gates: self.gates.clone(),
            allow_no_execute_taints: self.allow_no_execute_taints,
            id: uuid::Uuid::new_v4().to_string(),
            ..Settings::default()
        };
        match path {
            CUSTOMIZATIONS => settings.customizations = self.plane.customizations().await?,
            BINDINGS => {
                let namespace = review.str_at(&["request", "namespace"]).unwrap_or_default();
                settings.quotas = self.plane.quotas(namespace, freshness).await?;
            }
            _ => {}
        }
        let answer = answer(path, review, &settings);
        Ok((settings, answer))
    }

    /// Writes the use of one quota, counting anew whenever it changed meanwhile. Returns the refusal if the
    /// changed quota has no room left; what other quotas count already is set right by their controller.
    async fn charge(
        &self,
        path: &str,
        review: &Value,
        settings: &Settings,
        mut used: QuotaUse,
    ) -> Result<Option<Value>, Error> {
        let mut settings = settings.clone();
        for _ in 0..MAX_ATTEMPTS {
            let same = |quota: &&karmada_api::policy::FederatedResourceQuota| {
                quota.metadata.name == used.name
            };
            let Some(quota) = settings.quotas.iter().find(same) else { return Ok(None) };
            if self.plane.write_use(quota, &used).await? == Written::Done {
                return Ok(None);
            }
            let mut fresh = self.plane.quotas(&used.namespace, Freshness::Read).await?;
            fresh.retain(|quota| quota.metadata.name == used.name);
            settings.quotas = fresh;
            let again = answer(path, review, &settings);
            if again.review.bool_at(&["response", "allowed"]) != Some(true) {
                return Ok(Some(again.review));
            }
            match again.quota_uses.into_iter().next() {
                Some(next) => used = next,
                None => return Ok(None),
            }
        }
        let message =
            format!("quota {}/{} changes faster than it can be written", used.namespace, used.name);
        Ok(Some(refusal(review, &Denial::internal(message))))
    }
}

/// The answer of the hook at a path that is known to have one.
fn answer(path: &str, review: &Value, settings: &Settings) -> Answer {
    review::answer(path, review, settings).unwrap_or_else(|| Answer {
        review: refusal(review, &Denial::internal(format!("no hook at {path}"))),
        quota_uses: Vec::new(),
    })
}

async fn convert_all(request: Request<Incoming>) -> Response<Full<Bytes>> {
    match read_review(request, "ConversionReview").await {
        Ok(review) => json(&convert::review(&review)),
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}

/// Reads the body of a request as a review of the kind; says in a sentence what is wrong with it otherwise.
async fn read_review(request: Request<Incoming>, kind: &str) -> Result<Value, String> {
    let given = request.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    let body = match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(format!("request entity is too large; limit is {MAX_BODY} bytes"));
        }
        Err(error) => return Err(format!("the request body broke off: {error}")),
    };
    if body.is_empty() {
        return Err("request body is empty".to_owned());
    }
    let given = given.unwrap_or_default();
    let media_type = given.split(|byte| *byte == b';').next().unwrap_or_default();
    if !media_type.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes()) {
        let given = String::from_utf8_lossy(&given).into_owned();
        return Err(format!("contentType={given}, expected {JSON}"));
    }
    let review: Value = serde_json::from_slice(&body)
        .map_err(|error| format!("the request body is no JSON: {error}"))?;
    match review.kind() {
        "" => Err(format!("the request body names no kind, expected {kind}")),
        found if found != kind => {
            Err(format!("the request body is of kind {found}, expected {kind}"))
        }
        _ if !review.get("request").is_some_and(Value::is_object) => {
            Err("the review holds no request".to_owned())
        }
        _ => Ok(review),
    }
}

fn refusal(review: &Value, denial: &Denial) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review.str_at(&["request", "uid"]).unwrap_or_default(),
            "allowed": false,
            "status": {"metadata": {}, "message": denial.message, "code": denial.code},
        },
    })
}

fn json(value: &Value) -> Response<Full<Bytes>> {
    respond(StatusCode::OK, JSON, value.to_string())
}

fn text(code: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    respond(code, TEXT, text.into())
}

fn respond(code: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
