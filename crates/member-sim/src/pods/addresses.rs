//! The addresses pods have while they live: of the range of their node, or the node's own.

use std::collections::{BTreeSet, HashMap};

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::Object;
use parking_lot::Mutex;

use crate::nodes::View;

#[derive(Default)]
pub(super) struct Addresses(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    /// Node and last byte, by the uid of the pod.
    lent: HashMap<String, (String, u8)>,
    used: HashMap<String, BTreeSet<u8>>,
    next: HashMap<String, u8>,
}

impl Addresses {
    /// Returns the address of a pod; the same one as long as it lives.
    pub(super) fn lend(&self, object: &Object, node: &Object, host: &str, pod: &Value) -> String {
        if let Some(known) = pod.str_at(&["status", "podIP"]).filter(|known| !known.is_empty()) {
            return known.to_owned();
        }
        if pod.bool_at(&["spec", "hostNetwork"]) == Some(true) {
            return host.to_owned();
        }
        let view = View::of(node);
        let range = view.pod_cidr().unwrap_or("10.127.0.0/24");
        let prefix = range.rsplit_once('.').map_or("10.127.0", |(prefix, _)| prefix);
        let last = self.0.lock().take(object.uid(), node.name());
        format!("{prefix}.{last}")
    }

    pub(super) fn release(&self, uid: &str) {
        let mut pool = self.0.lock();
        if let Some((node, last)) = pool.lent.remove(uid)
            && let Some(used) = pool.used.get_mut(&node)
        {
            used.remove(&last);
        }
    }
}

impl Pool {
    fn take(&mut self, uid: &str, node: &str) -> u8 {
        if let Some((_, last)) = self.lent.get(uid) {
            return *last;
        }
        let used = self.used.entry(node.to_owned()).or_default();
        let next = self.next.entry(node.to_owned()).or_insert(0);
        // An address that was just given back is used again last. Beyond a full range they repeat.
        for _ in 0..254 {
            *next = *next % 254 + 1;
            if used.insert(*next) {
                break;
            }
        }
        self.lent.insert(uid.to_owned(), (node.to_owned(), *next));
        *next
    }
}
