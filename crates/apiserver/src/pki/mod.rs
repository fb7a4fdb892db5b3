//! The server's own certificates and keys: made once, kept under the data directory, renewed before
//! they expire, swapped into running listeners without a restart.

pub mod certificate;
pub mod kubeconfig;
pub mod request;
#[cfg(test)]
pub(crate) mod tests;
pub mod tls;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rustls::{DistinguishedName, ServerConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::ext::pkix::name::GeneralName;

use crate::auth::authenticate::{FrontProxy, ProxyHeaders};
use crate::auth::client_certs::{self, ClientCerts};
use crate::auth::token::{KeyError, SigningKey, TokenIssuer};
use crate::server::Trust;
use certificate::{
    Authority, BACKDATE, CLIENT_AUTH, Leaf, LeafRequest, Read, SERVER_AUTH, dns_name, ip_address,
    pem,
};
use tls::ServingCertificate;

/// Authorities live at least this long, so that trust outlasts a few generations of leaves.
const AUTHORITY_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} {}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("certificate {name}")]
    Certificate { name: &'static str, source: certificate::Error },
    #[error("service account key")]
    ServiceAccountKey(#[from] KeyError),
    #[error("configure TLS")]
    Tls(#[from] rustls::Error),
    #[error("trust client certificates")]
    Trust(#[from] client_certs::Error),
}

/// Where certificates are kept, how long they live and what the server is reached by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// None keeps everything in memory.
    pub dir: Option<PathBuf>,
    pub validity: SignedDuration,
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub token_key: TokenKey,
}

/// The kind of a new key for service account tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenKey {
    /// What every verifier understands.
    #[default]
    Rsa,
    /// Made at once: for clusters that are started by the hundred.
    Ecdsa,
}

impl Settings {
    /// Settings with the names every API server answers to, plus the given ones.
    pub fn new(
        dir: Option<PathBuf>,
        validity: SignedDuration,
        names: impl IntoIterator<Item = String>,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let common = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let mut settings = Self {
            dir,
            validity,
            names: common.map(str::to_owned).to_vec(),
            addresses: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            token_key: TokenKey::default(),
        };
        for name in names {
            if !name.is_empty() && !settings.names.contains(&name) {
                settings.names.push(name);
            }
        }
        for address in addresses {
            if !address.is_unspecified() && !settings.addresses.contains(&address) {
                settings.addresses.push(address);
            }
        }
        settings
    }

    fn alternative_names(&self) -> Result<Vec<GeneralName>, certificate::Error> {
        let names = self.names.iter().map(|name| dns_name(name));
        names.chain(self.addresses.iter().map(|address| Ok(ip_address(*address)))).collect()
    }
}

/// The leaves, as a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Serving,
    Admin,
    FrontProxy,
}

impl Purpose {
    fn file(self) -> &'static str {
        match self {
            Self::Serving => "apiserver",
            Self::Admin => "admin",
            Self::FrontProxy => FRONT_PROXY_CLIENT,
        }
    }

    fn subject(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Serving => ("kube-apiserver", &[]),
            Self::Admin => ("system:admin", &["system:masters"]),
            Self::FrontProxy => (FRONT_PROXY_CLIENT, &[]),
        }
    }
}

/// Everything the server proves itself with.
pub struct Pki {
    settings: Settings,
    authority: ArcSwap<Authority>,
    front_proxy_authority: ArcSwap<Authority>,
    admin: ArcSwap<Leaf>,
    front_proxy_client: ArcSwap<Leaf>,
    serving_leaf: ArcSwap<Leaf>,
    serving: Arc<ServingCertificate>,
    service_account_key: String,
    /// One renewal at a time.
    renewing: Mutex<()>,
}

