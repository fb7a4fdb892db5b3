//! Query strings and percent-encoding.

use std::borrow::Cow;

/// The decoded pairs of a query string, in order.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(Cow<'static, str>, String)>);

impl Query {
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(key).into(), decode_form(value))
        });
        Self(pairs.collect())
    }

    /// Pairs that were never a string.
    pub fn of(pairs: Vec<(&'static str, String)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// The path with the pairs behind it.
    pub fn append_to(&self, path: String) -> String {
        let pairs = self.0.iter().map(|(key, value)| (&**key, value.as_str()));
        karmada_handover::Query::of(pairs).append_to(path)
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The first value of a parameter; empty counts as absent.
    pub fn non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    pub fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.as_str()).collect()
    }

    /// A boolean as Go's query conversion reads it: present without a value, or anything but `0` and `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value, "0" | "false"))
    }
}

fn decode_form(text: &str) -> String {
    decode_percent(&text.replace('+', " "))
}

/// Replaces `%XX`; what is no valid escape stays as it is.
pub fn decode_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
            .flatten();
        match escape {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Escapes everything that may not stand in a path segment or query value.
pub fn encode_percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_kept_in_order() {
        let query = Query::parse("a=1&b=x%3Dy+z&a=2&watch&c=%zz");
        assert_eq!(query.all("a"), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x=y z"));
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.flag("absent"), None);
        assert_eq!(query.get("c"), Some("%zz"));
    }
}
