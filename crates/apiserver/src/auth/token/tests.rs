use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use proptest::prelude::*;
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::*;
use crate::auth::authenticate::Authentication;
use crate::auth::test_objects::MapObjects;
use crate::auth::{Authenticator, Identity, review};

const UID: &str = "11111111-2222-3333-4444-555555555555";

/// RSA keys are slow to make, so all tests share one.
static KEY: LazyLock<Vec<u8>> = LazyLock::new(|| SigningKey::generate().expect("a key"));

fn pem(der: &[u8]) -> Vec<u8> {
    use base64::engine::general_purpose::STANDARD;
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
        .into_bytes()
}

fn issuer() -> TokenIssuer {
    let key = SigningKey::from_pem(&pem(&KEY)).expect("the shared key");
    TokenIssuer::new(DEFAULT_ISSUER, key, vec![])
}

fn objects() -> MapObjects {
    let object = |kind: &str, name: &str, spec: Value| {
        let namespace = if kind == "Node" { "" } else { "n" };
        json!({"apiVersion": "v1", "kind": kind, "spec": spec,
            "metadata": {"namespace": namespace, "name": name, "uid": UID}})
    };
    MapObjects::of([
        object("ServiceAccount", "robot", json!({})),
        object("Secret", "s", json!({})),
        object("Node", "node", json!({})),
        object("Pod", "p", json!({"serviceAccountName": "robot", "nodeName": "node"})),
        object("Pod", "other", json!({"serviceAccountName": "somebody"})),
    ])
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("in range")
}

fn later(seconds: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_secs(seconds)).expect("in range")
}

fn request(spec: Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

fn issue(spec: Value) -> Result<Value, karmada_apimachinery::status::Status> {
    issuer().issue(&request(spec), "n", "robot", &objects(), now())
}

fn token(answer: &Value) -> String {
    answer.str_at(&["status", "token"]).expect("a token").to_owned()
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("json")
}

// Shows: AUTHN-3, AUTHN-4
#[test]
fn an_issued_token_names_its_account_and_is_accepted_until_it_expires() {
    let answer = issue(json!({})).expect("issued");
    assert_eq!(
        answer["spec"],
        json!({"audiences": [DEFAULT_ISSUER], "boundObjectRef": null, "expirationSeconds": 3600})
    );
    assert_eq!(answer["status"]["expirationTimestamp"], "1970-01-12T14:46:40Z");
    let token = token(&answer);
    let verified =
        issuer().verify(&token, None, &objects(), later(3600)).expect("holds").expect("ours");
    assert_eq!(verified.audiences, [DEFAULT_ISSUER]);
    assert_eq!(verified.identity.user, "system:serviceaccount:n:robot");
    assert_eq!(verified.identity.uid, UID);
    assert_eq!(verified.identity.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
    let credential = &verified.identity.extra[service_account::CREDENTIAL_ID][0];
    assert_eq!(*credential, format!("JTI={}", claims(&token)["jti"].as_str().expect("an id")));
    let at = |time| issuer().verify(&token, None, &objects(), time).expect_err("refused");
    assert_eq!(at(later(3661)), "service account token has expired");
    assert_eq!(at(later(-61)), "service account token is not valid yet");
}

#[test]
fn a_token_that_was_accepted_before_is_refused_when_it_no_longer_holds() {
    let (issuer, token) = (issuer(), token(&issue(json!({})).expect("issued")));
    for _ in 0..2 {
        assert!(issuer.verify(&token, None, &objects(), now()).is_ok_and(|known| known.is_some()));
    }
    assert!(issuer.verify(&token, None, &objects(), later(4000)).is_err());
    assert!(issuer.verify(&token, None, &MapObjects::of([]), now()).is_err());
    let other = ["other".to_owned()];
    assert!(issuer.verify(&token, Some(&other), &objects(), now()).is_err());
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    assert!(issuer.verify(&forged, None, &objects(), now()).is_err());
}

// Shows: AUTHN-4
#[test]
fn requests_are_checked_field_by_field() {
    let cases = [
        (json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (
            json!({"expirationSeconds": 5_000_000_000_i64}),
            422,
            "may not specify a duration larger than 2^32 seconds",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}}),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "gone"}}),
            404,
            "secrets \"gone\" not found",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "x"}}),
            409,
            "the UID in the bound object reference (x) does not match",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "other"}}),
            400,
            "pod running with different serviceaccount name",
        ),
    ];
    for (spec, code, message) in cases {
        let status = issue(spec.clone()).expect_err("refused");
        assert_eq!(status.code, code, "{spec}");
        assert!(status.message.contains(message), "{}", status.message);
    }
    let mut wrong = request(json!({}));
    wrong.set(&["metadata", "name"], "other");
    let status = issuer().issue(&wrong, "n", "robot", &objects(), now()).expect_err("refused");
    assert_eq!(
        status.message,
        "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must match the service account name if specified"
    );
    let status =
        issuer().issue(&request(json!({})), "n", "nope", &objects(), now()).expect_err("refused");
    assert_eq!(status.message, "serviceaccounts \"nope\" not found");
}

