use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use proptest::prelude::*;
use rustls::client::danger::ServerCertVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use rustls_pki_types::{PrivateKeyDer, ServerName, UnixTime};

use super::*;
use crate::auth::PeerCerts;

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn later(after: SignedDuration) -> Timestamp {
    now().checked_add(after).expect("in range")
}

fn unix(at: Timestamp) -> UnixTime {
    let seconds = u64::try_from(at.as_second()).expect("after 1970");
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

fn settings(dir: Option<PathBuf>, validity: SignedDuration) -> Settings {
    let service: IpAddr = "10.96.0.1".parse().expect("an address");
    Settings::new(dir, validity, ["box".to_owned()], [service])
}

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate().clone()).expect("an authority");
    roots.into()
}

fn verify_serving(pki: &Pki, name: &str, at: Timestamp) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
        roots(&pki.authority()),
        provider,
    )
    .build()
    .expect("a verifier");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    verifier
        .verify_server_cert(&pki.serving_leaf.load().certificate, &[], &name, &[], unix(at))
        .map(|_| ())
}

#[test]
fn every_certificate_of_a_century_holds_after_ninety_nine_years() {
    let pki = Pki::open(settings(None, SignedDuration::from_hours(876_000)), now()).expect("made");
    let then = later(SignedDuration::from_hours(99 * 365 * 24));
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "box",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
    ] {
        for at in [now(), then] {
            assert_eq!(verify_serving(&pki, name, at), Ok(()), "{name} {at}");
        }
    }
    assert!(verify_serving(&pki, "elsewhere", now()).is_err());
    let admin = PeerCerts::new(vec![pki.admin().certificate.clone()]);
    let identity = pki
        .client_certs()
        .expect("trusted")
        .authenticate(&admin, then)
        .expect("holds")
        .expect("named");
    assert_eq!(
        (identity.user.as_str(), identity.groups.as_slice()),
        ("system:admin", &["system:masters".to_owned()][..])
    );
    let proxy = PeerCerts::new(vec![pki.front_proxy_client().certificate.clone()]);
    let subject = pki.front_proxy_certs().expect("trusted").verify(&proxy, then).expect("holds");
    assert_eq!(subject.common_name, FRONT_PROXY_CLIENT);
}

// Shows: AUTHN-2
#[test]
fn client_certificates_are_refused_when_expired_foreign_or_for_servers() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    let other = Pki::open(settings(None, YEAR), now()).expect("made");
    let trust = pki.client_certs().expect("trusted");
    let ask =
        |leaf: &Leaf, at| trust.authenticate(&PeerCerts::new(vec![leaf.certificate.clone()]), at);
    assert!(ask(&pki.admin(), now()).is_ok());
    assert!(ask(&pki.admin(), later(YEAR * 2)).is_err());
    assert!(ask(&other.admin(), now()).is_err());
    assert!(ask(&pki.front_proxy_client(), now()).is_err());
    assert!(ask(&pki.serving_leaf.load(), now()).is_err());
}

#[test]
fn a_remembered_chain_still_expires_and_follows_new_authorities() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    let other = Pki::open(settings(None, YEAR), now()).expect("made");
    let peer = PeerCerts::new(vec![pki.admin().certificate.clone()]);
    let trust = pki.client_certs().expect("trusted");
    assert!(trust.authenticate(&peer, now()).is_ok());
    assert!(trust.authenticate(&peer, later(SignedDuration::from_secs(1))).is_ok());
    assert!(trust.authenticate(&peer, later(YEAR * 2)).is_err());
    assert!(other.client_certs().expect("trusted").authenticate(&peer, now()).is_err());
}

