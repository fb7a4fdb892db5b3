use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::{Value, json};
use proptest::prelude::*;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::*;
use crate::auth::{Decision, PeerCerts};
use crate::pki::certificate::Read;
use crate::pki::tests::openssl;
use crate::pki::{Pki, Settings};

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

type Usages = &'static [&'static str];

fn settings() -> Settings {
    Settings::new(None, YEAR, [], [])
}

fn csr_object(request: &[u8], signer: &str, usages: &[&str]) -> Value {
    use base64::Engine;
    let request = base64::engine::general_purpose::STANDARD.encode(request);
    json!({"metadata": {"name": "c"}, "spec": {"request": request, "signerName": signer, "usages": usages},
        "status": {"conditions": [{"type": "Approved", "status": "True"}]}})
}

fn make_request(
    dir: &Path,
    subject: &str,
    extension: Option<&str>,
    key: &[&str],
) -> Option<Vec<u8>> {
    let mut arguments =
        vec!["req", "-new", "-nodes", "-keyout", "key.pem", "-out", "req.pem", "-subj", subject];
    arguments.extend(key);
    if let Some(extension) = extension {
        arguments.extend(["-addext", extension]);
    }
    openssl(dir, &arguments)?;
    Some(fs::read(dir.join("req.pem")).expect("a request"))
}

// Shows: CSR-1
#[test]
fn signed_requests_keep_repeated_organizations_and_please_openssl() {
    let dir = tempfile::tempdir().expect("a directory");
    let pki = Pki::open(settings(), now()).expect("made");
    fs::write(dir.path().join("ca.pem"), pki.authority().certificate_pem()).expect("written");
    let usages = ["digital signature", "key encipherment", "client auth"];
    let keys: [&[&str]; 4] = [
        &["-newkey", "rsa:2048"],
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
        &["-newkey", "ed25519"],
    ];
    for key in keys {
        let subject = "/O=g1/O=g2/CN=ann/1.3.6.1.4.1.57683.2=smuggled";
        let names = Some("subjectAltName=DNS:a.example,IP:10.0.0.1,email:a@example.com");
        let Some(request) = make_request(dir.path(), subject, names, key) else { return };
        let mut object = csr_object(&request, CLIENT, &usages);
        object["spec"]["expirationSeconds"] = 86_400.into();
        let signed = sign(&object, &pki.authority(), YEAR, now()).expect("signed");
        let Signing::Issued(certificate) = signed else { panic!("{signed:?}") };
        fs::write(dir.path().join("cert.pem"), &certificate).expect("written");
        let at = now().as_second().to_string();
        openssl(
            dir.path(),
            &["verify", "-attime", &at, "-purpose", "sslclient", "-CAfile", "ca.pem", "cert.pem"],
        );
        let text = openssl(dir.path(), &["x509", "-in", "cert.pem", "-noout", "-text"])
            .unwrap_or_default();
        for part in [
            "Subject: O = g1, O = g2, CN = ann\n",
            "CA:FALSE",
            "Digital Signature, Key Encipherment",
            "TLS Web Client Authentication",
            "DNS:a.example, IP Address:10.0.0.1, email:a@example.com",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
        let read = Read::new(&der).expect("readable");
        assert_eq!(read.not_after.duration_since(now()), SignedDuration::from_hours(24) - BACKDATE);
        let peer = PeerCerts::new(vec![der]);
        let identity = pki
            .client_certs()
            .expect("trusted")
            .authenticate(&peer, now())
            .expect("holds")
            .expect("named");
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("ann", ""));
        assert_eq!(identity.groups, ["g1", "g2"]);
    }
}

