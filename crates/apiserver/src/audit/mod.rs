//! The audit log: who asked for what, when, and how it ended, as far as a policy wants to know.

mod log;
mod policy;
mod record;

use std::sync::Arc;

use http::request::Parts;

pub use log::{Log, LogSettings};
pub use policy::{Policy, PolicyError};
pub(crate) use record::Record;

use crate::auth::{Clock, Identity};
use crate::routes::Target;

/// A policy and the file its events go to.
pub struct Audit {
    policy: Policy,
    log: Log,
}

impl Audit {
    pub fn new(policy: Policy, log: Log) -> Self {
        Self { policy, log }
    }

    /// Begins the record of a request, if the policy wants one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        (parts, audit_id): (&Parts, &str),
        target: &Target,
        user: &Identity,
        clock: &Clock,
    ) -> Option<Arc<Record>> {
        let wanted = self.policy.wanted(target, user)?;
        let record = Record::new(self.clone(), wanted, (parts, audit_id), target, clock);
        record.is_from(user);
        record.received();
        Some(Arc::new(record))
    }

    /// Records a request whose sender could not be found out.
    pub(crate) fn stranger(
        self: &Arc<Self>,
        (parts, audit_id): (&Parts, &str),
        target: &Target,
        clock: &Clock,
    ) {
        if let Some(wanted) = self.policy.wanted_of_strangers(target) {
            Record::new(self.clone(), wanted, (parts, audit_id), target, clock).turned_away();
        }
    }
}
