//! Values kept encrypted, in the form a Kubernetes API server gives them: `k8s:enc:`, the kind of
//! cipher, the name of the key, and then what only that key can read. It wraps any store; keys of the
//! store and revisions are as they were.

mod ciphers;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use tracing::{error, info};

pub use self::ciphers::NamedKey;

use crate::{
    Error, Event, Expect, KeyValue, RangeQuery, RangeResult, Result, Store, Update, WatchStream,
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
}

impl Provider {
    /// The cipher's name in stored values, and its keys.
    fn cipher(&self) -> Option<(&'static str, &[NamedKey])> {
        match self {
            Self::Identity => None,
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

    /// Writes values anew that were written by other keys than the first ones, or by none, and says
    /// how many. Those that somebody else writes meanwhile are theirs.
    pub async fn renew(&self) -> Result<usize> {
        let mut renewed = 0;
        for kv in self.store.range(RangeQuery::prefix("")).await?.items {
            let Some(rule) = rule_of(&self.rules, &kv.key) else { continue };
            let Read::Plain(plain, true) = open(rule, &kv.key, &kv.value) else { continue };
            let sealed = seal(rule, &kv.key, &plain)?;
            match self.store.put(&kv.key, sealed, Expect::ModRevision(kv.mod_revision)).await {
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

    fn seal(&self, key: &str, value: Bytes) -> Result<Bytes> {
        match rule_of(&self.rules, key) {
            Some(rule) => seal(rule, key, &value),
            None => Ok(value),
        }
    }

    fn opened(&self, outcome: Error) -> Error {
        match outcome {
            Error::Conflict { current } => {
                Error::Conflict { current: current.map(|kv| Box::new(plain(&self.rules, *kv))) }
            }
            error => error,
        }
    }
}

fn rule_of<'a>(rules: &'a [Rule], key: &str) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str())))
}

/// The pair as its readers know it. What cannot be read is left as it is: whoever reads it sees
/// that it is no object, and nobody else is kept from theirs.
fn plain(rules: &[Rule], kv: KeyValue) -> KeyValue {
    let Some(rule) = rule_of(rules, &kv.key) else { return kv };
    if kv.value.is_empty() {
        return kv;
    }
    match open(rule, &kv.key, &kv.value) {
        Read::Plain(value, _) => KeyValue { value, ..kv },
        Read::Unreadable => {
            error!(key = %kv.key, "no key of the configuration can decrypt this value");
            kv
        }
    }
}

fn plain_event(rules: &[Rule], event: Arc<Event>) -> Arc<Event> {
    if rule_of(rules, &event.kv.key).is_none() {
        return event;
    }
    let Event { kind, kv, prev } = (*event).clone();
    let prev = prev.map(|prev| plain(rules, prev));
    Arc::new(Event { kind, kv: plain(rules, kv), prev })
}

fn seal(rule: &Rule, place: &str, value: &[u8]) -> Result<Bytes> {
    let failed = || {
        Error::io(format!("encrypt the value of {place}"), std::io::Error::other("cipher failed"))
    };
    let Some((kind, keys)) = rule.providers.first().and_then(Provider::cipher) else {
        return Ok(Bytes::copy_from_slice(value));
    };
    let key = keys.first().ok_or_else(failed)?;
    let sealed = ciphers::seal(kind, key, place, value);
    let mut stored = format!("k8s:enc:{kind}:v1:{}:", key.name).into_bytes();
    stored.extend_from_slice(&sealed.ok_or_else(failed)?);
    Ok(stored.into())
}

fn open(rule: &Rule, place: &str, stored: &Bytes) -> Read {
    let first = rule.providers.first();
    if !stored.starts_with(MARK) {
        let today = matches!(first, Some(Provider::Identity) | None);
        let allowed = rule.providers.iter().any(|p| matches!(p, Provider::Identity));
        return if allowed { Read::Plain(stored.clone(), !today) } else { Read::Unreadable };
    }
    for (rank, provider) in rule.providers.iter().enumerate() {
        let Some((kind, keys)) = provider.cipher() else { continue };
        for (number, key) in keys.iter().enumerate() {
            let mark = format!("k8s:enc:{kind}:v1:{}:", key.name);
            let Some(sealed) = stored.strip_prefix(mark.as_bytes()) else { continue };
            if let Some(text) = ciphers::open(kind, key, place, sealed) {
                return Read::Plain(text.into(), rank > 0 || number > 0);
            }
        }
    }
    Read::Unreadable
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
        async move { Ok(self.store.get(key, at).await?.map(|kv| plain(&self.rules, kv))) }.boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        async move {
            let mut result = self.store.range(query).await?;
            result.items = result.items.into_iter().map(|kv| plain(&self.rules, kv)).collect();
            Ok(result)
        }
        .boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        async move {
            let sealed = self.seal(key, value.clone())?;
            let stored = self.store.put(key, sealed, expect).await;
            let stored = stored.map_err(|error| self.opened(error))?;
            Ok(KeyValue { value, ..stored })
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        async move {
            let event = self.store.delete(key, expect).await.map_err(|error| self.opened(error))?;
            Ok(plain_event(&self.rules, event))
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        let watching = self.store.watch(prefix, after);
        async move {
            let rules = self.rules.clone();
            let updates = watching.await?.map(move |update| match update {
                Ok(Update::Event(event)) => Ok(Update::Event(plain_event(&rules, event))),
                other => other,
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
}
