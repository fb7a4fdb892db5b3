//! `karmada webhook`: the admission of Karmada's kinds and the conversion of bindings over HTTPS, for use
//! behind any Kubernetes API server. Every replica serves; nothing is kept.

mod certificate;
mod endpoint;
mod listener;
mod plane;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use karmada_admission::{mutating_configuration, validating_configuration};
use karmada_api::features::Gates;
use karmada_apiserver::http::respond::to_yaml;
use karmada_client::Client;
use karmada_runtime::{Health, Informers, Metrics, Shutdown};
use tokio::net::TcpListener;

use crate::component::serve_health;
use crate::crds::{client_config, join_documents, parse_https, read_authority};
use crate::stop::Stop;
use crate::{stdout, version};
use certificate::{Certificate, MinVersion};
use endpoint::Endpoint;
use plane::Plane;

/// How long open requests may take after shutdown has begun.
const DRAIN: Duration = Duration::from_secs(5);
const USER_AGENT: &str = "karmada-webhook";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// How the API server is reached; unless given, as kubectl would, or as the pod's service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// The port of the hooks; 0 takes any free one.
    #[arg(long, default_value_t = 8443)]
    secure_port: u16,
    /// The directory of the serving certificate; `k8s-webhook-server/serving-certs` among the temporary
    /// files unless given.
    #[arg(long)]
    cert_dir: Option<PathBuf>,
    #[arg(long, default_value = "tls.crt")]
    tls_cert_file_name: PathBuf,
    #[arg(long, default_value = "tls.key")]
    tls_private_key_file_name: PathBuf,
    /// The oldest TLS that clients may speak; never older than 1.2.
    #[arg(long, value_enum, default_value = "1.3")]
    tls_min_version: MinVersion,
    /// Where metrics are served over HTTP, as in `:8080`; 0 for nowhere.
    #[arg(long, default_value = ":8080")]
    metrics_bind_address: String,
    /// Where health is served over HTTP, as in `:8000`; 0 for nowhere.
    #[arg(long, default_value = ":8000")]
    health_probe_bind_address: String,
    /// Lets ClusterTaintPolicies use the effect NoExecute.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    allow_no_execute_taint_policy: bool,
    /// Switches features, as in `Failover=true,AllAlpha=false`.
    #[arg(long, default_value = "", hide_default_value = true, value_parser = Gates::parse)]
    feature_gates: Gates,
    /// Prints the objects that register the hooks with an API server, and ends.
    #[arg(long, requires = "url")]
    print_configuration: bool,
    /// Where API servers reach this webhook, for --print-configuration.
    #[arg(long, requires = "print_configuration", value_parser = parse_https)]
    url: Option<String>,
    /// The certificate authority in PEM by which API servers know this webhook, for --print-configuration.
    #[arg(long, requires = "print_configuration")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    unused: Unused,
}

/// Compat: flags of the original that existing command lines carry and that change nothing here. The few
/// requests of this program need no limit; what is logged is said by --log-level.
#[derive(Debug, Clone, clap::Args)]
struct Unused {
    #[arg(long, hide = true)]
    kube_api_qps: Option<f32>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<i32>,
    #[arg(short = 'v', long = "v", hide = true)]
    verbosity: Option<u8>,
    #[arg(long, hide = true)]
    logging_format: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    if let Some(url) = args.url.as_deref().filter(|_| args.print_configuration) {
        return print_configuration(url, args.ca_file.as_deref());
    }
    let directory = args
        .cert_dir
        .unwrap_or_else(|| std::env::temp_dir().join("k8s-webhook-server/serving-certs"));
    let certificate = Arc::new(Certificate::load(
        directory.join(args.tls_cert_file_name),
        directory.join(args.tls_private_key_file_name),
    )?);
    let tls = certificate::server_config(certificate.clone(), args.tls_min_version)?;
    let client = match &args.kubeconfig {
        Some(path) => Client::from_kubeconfig(path, None).await,
        None => Client::infer().await,
    };
    let client = client.context("reach the API server")?.with_user_agent(USER_AGENT);

    let (shutdown, metrics, health) = (Shutdown::new(), Metrics::default(), Health::new());
    version::register(&metrics, &args.feature_gates);
    let plane = Plane::new(Informers::new(client, shutdown.clone()), &args.feature_gates);
    let endpoint =
        Endpoint::new(plane, args.feature_gates, args.allow_no_execute_taint_policy, &metrics);
    serve_health(
        [&args.health_probe_bind_address, &args.metrics_bind_address],
        &health,
        &metrics,
        &shutdown,
    )
    .await?;
    let listener = TcpListener::bind((args.bind_address, args.secure_port))
        .await
        .with_context(|| format!("listen on {}:{}", args.bind_address, args.secure_port))?;
    let address = listener.local_addr()?;
    let stop = Stop::listen()?;
    tracing::info!(%address, "serving hooks");
    let hooks = listener::serve(listener, tls, certificate, Arc::new(endpoint), shutdown.clone());
    shutdown.spawn(hooks);
    stop.requested().await;
    shutdown.finish(DRAIN).await;
    Ok(())
}

fn print_configuration(url: &str, ca_file: Option<&std::path::Path>) -> anyhow::Result<()> {
    let authority = ca_file.map(read_authority).transpose()?;
    let reach = |path: &str| client_config(url, path, &authority);
    let objects = [mutating_configuration(reach), validating_configuration(reach)];
    Ok(stdout::print(&join_documents(objects.iter().map(to_yaml)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::parse_line as parse;

    #[test]
    fn the_command_lines_of_the_original_are_understood() {
        let line = "--kubeconfig=/etc/karmada.config --bind-address=10.0.0.1 \
            --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:8000 \
            --secure-port=8443 --cert-dir=/var/serving-cert --kube-api-qps=40.0 --kube-api-burst=60 \
            --allow-no-execute-taint-policy=true --tls-min-version=1.2 --v=4 \
            --feature-gates=AllAlpha=true,Failover=true";
        let args: Args = parse(line).unwrap();
        assert!(args.allow_no_execute_taint_policy);
        assert!(
            parse::<Args>("--allow-no-execute-taint-policy").unwrap().allow_no_execute_taint_policy
        );
        assert!(!parse::<Args>("").unwrap().allow_no_execute_taint_policy);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("--feature-gates=Failovr=true", "(did you mean Failover?)"),
            ("--secure-prt=1", "'--secure-port'"),
            ("--tls-min-version=1.4", "[possible values: 1.0, 1.1, 1.2, 1.3]"),
            ("--print-configuration", "--url <URL>"),
            ("--print-configuration --url=http://a", "an address such as https://"),
        ];
        for (line, expected) in cases {
            let message = parse::<Args>(line).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
