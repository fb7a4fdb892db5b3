//! Leader election over a Lease, as client-go does it: whoever holds the lease renews it, others
//! take it over once they have seen it unchanged for its whole duration by their own clock.

use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::time::format_micro_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, Result};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use crate::{Backoff, Clock, Shutdown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    pub namespace: String,
    pub name: String,
    /// Who asks for the lease; no two processes may share it.
    pub identity: String,
    /// How long others wait for a renewal before they take over.
    pub duration: Duration,
    /// How long the holder keeps trying to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long to wait between two attempts.
    pub retry_period: Duration,
}

impl LeaseConfig {
    /// The times Kubernetes and Karmada use by default.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// How long work may go on once the lease is no longer renewed: until another may take it, at the earliest.
    fn patience(&self) -> Duration {
        self.duration.saturating_sub(self.renew_deadline)
    }
}

/// What stands in the lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Record {
    holder: String,
    acquired: String,
    renewed: String,
    duration_seconds: i64,
    transitions: i64,
}

impl Record {
    fn read(lease: &Value) -> Self {
        let text = |field| lease.str_at(&["spec", field]).unwrap_or_default().to_owned();
        Self {
            holder: text("holderIdentity"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            duration_seconds: lease.i64_at(&["spec", "leaseDurationSeconds"]).unwrap_or_default(),
            transitions: lease.i64_at(&["spec", "leaseTransitions"]).unwrap_or_default(),
        }
    }
}

/// The record others have written last, and when we saw it for the first time. Clocks of other
/// machines are not trusted.
#[derive(Debug, Clone, PartialEq)]
struct Observed {
    record: Record,
    at: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Take,
    Renew,
    Wait,
}

fn decide(observed: &Observed, identity: &str, now: Instant) -> Decision {
    let record = &observed.record;
    if record.holder == identity {
        return Decision::Renew;
    }
    let duration = Duration::from_secs(u64::try_from(record.duration_seconds).unwrap_or_default());
    if record.holder.is_empty() || now >= observed.at + duration {
        Decision::Take
    } else {
        Decision::Wait
    }
}

/// Takes part in an election.
pub struct Elector {
    api: Api,
    config: LeaseConfig,
    clock: Clock,
    observed: Option<Observed>,
    pauses: Backoff,
}

impl Elector {
    pub fn new(client: &Client, config: LeaseConfig, clock: Clock) -> Self {
        let leases = Gvr::new("coordination.k8s.io", "v1", "leases");
        let api = client.api(&leases).namespaced(&config.namespace);
        // Never doubles, only spreads: candidates must not try all at once.
        let pauses = Backoff::new(config.retry_period, config.retry_period, &config.identity);
        Self { api, config, clock, observed: None, pauses }
    }

    /// Waits for the lease, runs `lead` with a shutdown of its own, and returns when the lease was
    /// lost or the process is told to stop. The lease is given up on the way out.
    pub async fn run<F, R>(mut self, shutdown: &Shutdown, lead: F)
    where
        F: FnOnce(Shutdown) -> R,
        R: Future<Output = ()> + Send + 'static,
    {
        let renewed = tokio::select! {
            biased;
            renewed = self.acquire() => renewed,
            () = shutdown.triggered() => return,
        };
        info!(lease = self.config.name, identity = self.config.identity, "leading");
        let leading = shutdown.child();
        let work = leading.spawn(lead(leading.clone()));
        tokio::select! {
            biased;
            () = self.keep(renewed) => warn!(lease = self.config.name, "the lease was lost"),
            () = shutdown.triggered() => {}
            _ = work => {}
        }
        leading.finish(self.config.patience()).await;
        // What goes on regardless would go on beside the next leader.
        leading.kill();
        self.release().await;
    }

    /// Returns when the attempt began by which the lease was taken.
    async fn acquire(&mut self) -> Instant {
        loop {
            let began = Instant::now();
            if let Ok(true) = timeout_at(began + self.config.renew_deadline, self.attempt()).await {
                return began;
            }
            let pause = self.pauses.next_delay();
            tokio::time::sleep(pause).await;
        }
    }

