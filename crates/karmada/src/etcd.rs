//! The flags that name an etcd, as a Kubernetes API server spells them.

use std::path::PathBuf;

use karmada_store::{EtcdOptions, TlsFiles};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdArgs {
    /// Keeps objects in this etcd instead: addresses as in `https://10.0.0.1:2379`, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "URL,…")]
    etcd_servers: Vec<String>,
    /// What all keys in etcd begin with
    #[arg(long, default_value = "/registry")]
    etcd_prefix: String,
    /// The authorities that etcd's certificates are checked against
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// The certificate to prove oneself to etcd with
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

impl EtcdArgs {
    /// What to connect to, if etcd is to be used at all.
    pub(crate) fn options(&self) -> Option<EtcdOptions> {
        if self.etcd_servers.is_empty() {
            return None;
        }
        let tls = TlsFiles {
            ca: self.etcd_cafile.clone(),
            certificate: self.etcd_certfile.clone(),
            key: self.etcd_keyfile.clone(),
        };
        let (servers, prefix) = (self.etcd_servers.clone(), self.etcd_prefix.clone());
        Some(EtcdOptions { servers, prefix, tls, ..EtcdOptions::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: EtcdArgs,
    }

    #[test]
    fn the_flags_of_kubernetes_are_understood() {
        let parse = |line: &str| {
            let words = std::iter::once("karmada").chain(line.split_whitespace());
            Command::try_parse_from(words).map(|command| command.args.options())
        };
        assert_eq!(parse("").unwrap(), None);
        let line = "--etcd-servers=https://a:2379,https://b:2379 --etcd-cafile=/ca.crt \
            --etcd-certfile=/c.crt --etcd-keyfile=/c.key --etcd-prefix=/karmada";
        let options = parse(line).unwrap().unwrap();
        assert_eq!(options.servers, ["https://a:2379", "https://b:2379"]);
        assert_eq!((options.prefix.as_str(), options.tls.key), ("/karmada", Some("/c.key".into())));
        assert!(parse("--etcd-servers=https://a:2379 --etcd-keyfile=/c.key").is_err());
    }
}
