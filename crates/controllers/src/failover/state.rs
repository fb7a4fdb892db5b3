//! What a workload takes along when it moves: values of its status, handed over as labels.

use karmada_api::meta::Labels;
use karmada_api::policy::StatePreservation;
use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::jsonpath;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0} has not reported yet what is to be handed over")]
    Unknown(String),
    #[error("find {path} in the status")]
    Path { path: String, source: jsonpath::Error },
}

/// Reads what the rules ask for from the state reported by the cluster.
pub(super) fn preserved(
    rules: Option<&StatePreservation>,
    reported: &[AggregatedStatusItem],
    cluster: &str,
) -> Result<Labels, Error> {
    let Some(preservation) = rules.filter(|preservation| !preservation.rules.is_empty()) else {
        return Ok(Labels::default());
    };
    let item = reported.iter().find(|item| item.cluster_name == cluster);
    let status = item.and_then(|item| item.status.as_ref());
    let status = status.ok_or_else(|| Error::Unknown(cluster.to_owned()))?;
    let value = |path: &str| {
        let template = jsonpath::Template::parse(path)?;
        template.render(status)
    };
    let labels = preservation.rules.iter().map(|rule| {
        let path = &rule.json_path;
        let value = value(path).map_err(|source| Error::Path { path: path.clone(), source })?;
        Ok((rule.alias_label_name.clone(), value))
    });
    labels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn reported() -> Vec<AggregatedStatusItem> {
        let item = json!({"clusterName": "m1", "status": {"jobID": "a1", "replicas": 3}});
        vec![karmada_apimachinery::from_value(item).unwrap()]
    }

    fn rules(path: &str) -> StatePreservation {
        let rules = json!({"rules": [{"aliasLabelName": "app/job", "jsonPath": path}]});
        karmada_apimachinery::from_value(rules).unwrap()
    }

    #[test]
    fn values_of_the_status_become_labels() {
        let found = preserved(Some(&rules("{ .jobID }")), &reported(), "m1").unwrap();
        assert_eq!(found.get("app/job").map(String::as_str), Some("a1"));
        assert!(preserved(None, &[], "m1").unwrap().is_empty());
    }

    #[test]
    fn a_state_that_is_not_known_holds_the_move_back() {
        assert!(preserved(Some(&rules("{ .jobID }")), &reported(), "m2").is_err());
        assert!(preserved(Some(&rules("{ .other }")), &reported(), "m1").is_err());
    }
}
