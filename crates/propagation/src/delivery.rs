//! What may be done to an object in a member: create, change, delete, let go. Nothing is
//! overwritten or deleted that is not ours.

use karmada_api::{annotations, labels, manifest};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Map, Value};

/// An object exists in the member that Karmada does not manage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "resource(kind={kind}, {namespace}/{name}) already exists in the cluster and is not managed by Karmada; set conflictResolution to Overwrite in the policy (or the annotation work.karmada.io/conflict-resolution: overwrite on the template) to take it over"
)]
pub struct NotManaged {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// What to do with an object in a member.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    Create(Value),
    Update(Value),
    /// The member has it as it should be.
    Nothing,
}

/// Keeps what the member alone decides, by kind; knows what must not be taken from it.
pub type Retain<'a> = &'a dyn Fn(&Value, &Value) -> Result<Value, String>;

#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    NotManaged(#[from] NotManaged),
    #[error("retain fields of the member: {0}")]
    Retain(String),
}

/// Decides what a member is sent, given what it has.
pub fn deliver(
    desired: &Value,
    observed: Option<&Value>,
    retain: Option<Retain<'_>>,
) -> Result<Delivery, DeliveryError> {
    let Some(observed) = observed else { return Ok(Delivery::Create(desired.clone())) };
    may_overwrite(desired, observed)?;
    let with_kept = |mut object: Value| {
        keep_of_member(&mut object, observed);
        match retain {
            Some(retain) => retain(&object, observed).map_err(DeliveryError::Retain),
            None => Ok(object),
        }
    };
    let wanted = with_kept(desired.clone())?;
    // A field the member added by itself counts as a difference: it cannot be told from one the
    // user took back. Writing it again changes nothing there, and whoever delivers remembers what
    // was sent.
    let mut comparable = observed.clone();
    manifest::prune(&mut comparable);
    let is_same = with_kept(comparable)? == wanted;
    if is_same { Ok(Delivery::Nothing) } else { Ok(Delivery::Update(wanted)) }
}

fn may_overwrite(desired: &Value, observed: &Value) -> Result<(), NotManaged> {
    let takes_over = desired.annotation(annotations::CONFLICT_RESOLUTION)
        == Some(annotations::CONFLICT_RESOLUTION_OVERWRITE);
    if is_managed(observed) || takes_over {
        return Ok(());
    }
    Err(NotManaged {
        kind: observed.kind().to_owned(),
        namespace: observed.namespace().to_owned(),
        name: observed.name().to_owned(),
    })
}

/// Whether Karmada put the object there.
pub fn is_managed(observed: &Value) -> bool {
    observed.label(labels::MANAGED) == Some(labels::TRUE)
}

/// Whether the object may be deleted from a member: only what is ours, and only if the Work that
/// asks is the one that owns it.
pub fn may_delete(observed: &Value) -> bool {
    is_managed(observed)
}

/// Takes over what belongs to the member, whatever the kind: version, finalizers, owners, and
/// labels and annotations that are not ours.
pub fn keep_of_member(desired: &mut Value, observed: &Value) {
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        match observed.at(&["metadata", field]) {
            Some(value) => desired.set(&["metadata", field], value.clone()),
            None => {
                desired.remove_at(&["metadata", field]);
            }
        }
    }
    for (map, record) in
        [("labels", annotations::MANAGED_LABELS), ("annotations", annotations::MANAGED_ANNOTATIONS)]
    {
        let ours: Vec<&str> = observed.annotation(record).unwrap_or_default().split(',').collect();
        let Some(present) = observed.map_at(&["metadata", map]) else { continue };
        let foreign: Map = present
            .iter()
            .filter(|(key, _)| !ours.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if foreign.is_empty() {
            continue;
        }
        let wanted = desired.map_at_mut(&["metadata", map]);
        for (key, value) in foreign {
            wanted.entry(key).or_insert(value);
        }
    }
}

/// Strips what Karmada put on an object that is left in the member. What people write themselves,
/// such as how conflicts are to be resolved, stays.
pub fn release(observed: &Value) -> Value {
    let marks = [
        (
            "labels",
            labels::REMOVED_ON_RELEASE,
            [
                labels::PROPAGATION_POLICY_PERMANENT_ID,
                labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
                labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
            ]
            .as_slice(),
        ),
        (
            "annotations",
            annotations::REMOVED_ON_RELEASE,
            [
                annotations::PROPAGATION_POLICY_NAMESPACE,
                annotations::PROPAGATION_POLICY_NAME,
                annotations::CLUSTER_PROPAGATION_POLICY_NAME,
                annotations::CLUSTER_RESOURCE_BINDING_NAME,
            ]
            .as_slice(),
        ),
    ];
    let mut released = observed.clone();
    for (map, ours, also_ours) in marks {
        if let Some(present) = released.at_mut(&["metadata", map]).and_then(Value::as_object_mut) {
            let is_mark = |key: &str| ours.contains(&key) || also_ours.contains(&key);
            present.retain(|key, _| !is_mark(key));
            if present.is_empty() {
                released.remove_at(&["metadata", map]);
            }
        }
    }
    released
}

