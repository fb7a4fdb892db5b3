//! The secrets that all replicas must have in common, kept in etcd: the authorities that sign and
//! check certificates, and the key of service account tokens. Whoever comes first makes them,
//! everybody else takes them over; each replica has them in its data directory too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use karmada_apiserver::pki::{Pki, Settings, write_private};
use karmada_store::{Error, Expect, Store};

/// No resource has this prefix, so it is never served.
pub(crate) const KEY: &str = "/registry/karmada.io/control-plane-keys";

/// Certificates may be renewed by one replica and not by another; keys never differ.
const KEYS: [&str; 3] = ["ca.key", "front-proxy-ca.key", "sa.key"];
const CERTIFICATES: [&str; 2] = ["ca.crt", "front-proxy-ca.crt"];

/// The files by name.
type Files = BTreeMap<String, String>;

/// Opens certificates and keys such that all who share the store have the same.
pub(crate) async fn open_shared(store: &dyn Store, settings: Settings) -> anyhow::Result<Pki> {
    let dir = settings.dir.clone().context("certificates of replicas need a directory")?;
    if let Some(shared) = read_shared(store).await? {
        take_over(&shared, &dir)?;
        return Ok(Pki::open(settings, Timestamp::now())?);
    }
    let had_keys = KEYS.iter().any(|name| dir.join(name).exists());
    let pki = Pki::open(settings.clone(), Timestamp::now())?;
    let ours = pack(&dir)?;
    match store.put(KEY, ours.into(), Expect::Absent).await {
        Ok(_) => Ok(pki),
        Err(Error::Conflict { .. }) => {
            // Another replica was faster. What was made here a moment ago nobody has seen.
            let shared = read_shared(store).await?.context("shared keys are gone again")?;
            if !had_keys {
                write_files(&shared, &dir)?;
            }
            take_over(&shared, &dir)?;
            Ok(Pki::open(settings, Timestamp::now())?)
        }
        Err(error) => Err(error).context("keep the keys of the control plane in etcd"),
    }
}

async fn read_shared(store: &dyn Store) -> anyhow::Result<Option<Files>> {
    let Some(kv) = store.get(KEY, None).await.context("read the keys of the control plane")? else {
        return Ok(None);
    };
    let files = kv
        .value
        .with(|text| serde_json::from_slice(text))
        .context("the keys in etcd cannot be read")?;
    Ok(Some(files))
}

/// The secrets in a directory as they are kept in etcd and in backups.
pub(crate) fn pack(dir: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&read_files(dir)?)?)
}

/// Puts secrets that were kept elsewhere into a directory that has none, or the same.
pub(crate) fn unpack(packed: &[u8], dir: &Path) -> anyhow::Result<()> {
    let files: Files = serde_json::from_slice(packed).context("the keys cannot be read")?;
    take_over(&files, dir)
}

/// Writes what is missing; refuses to replace keys that are others.
fn take_over(shared: &Files, dir: &Path) -> anyhow::Result<()> {
    if KEYS.iter().all(|name| !dir.join(name).exists()) {
        return write_files(shared, dir);
    }
    let ours = read_files(dir)?;
    for name in KEYS {
        if ours.get(name) != shared.get(name) {
            let path: PathBuf = dir.join(name);
            bail!(
                "{} is the key of another control plane; use a --data-dir of its own, \
                 or another --etcd-prefix",
                path.display()
            );
        }
    }
    Ok(())
}

fn write_files(files: &Files, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    for (name, text) in files {
        // Names come from the store: nothing but these is ever written.
        if KEYS.contains(&name.as_str()) || CERTIFICATES.contains(&name.as_str()) {
            write_private(&dir.join(name), text)?;
        }
    }
    Ok(())
}

fn read_files(dir: &Path) -> anyhow::Result<Files> {
    let read = |name: &&str| {
        let path = dir.join(name);
        let text = std::fs::read_to_string(&path);
        Ok(((*name).to_owned(), text.with_context(|| format!("read {}", path.display()))?))
    };
    KEYS.iter().chain(&CERTIFICATES).map(read).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use karmada_apiserver::pki::TokenKey;
    use karmada_store::Memory;

    fn settings(dir: &Path) -> Settings {
        let day = SignedDuration::from_hours(24);
        let settings = Settings::new(Some(dir.join("pki")), day, None, []);
        Settings { token_key: TokenKey::Ecdsa, ..settings }
    }

    #[tokio::test]
    async fn whoever_comes_later_has_the_keys_of_the_first() {
        let (store, first, second) =
            (Memory::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, other) = tokio::join!(
            open_shared(&store, settings(first.path())),
            open_shared(&store, settings(second.path()))
        );
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.authority().certificate_pem(), other.authority().certificate_pem());
        let key = |dir: &Path| std::fs::read_to_string(dir.join("pki/sa.key")).unwrap();
        assert_eq!(key(first.path()), key(second.path()));
        // A restart finds everything as it was.
        let revision = store.revision();
        open_shared(&store, settings(first.path())).await.unwrap();
        assert_eq!(store.revision(), revision);
    }

    #[tokio::test]
    async fn keys_of_another_control_plane_are_not_replaced() {
        let (store, dir) = (Memory::new(), tempfile::tempdir().unwrap());
        Pki::open(settings(dir.path()), Timestamp::now()).unwrap();
        let before = std::fs::read_to_string(dir.path().join("pki/ca.key")).unwrap();
        let other = tempfile::tempdir().unwrap();
        open_shared(&store, settings(other.path())).await.unwrap();
        let refused = open_shared(&store, settings(dir.path())).await.err().unwrap();
        assert!(refused.to_string().contains("ca.key"), "{refused}");
        assert_eq!(std::fs::read_to_string(dir.path().join("pki/ca.key")).unwrap(), before);
    }
}
