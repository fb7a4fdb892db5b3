//! Who sent a request: front proxy, client certificate, bearer token, or nobody in particular.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderMap, SEC_WEBSOCKET_PROTOCOL};
use jiff::Timestamp;
use karmada_apimachinery::status::Status;
use tracing::debug;

use super::client_certs::ClientCerts;
use super::token::{TokenIssuer, Verified};
use super::{Authenticator, Clock, Identity, Objects, PeerCerts, bootstrap_token};

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

const INVALID_TOKEN: &str = "invalid bearer token";

/// Headers an authenticating proxy names the user with, trusted only over a certificate of its own.
pub struct FrontProxy {
    pub authorities: ClientCerts,
    /// Common names allowed to do so; empty allows any.
    pub allowed_names: Vec<String>,
    pub headers: ProxyHeaders,
}

/// The headers that carry the parts of a user; of several, the first that is there counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyHeaders {
    pub users: Vec<String>,
    pub uids: Vec<String>,
    pub groups: Vec<String>,
    /// What the names of all other headers about a user begin with.
    pub extra_prefixes: Vec<String>,
}

impl Default for ProxyHeaders {
    fn default() -> Self {
        let only = |name: &str| vec![name.to_owned()];
        Self {
            users: only("X-Remote-User"),
            uids: only("X-Remote-Uid"),
            groups: only("X-Remote-Group"),
            extra_prefixes: only("X-Remote-Extra-"),
        }
    }
}

/// All ways to authenticate, asked in order. Authorities can be swapped while requests are served.
pub struct Authentication {
    pub front_proxy: ArcSwapOption<FrontProxy>,
    pub client_certs: ArcSwapOption<ClientCerts>,
    pub tokens: Arc<TokenIssuer>,
    pub objects: Arc<dyn Objects>,
    pub allow_anonymous: bool,
    pub clock: Clock,
}

impl Authenticator for Authentication {
    fn authenticate(
        &self,
        parts: &http::request::Parts,
        peer: Option<&PeerCerts>,
    ) -> Result<Identity, Status> {
        let now = (self.clock)();
        let mut failures: Vec<String> = Vec::new();
        let peer = peer.filter(|peer| !peer.chain.is_empty());
        let ways: [&dyn Fn() -> Result<Option<Identity>, String>; 3] = [
            &|| self.by_front_proxy(&parts.headers, peer, now),
            &|| self.by_certificate(peer, now),
            &|| self.by_bearer_token(&parts.headers, now),
        ];
        for way in ways {
            match way() {
                Ok(Some(identity)) => return Ok(with_common_group(identity)),
                Ok(None) => {}
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() && self.allow_anonymous {
            return Ok(Identity::new(ANONYMOUS, [UNAUTHENTICATED]));
        }
        debug!(path = parts.uri.path(), ?failures, "request not authenticated");
        Err(Status::unauthorized())
    }
}

impl Authentication {
    fn by_front_proxy(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCerts>,
        now: Timestamp,
    ) -> Result<Option<Identity>, String> {
        let front_proxy = self.front_proxy.load();
        let (Some(proxy), Some(peer)) = (&*front_proxy, peer) else { return Ok(None) };
        let Some(identity) = remote_user(headers, &proxy.headers) else { return Ok(None) };
        // The connection remembers one set of authorities only, and that is the one of clients.
        let own = PeerCerts::new(peer.chain.clone());
        let subject = proxy.authorities.verify(&own, now).map_err(chain)?;
        if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(&subject.common_name) {
            return Err(format!(
                "x509: subject with cn={} is not in the allowed list",
                subject.common_name
            ));
        }
        Ok(Some(identity))
    }

    fn by_certificate(
        &self,
        peer: Option<&PeerCerts>,
        now: Timestamp,
    ) -> Result<Option<Identity>, String> {
        let client_certs = self.client_certs.load();
        let (Some(authorities), Some(peer)) = (&*client_certs, peer) else { return Ok(None) };
        authorities.authenticate(peer, now).map_err(chain)
    }

    fn by_bearer_token(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Option<Identity>, String> {
        let Some(token) = bearer_token(headers) else { return Ok(None) };
        let verified = self.verify_token(&token, None, now)?;
        Ok(Some(verified.identity))
    }

    /// Verifies a bearer token for some audiences (by default the API's own); the identity lacks the
    /// common group. The error is what a TokenReview shows.
    pub fn verify_token(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: Timestamp,
    ) -> Result<Verified, String> {
        match self.tokens.verify(token, audiences, &*self.objects, now) {
            Ok(Some(verified)) => return Ok(verified),
            Ok(None) => {}
            Err(error) => return Err(format!("[{INVALID_TOKEN}, {error}]")),
        }
        // Bootstrap tokens know no audiences, so they hold for those of the API.
        let own = self.tokens.audiences();
        let common: Vec<String> = match audiences {
            None => own.to_vec(),
            Some(asked) => {
                asked.iter().filter(|audience| own.contains(audience)).cloned().collect()
            }
        };
        bootstrap_token::authenticate(token, &*self.objects, now)
            .filter(|_| !common.is_empty())
            .map(|identity| Verified { identity, audiences: common })
            .ok_or_else(|| INVALID_TOKEN.to_owned())
    }
}

/// Adds the group of everybody who is known, unless the identity says otherwise itself.
pub fn with_common_group(mut identity: Identity) -> Identity {
    let decided = identity.is_in(AUTHENTICATED) || identity.is_in(UNAUTHENTICATED);
    if identity.user != ANONYMOUS && !decided {
        identity.groups.push(AUTHENTICATED.to_owned());
    }
    identity
}

fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut words = authorization.unwrap_or_default().trim().split(' ');
    let is_bearer = words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    let token = words.next().filter(|token| is_bearer && !token.is_empty());
    token.map(str::to_owned).or_else(|| websocket_token(headers))
}

/// Browsers cannot set the Authorization header on a WebSocket and offer the token as a protocol.
fn websocket_token(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|v| v.to_str().ok());
    let encoded = protocols
        .flat_map(|value| value.split(','))
        .find_map(|one| one.trim().strip_prefix("base64url.bearer.authorization.k8s.io."))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

fn remote_user(headers: &HeaderMap, names: &ProxyHeaders) -> Option<Identity> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |names: &[String]| {
        names.iter().find_map(|name| headers.get(name).map(text).filter(|text| !text.is_empty()))
    };
    let user = first(&names.users)?;
    let groups = names.groups.iter().flat_map(|name| headers.get_all(name).iter().map(text));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let keys = names.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase());
        for prefix in keys {
            if let Some(key) = name.as_str().strip_prefix(&prefix) {
                extra.entry(decode_key(key)).or_default().push(text(value));
            }
        }
    }
    Some(Identity {
        user,
        uid: first(&names.uids).unwrap_or_default(),
        groups: groups.filter(|group| !group.is_empty()).collect(),
        extra,
    })
}

