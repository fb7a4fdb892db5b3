//! What many objects have in common, such as the labels and the owner of the pods of one template, is
//! kept once for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use karmada_apimachinery::gvk::Gvk;
use karmada_handover::Seen;

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
