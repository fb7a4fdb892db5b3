//! The query and path parameters of operations.

use crate::{Value, json};

use super::Edition;

/// Name, type and meaning of every query parameter.
const QUERY: &[(&str, &str, &str)] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
    ("continue", "string", "The token of the list this request continues."),
    ("dryRun", "string", "All: the request is processed, but nothing is stored."),
    ("fieldManager", "string", "The name under which the written fields are owned."),
    ("fieldSelector", "string", "Restricts the list by fields."),
    (
        "fieldValidation",
        "string",
        "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
    ("force", "boolean", "Whether apply takes over fields owned by others."),
    ("gracePeriodSeconds", "integer", "Seconds before the object is deleted."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read may be deleted.",
    ),
    ("labelSelector", "string", "Restricts the list by labels."),
    ("limit", "integer", "The most items to return at once."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("pretty", "string", "Whether the answer is indented."),
    (
        "propagationPolicy",
        "string",
        "What happens to dependents: Orphan, Background or Foreground.",
    ),
    ("resourceVersion", "string", "The version the answer must be based on."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with the present objects."),
    ("shardSelector", "string", "Restricts the list to a shard."),
    ("timeoutSeconds", "integer", "The longest time the request may take."),
    ("watch", "boolean", "Whether to watch for changes instead of listing."),
];

pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
pub(super) const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

pub(super) fn query(name: &str, edition: Edition) -> Value {
    let (_, kind, description) =
        QUERY.iter().find(|(known, ..)| *known == name).copied().unwrap_or((name, "string", ""));
    parameter(name, "query", kind, description, edition)
}

pub(super) fn path(name: &str, description: &str, edition: Edition) -> Value {
    let mut parameter = parameter(name, "path", "string", description, edition);
    parameter["required"] = true.into();
    parameter
}

fn parameter(name: &str, place: &str, kind: &str, description: &str, edition: Edition) -> Value {
    let mut parameter = json!({"name": name, "in": place, "description": description});
    match edition {
        Edition::V2 => {
            parameter["type"] = kind.into();
            parameter["uniqueItems"] = true.into();
        }
        Edition::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
    }
    parameter
}
