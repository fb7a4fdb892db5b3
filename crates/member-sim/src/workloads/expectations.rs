//! Keeps a controller from acting on a cache that does not show its own writes yet: the same pod
//! would be created twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Object;
use karmada_runtime::ObjectKey;
use parking_lot::Mutex;
use tokio::time::Instant;

/// After so long a write is taken for seen: a relist may have swallowed its event.
const FORGET_AFTER: Duration = Duration::from_secs(300);

/// How far the cache is, and how far it has to be for each owner. The versions of one server are
/// numbers that only grow.
#[derive(Default)]
pub(crate) struct Expectations {
    seen: AtomicU64,
    awaited: Mutex<HashMap<ObjectKey, (u64, Instant)>>,
}

impl Expectations {
    /// Notes what the cache shows. Must be told before the owner is queued.
    pub(crate) fn see(&self, object: &Object) {
        self.seen.fetch_max(version(object.resource_version()), Ordering::Relaxed);
    }

    /// Notes what was written for an owner.
    pub(crate) fn wrote(&self, owner: &ObjectKey, object: &Value) {
        let version = version(object.resource_version());
        if version > self.seen.load(Ordering::Relaxed) {
            let mut awaited = self.awaited.lock();
            let entry = awaited.entry(owner.clone()).or_insert((version, Instant::now()));
            *entry = (entry.0.max(version), Instant::now());
        }
    }

    /// Whether the cache shows everything written for the owner. If not, the owner is woken by
    /// what is missing.
    pub(crate) fn met(&self, owner: &ObjectKey) -> bool {
        let mut awaited = self.awaited.lock();
        let Some((version, since)) = awaited.get(owner) else { return true };
        let met = *version <= self.seen.load(Ordering::Relaxed) || since.elapsed() > FORGET_AFTER;
        if met {
            awaited.remove(owner);
        }
        met
    }
}

fn version(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn at(version: &str) -> Value {
        json!({"metadata": {"name": "a", "resourceVersion": version}})
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_waits_for_its_own_writes_but_not_forever() {
        let (own, other) = (ObjectKey::new("x", "own"), ObjectKey::new("x", "other"));
        let expectations = Expectations::default();
        assert!(expectations.met(&own));
        expectations.wrote(&own, &at("9"));
        expectations.wrote(&own, &at("7"));
        assert!(!expectations.met(&own) && expectations.met(&other));
        expectations.see(&Object::from_value(&at("8")).unwrap());
        assert!(!expectations.met(&own));
        expectations.see(&Object::from_value(&at("10")).unwrap());
        assert!(expectations.met(&own));
        expectations.wrote(&own, &at("10"));
        assert!(expectations.met(&own), "already seen");
        expectations.wrote(&own, &at("11"));
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(expectations.met(&own));
    }
}
