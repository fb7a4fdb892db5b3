//! The provider `kms` of an `EncryptionConfiguration`, held to the rules Kubernetes has for it. Errors
//! name the field.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use karmada_apimachinery::time::parse_go_duration;
use karmada_store::encryption::{Kms, KmsOptions, Pace};
use serde::Deserialize;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    api_version: String,
    name: String,
    #[serde(rename = "cachesize")]
    cache_size: Option<i32>,
    endpoint: String,
    timeout: Option<String>,
}

impl Config {
    /// The plugin it tells of. `names` are those of the plugins before.
    pub(super) fn read(self, place: &str, names: &mut HashSet<String>) -> anyhow::Result<Arc<Kms>> {
        let Self { api_version, name, cache_size, endpoint, timeout } = self;
        match api_version.as_str() {
            "v2" => {}
            // Compat: without a version it is the first one, which Kubernetes has switched off too.
            "" | "v1" => bail!(
                "{place}.apiVersion: version 1 of the KMS API, which counts when none is given, is not \
                 available; use a plugin of version 2 and write apiVersion: v2"
            ),
            other => bail!("{place}.apiVersion: there is no version {other:?}; write v2"),
        }
        ensure!(!name.is_empty(), "{place}.name: a name is needed");
        ensure!(!name.contains(':'), "{place}.name: {name:?} has a colon in it");
        ensure!(names.insert(name.clone()), "{place}.name: another provider is named {name:?} too");
        ensure!(cache_size.is_none(), "{place}.cachesize: version 2 has no such field");
        let timeout = timeout.as_deref().map_or(Ok(DEFAULT_TIMEOUT), read_timeout);
        let timeout = timeout.map_err(|why| anyhow!("{place}.timeout: {why}"))?;
        let options = KmsOptions { name, endpoint, timeout, pace: Pace::default() };
        Kms::new(options).map_err(|why| anyhow!("{place}.endpoint: {why}"))
    }
}

fn read_timeout(text: &str) -> Result<Duration, String> {
    let timeout = Duration::try_from(parse_go_duration(text)?).unwrap_or_default();
    match timeout.is_zero() {
        true => Err(format!("{text} is not longer than nothing")),
        false => Ok(timeout),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::super::parse;

    fn file(providers: &[&str]) -> String {
        let providers: Vec<String> =
            providers.iter().map(|fields| format!("  - kms: {{{fields}}}\n")).collect();
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n  - identity: {{}}\n{}",
            providers.concat()
        )
    }

    #[test]
    fn plugins_of_version_2_are_understood() {
        for fields in [
            "apiVersion: v2, name: a, endpoint: 'unix:///run/kms.sock'",
            "apiVersion: v2, name: a, endpoint: 'unix:///@kms', timeout: 1m30s",
            "apiVersion: v2, name: a-b.c, endpoint: 'unix:///run/kms.sock', timeout: 500ms",
        ] {
            parse(&file(&[fields])).unwrap_or_else(|why| panic!("{fields}: {why:#}"));
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused_by_the_name_of_the_field() {
        let good = "apiVersion: v2, name: a, endpoint: 'unix:///run/kms.sock'";
        for (fields, field, word) in [
            ("name: a, endpoint: 'unix:///k'", "apiVersion", "apiVersion: v2"),
            ("apiVersion: v1, name: a, endpoint: 'unix:///k'", "apiVersion", "apiVersion: v2"),
            ("apiVersion: v3, name: a, endpoint: 'unix:///k'", "apiVersion", "\"v3\""),
            ("apiVersion: v2, endpoint: 'unix:///k'", "name", "needed"),
            ("apiVersion: v2, name: 'a:b', endpoint: 'unix:///k'", "name", "colon"),
            ("apiVersion: v2, name: a", "endpoint", "unix:///"),
            ("apiVersion: v2, name: a, endpoint: 'http://k'", "endpoint", "unix:///"),
            ("apiVersion: v2, name: a, endpoint: '/run/k'", "endpoint", "unix:///"),
            (&format!("{good}, cachesize: 10"), "cachesize", "version 2"),
            (&format!("{good}, timeout: 0s"), "timeout", "0s"),
            (&format!("{good}, timeout: -1s"), "timeout", "-1s"),
            (&format!("{good}, timeout: soon"), "timeout", "soon"),
        ] {
            let refused = format!("{:#}", parse(&file(&[fields])).err().unwrap());
            let place = format!("resources[0].providers[1].kms.{field}: ");
            assert!(refused.starts_with(&place) && refused.contains(word), "{refused}");
        }
        let twice = format!("{:#}", parse(&file(&[good, good])).err().unwrap());
        assert!(twice.starts_with("resources[0].providers[2].kms.name: "), "{twice}");
        let unknown = format!("{:#}", parse(&file(&["apiversion: v2"])).err().unwrap());
        assert!(unknown.contains("apiversion"), "{unknown}");
    }
}
