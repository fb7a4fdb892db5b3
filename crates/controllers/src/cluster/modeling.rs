//! Nodes counted by classes of free capacity, as the resource models of a Cluster draw them.

use karmada_api::cluster::{AllocatableModeling, ResourceModel};
use karmada_api::core::{Quantity, ResourceList};

/// Returns how many of the nodes fall into each class. A node belongs to the highest class of
/// which it reaches every lower bound; one that reaches none is not counted.
pub(super) fn count(
    models: &[ResourceModel],
    nodes: impl Iterator<Item = ResourceList>,
) -> Vec<AllocatableModeling> {
    let mut counts = vec![0_i64; models.len()];
    if models.is_empty() {
        return Vec::new();
    }
    for node in nodes {
        if let Some(count) = class_of(models, &node).and_then(|class| counts.get_mut(class)) {
            *count += 1;
        }
    }
    let classes = models.iter().zip(counts);
    classes
        .map(|(model, count)| AllocatableModeling { grade: model.grade, count: count.into() })
        .collect()
}

fn class_of(models: &[ResourceModel], available: &ResourceList) -> Option<usize> {
    let reaches = |model: &&ResourceModel| {
        model.ranges.iter().all(|range| {
            let amount = available.get(&range.name).unwrap_or(&Quantity::ZERO);
            range.min <= *amount
        })
    };
    // Lower bounds grow with the grade, so the classes a node reaches are the first ones.
    models.iter().take_while(reaches).count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_node_is_in_the_highest_class_it_reaches_with_every_resource() {
        let models: Vec<ResourceModel> = karmada_apimachinery::from_value(json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "0", "max": "4Gi"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "8"}, {"name": "memory", "min": "4Gi", "max": "16Gi"}]},
            {"grade": 2, "ranges": [{"name": "cpu", "min": "8", "max": "99"}, {"name": "memory", "min": "16Gi", "max": "99Gi"}]},
        ]))
        .unwrap();
        let cases = [
            ("500m", "1Gi", None),
            ("1", "1Gi", Some(0)),
            ("64", "1Gi", Some(0)),
            ("2", "4Gi", Some(1)),
            ("9", "15Gi", Some(1)),
            ("8", "16Gi", Some(2)),
            ("-1", "16Gi", None),
        ];
        for (cpu, memory, expected) in cases {
            let node =
                karmada_apimachinery::from_value(json!({"cpu": cpu, "memory": memory})).unwrap();
            assert_eq!(class_of(&models, &node), expected, "{cpu} {memory}");
        }
    }
}