#[test]
fn files_are_private_found_again_and_remade_only_for_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pki");
    let open = |settings: Settings, at| Pki::open(settings, at).expect("opened");
    let first = open(settings(Some(path.clone()), YEAR), now());
    for entry in fs::read_dir(&path).expect("listed") {
        let metadata = entry.expect("an entry").metadata().expect("metadata");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
    let second = open(settings(Some(path.clone()), YEAR), later(SignedDuration::from_hours(24)));
    assert_eq!(first.admin().certificate, second.admin().certificate);
    assert_eq!(first.authority().certificate(), second.authority().certificate());
    assert_eq!(first.service_account_key, second.service_account_key);

    let more = Settings::new(Some(path.clone()), YEAR, ["new-name".to_owned()], []);
    let third = open(more, now());
    assert_eq!(verify_serving(&third, "new-name", now()), Ok(()));
    assert_eq!(first.admin().certificate, third.admin().certificate);

    fs::remove_file(path.join("ca.crt")).expect("removed");
    let fourth = open(settings(Some(path), YEAR), now());
    let admin = PeerCerts::new(vec![fourth.admin().certificate.clone()]);
    assert!(fourth.client_certs().expect("trusted").authenticate(&admin, now()).is_ok());
}

#[test]
fn a_damaged_authority_is_an_error_and_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(Pki::open(settings(Some(dir.path().to_owned()), YEAR), now()).expect("made"));
    fs::write(dir.path().join("ca.crt"), "damaged").expect("written");
    assert!(Pki::open(settings(Some(dir.path().to_owned()), YEAR), now()).is_err());
    assert_eq!(fs::read_to_string(dir.path().join("ca.crt")).expect("read"), "damaged");
}

#[test]
fn what_nears_its_end_is_renewed_and_old_leaves_stay_trusted() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    assert!(pki.renew_due(later(YEAR / 2)).expect("nothing to do").is_empty());
    let due = later(YEAR - SignedDuration::from_hours(24 * 30));
    assert_eq!(pki.renew_due(due).expect("renewed"), ["apiserver", "admin", FRONT_PROXY_CLIENT]);
    assert_eq!(verify_serving(&pki, "localhost", later(YEAR + YEAR / 2)), Ok(()));

    let old_authority = pki.authority();
    let old_admin = PeerCerts::new(vec![pki.admin().certificate.clone()]);
    let much_later = later(YEAR * 9);
    let renewed = pki.renew_due(much_later).expect("renewed");
    assert_eq!(renewed[..2], ["ca", "front-proxy-ca"]);
    assert_eq!(verify_serving(&pki, "localhost", much_later), Ok(()));
    let trust = pki.client_certs().expect("trusted");
    assert!(trust.authenticate(&old_admin, due).is_ok(), "what was signed before stays trusted");
    let reissued = old_authority.issue_leaf(&LeafRequest {
        common_name: "ann",
        organizations: &["a", "b"],
        usage: CLIENT_AUTH,
        alternative_names: &[],
        not_before: much_later,
        not_after: later(YEAR * 10),
    });
    let peer = PeerCerts::new(vec![reissued.expect("issued").certificate]);
    let identity = trust.authenticate(&peer, much_later).expect("same key").expect("named");
    assert_eq!(identity.groups, ["a", "b"]);
}

#[derive(Debug)]
struct Frozen(UnixTime);

impl TimeProvider for Frozen {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// Shakes hands in memory; returns the server's certificate, the protocol, and what the client showed.
fn shake_hands(
    pki: &Pki,
    server: Arc<ServerConfig>,
    client: Option<&Leaf>,
    at: Timestamp,
) -> (CertificateDer<'static>, Vec<u8>, usize) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Frozen(unix(at))))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots(&pki.authority()));
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(leaf) => {
            let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).expect("a key");
            builder.with_client_auth_cert(vec![leaf.certificate.clone()], key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut server = ServerConnection::new(server).expect("a server");
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).expect("written");
        server.read_tls(&mut wire.as_slice()).expect("read");
        server.process_new_packets().expect("the server goes on");
        let mut wire = Vec::new();
        server.write_tls(&mut wire).expect("written");
        client.read_tls(&mut wire.as_slice()).expect("read");
        client.process_new_packets().expect("the client goes on");
    }
    let shown =
        client.peer_certificates().and_then(<[_]>::first).expect("shown").clone().into_owned();
    let protocol = server.alpn_protocol().expect("agreed").to_vec();
    (shown, protocol, server.peer_certificates().map_or(0, <[_]>::len))
}

