//! Values kept encrypted, in the form a Kubernetes API server gives them: `k8s:enc:`, the kind of
//! cipher, the name of the key, and then what only that key can read. It wraps any store; keys of the
//! store and revisions are as they were.

mod ciphers;
mod kms;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, stream};
use tracing::{error, info};

pub use self::ciphers::NamedKey;
pub use self::kms::{Kms, KmsOptions, Pace};

use crate::{
    Error, Event, Expect, KeyValue, Packed, RangeQuery, RangeResult, Result, Store, Update,
    WatchStream,
};

const MARK: &[u8] = b"k8s:enc:";

/// A way to keep values.
pub enum Provider {
    /// As they are.
    Identity,
    AesGcm(Vec<NamedKey>),
    AesCbc(Vec<NamedKey>),
    /// XSalsa20 and Poly1305; keys of 32 bytes.
    SecretBox(Vec<NamedKey>),
    /// By keys that a plugin guards.
    Kms(Arc<Kms>),
}

impl Provider {
    /// The cipher's name in stored values, and its keys, if they stand in the configuration.
    fn cipher(&self) -> Option<(&'static str, &[NamedKey])> {
        match self {
            Self::Identity | Self::Kms(_) => None,
            Self::AesGcm(keys) => Some(("aesgcm", keys)),
            Self::AesCbc(keys) => Some(("aescbc", keys)),
            Self::SecretBox(keys) => Some(("secretbox", keys)),
        }
    }
}

/// How the values of some keys are kept: by the first provider; the others are for reading.
pub struct Rule {
    /// What the keys begin with.
    pub prefixes: Vec<String>,
    pub providers: Vec<Provider>,
}

/// A store whose values are encrypted by rules; the first rule that a key matches counts.
pub struct Encrypted {
    store: Arc<dyn Store>,
    rules: Arc<Vec<Rule>>,
}

/// What became of a value that was read.
enum Read {
    /// The second is whether it would be written otherwise today.
    Plain(Bytes, bool),
    Unreadable,
}

impl Encrypted {
    pub fn new(store: Arc<dyn Store>, rules: Vec<Rule>) -> Self {
        Self { store, rules: Arc::new(rules) }
    }

    /// Waits for the plugins that values are to be written by, and follows how all of them are.
    pub async fn prepare(&self, patience: Duration) -> Result<()> {
        for rule in &*self.rules {
            if let Some(Provider::Kms(kms)) = rule.providers.first() {
                kms.ready(patience).await?;
            }
        }
        self.plugins().for_each(Kms::follow);
        Ok(())
    }

    fn plugins(&self) -> impl Iterator<Item = &Arc<Kms>> {
        let providers = self.rules.iter().flat_map(|rule| &rule.providers);
        providers.filter_map(|provider| match provider {
            Provider::Kms(kms) => Some(kms),
            _ => None,
        })
    }

    /// Writes values anew that were written by other keys than the first ones, or by none, and says
    /// how many. Those that somebody else writes meanwhile are theirs.
    pub async fn renew(&self) -> Result<usize> {
        let mut renewed = 0;
        for kv in self.store.range(RangeQuery::prefix("")).await?.items {
            let Some(rule) = rule_of(&self.rules, &kv.key) else { continue };
            let Read::Plain(plain, true) = open(rule, &kv.key, &kv.value.to_bytes()).await? else {
                continue;
            };
            let sealed = seal(rule, &kv.key, &plain).await?;
            match self.store.put(&kv.key, sealed.into(), Expect::ModRevision(kv.mod_revision)).await
            {
                Ok(_) => renewed += 1,
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if renewed > 0 {
            info!(values = renewed, "values written anew with the first key");
        }
        Ok(renewed)
    }

    async fn seal(&self, key: &str, value: Packed) -> Result<Packed> {
        match rule_of(&self.rules, key) {
            Some(rule) => Ok(seal(rule, key, &value.to_bytes()).await?.into()),
            None => Ok(value),
        }
    }

    /// What was in the way of a write, as its readers know it.
    async fn opened(&self, outcome: Error) -> Error {
        let Error::Conflict { current: Some(kv) } = outcome else { return outcome };
        match plain(&self.rules, *kv).await {
            Ok(kv) => Error::conflict(Some(kv)),
            Err(error) => error,
        }
    }
}

fn rule_of<'a>(rules: &'a [Rule], key: &str) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str())))
}

/// The pair as its readers know it. What cannot be read is left as it is: whoever reads it sees
/// that it is no object, and nobody else is kept from theirs.
async fn plain(rules: &[Rule], kv: KeyValue) -> Result<KeyValue> {
    let Some(rule) = rule_of(rules, &kv.key) else { return Ok(kv) };
    if kv.value.is_empty() {
        return Ok(kv);
    }
    Ok(match open(rule, &kv.key, &kv.value.to_bytes()).await? {
        Read::Plain(value, _) => KeyValue { value: value.into(), ..kv },
        Read::Unreadable => {
            error!(key = %kv.key, "no key of the configuration can decrypt this value");
            kv
        }
    })
}

