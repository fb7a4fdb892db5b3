//! Requests for certificates in words, as kubectl 1.36 writes them.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, time};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

use super::moment;
use super::tabs::{Text, on_one_line};

/// The attributes of a subject that may come more than once: heading and object identifier.
const SUBJECT: [(&str, &str); 7] = [
    ("Organization", "2.5.4.10"),
    ("Organizational Unit", "2.5.4.11"),
    ("Country", "2.5.4.6"),
    ("Locality", "2.5.4.7"),
    ("Province", "2.5.4.8"),
    ("StreetAddress", "2.5.4.9"),
    ("PostalCode", "2.5.4.17"),
];
const COMMON_NAME: &str = "2.5.4.3";
const SERIAL_NUMBER: &str = "2.5.4.5";

/// A CertificateSigningRequest; nothing where what it carries is no request.
pub(super) fn request(object: &Value) -> Option<Text> {
    let encoded = STANDARD.decode(object.str_at(&["spec", "request"])?).ok()?;
    let (_, pem) = parse_x509_pem(&encoded).ok()?;
    let (_, asked) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let mut out = Text::default();
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    out.field(0, "Name", object.name());
    out.field(0, "Labels", on_one_line(object.map_at(&["metadata", "labels"])));
    out.field(0, "Annotations", on_one_line(object.map_at(&["metadata", "annotations"])));
    let created = moment(object, &["metadata", "creationTimestamp"]);
    out.field(0, "CreationTimestamp", created.unwrap_or_default());
    out.line(0, &format!("Requesting User:\t{}", text(&["spec", "username"])));
    out.field_if_any(0, "Signer", object.str_at(&["spec", "signerName"]));
    if let Some(seconds) = object.i64_at(&["spec", "expirationSeconds"]) {
        let duration = time::human_duration(jiff::SignedDuration::from_secs(seconds));
        out.field(0, "Requested Duration", duration);
    }
    out.field(0, "Status", status(object));
    subject(&mut out, &asked.certification_request_info.subject);
    alternative_names(&mut out, &asked);
    Some(out)
}

/// `Approved,Issued`.
fn status(object: &Value) -> String {
    let conditions = object.list_at(&["status", "conditions"]);
    let is = |kind: &str| conditions.iter().any(|own| own.str_at(&["type"]) == Some(kind));
    let mut status = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if is("Failed") {
        status.push_str(",Failed");
    }
    if object.str_at(&["status", "certificate"]).is_some_and(|own| !own.is_empty()) {
        status.push_str(",Issued");
    }
    status
}

fn subject(out: &mut Text, name: &X509Name<'_>) {
    let all = |identifier: &str| -> Vec<String> {
        let attributes = name.iter_attributes();
        let own = attributes.filter(|own| own.attr_type().to_id_string() == identifier);
        own.filter_map(|own| own.as_str().ok().map(str::to_owned)).collect()
    };
    out.line(0, "Subject:");
    for (heading, identifier) in [("Common Name", COMMON_NAME), ("Serial Number", SERIAL_NUMBER)] {
        let last = all(identifier).pop().unwrap_or_default();
        out.line(0, &format!("\t{heading}:\t{last}"));
    }
    for (heading, identifier) in SUBJECT {
        several(out, heading, &all(identifier));
    }
}

/// Lines of a heading, unless there is nothing to say.
fn several(out: &mut Text, heading: &str, values: &[String]) {
    for (place, value) in values.iter().enumerate() {
        let heading = if place == 0 { format!("{heading}:") } else { String::new() };
        out.line(0, &format!("\t{heading}\t{value}"));
    }
}

fn alternative_names(out: &mut Text, asked: &X509CertificationRequest<'_>) {
    let extensions = asked.requested_extensions();
    let names: Vec<&GeneralName<'_>> = extensions
        .into_iter()
        .flatten()
        .filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(own) => Some(&own.general_names),
            _ => None,
        })
        .flatten()
        .collect();
    let pick = |choose: &dyn Fn(&GeneralName<'_>) -> Option<String>| -> Vec<String> {
        names.iter().filter_map(|name| choose(name)).collect()
    };
    let lists = [
        (
            "DNS Names",
            pick(&|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            }),
        ),
        (
            "Email Addresses",
            pick(&|name| match name {
                GeneralName::RFC822Name(name) => Some((*name).to_owned()),
                _ => None,
            }),
        ),
        (
            "URIs",
            pick(&|name| match name {
                GeneralName::URI(name) => Some((*name).to_owned()),
                _ => None,
            }),
        ),
        (
            "IP Addresses",
            pick(&|name| match name {
                GeneralName::IPAddress(bytes) => address(bytes),
                _ => None,
            }),
        ),
    ];
    if lists.iter().all(|(_, values)| values.is_empty()) {
        return;
    }
    out.line(0, "Subject Alternative Names:");
    lists.iter().for_each(|(heading, values)| several(out, heading, values));
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn the_status_of_a_request_names_all_that_became_of_it() {
        for (conditions, certificate, expected) in [
            (json!([]), "", "Pending"),
            (json!([{"type": "Approved"}]), "YQ==", "Approved,Issued"),
            (json!([{"type": "Approved"}, {"type": "Failed"}]), "", "Approved,Failed"),
            (json!([{"type": "Denied"}, {"type": "Approved"}]), "", "Denied"),
        ] {
            let object = json!({"status": {"conditions": conditions, "certificate": certificate}});
            assert_eq!(status(&object), expected);
        }
        // What carries no request is shown field by field instead.
        assert!(request(&json!({"spec": {"request": "YQ=="}})).is_none());
    }
}
