//! Events end on their own: one that was not written for a while is removed, as if its lease had run out.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::parse_time;
use karmada_store::Expect;

use crate::state::State;

/// How long to wait between two looks at most.
const LOOK: Duration = Duration::from_secs(60);

/// Removes what has expired, again and again, until the server stops.
pub(crate) async fn run(state: Arc<State>) {
    let ttl = state.config.event_ttl;
    if ttl.is_zero() {
        return;
    }
    let pause = LOOK.min(ttl / 4).max(Duration::from_secs(1));
    loop {
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        remove_expired(&state, ttl).await;
    }
}

async fn remove_expired(state: &State, ttl: Duration) {
    let snapshot = state.registry.snapshot();
    let Some(storage) = snapshot.find("", "v1", "events").and_then(|s| s.storage.clone()) else {
        return;
    };
    let ttl = jiff::SignedDuration::try_from(ttl).unwrap_or(jiff::SignedDuration::MAX);
    let now = (state.clock)();
    for event in storage.cache.list("") {
        let expired = last_written(&event.to_value())
            .is_some_and(|written| now.duration_since(written) >= ttl);
        if expired {
            let key = storage.key(event.namespace(), event.name());
            // Somebody may have written it again meanwhile; then it stays.
            let removed = state.store.delete(&key, Expect::ModRevision(event.revision)).await;
            if let Err(error) = removed {
                tracing::debug!(key, %error, "remove an expired event");
            }
        }
    }
}

/// When an event was written last, by what the server itself noted.
fn last_written(event: &Value) -> Option<Timestamp> {
    let created = event.str_at(&["metadata", "creationTimestamp"]).and_then(parse_time);
    let entries = event.list_at(&["metadata", "managedFields"]);
    let written = entries.iter().filter_map(|entry| parse_time(entry.str_at(&["time"])?));
    created.into_iter().chain(written).max()
}
