//! Clusters that a placement names and nobody has joined: most often a name that was mistyped.

use std::collections::BTreeSet;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use crate::suggest::did_you_mean;

/// What has to come before a binding can be placed as its placement says.
pub(super) fn clusters(binding: &Value, known: &[Value]) -> Vec<String> {
    let known: Vec<&str> = known.iter().map(|cluster| cluster.name()).collect();
    let placement = binding.at(&["spec", "placement"]).cloned().unwrap_or_default();
    let groups = placement.list_at(&["clusterAffinities"]).iter();
    let affinities = placement.at(&["clusterAffinity"]).into_iter().chain(groups);
    let named: BTreeSet<&str> = affinities
        .flat_map(|affinity| affinity.list_at(&["clusterNames"]))
        .filter_map(Value::as_str)
        .filter(|name| !known.contains(name))
        .collect();
    let told = named.into_iter().map(|name| {
        let hint = did_you_mean(name, known.iter().copied());
        format!("a cluster {name:?}, which the placement names and nobody has joined{hint}")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_name_that_was_mistyped_is_found() {
        let known = [json!({"metadata": {"name": "member1"}})];
        let binding = json!({"spec": {"placement": {
            "clusterAffinity": {"clusterNames": ["membr1", "member1"]}}}});
        assert_eq!(
            clusters(&binding, &known),
            [
                r#"a cluster "membr1", which the placement names and nobody has joined (did you mean "member1"?)"#
            ]
        );
        let groups = json!({"spec": {"placement": {"clusterAffinities": [
            {"clusterNames": ["member1"]}, {"clusterNames": ["far"]}]}}});
        assert_eq!(
            clusters(&groups, &known),
            [r#"a cluster "far", which the placement names and nobody has joined"#]
        );
        assert!(clusters(&json!({"spec": {"placement": {}}}), &known).is_empty());
    }
}
