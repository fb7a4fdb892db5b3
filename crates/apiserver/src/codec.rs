//! Bodies to objects: JSON, YAML and protobuf, checked against the kind the path names.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use karmada_apimachinery::Value;
use karmada_apimachinery::decode::{self, Decoded, Problems, SyntaxError};
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::managed;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::protobuf;
use karmada_apimachinery::schema::Cursor;
use karmada_apimachinery::status::Status;
use parking_lot::Mutex;

use crate::call::{Call, Sent};
use crate::handlers::options::FieldValidation;
use crate::http::negotiate::{self, Format};

/// How much of an unreadable body an error shows.
const SUMMARY: usize = 30;

/// The format of the request's body.
pub(crate) fn body_format(call: &Call) -> Result<Format, Status> {
    let formats = call.formats();
    let content_type = call.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if content_type.is_empty() {
        return Ok(Format::Json);
    }
    let known = formats.iter().find(|format| format.media_type() == content_type);
    known.copied().ok_or_else(|| {
        Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            negotiate::media_types(formats)
        ))
    })
}

/// Reads the body as the kind the path names.
pub(crate) fn decode_object(call: &Call, validation: FieldValidation) -> Result<Value, Status> {
    decode_as(call, &call.served.gvk, validation)
}

/// Reads the body as a given kind, such as that of a subresource.
pub(crate) fn decode_as(
    call: &Call,
    gvk: &Gvk,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let format = body_format(call)?;
    let schema = karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind);
    let Some(schema) = schema else { return decode_custom(call, gvk, format, validation) };
    if format == Format::Protobuf {
        return decode_protobuf(call, gvk, schema);
    }
    let decoded = match &call.body {
        Sent::Tree(tree) => {
            let value = taken(tree);
            let problems = decode::unknown_fields(&value, schema);
            Decoded { value, problems }
        }
        Sent::Text(text) => {
            let read = match format {
                Format::Yaml => decode::yaml(text, schema),
                _ => decode::json(text, schema),
            };
            read.map_err(|error| unrecognized(gvk, &error, text, format))?
        }
    };
    check_type(&SaidType::of(&decoded.value), gvk)?;
    let resets = managed::asks_for_reset(&decoded.value);
    let empty = decode::empty_lists(&decoded.value);
    let mut object = normalised(decoded.value, schema, gvk)?;
    if resets {
        managed::carry_reset(&mut object);
    }
    decode::carry_empty_lists(&empty, &mut object);
    complain(call, &decoded.problems, validation, gvk)?;
    set_type(&mut object, gvk);
    Ok(object)
}

fn normalised(value: Value, schema: Cursor<'_>, gvk: &Gvk) -> Result<Value, Status> {
    let value = if value.is_null() { Value::Object(Default::default()) } else { value };
    decode::normalise(value, schema)
        .map_err(|error| cannot_handle(gvk, &gvk.kind, &error.to_string()))
}

fn cannot_handle(said: &Gvk, expected: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {expected}: {why}",
        said.kind,
        karmada_apimachinery::field::quote(&said.version)
    ))
}

/// Brings a tree into the shape of the served kind, as decoding a body would.
pub(crate) fn shape_object(call: &Call, value: Value) -> Result<(Value, Problems), String> {
    let gvk = &call.served.gvk;
    match karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind) {
        Some(schema) => {
            let problems = decode::unknown_fields(&value, schema);
            let resets = managed::asks_for_reset(&value);
            let empty = decode::empty_lists(&value);
            let mut value = decode::normalise(value, schema).map_err(|error| error.to_string())?;
            if resets {
                managed::carry_reset(&mut value);
            }
            decode::carry_empty_lists(&empty, &mut value);
            Ok((value, problems))
        }
        None => call.served.strategy.shape(value),
    }
}

fn set_type(object: &mut Value, gvk: &Gvk) {
    object.set(&["apiVersion"], gvk.api_version());
    object.set(&["kind"], gvk.kind.as_str());
}

/// The type a body says it is.
#[derive(Default)]
struct SaidType {
    api_version: Option<String>,
    kind: Option<String>,
}