async fn plain_event(rules: &[Rule], event: Arc<Event>) -> Result<Arc<Event>> {
    if rule_of(rules, &event.kv.key).is_none() {
        return Ok(event);
    }
    let Event { kind, kv, prev } = (*event).clone();
    let prev = match prev {
        Some(prev) => Some(plain(rules, prev).await?),
        None => None,
    };
    Ok(Arc::new(Event { kind, kv: plain(rules, kv).await?, prev }))
}

async fn seal(rule: &Rule, place: &str, value: &[u8]) -> Result<Bytes> {
    let failed = || {
        Error::io(format!("encrypt the value of {place}"), std::io::Error::other("cipher failed"))
    };
    let first = rule.providers.first();
    if let Some(Provider::Kms(kms)) = first {
        return Ok(kms.seal(place, value).await?.into());
    }
    let Some((kind, keys)) = first.and_then(Provider::cipher) else {
        return Ok(Bytes::copy_from_slice(value));
    };
    let key = keys.first().ok_or_else(failed)?;
    let sealed = ciphers::seal(kind, key, place, value);
    let mut stored = format!("k8s:enc:{kind}:v1:{}:", key.name).into_bytes();
    stored.extend_from_slice(&sealed.ok_or_else(failed)?);
    Ok(stored.into())
}

/// Decrypts a value. A plugin that gives no key is an error, since it may give it later.
async fn open(rule: &Rule, place: &str, stored: &Bytes) -> Result<Read> {
    let first = rule.providers.first();
    if !stored.starts_with(MARK) {
        let today = matches!(first, Some(Provider::Identity) | None);
        let allowed = rule.providers.iter().any(|p| matches!(p, Provider::Identity));
        let plain = || Read::Plain(stored.clone(), !today);
        return Ok(if allowed { plain() } else { Read::Unreadable });
    }
    for (rank, provider) in rule.providers.iter().enumerate() {
        if let Provider::Kms(kms) = provider {
            let mark = kms.mark();
            if !stored.starts_with(mark.as_bytes()) {
                continue;
            }
            if let Some((text, stale)) = kms.open(place, stored.slice(mark.len()..)).await? {
                return Ok(Read::Plain(text.into(), stale || rank > 0));
            }
        }
        let Some((kind, keys)) = provider.cipher() else { continue };
        for (number, key) in keys.iter().enumerate() {
            let mark = format!("k8s:enc:{kind}:v1:{}:", key.name);
            let Some(sealed) = stored.strip_prefix(mark.as_bytes()) else { continue };
            if let Some(text) = ciphers::open(kind, key, place, sealed) {
                return Ok(Read::Plain(text.into(), rank > 0 || number > 0));
            }
        }
    }
    Ok(Read::Unreadable)
}

impl Store for Encrypted {
    fn revision(&self) -> i64 {
        self.store.revision()
    }

    fn current(&self) -> BoxFuture<'_, Result<i64>> {
        self.store.current()
    }

    fn replays_cheaply(&self) -> bool {
        self.store.replays_cheaply()
    }

    fn compacted_revision(&self) -> i64 {
        self.store.compacted_revision()
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        async move {
            match self.store.get(key, at).await? {
                Some(kv) => Ok(Some(plain(&self.rules, kv).await?)),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        async move {
            let mut result = self.store.range(query).await?;
            let stored = std::mem::take(&mut result.items);
            result.items.reserve_exact(stored.len());
            for kv in stored {
                result.items.push(plain(&self.rules, kv).await?);
            }
            Ok(result)
        }
        .boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        async move {
            let sealed = self.seal(key, value.clone()).await?;
            match self.store.put(key, sealed, expect).await {
                Ok(stored) => Ok(KeyValue { value, ..stored }),
                Err(error) => Err(self.opened(error).await),
            }
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        async move {
            match self.store.delete(key, expect).await {
                // It is deleted, whether or not anybody can say what it was.
                Ok(event) => Ok(plain_event(&self.rules, event.clone()).await.unwrap_or(event)),
                Err(error) => Err(self.opened(error).await),
            }
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        let watching = self.store.watch(prefix, after);
        async move {
            let watching = (watching.await?, self.rules.clone());
            let updates = stream::unfold(Some(watching), |watching| async {
                let (mut updates, rules) = watching?;
                let update = match updates.next().await? {
                    Ok(Update::Event(event)) => plain_event(&rules, event).await.map(Update::Event),
                    other => other,
                };
                // A watch ends with its first error.
                let rest = update.is_ok().then_some((updates, rules));
                Some((update, rest))
            });
            let updates: WatchStream = Box::pin(updates);
            Ok(updates)
        }
        .boxed()
    }

    fn request_progress(&self) {
        self.store.request_progress();
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>> {
        self.store.compact(revision)
    }

    fn crowded(&self, bytes: usize) -> BoxFuture<'_, i64> {
        self.store.crowded(bytes)
    }

    fn health(&self) -> Result<()> {
        self.store.health()
    }

    fn checks(&self) -> Vec<(&'static str, Result<()>)> {
        let mut checks = self.store.checks();
        if self.plugins().next().is_some() {
            let health = self.plugins().map(|kms| kms.health()).find(Result::is_err);
            // Compat: Kubernetes has one check for all plugins of version 2.
            checks.push(("kms-providers", health.unwrap_or(Ok(()))));
        }
        checks
    }
}
