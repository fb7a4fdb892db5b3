//! What many objects have in common, such as the labels and the owner of the pods of one template, is
//! kept once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::pairs::Pairs;
use karmada_handover::Seen;
use karmada_packing::{Packed, Patterns};
use parking_lot::RwLock;

use crate::object::OwnerReference;

pub(crate) type Owners = Arc<[OwnerReference]>;
pub(crate) type Finalizers = Arc<[String]>;

pub(crate) fn labels(labels: Pairs) -> Pairs {
    static SEEN: LazyLock<Seen<str>> = LazyLock::new(Seen::default);
    labels.shared(|text| SEEN.share_text(text))
}

pub(crate) fn no_finalizers() -> Finalizers {
    static NONE: LazyLock<Finalizers> = LazyLock::new(Finalizers::default);
    NONE.clone()
}

pub(crate) fn finalizers(finalizers: Vec<String>) -> Finalizers {
    static SEEN: LazyLock<Seen<[String]>> = LazyLock::new(Seen::default);
    if finalizers.is_empty() { no_finalizers() } else { SEEN.share_list(finalizers) }
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

/// A text as small as it can be kept among others of its kind.
pub(crate) fn packed(gvk: &Arc<Gvk>, text: &[u8]) -> Packed {
    type Known = RwLock<HashMap<Arc<Gvk>, Arc<Patterns>>>;
    static KNOWN: LazyLock<Known> = LazyLock::new(RwLock::default);
    let known = KNOWN.read().get(gvk).cloned();
    let patterns = known.unwrap_or_else(|| {
        let mut known = KNOWN.write();
        if known.len() >= BEGINNINGS {
            known.clear();
        }
        known.entry(gvk.clone()).or_default().clone()
    });
    patterns.pack(text)
}

type Named = HashMap<String, HashMap<String, Arc<Gvk>>>;

/// The kind of that name, if the version is one.
pub(crate) fn kind_named(api_version: &str, name: &str) -> Option<Arc<Gvk>> {
    static KNOWN: LazyLock<RwLock<Named>> = LazyLock::new(RwLock::default);
    let known = |named: &Named| named.get(api_version)?.get(name).cloned();
    if let Some(known) = known(&KNOWN.read()) {
        return Some(known);
    }
    if api_version.is_empty() || name.is_empty() {
        return None;
    }
    let gvk = kind(GroupVersion::parse(api_version)?.with_kind(name));
    let mut known = KNOWN.write();
    if known.values().map(HashMap::len).sum::<usize>() >= BEGINNINGS {
        known.clear();
    }
    known.entry(api_version.to_owned()).or_default().insert(name.to_owned(), gvk.clone());
    Some(gvk)
}

type Beginnings = HashMap<Box<[u8]>, Arc<Gvk>>;

/// How many kinds are remembered; there are not nearly as many.
const BEGINNINGS: usize = 1024;

/// The kind that the texts of a server begin with, which is read from the first of them.
pub(crate) fn kind_of_beginning<E>(
    beginning: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Gvk, E>,
) -> Result<Arc<Gvk>, E> {
    static KNOWN: LazyLock<RwLock<Beginnings>> = LazyLock::new(RwLock::default);
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