impl Pki {
    /// Loads what is there, makes what is missing, renews what is due.
    pub fn open(settings: Settings, now: Timestamp) -> Result<Self, Error> {
        let files = Files(settings.dir.as_deref());
        files.prepare()?;
        let authority = files.authority("ca", &settings, now)?;
        let front_proxy = files.authority("front-proxy-ca", &settings, now)?;
        let leaf = |purpose, by: &Authority| files.leaf(purpose, by, &settings, now);
        let serving_leaf = leaf(Purpose::Serving, &authority)?;
        let admin = leaf(Purpose::Admin, &authority)?;
        let front_proxy_client = leaf(Purpose::FrontProxy, &front_proxy)?;
        let service_account_key = files.service_account_key(settings.token_key)?;
        Ok(Self {
            serving: Arc::new(ServingCertificate::new(&serving_leaf)?),
            serving_leaf: ArcSwap::from_pointee(serving_leaf),
            admin: ArcSwap::from_pointee(admin),
            front_proxy_client: ArcSwap::from_pointee(front_proxy_client),
            authority: ArcSwap::from_pointee(authority),
            front_proxy_authority: ArcSwap::from_pointee(front_proxy),
            service_account_key,
            settings,
            renewing: Mutex::new(()),
        })
    }

    /// Renews what nears its end; returns the names of what changed. New connections see it at once.
    pub fn renew_due(&self, now: Timestamp) -> Result<Vec<&'static str>, Error> {
        let _one = self.renewing.lock();
        let files = Files(self.settings.dir.as_deref());
        let mut renewed = Vec::new();
        for (name, slot) in
            [("ca", &self.authority), ("front-proxy-ca", &self.front_proxy_authority)]
        {
            let current = slot.load_full();
            if is_due(current.certificate(), now) {
                let fresh = make_authority(name, current.key_pem(), &self.settings, now)?;
                files.write_authority(name, &fresh)?;
                slot.store(Arc::new(fresh));
                renewed.push(name);
            }
        }
        for (purpose, slot, by) in [
            (Purpose::Serving, &self.serving_leaf, &self.authority),
            (Purpose::Admin, &self.admin, &self.authority),
            (Purpose::FrontProxy, &self.front_proxy_client, &self.front_proxy_authority),
        ] {
            if is_due(&slot.load().certificate, now) {
                let fresh = make_leaf(purpose, &by.load(), &self.settings, now)?;
                files.write_leaf(purpose, &fresh)?;
                if purpose == Purpose::Serving {
                    self.serving.replace(&fresh)?;
                }
                slot.store(Arc::new(fresh));
                renewed.push(purpose.file());
            }
        }
        Ok(renewed)
    }

    /// The listener's TLS settings; they follow renewals by themselves.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let hint = |authority: &ArcSwap<Authority>| {
            Read::new(authority.load().certificate()).ok().map(|read| read.subject)
        };
        let hints = [hint(&self.authority), hint(&self.front_proxy_authority)];
        let hints = hints.into_iter().flatten().map(DistinguishedName::from).collect();
        Ok(tls::server_config(self.serving.clone(), hints)?)
    }

    /// The same with a serving certificate that was made elsewhere.
    pub fn server_config_showing(&self, leaf: &Leaf) -> Result<Arc<ServerConfig>, Error> {
        let serving = Arc::new(ServingCertificate::new(leaf)?);
        Ok(tls::server_config(serving, Vec::new())?)
    }

    /// The authority that signs client and serving certificates.
    pub fn authority(&self) -> Arc<Authority> {
        self.authority.load_full()
    }

    pub fn front_proxy_authority(&self) -> Arc<Authority> {
        self.front_proxy_authority.load_full()
    }

    /// What client certificates are checked against.
    pub fn client_certs(&self) -> Result<ClientCerts, Error> {
        Ok(ClientCerts::new(&[self.authority.load().certificate().clone()])?)
    }

    /// What certificates of authenticating proxies are checked against.
    pub fn front_proxy_certs(&self) -> Result<ClientCerts, Error> {
        Ok(ClientCerts::new(&[self.front_proxy_authority.load().certificate().clone()])?)
    }

    /// The administrator's credential: system:admin in system:masters.
    pub fn admin(&self) -> Arc<Leaf> {
        self.admin.load_full()
    }

    /// The credential for calling aggregated API servers.
    pub fn front_proxy_client(&self) -> Arc<Leaf> {
        self.front_proxy_client.load_full()
    }

    /// The key that signs service account tokens.
    pub fn service_account_key(&self) -> Result<SigningKey, Error> {
        Ok(SigningKey::from_pem(self.service_account_key.as_bytes())?)
    }

    /// Trusts the clients that hold certificates of these authorities, and these tokens.
    pub fn trust(&self, tokens: Arc<TokenIssuer>) -> Result<Trust, Error> {
        let front_proxy = FrontProxy {
            authorities: self.front_proxy_certs()?,
            allowed_names: vec![FRONT_PROXY_CLIENT.to_owned()],
            headers: ProxyHeaders::default(),
        };
        Ok(Trust {
            client_certs: Some(self.client_certs()?),
            front_proxy: Some(front_proxy),
            tokens,
            allow_anonymous: true,
            client_ca_pem: self.authority().certificate_pem(),
            front_proxy_ca_pem: self.front_proxy_authority().certificate_pem(),
        })
    }

    /// The administrator's kubeconfig.
    pub fn admin_kubeconfig(&self, name: &str, server: &str) -> String {
        let authority = self.authority.load().certificate_pem();
        kubeconfig::Kubeconfig::named(name, server, &authority, &self.admin.load()).to_yaml()
    }
}

