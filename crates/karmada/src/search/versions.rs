//! Versions and places in lists that span clusters. Compat: clients keep them and hand them back, to
//! whichever program serves next, so their form is the original's.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use karmada_api::annotations::CACHED_FROM_CLUSTER;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use serde::{Deserialize, Serialize};

/// The version reached in each cluster, or `0` for any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    any: bool,
    of: BTreeMap<String, String>,
}

impl Versions {
    /// Reads what a client sends. Compat: what cannot be read says nothing.
    pub(super) fn parse(text: &str) -> Self {
        if text == "0" {
            return Self { any: true, of: BTreeMap::new() };
        }
        Self { any: false, of: decode(text).unwrap_or_default() }
    }

    pub(super) fn get(&self, cluster: &str) -> Option<&str> {
        self.of.get(cluster).map(String::as_str)
    }

    pub(super) fn set(&mut self, cluster: &str, version: &str) {
        self.any = false;
        self.of.insert(cluster.to_owned(), version.to_owned());
    }

    /// Notes that a cluster has come this far, unless it was further already.
    pub(super) fn advance(&mut self, cluster: &str, version: &str) {
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        if self.get(cluster).is_none_or(|known| number(known) < number(version)) {
            self.set(cluster, version);
        }
    }

    /// The same, but for one cluster.
    pub(super) fn with(&self, cluster: &str, version: &str) -> Self {
        let mut versions = self.clone();
        versions.set(cluster, version);
        versions
    }

    pub(super) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.of.keys().map(String::as_str)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.any, self.of.is_empty()) {
            (true, _) => f.write_str("0"),
            (false, true) => Ok(()),
            (false, false) => f.write_str(&encode(&self.of)),
        }
    }
}

/// Where a list goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    pub(super) rv: String,
    pub(super) cluster: String,
    /// The last object of this cluster that was listed; empty at its beginning.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub(super) after: String,
}

impl Place {
    pub(super) fn parse(token: &str) -> Option<Self> {
        decode(token)
    }

    pub(super) fn token(&self) -> String {
        encode(self)
    }
}

fn decode<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    serde_json::from_slice(&BASE64.decode(text).ok()?).ok()
}

fn encode<T: Serialize>(value: &T) -> String {
    BASE64.encode(serde_json::to_vec(value).unwrap_or_default())
}

/// Says in an object where it comes from.
pub(super) fn mark_source(object: &mut Value, cluster: &str, versions: Option<&Versions>) {
    object.set(&["metadata", "annotations", CACHED_FROM_CLUSTER], cluster);
    if let Some(versions) = versions {
        object.set(&["metadata", "resourceVersion"], versions.to_string());
    }
}

/// Takes back what [`mark_source`] did to an object that is sent to its cluster. Returns whether there was
/// anything to take back.
pub(super) fn restore(object: &mut Value, cluster: &str) -> bool {
    let annotation = ["metadata", "annotations", CACHED_FROM_CLUSTER];
    let marked = object.at(&annotation).is_some();
    if marked {
        object.remove_at(&annotation);
    }
    let Some(version) = object.str_at(&["metadata", "resourceVersion"]) else { return marked };
    let Some(versions) = decode::<BTreeMap<String, String>>(version) else { return marked };
    let own = versions.get(cluster).map(String::as_str).unwrap_or_default();
    object.set(&["metadata", "resourceVersion"], own);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn versions_look_as_clients_know_them() {
        let mut versions = Versions::default();
        assert_eq!(versions.to_string(), "");
        versions.set("member2", "7");
        versions.set("member1", "41");
        // base64url of {"member1":"41","member2":"7"}, without padding.
        assert_eq!(versions.to_string(), "eyJtZW1iZXIxIjoiNDEiLCJtZW1iZXIyIjoiNyJ9");
        assert_eq!(Versions::parse(&versions.to_string()), versions);
        assert_eq!(Versions::parse("0").to_string(), "0");
        assert_eq!(Versions::parse("").to_string(), "");
        assert_eq!(Versions::parse("no version at all"), Versions::default());
    }

    #[test]
    fn places_survive_the_way_to_the_client_and_back() {
        let place = Place { rv: "x".into(), cluster: "m2".into(), after: "a/b".into() };
        assert_eq!(Place::parse(&place.token()), Some(place));
        assert_eq!(Place::parse("garbage"), None);
    }

    #[test]
    fn an_object_goes_back_as_it_came_from_its_cluster() {
        let original =
            json!({"metadata": {"name": "a", "resourceVersion": "12", "annotations": {"k": "v"}}});
        let mut object = original.clone();
        let versions = Versions::default().with("m1", "12").with("m2", "99");
        mark_source(&mut object, "m1", Some(&versions));
        assert_eq!(object.str_at(&["metadata", "annotations", CACHED_FROM_CLUSTER]), Some("m1"));
        assert!(restore(&mut object, "m1"));
        assert_eq!(object, original);
        assert!(!restore(&mut object, "m1"));
    }
}
