//! Certificate signing requests: the approval verdict is written through its own subresource, the
//! certificate through status, and neither can touch the other.

use jiff::Timestamp;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Map, Value};

const CONDITIONS: &[&str] = &["status", "conditions"];

/// Who asks for a certificate, as the server authenticated them.
#[derive(Debug, Clone, Default)]
pub struct Requestor {
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// Writes the requestor into a new request; what the body said about it is dropped.
pub fn record_requestor(request: &mut Value, requestor: &Requestor) {
    let spec = request.map_at_mut(&["spec"]);
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    for (field, text) in [("username", &requestor.username), ("uid", &requestor.uid)] {
        if !text.is_empty() {
            spec.insert(field, text.as_str().into());
        }
    }
    if !requestor.groups.is_empty() {
        spec.insert("groups", requestor.groups.clone().into());
    }
    if !requestor.extra.is_empty() {
        let extra: Map = requestor
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), Value::from(values.clone())))
            .collect();
        spec.insert("extra", extra.into());
    }
}

/// An approval writes conditions only.
pub(super) fn prepare_approval(new: &mut Value, old: &Value, now: Timestamp) {
    date_conditions(new, old, now);
    let conditions = new.at(CONDITIONS).cloned();
    super::copy(new, old, &["spec"]);
    super::copy(new, old, &["status"]);
    match conditions.filter(|conditions| !conditions.is_null()) {
        Some(conditions) => new.set(CONDITIONS, conditions),
        None => {
            new.remove_at(CONDITIONS);
        }
    }
}

/// A status write leaves the verdicts as they are.
pub(super) fn prepare_status(new: &mut Value, old: &Value, now: Timestamp) {
    for verdict in ["Approved", "Denied"] {
        keep_condition(new, old, verdict);
    }
    date_conditions(new, old, now);
}

/// Instances of a verdict stay what they were where the number of them did not change.
fn keep_condition(new: &mut Value, old: &Value, verdict: &str) {
    let of_type = |condition: &&Value| condition.str_at(&["type"]) == Some(verdict);
    let kept: Vec<Value> = old.list_at(CONDITIONS).iter().filter(of_type).cloned().collect();
    let count = new.list_at(CONDITIONS).iter().filter(of_type).count();
    if count != kept.len() {
        return;
    }
    let mut kept = kept.into_iter();
    for condition in new.list_at_mut(CONDITIONS) {
        if condition.str_at(&["type"]) == Some(verdict)
            && let Some(old) = kept.next()
        {
            *condition = old;
        }
    }
}

/// Fills in when a condition was updated and when it last changed.
fn date_conditions(new: &mut Value, old: &Value, now: Timestamp) {
    let now = format_time(now);
    for condition in new.list_at_mut(CONDITIONS) {
        condition.set_default(&["lastUpdateTime"], now.as_str());
        let unchanged = |old: &&Value| {
            ["type", "status"].iter().all(|field| old.get(field) == condition.get(field))
                && old.str_at(&["lastTransitionTime"]).is_some()
        };
        let since = old.list_at(CONDITIONS).iter().find(unchanged);
        let since = since.and_then(|old| old.str_at(&["lastTransitionTime"])).unwrap_or(&now);
        condition.set_default(&["lastTransitionTime"], since);
    }
}
