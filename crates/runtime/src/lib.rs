//! What every controller stands on: shared informers with indexed caches, keyed work queues, the
//! loop that reconciles, leases, events, health, metrics, shutdown. All time comes from [`Clock`]
//! and from the timer of tokio, so a whole system runs on a paused clock.

mod backoff;
mod clock;
mod controller;
mod events;
mod health;
mod informer;
mod key;
mod lease;
mod manager;
mod metrics;
mod queue;
mod serve;
mod shutdown;

pub use backoff::Backoff;
pub use clock::Clock;
pub use controller::{Action, Controller, chain};
pub use events::{EventBudget, EventType, ObjectReference, Recorder};
pub use health::Health;
pub use informer::{Cache, Change, Informer, InformerSpec, Informers, Subscription};
pub use key::{Hashed, ObjectKey};
pub use lease::{Elector, LeaseConfig};
pub use manager::Manager;
pub use metrics::{Metrics, WorkMetrics};
pub use queue::{Priority, Queue, RateLimit, Work};
pub use serve::serve;
pub use shutdown::Shutdown;