// Shows: AUTHN-3, AUTHN-4
#[test]
fn a_bound_token_dies_with_its_object() {
    for (kind, name) in
        [("Secret", "s"), ("Pod", "p"), ("Node", "node"), ("ServiceAccount", "robot")]
    {
        let bound = if kind == "ServiceAccount" {
            json!({})
        } else {
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
        };
        let token = token(&issue(bound).expect("issued"));
        let objects = objects();
        assert!(issuer().verify(&token, None, &objects, now()).is_ok(), "{kind}");
        objects.remove(kind, name);
        assert!(issuer().verify(&token, None, &objects, now()).is_err(), "{kind}");
    }
}

// Shows: AUTHN-3
#[test]
fn a_pod_token_tells_pod_and_node_and_a_kubelets_lives_longer() {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let answer =
        issue(json!({"boundObjectRef": bound, "expirationSeconds": 3607})).expect("issued");
    let token = token(&answer);
    let claims = claims(&token);
    assert_eq!(claims["exp"], 1_000_000 + 365 * 24 * 3600);
    assert_eq!(claims["kubernetes.io"]["warnafter"], 1_000_000 + 3607);
    let verified = issuer().verify(&token, None, &objects(), now()).expect("holds").expect("ours");
    let extra = |key: &str| verified.identity.extra[key].join(",");
    assert_eq!(
        (extra(service_account::POD_NAME), extra(service_account::NODE_NAME)),
        ("p".into(), "node".into())
    );
}

#[test]
fn audiences_must_meet() {
    let token = token(&issue(json!({"audiences": ["a", "b"]})).expect("issued"));
    let asked = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let verify =
        |audiences: Option<&[String]>| issuer().verify(&token, audiences, &objects(), now());
    assert_eq!(verify(Some(&asked(&["b", "c"]))).expect("holds").expect("ours").audiences, ["b"]);
    assert_eq!(
        verify(None).expect_err("refused"),
        format!(
            "token audiences [\"a\" \"b\"] is invalid for the target audiences [\"{DEFAULT_ISSUER}\"]"
        )
    );
}

// Shows: AUTHN-4
#[test]
fn a_legacy_token_holds_only_while_its_secret_keeps_it() {
    use base64::engine::general_purpose::STANDARD;
    let account = Account { namespace: "n", name: "robot", uid: UID };
    let token = issuer().legacy_token(&account, "s").expect("minted");
    let with = |data: &str| {
        let objects = objects();
        objects.remove("Secret", "s");
        objects.0.write().push(Arc::new(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "n", "name": "s"}, "data": {"token": STANDARD.encode(data)}})));
        issuer().verify(&token, None, &objects, now())
    };
    let verified = with(&token).expect("holds").expect("ours");
    assert_eq!(verified.identity, service_account::identity("n", "robot", UID));
    assert_eq!(with("other").expect_err("refused"), "Token does not match server's copy");
    assert_eq!(
        issuer().verify(&token, None, &MapObjects::default(), now()).expect_err("refused"),
        "Token has been invalidated"
    );
}

// Shows: AUTHN-3
#[test]
fn changed_foreign_and_unsigned_tokens_are_refused() {
    let good = token(&issue(json!({})).expect("issued"));
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    let (header, payload) = signed.split_once('.').expect("two parts");
    let mut changed = claims(&good);
    changed["sub"] = "system:serviceaccount:kube-system:admin".into();
    let changed = URL_SAFE_NO_PAD.encode(changed.to_string());
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let hs = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let verify = |token: String| issuer().verify(&token, None, &objects(), now());
    assert!(verify(format!("{header}.{changed}.{signature}")).is_err());
    assert!(verify(format!("{none}.{payload}.")).is_err());
    assert!(verify(format!("{hs}.{payload}.{signature}")).is_err());
    assert_eq!(verify("nope".into()), Ok(None));
    assert_eq!(verify("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln".into()), Ok(None));

    let other = SigningKey::generate().expect("a key");
    let other = TokenIssuer::new(
        DEFAULT_ISSUER,
        SigningKey::from_pem(&pem(&other)).expect("a key"),
        vec![],
    );
    assert_eq!(
        other.verify(&good, None, &objects(), now()),
        Err("invalid signature, no keys found".into())
    );
    let retired = issuer().signer.public().clone();
    let rotated = TokenIssuer { retired: vec![retired], ..other };
    assert!(rotated.verify(&good, None, &objects(), now()).is_ok(), "a retired key still verifies");
}

