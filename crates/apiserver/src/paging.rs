//! Where the next page of a list begins, as the opaque token clients send back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use karmada_apimachinery::{Value, json};

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// The revision of a token that goes on at the newest state.
const NEWEST: i64 = -1;

/// The place behind a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The first key that may follow, relative to what is listed.
    pub start: String,
    /// The state the pages are of; the newest where there is none.
    pub revision: Option<i64>,
}

impl Place {
    pub fn to_token(&self) -> String {
        let revision = self.revision.unwrap_or(NEWEST);
        let token = json!({"v": TOKEN_VERSION, "rv": revision, "start": self.start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// Reads a token; the error is in the words of Kubernetes.
    pub fn from_token(token: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|_| "illegal base64 data at input byte 0".to_owned())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| unreadable_json(&bytes))?;
        let version = value.get("v").and_then(Value::as_str).unwrap_or_default();
        if version != TOKEN_VERSION {
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        let revision = value.get("rv").and_then(Value::as_i64).unwrap_or_default();
        if revision == 0 {
            return Err(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()
            );
        }
        let start = value.get("start").and_then(Value::as_str).unwrap_or_default().to_owned();
        if start.is_empty() {
            return Err("encoded start key empty (version meta.k8s.io/v1)".to_owned());
        }
        // A token must not lead out of what is listed.
        let is_clean =
            start.trim_end_matches('\0').split('/').all(|part| part != "." && part != "..")
                && !start.contains("//");
        if !is_clean {
            return Err(start);
        }
        Ok(Self { start, revision: (revision > 0).then_some(revision) })
    }
}

fn unreadable_json(bytes: &[u8]) -> String {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(byte) => {
            format!("invalid character '{}' looking for beginning of value", *byte as char)
        }
        None => "unexpected end of JSON input".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_token() {
        for revision in [Some(7), None] {
            let place = Place { start: "ns/name\0".to_owned(), revision };
            assert_eq!(Place::from_token(&place.to_token()), Ok(place));
        }
    }

    #[test]
    fn tokens_of_others_are_refused_in_words_that_name_the_fault() {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let cases = [
            ("%".to_owned(), "illegal base64 data at input byte 0"),
            (encode(""), "unexpected end of JSON input"),
            (encode("x"), "invalid character 'x' looking for beginning of value"),
            (encode("{}"), "server does not recognize this encoded version "),
            (encode(r#"{"v":"v9"}"#), "server does not recognize this encoded version v9"),
            (
                encode(r#"{"v":"meta.k8s.io/v1"}"#),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                encode(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets"}"#), "../secrets"),
            (encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#), "a//b"),
        ];
        for (token, why) in cases {
            assert_eq!(Place::from_token(&token), Err(why.to_owned()), "{token}");
        }
    }
}
