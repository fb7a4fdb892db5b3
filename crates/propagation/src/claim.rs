//! Who holds an object, how a claim is written on it and taken off again, and who may take over.

use karmada_api::Policy;
use karmada_api::annotations::{
    CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE,
};
use karmada_api::labels::{
    self, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID,
};
use karmada_api::policy::PreemptionBehavior;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Map, Value};

/// The policy that holds an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    Policy {
        namespace: String,
        name: String,
        permanent_id: String,
    },
    ClusterPolicy {
        name: String,
        permanent_id: String,
    },
    /// Another API propagates the object; policies stay away.
    Foreign(String),
}

impl Holder {
    /// The claim a policy makes.
    pub fn new(policy: &impl Policy) -> Self {
        let (name, permanent_id) = (policy.name().to_owned(), policy.permanent_id().to_owned());
        match policy.namespace() {
            "" => Self::ClusterPolicy { name, permanent_id },
            namespace => Self::Policy { namespace: namespace.to_owned(), name, permanent_id },
        }
    }
}

/// Returns who holds the object; a claim that is not complete is none.
pub fn holder_of(object: &Value) -> Option<Holder> {
    find_holder(|key| object.label(key), |key| object.annotation(key))
}

/// Returns who holds an object of which only labels and annotations are known.
pub fn find_holder<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<Holder> {
    let label = |key| label(key).filter(|value| !value.is_empty()).map(str::to_owned);
    let annotation = |key| annotation(key).filter(|value| !value.is_empty()).map(str::to_owned);
    if let Some(owner) = label(labels::CLAIMED_BY) {
        return Some(Holder::Foreign(owner));
    }
    if let (Some(namespace), Some(name), Some(permanent_id)) = (
        annotation(PROPAGATION_POLICY_NAMESPACE),
        annotation(PROPAGATION_POLICY_NAME),
        label(PROPAGATION_POLICY_PERMANENT_ID),
    ) {
        return Some(Holder::Policy { namespace, name, permanent_id });
    }
    let name = annotation(CLUSTER_PROPAGATION_POLICY_NAME)?;
    let permanent_id = label(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID)?;
    Some(Holder::ClusterPolicy { name, permanent_id })
}

/// Writes the claim on an object (or binding); returns whether anything changed. A claim by a
/// namespaced policy takes the place of one by a cluster-scoped policy.
pub fn write_claim(object: &mut Value, holder: &Holder) -> bool {
    let before = claim_marks(object);
    match holder {
        Holder::Policy { namespace, name, permanent_id } => {
            remove_cluster_claim(object);
            object.set(
                &["metadata", "labels", PROPAGATION_POLICY_PERMANENT_ID],
                permanent_id.as_str(),
            );
            object.set(
                &["metadata", "annotations", PROPAGATION_POLICY_NAMESPACE],
                namespace.as_str(),
            );
            object.set(&["metadata", "annotations", PROPAGATION_POLICY_NAME], name.as_str());
        }
        Holder::ClusterPolicy { name, permanent_id } => {
            object.set(
                &["metadata", "labels", CLUSTER_PROPAGATION_POLICY_PERMANENT_ID],
                permanent_id.as_str(),
            );
            object
                .set(&["metadata", "annotations", CLUSTER_PROPAGATION_POLICY_NAME], name.as_str());
        }
        Holder::Foreign(_) => {}
    }
    claim_marks(object) != before
}

/// The merge patch that writes the claim on an object, if it does not carry it yet. It is refused
/// when the object has changed meanwhile.
pub fn claim_patch(object: &Value, holder: &Holder) -> Option<Value> {
    patch_of(object, |marks| write_claim(marks, holder))
}

/// The merge patch that takes the claim of the policy with this id off an object, if it is there.
pub fn release_patch(object: &Value, permanent_id: &str) -> Option<Value> {
    patch_of(object, |marks| remove_claim(marks, permanent_id))
}

