//! What many objects have in common, such as the labels and the owner of the pods of one template, is
//! kept once for all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use karmada_apimachinery::gvk::Gvk;
use karmada_handover::Seen;
use parking_lot::RwLock;

use crate::object::OwnerReference;

pub(crate) type Labels = Arc<BTreeMap<String, String>>;
pub(crate) type Owners = Arc<[OwnerReference]>;

pub(crate) fn no_labels() -> Labels {
    static NONE: LazyLock<Labels> = LazyLock::new(Labels::default);
    NONE.clone()
}

pub(crate) fn labels(labels: BTreeMap<String, String>) -> Labels {
    static SEEN: LazyLock<Seen<BTreeMap<String, String>>> = LazyLock::new(Seen::default);
    if labels.is_empty() { no_labels() } else { SEEN.share(labels) }
}

pub(crate) fn no_owners() -> Owners {
    static NONE: LazyLock<Owners> = LazyLock::new(Owners::default);
    NONE.clone()
}

pub(crate) fn owners(owners: Vec<OwnerReference>) -> Owners {
    static SEEN: LazyLock<Seen<[OwnerReference]>> = LazyLock::new(Seen::default);
    if owners.is_empty() { no_owners() } else { SEEN.share_list(owners) }
}

pub(crate) fn kind(gvk: Gvk) -> Arc<Gvk> {
    static SEEN: LazyLock<Seen<Gvk>> = LazyLock::new(Seen::default);
    SEEN.share(gvk)
}

/// How many beginnings of texts are remembered; there are not nearly as many kinds.
const BEGINNINGS: usize = 1024;

/// The kind that the texts of a server begin with, which is read from the first of them.
pub(crate) fn kind_of_beginning<E>(
    beginning: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Gvk, E>,
) -> Result<Arc<Gvk>, E> {
    static KNOWN: LazyLock<RwLock<HashMap<Box<[u8]>, Arc<Gvk>>>> = LazyLock::new(RwLock::default);
    if let Some(known) = KNOWN.read().get(beginning) {
        return Ok(known.clone());
    }
    let gvk = kind(read(beginning)?);
    let mut known = KNOWN.write();
    if known.len() >= BEGINNINGS {
        known.clear();
    }
    known.insert(beginning.into(), gvk.clone());
    Ok(gvk)
}