// Shows: AUTHN-3, OIDC-1
#[test]
fn elliptic_keys_sign_too_and_keys_are_published() {
    let rng = aws_lc_rs::rand::SystemRandom::new();
    let ecdsa = &aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let der = aws_lc_rs::signature::EcdsaKeyPair::generate_pkcs8(ecdsa, &rng).expect("a key");
    let key = SigningKey::from_pem(&pem(
        PrivatePkcs8KeyDer::from(der.as_ref().to_vec()).secret_pkcs8_der()
    ))
    .expect("a key");
    let tokens = TokenIssuer::new(DEFAULT_ISSUER, key, vec![issuer().signer.public().clone()]);
    let answer =
        tokens.issue(&request(json!({})), "n", "robot", &objects(), now()).expect("issued");
    assert!(tokens.verify(&token(&answer), None, &objects(), now()).expect("holds").is_some());
    let set = tokens.key_set();
    assert_eq!((&set["keys"][0]["kty"], &set["keys"][1]["kty"]), (&json!("EC"), &json!("RSA")));
    assert_eq!(set["keys"][1]["e"], "AQAB");
    let document = tokens.openid_configuration("https://127.0.0.1:6443");
    assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256", "RS256"]));
    assert_eq!(document["jwks_uri"], "https://127.0.0.1:6443/openid/v1/jwks");
}

fn authentication() -> Authentication {
    Authentication {
        front_proxy: ArcSwapOption::empty(),
        client_certs: ArcSwapOption::empty(),
        tokens: Arc::new(issuer()),
        objects: Arc::new(objects()),
        allow_anonymous: true,
        clock: Arc::new(now),
    }
}

// Shows: AUTHN-1, AUTHN-7
#[test]
fn credentials_are_taken_from_the_authorization_header() {
    let good = token(&issue(json!({})).expect("issued"));
    let robot = Some("system:serviceaccount:n:robot");
    let nobody = Some("system:anonymous");
    let cases = [
        (format!("Bearer {good}"), robot),
        (format!("bearer {good}"), robot),
        (format!("Bearer  {good}"), nobody),
        ("Bearer nope".to_owned(), None),
        ("Bearer ".to_owned(), nobody),
        ("Basic dTpw".to_owned(), nobody),
        (String::new(), nobody),
    ];
    for (header, expected) in cases {
        let request = http::Request::builder()
            .uri("/")
            .header("authorization", &header)
            .body(())
            .expect("a request");
        let identity = authentication().authenticate(&request.into_parts().0, None).ok();
        assert_eq!(identity.as_ref().map(|identity| identity.user.as_str()), expected, "{header}");
    }
}

// Shows: AUTHZ-5
#[test]
fn token_reviews_say_who_or_why_not() {
    let good = token(&issue(json!({})).expect("issued"));
    let ask = |spec: Value| {
        review::token(&json!({"spec": spec}), &authentication())
            .map(|answer| answer["status"].clone())
    };
    let status = ask(json!({"token": good})).expect("answered");
    assert_eq!(
        status["user"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"])
    );
    assert_eq!(status["audiences"], json!([DEFAULT_ISSUER]));
    assert_eq!(
        ask(json!({"token": "nope"})),
        Ok(json!({"user": {}, "error": "invalid bearer token"}))
    );
    let mismatch = ask(json!({"token": good, "audiences": ["other"]})).expect("answered");
    assert_eq!(
        mismatch["error"],
        format!(
            "[invalid bearer token, token audiences [\"{DEFAULT_ISSUER}\"] is invalid for the target audiences [\"other\"]]"
        )
    );
    assert_eq!(
        ask(json!({})).expect_err("refused").message,
        "token is required for TokenReview in authentication"
    );
    let ann = Identity::new("ann", ["system:authenticated"]);
    let answer = review::self_subject(
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
        &ann,
        now(),
    );
    assert_eq!(
        answer["status"],
        json!({"userInfo": {"username": "ann", "groups": ["system:authenticated"]}})
    );
}

proptest! {
    #[test]
    fn no_token_text_makes_verification_panic(text in ".{0,200}", header in "\\PC{0,40}", payload in "\\PC{0,80}") {
        let tokens = issuer();
        let objects = MapObjects::default();
        let _ = tokens.verify(&text, None, &objects, now());
        let built = format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let _ = tokens.verify(&built, None, &objects, now());
    }

    #[test]
    fn a_token_with_any_byte_changed_is_refused(at in 0_usize..1000, by in 1_u8..64) {
        static GOOD: LazyLock<String> = LazyLock::new(|| token(&issue(json!({})).expect("issued")));
        let mut bytes = GOOD.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = bytes[at].wrapping_add(by) & 0x7f;
        prop_assume!(bytes != GOOD.as_bytes());
        if let Ok(text) = String::from_utf8(bytes) {
            // The last characters of base64 carry unused bits; strict decoding refuses those too.
            prop_assert!(!matches!(issuer().verify(&text, None, &objects(), now()), Ok(Some(_))));
        }
    }
}