    /// Renews until that has not worked for the whole deadline, which counts from the beginning of the last
    /// attempt that did: others may have seen its outcome long before we heard of it.
    async fn keep(&mut self, mut renewed: Instant) {
        loop {
            let deadline = renewed + self.config.renew_deadline;
            let next = Instant::now() + self.config.retry_period;
            tokio::time::sleep_until(next.min(deadline)).await;
            let began = Instant::now();
            match timeout_at(deadline, self.attempt()).await {
                Ok(true) => renewed = began,
                Ok(false) if self.held_by_other() => return,
                _ if Instant::now() >= deadline => return,
                _ => {}
            }
        }
    }

    fn held_by_other(&self) -> bool {
        let holder = self.observed.as_ref().map(|observed| observed.record.holder.as_str());
        holder.is_some_and(|holder| holder != self.config.identity)
    }

    async fn attempt(&mut self) -> bool {
        match self.try_hold().await {
            Ok(held) => held,
            Err(error) => {
                debug!(%error, lease = self.config.name, "the lease could not be taken");
                false
            }
        }
    }

    /// Tries once to take or renew the lease; says whether it is ours.
    async fn try_hold(&mut self) -> Result<bool> {
        let now = self.clock.now();
        let Some(mut lease) = self.api.find(&self.config.name).await? else {
            let lease = self.api.create(&self.fresh_lease(now)).await?;
            self.observe(Record::read(&lease));
            return Ok(true);
        };
        let observed = self.observe(Record::read(&lease));
        let decision = decide(&observed, &self.config.identity, Instant::now());
        let mut record = observed.record;
        match decision {
            Decision::Wait => return Ok(false),
            Decision::Renew => {}
            Decision::Take => {
                record.transitions += 1;
                record.acquired = format_micro_time(now);
            }
        }
        record.holder = self.config.identity.clone();
        record.renewed = format_micro_time(now);
        record.duration_seconds = self.config.duration.as_secs() as i64;
        write(&mut lease, &record);
        // The resource version read decides between two who try at the same time.
        let stored = self.api.update(&lease).await?;
        self.observe(Record::read(&stored));
        Ok(true)
    }

    fn fresh_lease(&self, now: Timestamp) -> Value {
        let LeaseConfig { namespace, name, identity, duration, .. } = &self.config;
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
        });
        let record = Record {
            holder: identity.clone(),
            acquired: format_micro_time(now),
            renewed: format_micro_time(now),
            duration_seconds: duration.as_secs() as i64,
            transitions: 0,
        };
        write(&mut lease, &record);
        lease
    }

    fn observe(&mut self, record: Record) -> Observed {
        match &self.observed {
            Some(observed) if observed.record == record => observed.clone(),
            _ => {
                let observed = Observed { record, at: Instant::now() };
                self.observed.insert(observed).clone()
            }
        }
    }

    /// Lets others take over at once.
    async fn release(&mut self) {
        let given_up = async {
            let mut lease = self.api.get(&self.config.name).await?;
            let mut record = Record::read(&lease);
            if record.holder == self.config.identity {
                record.holder.clear();
                record.duration_seconds = 1;
                record.renewed = format_micro_time(self.clock.now());
                record.acquired = record.renewed.clone();
                write(&mut lease, &record);
                self.api.update(&lease).await?;
            }
            Ok::<_, karmada_client::Error>(())
        };
        match tokio::time::timeout(self.config.renew_deadline, given_up).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, lease = self.config.name, "the lease was not given up"),
            Err(_) => warn!(lease = self.config.name, "the lease was not given up in time"),
        }
    }
}

fn write(lease: &mut Value, record: &Record) {
    lease.set(&["spec", "holderIdentity"], record.holder.as_str());
    lease.set(&["spec", "acquireTime"], record.acquired.as_str());
    lease.set(&["spec", "renewTime"], record.renewed.as_str());
    lease.set(&["spec", "leaseDurationSeconds"], record.duration_seconds);
    lease.set(&["spec", "leaseTransitions"], record.transitions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_taken_only_when_nobody_renews_it() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let held_by = |holder: &str| Observed {
            record: Record { holder: holder.into(), duration_seconds: 15, ..Record::default() },
            at: start,
        };
        let cases = [
            (held_by("other"), 0, Decision::Wait),
            (held_by("other"), 14, Decision::Wait),
            (held_by("other"), 15, Decision::Take),
            (held_by("me"), 0, Decision::Renew),
            (held_by("me"), 100, Decision::Renew),
            (held_by(""), 0, Decision::Take),
        ];
        for (observed, after, expected) in cases {
            assert_eq!(decide(&observed, "me", start + seconds(after)), expected, "{observed:?}");
        }
    }
}