/// What the end of a Work means for the objects in the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// They stay, without Karmada's marks.
    Release,
    Delete,
    /// The member cannot be asked now: try again, nothing is given up.
    Wait,
    /// The cluster itself is being removed and cannot be reached.
    Leave,
}

pub fn farewell(preserve: bool, cluster_ready: bool, cluster_leaving: bool) -> Farewell {
    match (preserve, cluster_ready, cluster_leaving) {
        (true, true, _) => Farewell::Release,
        (false, true, _) => Farewell::Delete,
        (_, false, true) => Farewell::Leave,
        (_, false, false) => Farewell::Wait,
    }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    fn ours() -> Value {
        json!({
            "kind": "ConfigMap",
            "metadata": {
                "name": "c", "namespace": "ns", "uid": "member", "resourceVersion": "5",
                "labels": {"karmada.io/managed": "true", "gone": "1", "theirs": "1"},
                "annotations": {
                    "resourcetemplate.karmada.io/managed-labels": "gone,karmada.io/managed",
                    "resourcetemplate.karmada.io/managed-annotations":
                        "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels",
                },
            },
            "data": {"a": "1"},
        })
    }

    fn desired() -> Value {
        let mut desired = ours();
        manifest::prune(&mut desired);
        desired["metadata"]["labels"] = json!({"karmada.io/managed": "true"});
        desired
    }

    #[test]
    fn foreign_objects_are_left_alone_unless_overwriting_was_asked_for() {
        let mut foreign = ours();
        foreign["metadata"]["labels"] = json!({});
        assert!(matches!(
            deliver(&desired(), Some(&foreign), None),
            Err(DeliveryError::NotManaged(_))
        ));
        assert!(!may_delete(&foreign));
        let mut taking = desired();
        taking["metadata"]["annotations"]["work.karmada.io/conflict-resolution"] =
            "overwrite".into();
        assert!(matches!(deliver(&taking, Some(&foreign), None), Ok(Delivery::Update(_))));
    }

    #[test]
    fn the_member_keeps_its_own_labels_and_loses_those_we_dropped() {
        let Delivery::Update(sent) = deliver(&desired(), Some(&ours()), None).unwrap() else {
            panic!("a label of ours that was dropped is taken back");
        };
        assert_eq!(
            sent["metadata"]["labels"],
            json!({"karmada.io/managed": "true", "theirs": "1"})
        );
        assert_eq!(sent["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn what_is_there_already_is_not_sent_again_and_what_was_taken_back_is() {
        let mut observed = ours();
        observed["metadata"]["labels"] = json!({"karmada.io/managed": "true", "theirs": "1"});
        assert_eq!(deliver(&desired(), Some(&observed), None).unwrap(), Delivery::Nothing);
        observed["data"]["b"] = "2".into();
        let Delivery::Update(sent) = deliver(&desired(), Some(&observed), None).unwrap() else {
            panic!("a key that is not wanted any more is taken back");
        };
        assert_eq!(sent["data"], json!({"a": "1"}));
        assert!(matches!(deliver(&desired(), None, None).unwrap(), Delivery::Create(_)));
    }

    #[test]
    fn what_the_member_keeps_to_itself_is_no_difference() {
        let mut observed = ours();
        observed["kind"] = "Deployment".into();
        observed["metadata"]["labels"] = json!({"karmada.io/managed": "true"});
        observed["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3".into();
        observed["spec"] = json!({"replicas": 5});
        let mut desired = desired();
        desired["kind"] = "Deployment".into();
        desired["spec"] = json!({"replicas": 1});
        let keep_replicas = |desired: &Value, observed: &Value| {
            let mut kept = desired.clone();
            kept["spec"] = observed["spec"].clone();
            Ok(kept)
        };
        let delivery = deliver(&desired, Some(&observed), Some(&keep_replicas)).unwrap();
        assert_eq!(delivery, Delivery::Nothing);
        assert!(matches!(deliver(&desired, Some(&observed), None), Ok(Delivery::Update(_))));
    }

    #[test]
    fn a_released_object_carries_no_mark() {
        assert_eq!(release(&ours())["metadata"]["labels"], json!({"gone": "1", "theirs": "1"}));
        assert_eq!(release(&ours())["metadata"].get("annotations"), None);
    }

    #[test]
    fn a_cluster_that_cannot_be_asked_delays_the_farewell() {
        for (preserve, ready, leaving, expected) in [
            (true, true, false, Farewell::Release),
            (false, true, true, Farewell::Delete),
            (false, false, false, Farewell::Wait),
            (true, false, false, Farewell::Wait),
            (false, false, true, Farewell::Leave),
        ] {
            assert_eq!(farewell(preserve, ready, leaving), expected);
        }
    }
}
