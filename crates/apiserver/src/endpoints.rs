//! Fixed paths: discovery, version, health, metrics, OpenAPI.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};

use crate::http::body::{self, Body};
use crate::http::query::Query;
use crate::state::State;
use crate::{discovery, openapi};

pub(crate) fn answer(state: &Arc<State>, parts: &Parts, query: &Query) -> Response<Body> {
    let path = parts.uri.path();
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let reads = parts.method == Method::GET;
    match segments.as_slice() {
        [] if reads => root(state),
        // Compat: this one document is indented for whoever asks.
        ["version"] if reads => {
            body::answer(StatusCode::OK, "application/json", format!("{:#}", version()))
        }
        ["version"] => body::refusal(&Status::method_not_allowed()),
        ["metrics"] if reads => {
            let mut response = body::text(StatusCode::OK, metrics(state));
            let value = HeaderValue::from_static(
                "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            );
            response.headers_mut().insert(CONTENT_TYPE, value);
            response
        }
        [kind @ ("healthz" | "livez" | "readyz"), check @ ..] if reads => {
            health(state, kind, check, query)
        }
        ["api" | "apis", ..] => discovery_path(state, parts, query, &segments),
        ["openapi", "v3", rest @ ..] if reads => openapi::v3(state, rest, query, &parts.headers),
        ["openapi", "v2"] if reads => openapi::v2(state, &parts.headers),
        [".well-known", "openid-configuration"] if reads => {
            let server =
                format!("https://{}:{}", state.config.advertise_address, state.config.secure_port);
            body::json(StatusCode::OK, &state.authentication.tokens.openid_configuration(&server))
        }
        ["openid", "v1", "jwks"] if reads => key_set(state, parts),
        _ => body::page_not_found(),
    }
}

/// The keys tokens are signed with, in the one media type they are published as.
fn key_set(state: &State, parts: &Parts) -> Response<Body> {
    let accept =
        parts.headers.get(http::header::ACCEPT).and_then(|a| a.to_str().ok()).unwrap_or("*/*");
    if !accept.contains("application/jwk-set+json") && !accept.contains("*/*") {
        return body::refusal(&Status::not_acceptable(
            "only the following media types are accepted: application/jwk-set+json",
        ));
    }
    let keys = state.authentication.tokens.key_set().to_string();
    body::answer(StatusCode::OK, "application/jwk-set+json", keys)
}

fn discovery_path(
    state: &State,
    parts: &Parts,
    query: &Query,
    segments: &[&str],
) -> Response<Body> {
    let snapshot = state.registry.snapshot();
    let (headers, reads) = (&parts.headers, parts.method == Method::GET);
    match segments {
        _ if !reads => body::refusal(&Status::method_not_allowed()),
        ["api"] => {
            let address =
                format!("{}:{}", state.config.advertise_address, state.config.secure_port);
            discovery::core(&snapshot, headers, query, &address)
        }
        ["apis"] => discovery::groups(&snapshot, headers, query),
        ["api", version] if snapshot.has_version("", version) => {
            discovery::resources(&snapshot, ("", version), headers, query)
        }
        ["api", _] => body::refusal(&Status::no_such_resource()),
        ["apis", group] if snapshot.has_group(group) && !group.is_empty() => {
            discovery::group(&snapshot, group, headers, query)
        }
        ["apis", group, version] if snapshot.has_version(group, version) => {
            discovery::resources(&snapshot, (group, version), headers, query)
        }
        ["apis", group, _] if karmada_kinds::resources().iter().any(|r| r.group == *group) => {
            body::refusal(&Status::no_such_resource())
        }
        _ => body::page_not_found(),
    }
}

/// The version clients take this server for.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3",
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        // Compat: clients compare the version of a Go server.
        "compiler": "gc",
        "platform": format!("{}/{}", std::env::consts::OS, platform_arch()),
    })
}

fn platform_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn root(state: &State) -> Response<Body> {
    let snapshot = state.registry.snapshot();
    let mut paths =
        vec!["/.well-known/openid-configuration".to_owned(), "/api".into(), "/apis".into()];
    for group in snapshot.groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
        }
        for version in snapshot.versions(group) {
            let path = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            paths.push(path);
        }
    }
    for path in [
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ] {
        paths.push(path.to_owned());
    }
    paths.sort();
    body::json(StatusCode::OK, &json!({"paths": paths}))
}

fn health(state: &State, kind: &str, check: &[&str], query: &Query) -> Response<Body> {
    let store = state.store.health();
    let ready = state.is_ready();
    let mut checks: Vec<(&str, bool)> =
        vec![("ping", true), ("log", true), ("etcd", store.is_ok())];
    // Compat: a server is not started anew because something beside it is away.
    if kind != "livez" {
        let store = state.store.checks().into_iter();
        checks.extend(store.map(|(name, health)| (name, health.is_ok())));
    }
    if kind == "readyz" {
        checks.push(("informer-sync", ready));
        checks.push(("shutdown", !state.stop.is_cancelled()));
    }
    checks.push(("poststarthook/start-apiextensions-controllers", true));
    checks.push(("poststarthook/rbac/bootstrap-roles", kind != "readyz" || ready));
    if !check.is_empty() {
        let name = check.join("/");
        return match checks.iter().find(|(own, _)| *own == name) {
            Some((_, true)) => body::text(StatusCode::OK, "ok"),
            Some((_, false)) => {
                body::text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: not ready\n")
            }
            None => body::page_not_found(),
        };
    }
    let excluded = query.all("exclude");
    let counts = |(name, _): &&(&str, bool)| !excluded.contains(name);
    let healthy = checks.iter().filter(counts).all(|(_, ok)| *ok);
    if healthy && query.get("verbose").is_none() {
        return body::text(StatusCode::OK, "ok");
    }
    let mut text = String::new();
    for (name, ok) in &checks {
        text.push_str(&match (excluded.contains(name), ok) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, true) => format!("[+]{name} ok\n"),
            (false, false) => format!("[-]{name} failed: reason withheld\n"),
        });
    }
    let verdict = if healthy { "passed" } else { "failed" };
    text.push_str(&format!("{kind} check {verdict}\n"));
    let code = if healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    body::text(code, text)
}

fn metrics(state: &State) -> String {
    let mut text = state.metrics.render();
    if let Some(more) = &state.extra_metrics {
        text.push_str(&more());
    }
    text
}
