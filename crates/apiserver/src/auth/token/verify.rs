//! Is a token ours, unchanged, for this audience, in time, and does everything it is bound to still exist.

use std::collections::HashSet;
use std::sync::Arc;

use aws_lc_rs::{constant_time, digest};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::status::Status;
use parking_lot::Mutex;

use super::{LEGACY_ISSUER, TokenIssuer};
use crate::auth::rule::quote_list;
use crate::auth::{Identity, Objects, service_account};

/// Clocks may differ by this much.
const LEEWAY_SECONDS: i64 = 60;
const INVALIDATED: &str = "service account token has been invalidated";
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// A token that holds, and the audiences it holds for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub identity: Identity,
    pub audiences: Vec<String>,
}

impl TokenIssuer {
    /// Returns nothing for a token that is not one of ours, an error for one of ours that does not hold.
    pub fn verify(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Option<Verified>, String> {
        let Some(parsed) = Parsed::read(token) else { return Ok(None) };
        let issuer = parsed.claims.str_at(&["iss"]).unwrap_or_default();
        if issuer != self.issuer && issuer != LEGACY_ISSUER {
            return Ok(None);
        }
        // The mathematics hold for ever; all else about the token is looked at every time.
        let known = Proven::mark(token);
        if !self.proven.contains(&known) {
            self.check_signature(&parsed)?;
            self.proven.insert(known);
        }
        let audiences = self.common_audiences(&parsed.claims, audiences)?;
        let check = Check { claims: &parsed.claims, objects, now };
        let identity =
            if issuer == LEGACY_ISSUER { check.legacy(token)? } else { check.bound()? };
        Ok(Some(Verified { identity, audiences }))
    }

    fn check_signature(&self, token: &Parsed<'_>) -> Result<(), String> {
        let algorithm = token.header.str_at(&["alg"]).unwrap_or_default();
        let id = token.header.str_at(&["kid"]).filter(|id| !id.is_empty());
        let mut keys = self.keys().filter(|key| id.is_none_or(|id| key.id == id)).peekable();
        if keys.peek().is_none() {
            return Err("invalid signature, no keys found".to_owned());
        }
        // The key decides the algorithm; a header that says otherwise is a forgery.
        let verifies = keys.any(|key| {
            key.algorithm.name() == algorithm
                && key.verifies(token.signed.as_bytes(), &token.signature)
        });
        if verifies {
            Ok(())
        } else {
            Err("go-jose/go-jose: error in cryptographic primitive".to_owned())
        }
    }

    fn common_audiences(
        &self,
        claims: &Value,
        asked: Option<&[String]>,
    ) -> Result<Vec<String>, String> {
        let own: Vec<String> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one.to_string()],
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => vec![],
        };
        let own = if own.is_empty() { self.audiences.clone() } else { own };
        let asked = asked.unwrap_or(&self.audiences);
        let common: Vec<String> = own.iter().filter(|one| asked.contains(one)).cloned().collect();
        if common.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quote_list(&own),
                quote_list(asked)
            ));
        }
        Ok(common)
    }
}

/// Tokens whose signatures were found right, by their digests: whoever comes with a token comes
/// with every request.
#[derive(Default)]
pub(super) struct Proven(Mutex<HashSet<Vec<u8>>>);

impl Proven {
    /// So many are remembered before all are forgotten.
    const MOST: usize = 4096;

    fn mark(token: &str) -> Vec<u8> {
        digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
    }

    fn contains(&self, mark: &[u8]) -> bool {
        self.0.lock().contains(mark)
    }

    fn insert(&self, mark: Vec<u8>) {
        let mut marks = self.0.lock();
        if marks.len() >= Self::MOST {
            marks.clear();
        }
        marks.insert(mark);
    }
}

/// A token taken apart, nothing checked.
struct Parsed<'a> {
    header: Value,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parsed<'a> {
    fn read(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let json = |part: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        Some(Self {
            header: json(header)?,
            claims: json(claims)?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }
}

struct Check<'a> {
    claims: &'a Value,
    objects: &'a dyn Objects,
    now: Timestamp,
}

