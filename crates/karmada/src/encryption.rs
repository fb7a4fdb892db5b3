//! Encryption at rest by an `EncryptionConfiguration`, with the flag and the file of Kubernetes.
//! Providers are aesgcm, aescbc, secretbox, kms in version 2, and identity.

mod kms;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_store::Store;
use karmada_store::encryption::{Encrypted, NamedKey, Provider, Rule};
use serde::Deserialize;

/// How long a plugin that writes need may be away at the start.
const PLUGIN_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct EncryptionArgs {
    /// Which resources are kept encrypted, and by which keys: a file with an EncryptionConfiguration
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    resources: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    resources: Vec<String>,
    providers: Vec<ProviderConfig>,
}

/// Exactly one of these stands in every entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProviderConfig {
    aesgcm: Option<Keys>,
    aescbc: Option<Keys>,
    identity: Option<Empty>,
    secretbox: Option<Keys>,
    kms: Option<kms::Config>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

/// The secret is not shown.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key {}", self.name)
    }
}

impl EncryptionArgs {
    /// The store as the API server is to use it. What other keys have written is written anew.
    pub(crate) async fn wrap(&self, store: Arc<dyn Store>) -> anyhow::Result<Arc<dyn Store>> {
        let Some(path) = &self.encryption_provider_config else { return Ok(store) };
        let told = || format!("--encryption-provider-config: {}", path.display());
        let text = std::fs::read_to_string(path).with_context(told)?;
        let encrypted = Encrypted::new(store, parse(&text).with_context(told)?);
        encrypted.prepare(PLUGIN_PATIENCE).await.with_context(told)?;
        encrypted.renew().await.context("write values anew with the first key")?;
        Ok(Arc::new(encrypted))
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Rule>> {
    let configuration: Configuration = serde_saphyr::from_str(text)?;
    let Configuration { api_version, kind, resources } = configuration;
    ensure!(
        api_version == "apiserver.config.k8s.io/v1" && kind == "EncryptionConfiguration",
        "it holds {api_version} {kind} instead of apiserver.config.k8s.io/v1 EncryptionConfiguration"
    );
    let mut names = HashSet::new();
    let places = (0..).map(|number| format!("resources[{number}].providers"));
    places.zip(resources).map(|(place, group)| rule(&place, group, &mut names)).collect()
}

/// Reads how some resources are kept. `place` is where their providers stand in the file, and no two
/// plugins of the file may have the same name.
fn rule(place: &str, group: Group, names: &mut HashSet<String>) -> anyhow::Result<Rule> {
    ensure!(!group.providers.is_empty(), "{:?} have no providers", group.resources);
    let mut prefixes = Vec::new();
    for resource in &group.resources {
        let places = prefixes_of(resource);
        ensure!(
            !places.is_empty(),
            "there is no resource {resource:?}; write secrets, deployments.apps, *.apps or *.*"
        );
        prefixes.extend(places);
    }
    let mut providers = Vec::new();
    for (number, config) in group.providers.into_iter().enumerate() {
        providers.push(provider(&format!("{place}[{number}]"), config, names)?);
    }
    Ok(Rule { prefixes, providers })
}

fn provider(
    place: &str,
    config: ProviderConfig,
    names: &mut HashSet<String>,
) -> anyhow::Result<Provider> {
    let ProviderConfig { aesgcm, aescbc, secretbox, identity, kms } = config;
    match (aesgcm, aescbc, secretbox, identity, kms) {
        (Some(keys), None, None, None, None) => Ok(Provider::AesGcm(read_keys(keys)?)),
        (None, Some(keys), None, None, None) => Ok(Provider::AesCbc(read_keys(keys)?)),
        (None, None, Some(keys), None, None) => {
            let keys = read_keys(keys)?;
            let short = keys.iter().find(|key| key.bits() != 256);
            if let Some(key) = short {
                bail!("the secret of {:?} has {} bits; secretbox needs 256", key.name, key.bits());
            }
            Ok(Provider::SecretBox(keys))
        }
        (None, None, None, Some(Empty {}), None) => Ok(Provider::Identity),
        (None, None, None, None, Some(config)) => {
            Ok(Provider::Kms(config.read(&format!("{place}.kms"), names)?))
        }
        _ => bail!("{place}: every provider is one of aesgcm, aescbc, secretbox, kms and identity"),
    }
}

fn read_keys(keys: Keys) -> anyhow::Result<Vec<NamedKey>> {
    ensure!(!keys.keys.is_empty(), "a provider has no keys");
    let read = |key: Key| {
        let secret = STANDARD.decode(key.secret.trim());
        let secret =
            secret.with_context(|| format!("the secret of {:?} is not base64", key.name))?;
        Ok(NamedKey::new(&key.name, secret)?)
    };
    keys.keys.into_iter().map(read).collect()
}

/// Where objects of a resource lie: `secrets`, `deployments.apps`, `*.apps`, `*.` or `*.*`.
fn prefixes_of(resource: &str) -> Vec<String> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    if resource == "*.*" {
        return vec!["/registry/".to_owned()];
    }
    let stored = karmada_kinds::resources().iter().filter(|kind| kind.is_stored());
    let named =
        stored.filter(|kind| kind.group == group && (plural == "*" || kind.plural == plural));
    let mut prefixes: Vec<String> =
        named.map(|kind| format!("{}/", kind.storage_prefix())).collect();
    prefixes.sort();
    prefixes.dedup();
    // Custom resources lie under the name of their group.
    match (prefixes.is_empty() || plural == "*", group.is_empty()) {
        (true, false) if plural == "*" => prefixes.push(format!("/registry/{group}/")),
        (true, false) => prefixes.push(format!("/registry/{group}/{plural}/")),
        _ => {}
    }
    prefixes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use karmada_store::{Expect, Memory};

    #[test]
    fn resources_lie_where_they_are_stored() {
        assert_eq!(prefixes_of("secrets"), ["/registry/secrets/"]);
        assert_eq!(prefixes_of("services"), ["/registry/services/specs/"]);
        assert_eq!(prefixes_of("deployments.apps"), ["/registry/deployments/"]);
        assert_eq!(prefixes_of("works.work.karmada.io"), ["/registry/work.karmada.io/works/"]);
        assert!(prefixes_of("*.").contains(&"/registry/configmaps/".to_owned()));
        assert!(prefixes_of("*.apps").contains(&"/registry/daemonsets/".to_owned()));
        assert_eq!(prefixes_of("*.*"), ["/registry/"]);
        assert!(prefixes_of("nonsense").is_empty());
    }

    #[tokio::test]
    async fn the_file_of_kubernetes_is_understood() {
        let secret = STANDARD.encode([7; 32]);
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - name: key1\n        secret: {secret}\n  - identity: {{}}\n"
        );
        let memory = Memory::new();
        let place = "/registry/secrets/a/b";
        memory.put(place, "{}".into(), Expect::Any).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, &text).unwrap();
        let args = EncryptionArgs { encryption_provider_config: Some(file) };
        let store = args.wrap(Arc::new(memory.clone())).await.unwrap();
        let raw = memory.get(place, None).await.unwrap().unwrap().value;
        assert!(
            raw.to_bytes().starts_with(b"k8s:enc:aescbc:v1:key1:"),
            "what was there is encrypted too"
        );
        assert_eq!(store.get(place, None).await.unwrap().unwrap().value, "{}");
        for (from, to, word) in [
            ("aescbc", "rot13", "rot13"),
            (secret.as_str(), "c2hvcnQ=", "key1"),
            ("EncryptionConfiguration", "Policy", "Policy"),
            ("secrets", "Secrets", "there is no resource \"Secrets\""),
        ] {
            let refused = parse(&text.replace(from, to)).err().unwrap();
            assert!(format!("{refused:#}").contains(word), "{refused:#}");
        }
    }
}