impl SaidType {
    /// What a body says; nothing at all if one of both is no text.
    fn of(body: &Value) -> Self {
        let said = |key: &str| match body.get(key) {
            None | Some(Value::Null) => Some(None),
            Some(Value::String(text)) => Some(Some(text.to_string())),
            Some(_) => None,
        };
        match (said("apiVersion"), said("kind")) {
            (Some(api_version), Some(kind)) => Self { api_version, kind },
            _ => Self::default(),
        }
    }
}

/// Refuses a body that says it is something else.
fn check_type(said: &SaidType, expected: &Gvk) -> Result<(), Status> {
    let api_version = said.api_version.as_deref().unwrap_or_default();
    let kind = said.kind.as_deref().unwrap_or_default();
    let version = if api_version.is_empty() {
        expected.group_version()
    } else {
        GroupVersion::parse(api_version).ok_or_else(|| {
            Status::bad_request(format!("unexpected GroupVersion string: {api_version}"))
        })?
    };
    let kind = if kind.is_empty() { expected.kind.as_str() } else { kind };
    let said = version.with_kind(kind);
    // Compat: old clients evict in the version before, which says the same and is taken to this day.
    let evicts = said == Gvk::new("policy", "v1beta1", "Eviction") && expected.kind == said.kind;
    if said == *expected || evicts {
        return Ok(());
    }
    if !is_registered(&said) {
        let why = format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            karmada_apimachinery::field::quote(&said.kind),
            karmada_apimachinery::field::quote(&said.api_version())
        );
        return Err(cannot_handle(&said, &expected.kind, &why));
    }
    if said.kind != expected.kind {
        let why = format!("converting ({said}) to ({expected}): unknown conversion");
        return Err(cannot_handle(&said, &expected.kind, &why));
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({}) does not match the expected API version ({})",
        said.api_version(),
        expected.api_version()
    )))
}

/// Versions of built-in kinds that are known although they are not served.
const UNSERVED: &[(&str, &[&str])] = &[
    ("apps", &["v1beta1", "v1beta2"]),
    ("batch", &["v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("policy", &["v1beta1"]),
    ("networking.k8s.io", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
];

fn is_registered(said: &Gvk) -> bool {
    let served = karmada_kinds::resources()
        .iter()
        .any(|r| r.group == said.group && r.version == said.version && r.kind == said.kind);
    let known = UNSERVED
        .iter()
        .any(|(group, versions)| *group == said.group && versions.contains(&said.version.as_str()));
    served || (known && karmada_kinds::find_kind(&said.group, &said.kind).is_some())
}

/// The answer to a body that cannot be read at all.
fn unrecognized(gvk: &Gvk, error: &SyntaxError, body: &[u8], format: Format) -> Status {
    let prefix = match format {
        Format::Json => "couldn't get version/kind; json parse error: ",
        _ => "",
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {prefix}{error} ({})",
        gvk.kind,
        summary(body)
    ))
}

fn summary(body: &[u8]) -> String {
    let cut = &body[..body.len().min(SUMMARY)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(cut).into_owned(),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SUMMARY { format!("{shown} ...") } else { shown }
}

fn complain(
    call: &Call,
    problems: &Problems,
    validation: FieldValidation,
    gvk: &Gvk,
) -> Result<(), Status> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            problems.lines().iter().for_each(|line| call.warn(line));
            Ok(())
        }
        FieldValidation::Strict => Err(cannot_handle(gvk, &gvk.kind, &problems.strict_error())),
    }
}

/// Reads a body of a kind whose schema belongs to its definition.
fn decode_custom(
    call: &Call,
    gvk: &Gvk,
    format: Format,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let Decoded { value, mut problems } = read_untyped(call, format)
        .map_err(|error| unrecognized(gvk, &error, &call.body.text(), format))?;
    check_custom_type(&value, gvk, call)?;
    let (mut object, unknown) =
        call.served.strategy.shape(value).map_err(|why| cannot_handle(gvk, &gvk.kind, &why))?;
    problems.extend(unknown);
    complain(call, &problems, validation, gvk)?;
    object.set(&["apiVersion"], gvk.api_version());
    Ok(object)
}

/// Takes a tree out of a body.
fn taken(tree: &Mutex<Arc<Value>>) -> Value {
    Arc::unwrap_or_clone(std::mem::take(&mut *tree.lock()))
}

