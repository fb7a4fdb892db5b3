//! What to do with an object whose owners may be gone.

use karmada_client::{Meta, OwnerReference, Propagation};

use super::graph::{FOREGROUND, ORPHAN};

/// How it stands with an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Solid,
    /// It is there and waits for its dependents to go.
    Waiting,
    /// It is not there.
    Dangling,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Keep,
    /// Keep the object, take these owners off it.
    DropOwners(Vec<String>),
    /// Delete it, and its dependents before it.
    DeleteForeground {
        /// A dependent waits for this object in turn; the circle has to be cut first.
        unblock: bool,
    },
    Delete(Propagation),
}

/// Dependents of the object in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dependents {
    None,
    Some,
    /// At least one of them waits for its own dependents to go.
    Waiting,
}

pub(super) fn plan(
    meta: &Meta,
    owners: &[(OwnerReference, Owner)],
    dependents: Dependents,
) -> Plan {
    let any = |state| owners.iter().any(|(_, owner)| *owner == state);
    if owners.is_empty() {
        return Plan::Keep;
    }
    if any(Owner::Solid) {
        // A waiting owner would never go if it had to wait for what another one keeps.
        let off = owners.iter().filter(|(_, owner)| *owner != Owner::Solid);
        let off: Vec<_> = off.map(|(reference, _)| reference.uid.clone()).collect();
        return if off.is_empty() { Plan::Keep } else { Plan::DropOwners(off) };
    }
    if any(Owner::Waiting) && dependents != Dependents::None {
        return Plan::DeleteForeground { unblock: dependents == Dependents::Waiting };
    }
    let has = |finalizer: &str| meta.finalizers.iter().any(|own| own == finalizer);
    Plan::Delete(if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    })
}
