//! `karmada crds`: the custom resource definitions, for API servers that do not know them yet.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_admission::review::CONVERT_PATH;
use karmada_api::crd::{Crd, crds, host_crds, with_conversion_webhook};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::http::respond::to_yaml;

use crate::stdout;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where `karmada webhook` is reached; bindings are then converted there between their versions.
    #[arg(long, value_name = "URL", value_parser = parse_https)]
    conversion_url: Option<String>,
    /// The certificate authority of the webhook, in PEM.
    #[arg(long, value_name = "FILE", requires = "conversion_url")]
    ca_file: Option<PathBuf>,
    /// Prints the definition for the cluster that hosts a control plane, which an operator works from.
    #[arg(long, conflicts_with = "conversion_url")]
    host: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let authority = args.ca_file.as_deref().map(read_authority).transpose()?;
    let shown = if args.host { host_crds() } else { crds() };
    let documents = shown.iter().map(|crd| match &args.conversion_url {
        Some(url) if has_versions(crd) => {
            to_yaml(&with_conversion_webhook(crd, client_config(url, CONVERT_PATH, &authority)))
        }
        _ => crd.yaml.to_owned(),
    });
    Ok(stdout::print(&join_documents(documents))?)
}

/// Whether there is anything to convert.
fn has_versions(crd: &Crd) -> bool {
    crd.object["spec"]["versions"].as_array().is_some_and(|versions| versions.len() > 1)
}

/// How an API server reaches a path of the webhook.
pub(crate) fn client_config(base: &str, path: &str, authority: &Option<String>) -> Value {
    let mut config = json!({"url": format!("{base}{path}")});
    if let Some(authority) = authority {
        config["caBundle"] = STANDARD.encode(authority).into();
    }
    config
}

pub(crate) fn read_authority(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    anyhow::ensure!(
        text.contains("-----BEGIN CERTIFICATE-----"),
        "{} holds no certificate in PEM",
        path.display()
    );
    Ok(text)
}

pub(crate) fn join_documents(documents: impl IntoIterator<Item = String>) -> String {
    documents.into_iter().collect::<Vec<_>>().join("---\n")
}

/// Takes the address of the webhook with or without the path of the conversion.
pub(crate) fn parse_https(text: &str) -> Result<String, String> {
    let base = text.trim_end_matches('/');
    let base = base.strip_suffix(CONVERT_PATH).unwrap_or(base);
    match base.strip_prefix("https://") {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(base.to_owned()),
        _ => Err("an address such as https://127.0.0.1:8443 is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_taken_with_and_without_the_path() {
        let cases = [
            ("https://127.0.0.1:8443", Some("https://127.0.0.1:8443")),
            ("https://hooks.ns.svc:443/", Some("https://hooks.ns.svc:443")),
            ("https://hooks/convert", Some("https://hooks")),
            ("http://127.0.0.1:8443", None),
            ("https://", None),
            ("127.0.0.1:8443", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_https(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn only_kinds_of_several_versions_are_converted() {
        let converted: Vec<_> =
            crds().iter().filter(|crd| has_versions(crd)).map(|crd| &*crd.name).collect();
        assert_eq!(
            converted,
            ["clusterresourcebindings.work.karmada.io", "resourcebindings.work.karmada.io"]
        );
    }
}
