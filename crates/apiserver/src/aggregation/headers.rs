//! Who asks, told to another server: what the client said about itself is taken off, what this server
//! found out is put on.

use std::fmt::Write as _;

use http::header::{self, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use karmada_apimachinery::status::Status;

use crate::auth::Identity;

/// A token that browsers offer among the protocols of a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Replaces whatever names a user by who was found to ask.
pub(super) fn identify(headers: &mut HeaderMap, user: &Identity) -> Result<(), Status> {
    let own: Vec<_> = headers.keys().filter(|name| names_somebody(name)).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    hide_token(headers);
    headers.insert("x-remote-user", value(&user.user)?);
    if !user.uid.is_empty() {
        headers.insert("x-remote-uid", value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append("x-remote-group", value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escape(key));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| untellable())?;
        for one in values {
            headers.append(name.clone(), value(one)?);
        }
    }
    Ok(())
}

fn names_somebody(name: &HeaderName) -> bool {
    *name == header::AUTHORIZATION
        || ["impersonate-", "x-remote-"].iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// Leaves out the token among the protocols of a WebSocket; the other protocols stay.
fn hide_token(headers: &mut HeaderMap) {
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .collect();
    let kept: Vec<&str> = offered
        .iter()
        .map(String::as_str)
        .filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL))
        .collect();
    if kept.len() == offered.len() {
        return;
    }
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(kept) = HeaderValue::from_str(&kept.join(", "))
        && !kept.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
    }
}

/// What cannot be said in a header must not be left out either: nobody else may be meant then.
fn value(text: &str) -> Result<HeaderValue, Status> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| untellable())
}

fn untellable() -> Status {
    Status::bad_request("the name of the caller cannot be passed on")
}

/// A key as part of the name of a header: bytes that have no place there are percent-encoded.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if is_plain {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: AGG-2
    #[test]
    fn callers_arrive_as_who_they_are_and_never_as_who_they_say() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer mine"),
            ("impersonate-user", "root"),
            ("x-remote-user", "root"),
            ("x-remote-uid", "0"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-anything", "at all"),
            ("accept", "application/json"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dA, v4"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let mut user = Identity::new("ada", ["dev", "system:authenticated"]);
        user.extra.insert("acme.com/scope".into(), vec!["a".into(), "b".into()]);
        identify(&mut headers, &user).unwrap();
        let mut found: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: application/json",
                "sec-websocket-protocol: v4",
                "x-remote-extra-acme.com%2fscope: a",
                "x-remote-extra-acme.com%2fscope: b",
                "x-remote-group: dev",
                "x-remote-group: system:authenticated",
                "x-remote-user: ada",
            ]
        );
        let hostile = Identity::new("ada\r\nx-remote-group: system:masters", [""; 0]);
        assert!(identify(&mut headers, &hostile).is_err());
    }
}