impl Check<'_> {
    fn bound(&self) -> Result<Identity, String> {
        self.check_times()?;
        let private = self.claims.get("kubernetes.io").unwrap_or(&Value::Null);
        let text = |path: &[&str]| private.str_at(path).unwrap_or_default();
        let namespace = text(&["namespace"]);
        let (name, uid) = (text(&["serviceaccount", "name"]), text(&["serviceaccount", "uid"]));

        let account = self.get("serviceaccounts", namespace, name);
        let missing =
            || Status::not_found(&GroupResource::new("", "serviceaccounts"), name).message;
        let account = account.ok_or_else(missing)?;
        if account.uid() != uid {
            let stored = account.uid();
            return Err(format!("service account UID ({stored}) does not match claim ({uid})"));
        }
        if self.is_gone(&account) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let mut identity = service_account::identity(namespace, name, uid);
        if let Some(id) = self.claims.str_at(&["jti"]).filter(|id| !id.is_empty()) {
            let credential = vec![format!("JTI={id}")];
            identity.extra.insert(service_account::CREDENTIAL_ID.to_owned(), credential);
        }
        self.check_reference(private, "secret", namespace)?;
        let pod = self.check_reference(private, "pod", namespace)?;
        if let Some((name, uid)) = pod {
            identity.extra.insert(service_account::POD_NAME.to_owned(), vec![name.to_owned()]);
            identity.extra.insert(service_account::POD_UID.to_owned(), vec![uid.to_owned()]);
        }
        // The node of a pod is only told, a node the token itself is bound to must exist.
        let node = if pod.is_some() {
            reference(private, "node")
        } else {
            self.check_reference(private, "node", "")?
        };
        if let Some((name, uid)) = node {
            identity.extra.insert(service_account::NODE_NAME.to_owned(), vec![name.to_owned()]);
            if !uid.is_empty() {
                identity.extra.insert(service_account::NODE_UID.to_owned(), vec![uid.to_owned()]);
            }
        }
        Ok(identity)
    }

    fn check_times(&self) -> Result<(), String> {
        let now = self.now.as_second();
        let time = |claim: &str| self.claims.get(claim).and_then(Value::as_f64);
        let (early, late) = ((now - LEEWAY_SECONDS) as f64, (now + LEEWAY_SECONDS) as f64);
        let problem = if time("nbf").is_some_and(|time| time > late) {
            "service account token is not valid yet"
        } else if time("exp").is_some_and(|time| time < early) {
            "service account token has expired"
        } else if time("iat").is_some_and(|time| time > late) {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(problem.to_owned())
    }

    /// Checks that the object a claim points at exists with that uid; returns its name and uid.
    fn check_reference<'c>(
        &self,
        private: &'c Value,
        kind: &str,
        namespace: &str,
    ) -> Result<Option<(&'c str, &'c str)>, String> {
        let Some((name, uid)) = reference(private, kind) else { return Ok(None) };
        let object = self.get(&format!("{kind}s"), namespace, name);
        let object = object.ok_or_else(|| INVALIDATED.to_owned())?;
        if object.uid() != uid {
            let shown = if kind == "secret" { "secret" } else { kind };
            return Err(format!(
                "{shown} UID ({}) does not match service account {shown} ref claim ({uid})",
                object.uid()
            ));
        }
        if self.is_gone(&object) { Err(INVALIDATED.to_owned()) } else { Ok(Some((name, uid))) }
    }

    fn legacy(&self, token: &str) -> Result<Identity, String> {
        let claim = |key: &str, shown: &str| {
            let full = format!("kubernetes.io/serviceaccount/{key}");
            let text = self.claims.str_at(&[&full]).filter(|text| !text.is_empty());
            text.ok_or_else(|| format!("{shown} claim is missing"))
        };
        let subject = self.claims.str_at(&["sub"]).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or("sub claim is missing")?;
        let namespace = claim("namespace", "namespace")?;
        let secret_name = claim("secret.name", "secretName")?;
        let name = claim("service-account.name", "serviceAccountName")?;
        let uid = claim("service-account.uid", "serviceAccountUID")?;
        if service_account::split_user_name(subject) != Some((namespace, name)) {
            return Err("sub claim is invalid".to_owned());
        }
        let secret = self.get("secrets", namespace, secret_name);
        let secret = secret.filter(|secret| !secret.is_being_deleted());
        let secret = secret.ok_or("Token has been invalidated")?;
        let kept = secret.str_at(&["data", "token"]).and_then(|kept| STANDARD.decode(kept).ok());
        let kept = kept.unwrap_or_default();
        if constant_time::verify_slices_are_equal(&kept, token.as_bytes()).is_err() {
            return Err("Token does not match server's copy".to_owned());
        }
        let account = self.get("serviceaccounts", namespace, name).ok_or_else(|| {
            Status::not_found(&GroupResource::new("", "serviceaccounts"), name).message
        })?;
        if account.is_being_deleted() {
            return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
        }
        if account.uid() != uid {
            let stored = account.uid();
            return Err(format!("ServiceAccount UID ({stored}) does not match claim ({uid})"));
        }
        if secret.label("kubernetes.io/legacy-token-invalid-since").is_some_and(|l| !l.is_empty()) {
            return Err(format!(
                "the token in secret {} for service account {} has been marked invalid",
                quote(&format!("{namespace}/{secret_name}")),
                quote(&format!("{namespace}/{name}"))
            ));
        }
        Ok(service_account::identity(namespace, name, uid))
    }

    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects.get(&GroupResource::new("", resource), namespace, name)
    }

    /// An object marked for deletion longer ago than clocks may differ.
    fn is_gone(&self, object: &Value) -> bool {
        object.str_at(&["metadata", "deletionTimestamp"]).is_some_and(|time| {
            time.parse::<Timestamp>()
                .map_or(true, |time| time.as_second() < self.now.as_second() - LEEWAY_SECONDS)
        })
    }
}

fn reference<'c>(private: &'c Value, kind: &str) -> Option<(&'c str, &'c str)> {
    let claim = private.get(kind).filter(|claim| !claim.is_null())?;
    let text = |key| claim.str_at(&[key]).unwrap_or_default();
    Some((text("name"), text("uid")))
}
