//! A small HTTP listener for health, readiness and metrics.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tracing::{debug, warn};

use crate::{Health, Metrics, Shutdown};

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `/healthz`, `/livez`, `/readyz` and `/metrics` until the shutdown begins. Liveness says
/// only that the process answers; readiness runs the checks.
pub async fn serve(listener: TcpListener, health: Health, metrics: Metrics, shutdown: Shutdown) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.triggered() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                continue;
            }
        };
        let (health, metrics) = (health.clone(), metrics.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.uri(), &health, &metrics);
            async move { Ok::<_, Infallible>(response) }
        });
        shutdown.spawn_until(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = server.serve_connection(TokioIo::new(stream), answer).await {
                debug!(%error, "a connection broke");
            }
        });
    }
}

fn respond(uri: &http::Uri, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    let parameters = || uri.query().unwrap_or_default().split('&');
    let excluded: Vec<_> = parameters().filter_map(|pair| pair.strip_prefix("exclude=")).collect();
    let verbose = parameters().any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let (status, kind, text) = match uri.path() {
        "/livez" => (StatusCode::OK, "text/plain", "ok".to_owned()),
        "/healthz" | "/readyz" => match health.report(&excluded) {
            (true, report) if verbose => (StatusCode::OK, "text/plain", report),
            (true, _) => (StatusCode::OK, "text/plain", "ok".to_owned()),
            (false, report) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", report),
        },
        "/metrics" => (StatusCode::OK, METRICS_TYPE, metrics.encode()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_answer_as_probes_expect() {
        let (health, metrics) = (Health::new(), Metrics::default());
        health.add("store", || Err("disk full".into()));
        let cases = [
            ("/livez", 200),
            ("/healthz", 500),
            ("/readyz?exclude=store", 200),
            ("/readyz?verbose", 500),
            ("/metrics", 200),
            ("/other", 404),
        ];
        for (path, status) in cases {
            let uri = path.parse().unwrap();
            assert_eq!(respond(&uri, &health, &metrics).status(), status, "{path}");
        }
    }
}
