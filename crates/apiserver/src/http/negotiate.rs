//! Which form an answer takes: JSON, YAML or protobuf; the object itself, a Table or its metadata.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use karmada_apimachinery::status::Status;

use super::query::Query;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// What of an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table(&'static str),
    PartialMetadata(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Representation {
    pub format: Format,
    pub shape: Shape,
    pub pretty: bool,
}

impl Representation {
    pub const JSON: Self = Self { format: Format::Json, shape: Shape::Object, pretty: false };
}

/// What an endpoint can offer.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    pub formats: &'static [Format],
    /// Table and metadata-only forms are offered too.
    pub transforms: Transforms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transforms {
    None,
    /// Of single objects and events.
    Object,
    /// Of lists.
    List,
}

pub const BUILT_IN: &[Format] = &[Format::Json, Format::Yaml, Format::Protobuf];
pub const CUSTOM: &[Format] = &[Format::Json, Format::Yaml];
/// YAML cannot be streamed.
pub const WATCHED: &[Format] = &[Format::Json, Format::Protobuf];
pub const WATCHED_CUSTOM: &[Format] = &[Format::Json];

struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Chooses the first clause of `Accept` that the endpoint can satisfy.
pub fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    offer: Offer,
) -> Result<Representation, Status> {
    let accept = accepted(headers);
    let pretty = wants_pretty(headers, query);
    if accept.trim().is_empty() {
        return Ok(Representation { format: offer.formats[0], shape: Shape::Object, pretty });
    }
    // What most clients say, and every endpoint has.
    if accept == Format::Json.media_type() {
        return Ok(Representation { pretty, ..Representation::JSON });
    }
    for clause in parse(&accept) {
        for format in offer.formats {
            let (kind, subkind) = format.media_type().split_once('/').unwrap_or_default();
            let matches = (clause.kind == kind && clause.subkind == subkind)
                || (clause.kind == "*" && clause.subkind == "*");
            if matches && let Some((shape, asked_pretty)) = shape_of(&clause, offer.transforms) {
                return Ok(Representation {
                    format: *format,
                    shape,
                    pretty: pretty || asked_pretty,
                });
            }
        }
    }
    Err(not_acceptable(offer.formats))
}

/// Everything `Accept` says, in one line.
fn accepted(headers: &HeaderMap) -> Cow<'_, str> {
    let mut lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let first = lines.next().unwrap_or_default();
    lines.fold(Cow::Borrowed(first), |all, line| Cow::Owned(format!("{all},{line}")))
}

pub fn not_acceptable(formats: &[Format]) -> Status {
    Status::not_acceptable(format!(
        "only the following media types are accepted: {}",
        media_types(formats)
    ))
}

pub fn media_types(formats: &[Format]) -> String {
    formats.iter().map(|format| format.media_type()).collect::<Vec<_>>().join(", ")
}

/// Whether any clause of `Accept` names a media type of the list, parameters aside: the router's own check.
pub fn names_known_type(headers: &HeaderMap, formats: &[Format]) -> bool {
    let accept = accepted(headers);
    if accept.trim().is_empty() {
        return true;
    }
    accept.split(',').any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || formats.iter().any(|format| format.media_type() == media_type)
    })
}

/// The form of metadata that the first clause of `Accept` asks for.
pub fn asked_metadata(headers: &HeaderMap) -> Option<&str> {
    let accept = headers.get(ACCEPT)?.to_str().ok()?;
    let first = parse(accept).into_iter().next()?;
    let asked = first.parameters.iter().find(|(key, _)| *key == "as")?.1;
    asked.starts_with("PartialObjectMetadata").then_some(asked)
}

fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(asked) = query.flag("pretty") {
        return asked;
    }
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| agent.starts_with(browser))
}

fn parse(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let (kind, subkind) = parts.next()?.split_once('/').unwrap_or(("", ""));
            let mut quality = 1.0;
            let mut parameters = Vec::new();
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                match key.trim() {
                    "q" => quality = value.parse().unwrap_or(1.0),
                    key => parameters.push((key, value.trim().trim_matches('"'))),
                }
            }
            Some(Clause { kind: kind.trim(), subkind: subkind.trim(), quality, parameters })
        })
        .collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// The shape a clause asks for, or nothing if the endpoint does not know it.
fn shape_of(clause: &Clause<'_>, transforms: Transforms) -> Option<(Shape, bool)> {
    let (mut group, mut version, mut target, mut pretty) = ("", "", "", false);
    for (key, value) in &clause.parameters {
        match *key {
            "g" => group = value,
            "v" => version = value,
            "as" => target = value,
            "pretty" => pretty = *value == "1",
            "charset" if !value.eq_ignore_ascii_case("utf-8") => return None,
            "stream" if *value != "watch" => return None,
            _ => {}
        }
    }
    if target.is_empty() {
        return (group.is_empty() && version.is_empty()).then_some((Shape::Object, pretty));
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => return None,
    };
    if group != "meta.k8s.io" {
        return None;
    }
    let shape = match (target, transforms) {
        ("Table", Transforms::Object | Transforms::List) => Shape::Table(version),
        ("PartialObjectMetadata", Transforms::Object)
        | ("PartialObjectMetadataList", Transforms::List) => Shape::PartialMetadata(version),
        _ => return None,
    };
    Some((shape, pretty))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: Option<(Format, Shape)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let offer = Offer { formats: BUILT_IN, transforms: Transforms::Object };
        let got = negotiate(&headers, &Query::default(), offer).ok();
        assert_eq!(got.map(|form| (form.format, form.shape)), expected, "{accept}");
    }

    #[test]
    fn the_first_satisfiable_clause_wins() {
        check("application/json", Some((Format::Json, Shape::Object)));
        check("*/*", Some((Format::Json, Shape::Object)));
        check("application/yaml;q=0.5,application/json;q=0.9", Some((Format::Json, Shape::Object)));
        check("application/xml,application/yaml", Some((Format::Yaml, Shape::Object)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some((Format::Json, Shape::Table("v1"))),
        );
        check(
            "application/json;as=Odd;v=v1;g=meta.k8s.io,application/yaml",
            Some((Format::Yaml, Shape::Object)),
        );
        check("application/xml", None);
        check("application/*", None);
        check(";;;", None);
    }
}