/// Undoes percent encoding in a header's key part; a malformed key stays as it is.
pub(super) fn decode_key(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return key.to_owned() };
        bytes.push((high * 16 + low) as u8);
        rest = &tail[2..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn chain(error: super::client_certs::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::test_objects::MapObjects;
    use crate::auth::token::{DEFAULT_ISSUER, TokenIssuer};
    use crate::pki::certificate::Leaf;
    use crate::pki::{FRONT_PROXY_CLIENT, Pki, Settings};
    use jiff::SignedDuration;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("in range")
    }

    fn pki() -> Pki {
        let settings = Settings::new(None, SignedDuration::from_hours(24), [], []);
        Pki::open(settings, now()).expect("made")
    }

    fn authentication(pki: &Pki, allowed: &str) -> Authentication {
        let proxy = FrontProxy {
            authorities: pki.front_proxy_certs().expect("trusted"),
            allowed_names: vec![allowed.to_owned()],
            headers: ProxyHeaders::default(),
        };
        let key = pki.service_account_key().expect("a key");
        Authentication {
            front_proxy: ArcSwapOption::from_pointee(proxy),
            client_certs: ArcSwapOption::from_pointee(pki.client_certs().expect("trusted")),
            tokens: Arc::new(TokenIssuer::new(DEFAULT_ISSUER, key, vec![])),
            objects: Arc::new(MapObjects::default()),
            allow_anonymous: true,
            clock: Arc::new(now),
        }
    }

    fn ask(
        authentication: &Authentication,
        leaf: Option<&Leaf>,
        headers: &[(&str, &str)],
    ) -> Result<Identity, Status> {
        let mut request = http::Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).expect("a request").into_parts().0;
        let peer = leaf.map(|leaf| PeerCerts::new(vec![leaf.certificate.clone()]));
        authentication.authenticate(&parts, peer.as_ref())
    }

    // Shows: AUTHN-1, AUTHN-2
    #[test]
    fn certificates_name_the_user_and_outrank_tokens() {
        let (pki, other) = (pki(), pki());
        let authentication = authentication(&pki, FRONT_PROXY_CLIENT);
        let admin = ask(&authentication, Some(&pki.admin()), &[("authorization", "Bearer nope")]);
        let admin = admin.expect("the certificate holds");
        assert_eq!(admin.user, "system:admin");
        assert_eq!(admin.groups, ["system:masters", "system:authenticated"]);
        let id = &admin.extra["authentication.kubernetes.io/credential-id"][0];
        assert_eq!(id.strip_prefix("X509SHA256=").map(str::len), Some(64));
        let stranger = ask(&authentication, Some(&other.admin()), &[]);
        assert_eq!(stranger, Err(Status::unauthorized()), "bad credentials are not nobody's");
    }

    // Shows: AUTHN-1
    #[test]
    fn remote_user_headers_count_only_from_the_allowed_proxy() {
        let pki = pki();
        let trusting = authentication(&pki, FRONT_PROXY_CLIENT);
        let headers = [
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2Fscope", "s"),
        ];
        let proxy = pki.front_proxy_client();
        let ann = ask(&trusting, Some(&proxy), &headers).expect("trusted");
        assert_eq!((ann.user.as_str(), ann.uid.as_str()), ("ann", "7"));
        assert_eq!(ann.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(ann.extra["acme.com/scope"], ["s"]);
        let users = [
            (ask(&trusting, None, &headers), Some(ANONYMOUS)),
            (ask(&trusting, Some(&pki.admin()), &headers), Some("system:admin")),
            (ask(&trusting, Some(&proxy), &[]), None),
            (ask(&authentication(&pki, "somebody-else"), Some(&proxy), &headers), None),
        ];
        for (answer, user) in users {
            assert_eq!(answer.ok().map(|identity| identity.user).as_deref(), user);
        }
    }

    #[test]
    fn header_keys_are_decoded_unless_malformed() {
        for (key, decoded) in [("a%2fb", "a/b"), ("a%2", "a%2"), ("%zz", "%zz"), ("%+1", "%+1")] {
            assert_eq!(decode_key(key), decoded);
        }
    }
}
