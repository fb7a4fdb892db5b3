//! The server as a client of itself, for the work it does on its own behalf.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use karmada_apimachinery::Value;

use crate::auth::Identity;
use crate::http::body;
use crate::service;
use crate::state::State;

/// Sends a request as the server itself; returns the code and the parsed answer.
pub(crate) async fn send(
    state: &Arc<State>,
    method: Method,
    path: &str,
    content: Option<&Value>,
) -> (u16, Value) {
    let patches = method == Method::PATCH;
    let kind = if patches { "application/merge-patch+json" } else { "application/json" };
    exchange(state, (method, path), content, kind).await
}

/// Applies the fields of an object under the name of their manager.
pub(crate) async fn apply(
    state: &Arc<State>,
    path: &str,
    manager: &str,
    content: &Value,
) -> (u16, Value) {
    let path = format!("{path}?fieldManager={manager}&force=true");
    let kind = "application/apply-patch+yaml";
    exchange(state, (Method::PATCH, &path), Some(content), kind).await
}

async fn exchange(
    state: &Arc<State>,
    (method, path): (Method, &str),
    content: Option<&Value>,
    content_type: &'static str,
) -> (u16, Value) {
    let bytes = content.map(|value| Bytes::from(value.to_string())).unwrap_or_default();
    let mut request = Request::new(body::full(bytes));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let identity = Identity::new("system:apiserver", ["system:masters"]);
    request.extensions_mut().insert(Arc::new(identity));
    let response = Box::pin(service::answer(state.clone(), request)).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}