/// A certificate is due once four fifths of its life are over.
fn is_due(certificate: &CertificateDer<'_>, now: Timestamp) -> bool {
    Read::new(certificate).map_or(true, |read| {
        let life = read.not_after.duration_since(read.not_before);
        let left = read.not_after.duration_since(now);
        left < life / 5 || now < read.not_before
    })
}

fn after(now: Timestamp, validity: SignedDuration) -> Timestamp {
    now.checked_add(validity).unwrap_or(Timestamp::MAX)
}

fn begin(now: Timestamp) -> Timestamp {
    now.checked_sub(BACKDATE).unwrap_or(now)
}

fn make_authority(
    name: &'static str,
    key_pem: &str,
    settings: &Settings,
    now: Timestamp,
) -> Result<Authority, Error> {
    let end = after(now, settings.validity.max(AUTHORITY_VALIDITY));
    Authority::self_signed(name, key_pem, begin(now), end)
        .map_err(|source| Error::Certificate { name, source })
}

fn make_leaf(
    purpose: Purpose,
    by: &Authority,
    settings: &Settings,
    now: Timestamp,
) -> Result<Leaf, Error> {
    let failed = |source| Error::Certificate { name: purpose.file(), source };
    let (common_name, organizations) = purpose.subject();
    let serving = purpose == Purpose::Serving;
    let alternative_names =
        if serving { settings.alternative_names().map_err(failed)? } else { vec![] };
    by.issue_leaf(&LeafRequest {
        common_name,
        organizations,
        usage: if serving { SERVER_AUTH } else { CLIENT_AUTH },
        alternative_names: &alternative_names,
        not_before: begin(now),
        not_after: after(now, settings.validity),
    })
    .map_err(failed)
}

/// The files under the directory, or nothing at all.
struct Files<'a>(Option<&'a Path>);