fn patch_of(object: &Value, change: impl Fn(&mut Value) -> bool) -> Option<Value> {
    let mut marks = Value::Object(Map::new());
    for map in ["labels", "annotations"] {
        if let Some(own) = object.at(&["metadata", map]).filter(|own| own.is_object()) {
            marks.set(&["metadata", map], own.clone());
        }
    }
    if !change(&mut marks) {
        return None;
    }
    let mut patch = Value::Object(Map::new());
    patch.set(&["metadata", "resourceVersion"], object.resource_version());
    for (map, key) in [
        ("labels", PROPAGATION_POLICY_PERMANENT_ID),
        ("labels", CLUSTER_PROPAGATION_POLICY_PERMANENT_ID),
        ("annotations", PROPAGATION_POLICY_NAMESPACE),
        ("annotations", PROPAGATION_POLICY_NAME),
        ("annotations", CLUSTER_PROPAGATION_POLICY_NAME),
    ] {
        let (old, new) = (object.at(&["metadata", map, key]), marks.at(&["metadata", map, key]));
        if old != new {
            patch.set(&["metadata", map, key], new.cloned().unwrap_or(Value::Null));
        }
    }
    Some(patch)
}

/// Takes the claim of the policy with this id off the object; a claim of another one stays.
pub fn remove_claim(object: &mut Value, permanent_id: &str) -> bool {
    let is_held_by = |object: &Value, label| object.label(label) == Some(permanent_id);
    if is_held_by(object, PROPAGATION_POLICY_PERMANENT_ID) {
        remove_marks(object, "labels", &[PROPAGATION_POLICY_PERMANENT_ID]);
        remove_marks(
            object,
            "annotations",
            &[PROPAGATION_POLICY_NAMESPACE, PROPAGATION_POLICY_NAME],
        );
        return true;
    }
    if is_held_by(object, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID) {
        remove_cluster_claim(object);
        return true;
    }
    false
}

fn remove_cluster_claim(object: &mut Value) {
    remove_marks(object, "labels", &[CLUSTER_PROPAGATION_POLICY_PERMANENT_ID]);
    remove_marks(object, "annotations", &[CLUSTER_PROPAGATION_POLICY_NAME]);
}

fn remove_marks(object: &mut Value, map: &str, keys: &[&str]) {
    let Some(marks) = object.at_mut(&["metadata", map]).and_then(Value::as_object_mut) else {
        return;
    };
    marks.retain(|key, _| !keys.contains(&key.as_str()));
    if marks.is_empty() {
        object.remove_at(&["metadata", map]);
    }
}

fn claim_marks(object: &Value) -> [Option<String>; 5] {
    let label = |key| object.label(key).map(str::to_owned);
    let annotation = |key| object.annotation(key).map(str::to_owned);
    [
        label(PROPAGATION_POLICY_PERMANENT_ID),
        annotation(PROPAGATION_POLICY_NAMESPACE),
        annotation(PROPAGATION_POLICY_NAME),
        label(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID),
        annotation(CLUSTER_PROPAGATION_POLICY_NAME),
    ]
}

/// Whether a policy that preempts takes the object from its holder. `holder_priority` is the
/// explicit priority of the holding policy, if it is known.
pub fn may_preempt(
    contender: &Holder,
    preemption: &PreemptionBehavior,
    priority: i32,
    holder: &Holder,
    holder_priority: Option<i32>,
) -> bool {
    if *preemption != PreemptionBehavior::Always || contender == holder {
        return false;
    }
    let outranks = holder_priority.is_some_and(|held| priority > held);
    match (contender, holder) {
        (Holder::Policy { .. }, Holder::ClusterPolicy { .. }) => true,
        (Holder::Policy { .. }, Holder::Policy { .. })
        | (Holder::ClusterPolicy { .. }, Holder::ClusterPolicy { .. }) => outranks,
        _ => false,
    }
}

/// Whether an update of a template matters at all: status, managed fields and version do not.
pub fn update_matters(old: &Value, new: &Value) -> bool {
    without(old, &["managedFields", "resourceVersion"])
        != without(new, &["managedFields", "resourceVersion"])
}