// Shows: CSR-1
#[test]
fn signers_refuse_what_their_rules_do_not_allow() {
    let dir = tempfile::tempdir().expect("a directory");
    let pki = Pki::open(settings(), now()).expect("made");
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let node = "/O=system:nodes/CN=system:node:n1";
    let san = Some("subjectAltName=DNS:n1");
    let client: Usages = &["digital signature", "client auth"];
    let cases: [(&str, Option<&str>, &str, Usages, &str); 9] = [
        (
            "/CN=x",
            None,
            CLIENT,
            &["server auth"],
            "invalid usage for client certificate: server auth",
        ),
        (
            "/CN=x",
            None,
            CLIENT,
            &["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        ("/CN=x", None, KUBELET_CLIENT, client, "subject organization is not system:nodes"),
        (
            "/O=system:nodes/CN=x",
            None,
            KUBELET_CLIENT,
            client,
            "subject common name does not begin with system:node:",
        ),
        (node, san, KUBELET_CLIENT, client, "DNS subjectAltNames are not allowed"),
        (
            node,
            None,
            KUBELET_CLIENT,
            &["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            node,
            None,
            KUBELET_SERVING,
            &["digital signature", "server auth"],
            "DNS or IP subjectAltName is required",
        ),
        (node, san, KUBELET_SERVING, &["digital signature", "server auth"], ""),
        ("/CN=x", None, LEGACY_UNKNOWN, &["code signing"], ""),
    ];
    for (subject, names, signer, usages, expected) in cases {
        let Some(request) = make_request(dir.path(), subject, names, &ec) else { return };
        let object = csr_object(&request, signer, usages);
        match sign(&object, &pki.authority(), YEAR, now()).expect("decided") {
            Signing::Refused { message, .. } => assert_eq!(message, expected, "{subject} {signer}"),
            Signing::Issued(_) => assert_eq!("", expected, "{subject} {signer}"),
            Signing::NotDue => panic!("{subject} {signer} was due"),
        }
        let mut open = object.clone();
        open["status"] = json!({});
        assert_eq!(sign(&open, &pki.authority(), YEAR, now()).expect("decided"), Signing::NotDue);
    }
    let request = make_request(dir.path(), "/O=system:masters/CN=x", None, &ec);
    let Some(request) = request else { return };
    let refusal = check_subject(&csr_object(&request, CLIENT, client)).expect_err("refused");
    assert_eq!(
        refusal.message,
        "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    assert_eq!(check_subject(&csr_object(&request, "example.com/x", client)), Ok(()));
}

/// Allows one verb on one signer.
struct OneSigner(&'static str, &'static str);

impl Authorizer for OneSigner {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        let fits = attributes.verb == self.0
            && attributes.name == self.1
            && attributes.resource == "signers";
        if fits { Decision::allow("") } else { Decision::no_opinion("") }
    }
}

// Shows: CSR-1
#[test]
fn approving_and_signing_take_a_right_on_the_signer() {
    let ann = Arc::new(Identity::new("ann", ["system:authenticated"]));
    let stored = csr_object(b"", "example.com/x", &[]);
    let cases = [
        ("approve", "example.com/x", true),
        ("approve", "example.com/*", true),
        ("approve", "example.com/y", false),
        ("sign", "example.com/x", false),
    ];
    for (verb, signer, allowed) in cases {
        let checked = check_approval(&stored, &ann, &OneSigner(verb, signer));
        assert_eq!(checked.is_ok(), allowed, "{verb} {signer}");
    }
    let mut signed = stored.clone();
    signed["status"]["certificate"] = "x".into();
    let nobody = OneSigner("", "");
    assert_eq!(check_signing(&stored, &stored, &ann, &nobody), Ok(()));
    assert_eq!(
        check_signing(&signed, &stored, &ann, &nobody).expect_err("refused").message,
        "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to sign requests with signerName \"example.com/x\""
    );
    assert_eq!(check_signing(&signed, &stored, &ann, &OneSigner("sign", "example.com/*")), Ok(()));
}

// Shows: CSR-1
#[test]
fn a_request_carries_its_sender_whatever_it_claims() {
    let mut object = json!({"spec": {"username": "root", "uid": "0", "groups": ["system:masters"], "signerName": "s"}});
    fill_requester(&mut object, &Identity::new("ann", ["devs"]));
    assert_eq!(object, json!({"spec": {"username": "ann", "groups": ["devs"], "signerName": "s"}}));
}

proptest! {
    #[test]
    fn no_bytes_make_reading_requests_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Request::from_der(&bytes);
        let _ = Request::from_pem(&bytes);
        let _ = parse(&csr_object(&bytes, "s", &[]));
    }
}
