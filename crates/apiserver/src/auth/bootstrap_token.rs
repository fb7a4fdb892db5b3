//! Bootstrap tokens: `id.secret` kept in Secrets of kube-system, for joining a cluster; and the signature
//! by which a holder of such a token can trust the published cluster-info.

use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use super::{Identity, Objects};

pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// A token's two halves.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    pub id: &'a str,
    pub secret: &'a str,
}

impl<'a> Token<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let plain = |part: &str| part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret))
            .then_some(Self { id, secret })
    }
}

/// The user a bootstrap token stands for; none where it is no valid token.
pub fn authenticate(token: &str, objects: &dyn Objects, now: Timestamp) -> Option<Identity> {
    let token = Token::parse(token)?;
    let name = format!("bootstrap-token-{}", token.id);
    let secret = objects.get(&GroupResource::new("", "secrets"), "kube-system", &name)?;
    let matches = !secret.is_being_deleted()
        && secret.str_at(&["type"]) == Some(SECRET_TYPE)
        && constant_time::verify_slices_are_equal(
            data(&secret, "token-secret").as_bytes(),
            token.secret.as_bytes(),
        )
        .is_ok()
        && data(&secret, "token-id") == token.id
        && !has_expired(&secret, now)
        && data(&secret, "usage-bootstrap-authentication") == "true";
    if !matches {
        return None;
    }
    Some(Identity::new(format!("system:bootstrap:{}", token.id), groups(&secret)?))
}

/// Whether the token in a Secret is past its expiration; an unreadable time counts as past.
pub fn has_expired(secret: &Value, now: Timestamp) -> bool {
    let expiration = data(secret, "expiration");
    !expiration.is_empty() && expiration.parse::<Timestamp>().map_or(true, |until| until < now)
}

/// One decoded entry of a Secret's data; empty where there is none.
pub fn data(secret: &Value, key: &str) -> String {
    secret
        .str_at(&["data", key])
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default()
}

/// The sorted groups; none if one of the extra groups is not allowed.
fn groups(secret: &Value) -> Option<Vec<String>> {
    let mut groups = vec![GROUP.to_owned()];
    let extra = data(secret, "auth-extra-groups");
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let tail = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let last = tail.bytes().last()?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let inner = |b: u8| plain(b) || b == b':' || b == b'-';
        if tail.len() > 256 || !plain(last) || !tail.bytes().all(inner) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

/// Signs `content` with a token as a detached JWS: the value of `jws-kubeconfig-<id>` in cluster-info.
pub fn detached_jws(content: &str, token: Token<'_>) -> String {
    let header = json!({"alg": "HS256", "kid": token.id}).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret.as_bytes());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    format!("{header}..{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::test_objects::MapObjects;

    fn secret(entries: &[(&str, &str)]) -> Value {
        let mut data = json!({});
        let common = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ];
        for (key, value) in common.iter().chain(entries) {
            data[*key] = STANDARD.encode(value).into();
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE, "data": data,
            "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abcdef"}})
    }

    type Entries = &'static [(&'static str, &'static str)];

    // Shows: AUTHN-5
    #[test]
    fn tokens_count_only_while_everything_about_them_is_right() {
        let now = Timestamp::UNIX_EPOCH;
        let good = "abcdef.0123456789abcdef";
        let cases: [(Entries, &str, Option<&[&str]>); 9] = [
            (&[], good, Some(&["system:bootstrappers"])),
            (
                &[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a")],
                good,
                Some(&["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"]),
            ),
            (&[("auth-extra-groups", "system:masters")], good, None),
            (&[("expiration", "1970-01-02T00:00:00Z")], good, Some(&["system:bootstrappers"])),
            (&[("expiration", "1969-12-31T00:00:00Z")], good, None),
            (&[("expiration", "soon")], good, None),
            (&[("usage-bootstrap-authentication", "false")], good, None),
            (&[], "abcdef.0123456789abcdee", None),
            (&[], "abcdef0123456789abcdef", None),
        ];
        for (entries, token, expected) in cases {
            let objects = MapObjects::of([secret(entries)]);
            let identity = authenticate(token, &objects, now);
            let groups: Option<Vec<&str>> =
                identity.as_ref().map(|i| i.groups.iter().map(String::as_str).collect());
            assert_eq!(groups.as_deref(), expected, "{entries:?} {token}");
        }
        let mut other = secret(&[]);
        other["type"] = "Opaque".into();
        assert!(authenticate(good, &MapObjects::of([other]), now).is_none());
    }

    // Shows: AUTHN-5
    #[test]
    fn the_detached_signature_has_no_payload_and_depends_on_content_and_token() {
        let token = Token::parse("abcdef.0123456789abcdef").expect("well formed");
        let jws = detached_jws("content", token);
        assert!(jws.contains(".."));
        assert_ne!(jws, detached_jws("other", token));
        let header =
            jws.split('.').next().and_then(|h| URL_SAFE_NO_PAD.decode(h).ok()).expect("a header");
        assert_eq!(
            serde_json::from_slice::<Value>(&header).expect("json"),
            json!({"alg": "HS256", "kid": "abcdef"})
        );
    }
}