/// Whether an update of a template was made by Karmada itself: nothing but its own labels and
/// annotations changed. Asked for templates of lazy policies only.
pub fn is_own_update(old: &Value, new: &Value) -> bool {
    let users = |object: &Value| {
        let mut object = without(object, &["managedFields", "resourceVersion", "generation"]);
        for map in ["labels", "annotations"] {
            if let Some(marks) = object.at_mut(&["metadata", map]).and_then(Value::as_object_mut) {
                marks.retain(|key, _| {
                    !key.contains(".karmada.io") || key == labels::SKIP_AUTO_PROPAGATION
                });
                if marks.is_empty() {
                    object.remove_at(&["metadata", map]);
                }
            }
        }
        object
    };
    users(old) == users(new)
}

fn without(object: &Value, metadata: &[&str]) -> Value {
    let kept = |map: &Map, drop: &[&str]| -> Map {
        let kept = map.iter().filter(|(key, _)| !drop.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let Some(map) = object.as_object() else { return object.clone() };
    let mut kept_object = kept(map, &["status"]);
    if let Some(Value::Object(fields)) = map.get("metadata") {
        kept_object.insert("metadata".to_owned(), Value::Object(kept(fields, metadata)));
    }
    Value::Object(kept_object)
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    fn policy(name: &str) -> Holder {
        Holder::Policy {
            namespace: "ns".into(),
            name: name.into(),
            permanent_id: format!("{name}-id"),
        }
    }

    fn cluster_policy(name: &str) -> Holder {
        Holder::ClusterPolicy { name: name.into(), permanent_id: format!("{name}-id") }
    }

    #[test]
    fn claims_are_written_once_and_taken_off_without_a_trace() {
        let plain = json!({"metadata": {"name": "a"}});
        for holder in [policy("p"), cluster_policy("c")] {
            let mut object = plain.clone();
            assert!(write_claim(&mut object, &holder));
            assert!(!write_claim(&mut object, &holder));
            assert_eq!(holder_of(&object).as_ref(), Some(&holder));
            assert!(!remove_claim(&mut object, "somebody-else"));
            let id = match &holder {
                Holder::Policy { permanent_id, .. }
                | Holder::ClusterPolicy { permanent_id, .. } => permanent_id.clone(),
                Holder::Foreign(_) => unreachable!(),
            };
            assert!(remove_claim(&mut object, &id));
            assert_eq!(object, plain);
        }
    }

    #[test]
    fn a_namespaced_claim_replaces_a_cluster_scoped_one() {
        let mut object = json!({"metadata": {"name": "a"}});
        write_claim(&mut object, &cluster_policy("c"));
        write_claim(&mut object, &policy("p"));
        assert_eq!(holder_of(&object), Some(policy("p")));
        assert_eq!(object.label(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID), None);
    }

    #[test]
    fn preemption_needs_a_higher_priority_except_over_cluster_policies() {
        use PreemptionBehavior::{Always, Never};
        let cases = [
            (policy("a"), Always, 2, policy("b"), Some(1), true),
            (policy("a"), Always, 1, policy("b"), Some(1), false),
            (policy("a"), Never, 2, policy("b"), Some(1), false),
            (policy("a"), Always, 0, cluster_policy("c"), Some(9), true),
            (cluster_policy("c"), Always, 9, policy("a"), Some(0), false),
            (cluster_policy("c"), Always, 9, cluster_policy("d"), Some(0), true),
            (policy("a"), Always, 9, policy("a"), Some(0), false),
            (policy("a"), Always, 9, Holder::Foreign("MultiClusterService".into()), None, false),
        ];
        for (contender, preemption, priority, holder, held, expected) in cases {
            let taken = may_preempt(&contender, &preemption, priority, &holder, held);
            assert_eq!(taken, expected, "{contender:?} over {holder:?}");
        }
    }

    #[test]
    fn updates_of_status_do_not_matter_and_own_marks_are_told_from_edits() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1}, "spec": {"x": 1}, "status": {"y": 1}});
        let mut status = old.clone();
        status["status"]["y"] = 2.into();
        status["metadata"]["resourceVersion"] = "2".into();
        assert!(!update_matters(&old, &status));
        let mut claimed = old.clone();
        write_claim(&mut claimed, &policy("p"));
        assert!(update_matters(&old, &claimed));
        assert!(is_own_update(&old, &claimed));
        let mut edited = claimed.clone();
        edited["spec"]["x"] = 2.into();
        edited["metadata"]["generation"] = 2.into();
        assert!(!is_own_update(&old, &edited));
    }
}
