//! Control planes on etcd: the flags that name it, as a Kubernetes API server spells them, and how
//! replicas on one etcd agree who leads.

pub(crate) mod keys;

use std::path::PathBuf;
use std::time::Duration;

use karmada_runtime::LeaseConfig;
use karmada_store::{EtcdOptions, TlsFiles};

use crate::component::{check_lease_times, duration};

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

/// How replicas on one etcd agree who runs the controllers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Replicas on one etcd")]
pub(crate) struct ElectionArgs {
    /// How long other replicas wait for a leader that does not answer
    #[arg(long, default_value = "8s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long a leader that cannot renew goes on
    #[arg(long, default_value = "6s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// The pause between attempts to lead
    #[arg(long, default_value = "1s", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

impl ElectionArgs {
    /// Refuses times that are not safe.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        check_lease_times(&self.lease("", "", ""))
    }

    /// The lease to hold. The address tells people which replica holds it, the number tells a
    /// process from the one that was there before.
    pub(crate) fn lease(&self, namespace: &str, name: &str, address: &str) -> LeaseConfig {
        let identity = format!("{address}_{}", uuid::Uuid::new_v4());
        LeaseConfig {
            duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaseConfig::new(namespace, name, identity)
        }
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
