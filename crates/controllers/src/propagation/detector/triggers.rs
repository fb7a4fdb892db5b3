//! Why a template is looked at: who changed it, and which changes are our own.

use std::collections::BTreeMap;
use std::fmt;

use karmada_apimachinery::gvk::Gvk;
use karmada_runtime::ObjectKey;
use parking_lot::Mutex;

/// A template: kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TemplateId {
    pub(crate) gvk: Gvk,
    pub(crate) key: ObjectKey,
}

impl fmt::Display for TemplateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.key)
    }
}

/// Why a template is looked at. Reasons add up until it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Trigger {
    /// Something other than Karmada's own bookkeeping: a lazy policy acts on nothing else.
    pub(crate) by_user: bool,
    /// The template reads differently than before, so what was rendered from it is out of date.
    pub(crate) changed: bool,
}

impl Trigger {
    fn join(self, other: Self) -> Self {
        Self { by_user: self.by_user || other.by_user, changed: self.changed || other.changed }
    }
}

#[derive(Default)]
struct Entry {
    trigger: Option<Trigger>,
    own: Option<OwnWrite>,
}

/// A write of ours whose echo needs no second look.
enum OwnWrite {
    /// Sent; versions that appear meanwhile are kept until the answer tells which one is ours.
    InFlight(Vec<(String, Trigger)>),
    /// Answered with this version, which has not come back yet.
    Awaited(String),
}

/// The reasons of all templates that wait to be looked at.
#[derive(Default)]
pub(crate) struct Triggers(Mutex<BTreeMap<TemplateId, Entry>>);

impl Triggers {
    pub(crate) fn add(&self, id: &TemplateId, trigger: Trigger) {
        let mut entries = self.0.lock();
        let entry = entries.entry(id.clone()).or_default();
        entry.trigger = Some(entry.trigger.unwrap_or_default().join(trigger));
    }

    /// Notes a version that appeared; returns whether the template has to be looked at.
    pub(crate) fn observe(&self, id: &TemplateId, version: &str, trigger: Trigger) -> bool {
        let mut entries = self.0.lock();
        let entry = entries.entry(id.clone()).or_default();
        match &mut entry.own {
            Some(OwnWrite::InFlight(seen)) => {
                seen.push((version.to_owned(), trigger));
                return false;
            }
            Some(OwnWrite::Awaited(own)) if own == version => {
                entry.own = None;
                if entry.trigger.is_none() {
                    entries.remove(id);
                }
                return false;
            }
            _ => {}
        }
        entry.trigger = Some(entry.trigger.unwrap_or_default().join(trigger));
        true
    }

    /// Takes the reasons of a template that is looked at now; without any, somebody asked for it.
    pub(crate) fn take(&self, id: &TemplateId) -> Trigger {
        let mut entries = self.0.lock();
        let Some(entry) = entries.get_mut(id) else {
            return Trigger { by_user: true, changed: false };
        };
        let trigger = entry.trigger.take();
        if entry.own.is_none() {
            entries.remove(id);
        }
        trigger.unwrap_or(Trigger { by_user: true, changed: false })
    }

    pub(crate) fn begin_write(&self, id: &TemplateId) {
        self.0.lock().entry(id.clone()).or_default().own = Some(OwnWrite::InFlight(Vec::new()));
    }

    /// Ends a write with the version it led to, if it succeeded. Returns whether somebody else
    /// wrote meanwhile, so that the template has to be looked at again.
    pub(crate) fn end_write(&self, id: &TemplateId, version: Option<&str>) -> bool {
        let mut entries = self.0.lock();
        let entry = entries.entry(id.clone()).or_default();
        let seen = match entry.own.take() {
            Some(OwnWrite::InFlight(seen)) => seen,
            _ => Vec::new(),
        };
        let mut came_back = false;
        let mut others = None;
        for (seen, trigger) in seen {
            if Some(seen.as_str()) == version {
                came_back = true;
            } else {
                others = Some(others.unwrap_or(Trigger::default()).join(trigger));
            }
        }
        if let (Some(version), false) = (version, came_back) {
            entry.own = Some(OwnWrite::Awaited(version.to_owned()));
        }
        if let Some(others) = others {
            entry.trigger = Some(entry.trigger.unwrap_or_default().join(others));
        }
        if entry.own.is_none() && entry.trigger.is_none() {
            entries.remove(id);
        }
        others.is_some()
    }

    /// Lets the echo of an own write count as any other change.
    pub(crate) fn expect_nothing(&self, id: &TemplateId) {
        if let Some(entry) = self.0.lock().get_mut(id) {
            entry.own = None;
        }
    }

    pub(crate) fn forget(&self, id: &TemplateId) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> TemplateId {
        TemplateId { gvk: Gvk::new("", "v1", "ConfigMap"), key: ObjectKey::new("ns", "conf") }
    }

    const USER: Trigger = Trigger { by_user: true, changed: true };

    #[test]
    fn the_echo_of_an_own_write_is_no_reason_to_look_again() {
        let triggers = Triggers::default();
        triggers.begin_write(&id());
        assert!(!triggers.end_write(&id(), Some("5")));
        assert!(!triggers.observe(&id(), "5", USER));
        assert!(triggers.observe(&id(), "6", USER));
        assert_eq!(triggers.take(&id()), USER);
        assert!(triggers.0.lock().is_empty());
    }

    #[test]
    fn an_echo_may_be_faster_than_the_answer_and_others_may_write_in_between() {
        let triggers = Triggers::default();
        triggers.begin_write(&id());
        assert!(!triggers.observe(&id(), "5", USER));
        assert!(!triggers.end_write(&id(), Some("5")));
        assert!(triggers.0.lock().is_empty());
        triggers.begin_write(&id());
        assert!(!triggers.observe(&id(), "6", USER));
        assert!(!triggers.observe(&id(), "7", USER));
        assert!(triggers.end_write(&id(), Some("6")));
        assert_eq!(triggers.take(&id()), USER);
        triggers.begin_write(&id());
        assert!(!triggers.observe(&id(), "8", USER));
        assert!(triggers.end_write(&id(), None));
    }
}
