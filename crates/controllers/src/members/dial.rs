//! The way to a member in production: HTTPS to the endpoint of its Cluster, with the token and the
//! certificate authority of the Secret that the Cluster names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_api::cluster::{Cluster, SECRET_CA_BUNDLE_KEY, SECRET_TOKEN_KEY};
use karmada_apimachinery::Value;
use karmada_client::Client;
use karmada_client::tunnel::Proxy;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::{Dial, DialError};

/// Connects over HTTPS.
#[derive(Debug, Clone, Default)]
pub struct Https;

impl Dial for Https {
    fn dial(&self, cluster: &Cluster, secret: Option<&Value>) -> Result<Client, DialError> {
        let name = &cluster.metadata.name;
        let connect = |source| DialError::Connect { cluster: name.clone(), source };
        let mut config = kube::Config::new(endpoint(cluster)?);
        config.accept_invalid_certs = cluster.spec.insecure_skip_tls_verification;
        config.auth_info.token = Some(token(cluster, secret)?.into());
        if !config.accept_invalid_certs {
            config.root_cert = Some(authorities(cluster, secret)?);
        }
        let url = &cluster.spec.proxy_url;
        if url.is_empty() {
            return Client::from_config(config).map_err(connect);
        }
        let proxy = Proxy::new(url, &cluster.spec.proxy_header)
            .map_err(|source| DialError::BadProxy { cluster: name.clone(), source })?;
        Client::from_config_through(config, proxy).map_err(connect)
    }
}

/// Tries a way of its own first, by endpoint and token, and HTTPS where there is none: members of
/// the same process need no socket.
pub struct Shortcut<F>(F);

impl<F> Shortcut<F>
where
    F: Fn(&str, &str) -> Option<Client> + Send + Sync + 'static,
{
    pub fn new(find: F) -> Self {
        Self(find)
    }
}

impl<F> Dial for Shortcut<F>
where
    F: Fn(&str, &str) -> Option<Client> + Send + Sync + 'static,
{
    fn dial(&self, cluster: &Cluster, secret: Option<&Value>) -> Result<Client, DialError> {
        let own = match cluster.spec.proxy_url.is_empty() {
            true => (self.0)(&cluster.spec.api_endpoint, &token(cluster, secret)?),
            // Whoever asks for a way around wants it taken.
            false => None,
        };
        own.map_or_else(|| Https.dial(cluster, secret), Ok)
    }
}

fn endpoint(cluster: &Cluster) -> Result<http::Uri, DialError> {
    let refuse = || DialError::NoEndpoint(cluster.metadata.name.clone());
    let endpoint = &cluster.spec.api_endpoint;
    if endpoint.is_empty() {
        return Err(refuse());
    }
    endpoint.parse().map_err(|_| refuse())
}

fn token(cluster: &Cluster, secret: Option<&Value>) -> Result<String, DialError> {
    let token = secret.and_then(|secret| field(secret, SECRET_TOKEN_KEY));
    let token = token.and_then(|token| String::from_utf8(token).ok());
    token.filter(|token| !token.is_empty()).ok_or_else(|| missing(cluster))
}

fn authorities(cluster: &Cluster, secret: Option<&Value>) -> Result<Vec<Vec<u8>>, DialError> {
    let pem = secret.and_then(|secret| field(secret, SECRET_CA_BUNDLE_KEY)).unwrap_or_default();
    let certificates = CertificateDer::pem_slice_iter(&pem);
    let certificates: Vec<_> =
        certificates.filter_map(|der| Some(der.ok()?.as_ref().to_vec())).collect();
    if certificates.is_empty() { Err(missing(cluster)) } else { Ok(certificates) }
}

fn missing(cluster: &Cluster) -> DialError {
    let secret = cluster.spec.secret_ref.as_ref();
    let secret = secret.map(|secret| format!("{}/{}", secret.namespace, secret.name));
    DialError::NoCredentials {
        cluster: cluster.metadata.name.clone(),
        secret: secret.unwrap_or_default(),
    }
}

/// Returns an entry of a Secret's data.
pub(crate) fn field(secret: &Value, key: &str) -> Option<Vec<u8>> {
    BASE64.decode(secret.get("data")?.get(key)?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn cluster(endpoint: &str, insecure: bool) -> Cluster {
        let object = json!({"metadata": {"name": "m1"}, "spec": {
            "syncMode": "Push",
            "apiEndpoint": endpoint,
            "insecureSkipTLSVerification": insecure,
            "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
        }});
        karmada_apimachinery::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn credentials_that_lack_something_are_named() {
        let empty = json!({"data": {}});
        let token = json!({"data": {"token": BASE64.encode("t")}});
        let missing =
            "cluster m1: the secret karmada-cluster/m1 is missing or lacks token or caBundle";
        let cases = [
            (cluster("", false), Some(&token), "cluster m1 names no endpoint"),
            (cluster("https://m1:6443", false), None, missing),
            (cluster("https://m1:6443", true), Some(&empty), missing),
            (cluster("https://m1:6443", false), Some(&token), missing),
            (cluster("https://m1:6443", true), Some(&token), ""),
        ];
        for (cluster, secret, expected) in cases {
            let refused = Https.dial(&cluster, secret).err().map(|error| error.to_string());
            assert_eq!(refused.unwrap_or_default(), expected);
        }
    }
}
