//! Bodies of requests and answers, and the answers that need no negotiation.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;

/// The body of every request and answer inside the server.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub fn empty() -> Body {
    full(Bytes::new())
}

/// A body that ends when the stream does.
pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt;
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

pub fn text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    answer(code, "text/plain; charset=utf-8", text.into())
}

/// What paths nobody serves are answered with.
pub fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub fn json(code: StatusCode, value: &Value) -> Response<Body> {
    answer(code, "application/json", encode_line(value))
}

/// Compact JSON with the line end Kubernetes puts after it.
pub fn encode_line(value: &Value) -> Bytes {
    let mut bytes = value.to_text();
    bytes.push(b'\n');
    bytes.into()
}

pub fn answer(
    code: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A refusal as JSON, with `Retry-After` where the status names a delay.
pub fn refusal(status: &Status) -> Response<Body> {
    let mut response = json(code_of(status), &status.to_value());
    add_retry_after(&mut response, status);
    response
}

pub fn code_of(status: &Status) -> StatusCode {
    StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub fn add_retry_after(response: &mut Response<Body>, status: &Status) {
    if let Some(details) = &status.details
        && details.retry_after_seconds > 0
    {
        response.headers_mut().insert(RETRY_AFTER, details.retry_after_seconds.into());
    }
}
