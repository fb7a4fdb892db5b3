//! Puts an answer into the form that was negotiated.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY, WARNING,
};
use http::{Response, StatusCode};
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;

use super::body::{self, Body};
use super::negotiate::{Format, Representation};

/// Bodies above this size are compressed for clients that can read it.
const COMPRESS_ABOVE: usize = 128 * 1024;
/// What all warnings of an answer may take; beyond it each is cut.
const WARNINGS_MAX: usize = 4096;
const WARNING_CUT: usize = 256;

/// Encodes a tree.
pub fn encode(value: &Value, form: Representation) -> Bytes {
    match form.format {
        Format::Yaml => to_yaml(value).into(),
        Format::Json | Format::Protobuf if form.pretty => {
            let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
            text.push(b'\n');
            text.into()
        }
        Format::Json | Format::Protobuf => body::encode_line(value),
    }
}

/// YAML as Kubernetes writes it: keys sorted, lists not indented below their key.
pub fn to_yaml(value: &Value) -> String {
    karmada_apimachinery::yaml::to_string(value)
}

pub fn answer(code: StatusCode, bytes: impl Into<Bytes>, format: Format) -> Response<Body> {
    body::answer(code, format.media_type(), bytes)
}

pub fn object(code: StatusCode, value: &Value, form: Representation) -> Response<Body> {
    // A tree answered where protobuf was negotiated goes out as JSON, which such clients accept too.
    let format = if form.format == Format::Protobuf { Format::Json } else { form.format };
    answer(code, encode(value, form), format)
}

/// A refusal in the format the client reads.
pub fn refusal(status: &Status, form: Option<Representation>) -> Response<Body> {
    let form = form.unwrap_or(Representation::JSON);
    let mut response = object(body::code_of(status), &status.to_value(), form);
    body::add_retry_after(&mut response, status);
    response
}

/// Whether a client reads compressed answers.
pub fn reads_gzip(asked: &HeaderMap) -> bool {
    let mut values = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| {
        value.split(',').any(|part| part.split(';').next().map(str::trim) == Some("gzip"))
    })
}

/// Compresses a whole body if that is worth it.
pub fn compress(headers: &mut HeaderMap, bytes: Bytes) -> Bytes {
    if bytes.len() <= COMPRESS_ABOVE || headers.contains_key(CONTENT_ENCODING) {
        return bytes;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let Ok(compressed) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else {
        return bytes;
    };
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    compressed.into()
}

/// Adds warnings as headers, within the size clients accept.
pub fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(String::len).sum();
    for warning in warnings {
        let mut text: String =
            warning.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if total > WARNINGS_MAX {
            text = text.chars().take(WARNING_CUT).collect();
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

pub fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