// Shows: TLS-1
#[test]
fn new_handshakes_see_the_renewed_certificate_of_a_running_listener() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    let server = pki.server_config().expect("configured");
    let (first, protocol, offered) = shake_hands(&pki, server.clone(), None, now());
    assert_eq!((protocol.as_slice(), offered), (&b"h2"[..], 0));
    let due = later(YEAR - SignedDuration::from_hours(24));
    pki.renew_due(due).expect("renewed");
    let (second, _, _) = shake_hands(&pki, server, None, due);
    assert_ne!(first, second);
}

// Shows: TLS-1
#[test]
fn client_certificates_are_taken_as_offered_even_foreign_ones() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    let other = Pki::open(settings(None, YEAR), now()).expect("made");
    let config = || pki.server_config().expect("configured");
    assert_eq!(shake_hands(&pki, config(), Some(&pki.admin()), now()).2, 1);
    assert_eq!(shake_hands(&pki, config(), Some(&other.admin()), now()).2, 1);
}

#[test]
fn the_kubeconfig_names_everything_alike_and_carries_its_certificates() {
    let pki = Pki::open(settings(None, YEAR), now()).expect("made");
    let text = pki.admin_kubeconfig("karmada-apiserver", "https://127.0.0.1:5443");
    let config: Value = serde_saphyr::from_str(&text).expect("YAML");
    for path in ["clusters", "users", "contexts"] {
        assert_eq!(config[path][0]["name"], "karmada-apiserver");
    }
    assert_eq!(config["current-context"], "karmada-apiserver");
    assert_eq!(
        config["contexts"][0]["context"],
        json!({"cluster": "karmada-apiserver", "user": "karmada-apiserver"})
    );
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:5443");
    let embedded = config
        .at(&["users"])
        .and_then(|users| users[0].str_at(&["user", "client-certificate-data"]));
    assert!(embedded.is_some_and(|data| data.len() > 400));
}

/// Runs openssl; none where it is not installed.
pub(crate) fn openssl(dir: &Path, arguments: &[&str]) -> Option<String> {
    let output = match Command::new("openssl").current_dir(dir).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: comparison with openssl, which cannot be run: {error}");
            return None;
        }
    };
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "openssl {arguments:?}: {err}");
    Some(out.into_owned())
}

#[test]
fn our_own_certificates_please_openssl() {
    let dir = tempfile::tempdir().expect("a directory");
    let pki = Pki::open(settings(None, SignedDuration::from_hours(876_000)), now()).expect("made");
    fs::write(dir.path().join("ca.pem"), pki.authority().certificate_pem()).expect("written");
    fs::write(dir.path().join("server.pem"), &pki.serving_leaf.load().certificate_pem)
        .expect("written");
    fs::write(dir.path().join("admin.pem"), &pki.admin().certificate_pem).expect("written");
    let then = later(SignedDuration::from_hours(99 * 365 * 24)).as_second().to_string();
    let checks = [("sslserver", "server.pem"), ("sslclient", "admin.pem")];
    for (purpose, file) in checks {
        openssl(
            dir.path(),
            &[
                "verify",
                "-x509_strict",
                "-attime",
                &then,
                "-purpose",
                purpose,
                "-CAfile",
                "ca.pem",
                file,
            ],
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_certificates_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Read::new(&CertificateDer::from(bytes.clone()));
        let _ = crate::auth::client_certs::Subject::read(&CertificateDer::from(bytes.clone()));
    }

    #[test]
    fn a_damaged_certificate_is_never_accepted(at in 0_usize..2000, bit in 0_u8..8) {
        static PKI: std::sync::LazyLock<Pki> =
            std::sync::LazyLock::new(|| Pki::open(settings(None, YEAR), now()).expect("made"));
        let mut bytes = PKI.admin().certificate.to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let peer = PeerCerts::new(vec![CertificateDer::from(bytes)]);
        prop_assert!(PKI.client_certs().expect("trusted").authenticate(&peer, now()).is_err());
    }
}
