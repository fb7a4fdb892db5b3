//! Certificate signing requests as the controllers about them read and write them.

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

pub(super) fn gvr() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}

/// The condition of a type, if the request has it.
pub(super) fn condition<'a>(csr: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = csr.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition.str_at(&["type"]) == Some(kind))
}

pub(super) fn is_issued(csr: &Value) -> bool {
    csr.str_at(&["status", "certificate"]).is_some_and(|certificate| !certificate.is_empty())
}

pub(super) fn add_condition(
    csr: &mut Value,
    kind: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut conditions = csr.list_at(&["status", "conditions"]).to_vec();
    conditions.push(json!({
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": format_time(now),
    }));
    csr.set(&["status", "conditions"], conditions);
}
