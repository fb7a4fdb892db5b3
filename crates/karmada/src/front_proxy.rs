//! Servers in front of this one and behind it: whom this server believes when it is told who asks, and
//! what it shows to the servers it passes requests on to. The flags are spelled as a Kubernetes API
//! server spells them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use karmada_apiserver::aggregation::ProxyClient;
use karmada_apiserver::auth::authenticate::{FrontProxy, ProxyHeaders};
use karmada_apiserver::auth::client_certs::ClientCerts;
use karmada_apiserver::pki::{FRONT_PROXY_CLIENT, Pki, read_leaf};
use karmada_apiserver::{Builder, Trust};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Servers in front of this one and behind it")]
pub(crate) struct FrontProxyArgs {
    /// The authority of proxies that may say who asks; one of its own unless given
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// The names such proxies have in their certificates; any if none is given
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    requestheader_allowed_names: Vec<String>,
    /// Headers with the name of the user
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<String>,
    /// Headers with the uid of the user
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers with a group of the user each
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<String>,
    /// What headers with anything else about the user begin with
    #[arg(long, value_delimiter = ',', value_name = "PREFIX,…", default_value = "X-Remote-Extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
    /// The certificate shown to servers behind this one; one of its own unless given
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,
}

impl FrontProxyArgs {
    /// Believes the proxies that were named, and tells servers behind this one to.
    pub(crate) fn trust(&self, trust: &mut Trust) -> anyhow::Result<()> {
        let Some(path) = &self.requestheader_client_ca_file else { return Ok(()) };
        let (authorities, pem) = read_authorities(path)?;
        let mut allowed_names = self.requestheader_allowed_names.clone();
        // What this server shows is of its own authority, unless it was given something else.
        if self.proxy_client_cert_file.is_none() {
            trust.front_proxy_ca_pem = format!("{}{pem}", trust.front_proxy_ca_pem);
            if !allowed_names.is_empty() && !allowed_names.iter().any(|n| n == FRONT_PROXY_CLIENT) {
                allowed_names.push(FRONT_PROXY_CLIENT.to_owned());
            }
        } else {
            trust.front_proxy_ca_pem = pem;
        }
        let headers = ProxyHeaders {
            users: self.requestheader_username_headers.clone(),
            uids: self.requestheader_uid_headers.clone(),
            groups: self.requestheader_group_headers.clone(),
            extra_prefixes: self.requestheader_extra_headers_prefix.clone(),
        };
        trust.front_proxy = Some(FrontProxy { authorities, allowed_names, headers });
        Ok(())
    }

    /// Shows servers behind this one who passes requests on to them.
    pub(crate) fn identify(&self, builder: Builder, pki: &Arc<Pki>) -> anyhow::Result<Builder> {
        let client: ProxyClient = match (&self.proxy_client_cert_file, &self.proxy_client_key_file)
        {
            (Some(certificate), Some(key)) => {
                let leaf = Arc::new(read_leaf(certificate, key)?);
                Arc::new(move || Some(leaf.clone()))
            }
            _ => {
                let pki = pki.clone();
                Arc::new(move || Some(pki.front_proxy_client()))
            }
        };
        Ok(builder.proxy_client(client))
    }
}

fn read_authorities(path: &Path) -> anyhow::Result<(ClientCerts, String)> {
    let pem = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let authorities = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("read the certificates in {}", path.display()))?;
    anyhow::ensure!(!authorities.is_empty(), "{} has no certificate", path.display());
    Ok((ClientCerts::new(&authorities)?, pem))
}