/// Reads the body without a schema. A tree is taken out of it.
fn read_untyped(call: &Call, format: Format) -> Result<Decoded, SyntaxError> {
    match (&call.body, format) {
        (Sent::Tree(tree), _) => Ok(Decoded { value: taken(tree), problems: Problems::default() }),
        (Sent::Text(text), Format::Yaml) => decode::yaml_untyped(text),
        (Sent::Text(text), _) => decode::json_untyped(text),
    }
}

/// Reads a body that errors will show again, without a schema.
pub(crate) fn read_patch(
    call: &Call,
    format: Format,
) -> Result<(Arc<Value>, Problems), SyntaxError> {
    if let Sent::Tree(tree) = &call.body {
        return Ok((tree.lock().clone(), Problems::default()));
    }
    let Decoded { value, problems } = read_untyped(call, format)?;
    Ok((Arc::new(value), problems))
}

fn check_custom_type(value: &Value, expected: &Gvk, call: &Call) -> Result<(), Status> {
    if value.kind().is_empty() {
        let body = &match &call.body {
            Sent::Text(text) => text.clone(),
            Sent::Tree(_) => Bytes::from(value.to_string()),
        };
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{}' ({})",
            expected.kind,
            String::from_utf8_lossy(body),
            summary(body)
        )));
    }
    let said = value.gvk();
    if said == *expected {
        return Ok(());
    }
    // Another kind of the same version is for validation to refuse.
    if said.group == expected.group && said.version == expected.version {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({}) does not match the expected API version ({})",
        said.api_version(),
        expected.api_version()
    )))
}

/// Reads the options in the body of a DELETE; nothing if there is none.
pub(crate) fn decode_delete_options(call: &Call) -> Result<Option<Value>, Status> {
    if call.body.is_empty() {
        return Ok(None);
    }
    let gvk = Gvk::new("meta.k8s.io", "v1", "DeleteOptions");
    let format = match call.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => Format::Json,
        "application/yaml" => Format::Yaml,
        "application/vnd.kubernetes.protobuf" => Format::Protobuf,
        _ => {
            return Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                negotiate::media_types(negotiate::BUILT_IN)
            )));
        }
    };
    let schema = karmada_kinds::schema::of("", "v1", "DeleteOptions");
    let value = match (format, schema) {
        (Format::Protobuf, Some(schema)) => return decode_protobuf(call, &gvk, schema).map(Some),
        _ => read_untyped(call, format),
    };
    let value = value.map_err(|error| unrecognized(&gvk, &error, &call.body.text(), format))?.value;
    if !matches!(value.kind(), "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            karmada_apimachinery::field::quote(value.kind()),
            karmada_apimachinery::field::quote(value.api_version())
        )));
    }
    match schema {
        Some(schema) => decode::normalise(value, schema).map(Some).map_err(|error| {
            cannot_handle(&Gvk::new("", "v1", "DeleteOptions"), "DeleteOptions", &error.to_string())
        }),
        None => Ok(Some(value)),
    }
}

/// Reads a protobuf body; its envelope says what it is.
fn decode_protobuf(call: &Call, gvk: &Gvk, schema: Cursor<'_>) -> Result<Value, Status> {
    let body = call.body.text();
    let unreadable = |error: &dyn std::fmt::Display| {
        let error = if protobuf::is_enveloped(&body) {
            error.to_string()
        } else {
            format!("{error}, expected prefix [107 56 115 0]")
        };
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            gvk.kind,
            summary(&body)
        ))
    };
    let value = karmada_kinds::schema::decode_protobuf(&body).map_err(|e| unreadable(&e))?;
    if gvk.kind != "DeleteOptions" {
        let said = SaidType {
            api_version: Some(value.api_version().to_owned()),
            kind: Some(value.kind().to_owned()),
        };
        check_type(&said, gvk)?;
    }
    let mut object = normalised(value, schema, gvk)?;
    if gvk.kind != "DeleteOptions" {
        set_type(&mut object, gvk);
    }
    Ok(object)
}

/// Encodes an object as protobuf if its kind can be.
pub(crate) fn encode_protobuf(value: &Value) -> Option<Bytes> {
    match karmada_kinds::schema::encode_protobuf(value)? {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            tracing::warn!(kind = value.kind(), %error, "object not encoded as protobuf");
            None
        }
    }
}
