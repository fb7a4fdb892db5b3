//! The kubeconfig a client finds its way in with: one cluster, one user, one context, certificates inside.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::certificate::Leaf;

/// What to write; the names are those of the cluster, user and context entries.
pub struct Kubeconfig<'a> {
    pub cluster: &'a str,
    pub user: &'a str,
    pub context: &'a str,
    pub server: &'a str,
    pub authority_pem: &'a str,
    pub client: &'a Leaf,
}

impl<'a> Kubeconfig<'a> {
    /// All three entries under one name.
    pub fn named(name: &'a str, server: &'a str, authority_pem: &'a str, client: &'a Leaf) -> Self {
        Self { cluster: name, user: name, context: name, server, authority_pem, client }
    }

    pub fn to_yaml(&self) -> String {
        let Self { cluster, user, context, server, .. } = self;
        let authority = STANDARD.encode(self.authority_pem);
        let certificate = STANDARD.encode(&self.client.certificate_pem);
        let key = STANDARD.encode(&self.client.key_pem);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - cluster:\n    certificate-authority-data: {authority}\n    server: {server}\n  name: {cluster}\n\
             contexts:\n\
             - context:\n    cluster: {cluster}\n    user: {user}\n  name: {context}\n\
             current-context: {context}\n\
             preferences: {{}}\n\
             users:\n\
             - name: {user}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n"
        )
    }
}
