//! What the fields mean that every object has, in our words: `kubectl explain KIND.metadata` shows them.

use crate::{Value, json};

use super::Edition;

/// Compat: tools look for the first words of the creation's description.
const FIELDS: &[(&str, &str)] = &[
    (
        "annotations",
        "Texts attached to the object by tools; they are kept, and nothing is selected by them.",
    ),
    (
        "creationTimestamp",
        "CreationTimestamp is a timestamp: the server's time when it stored the object. Clients cannot set it.",
    ),
    (
        "deletionGracePeriodSeconds",
        "How many seconds the object had to end in order when its deletion was asked for. Set by the server.",
    ),
    (
        "deletionTimestamp",
        "When the object is to be gone. Set by the server once deletion is asked for; the object goes when no finalizer is left.",
    ),
    (
        "finalizers",
        "Who still has to clean up before the object may go; each removes its own entry.",
    ),
    ("generateName", "What a generated name starts with, used where no name is given."),
    ("generation", "Counts the changes of what is wanted. Set by the server."),
    ("labels", "Keys and values that objects are selected by."),
    (
        "managedFields",
        "Which manager last set which field, so that server-side apply can tell conflicts. Kept by the server.",
    ),
    ("name", "The name, unique among objects of its kind in its namespace. It cannot be changed."),
    (
        "namespace",
        "The namespace the object lives in; empty for kinds that have none. It cannot be changed.",
    ),
    (
        "ownerReferences",
        "The objects this one depends on. It is removed when all of them are gone; at most one of them manages it.",
    ),
    (
        "resourceVersion",
        "Names this state of the object. Send it back with an update to be told if somebody was faster; watch from it.",
    ),
    ("selfLink", "No longer set."),
    (
        "uid",
        "Tells this object from all others for all time, also from earlier ones of the same name. Set by the server.",
    ),
];

/// Adds the descriptions to a rendered definition of `ObjectMeta`.
pub(super) fn describe(definition: &mut Value, edition: Edition) {
    for (field, description) in FIELDS {
        let property = definition["properties"].get_mut(field).and_then(Value::as_object_mut);
        let Some(property) = property else { continue };
        // OpenAPI v3.0 ignores what stands beside a reference.
        if edition == Edition::V3
            && let Some(reference) = property.remove("$ref")
        {
            property.insert("allOf", json!([{ "$ref": reference }]));
        }
        property.insert("description", (*description).into());
    }
}