impl Files<'_> {
    fn prepare(&self) -> Result<(), Error> {
        let Some(dir) = self.0 else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| {
            Error::File { what: "create directory", path: dir.to_owned(), source }
        })
    }

    fn authority(
        &self,
        name: &'static str,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Authority, Error> {
        let stored = self.read(name)?;
        let key = match stored {
            Some((certificate, key)) => {
                let authority = Authority::from_pem(&certificate, &key)
                    .map_err(|source| Error::Certificate { name, source })?;
                if !is_due(authority.certificate(), now) {
                    return Ok(authority);
                }
                key
            }
            None => {
                Authority::generate_key().map_err(|source| Error::Certificate { name, source })?
            }
        };
        let authority = make_authority(name, &key, settings, now)?;
        self.write_authority(name, &authority)?;
        Ok(authority)
    }

    fn leaf(
        &self,
        purpose: Purpose,
        by: &Authority,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Leaf, Error> {
        if let Some((certificate_pem, key_pem)) = self.read(purpose.file())?
            && let Ok(certificate) = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            && !is_due(&certificate, now)
            && by.has_signed(&certificate)
            && covers(&certificate, purpose, settings)
        {
            return Ok(Leaf { certificate, certificate_pem, key_pem });
        }
        let leaf = make_leaf(purpose, by, settings, now)?;
        self.write_leaf(purpose, &leaf)?;
        Ok(leaf)
    }

    fn service_account_key(&self, kind: TokenKey) -> Result<String, Error> {
        if let Some(dir) = self.0 {
            let path = dir.join("sa.key");
            if let Some(key) = read_if_there(&path)? {
                return Ok(key);
            }
        }
        let key = match kind {
            TokenKey::Rsa => SigningKey::generate()?,
            TokenKey::Ecdsa => SigningKey::generate_ecdsa()?,
        };
        let key = pem("PRIVATE KEY", &key);
        if let Some(dir) = self.0 {
            write_private(&dir.join("sa.key"), &key)?;
        }
        Ok(key)
    }

    fn read(&self, name: &str) -> Result<Option<(String, String)>, Error> {
        let Some(dir) = self.0 else { return Ok(None) };
        let certificate = read_if_there(&dir.join(format!("{name}.crt")))?;
        let key = read_if_there(&dir.join(format!("{name}.key")))?;
        Ok(certificate.zip(key))
    }

    fn write_authority(&self, name: &str, authority: &Authority) -> Result<(), Error> {
        self.write(name, &authority.certificate_pem(), authority.key_pem())
    }

    fn write_leaf(&self, purpose: Purpose, leaf: &Leaf) -> Result<(), Error> {
        self.write(purpose.file(), &leaf.certificate_pem, &leaf.key_pem)
    }

    fn write(&self, name: &str, certificate: &str, key: &str) -> Result<(), Error> {
        let Some(dir) = self.0 else { return Ok(()) };
        write_private(&dir.join(format!("{name}.key")), key)?;
        write_private(&dir.join(format!("{name}.crt")), certificate)
    }
}

/// Reads a certificate and its key from files somebody else made.
pub fn read_leaf(certificate: &Path, key: &Path) -> Result<Leaf, Error> {
    let read = |path: &Path| {
        let failed = |source| Error::File { what: "read", path: path.to_owned(), source };
        fs::read_to_string(path).map_err(failed)
    };
    let (certificate_pem, key_pem) = (read(certificate)?, read(key)?);
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(|error| {
        let source = io::Error::other(error);
        Error::File { what: "read the certificate in", path: certificate.to_owned(), source }
    })?;
    Ok(Leaf { certificate: der, certificate_pem, key_pem })
}

/// Whether a stored serving certificate has all the names it should have today.
fn covers(certificate: &CertificateDer<'_>, purpose: Purpose, settings: &Settings) -> bool {
    if purpose != Purpose::Serving {
        return true;
    }
    let Ok(read) = Read::new(certificate) else { return false };
    let Ok(wanted) = settings.alternative_names() else { return false };
    wanted.iter().all(|name| read.alternative_names.contains(name))
}

fn read_if_there(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { what: "read", path: path.to_owned(), source }),
    }
}

/// Writes a file only its owner can read; readers see the old content or the new, never a part.
pub fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    let failed = |what| {
        let path = path.to_owned();
        move |source| Error::File { what, path, source }
    };
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed("create"))?;
    file.write_all(content.as_bytes()).map_err(failed("write"))?;
    file.sync_all().map_err(failed("sync"))?;
    fs::rename(&temporary, path).map_err(failed("replace"))
}
