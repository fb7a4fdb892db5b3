//! Pods that logs, exec and attach are about: a pod itself, or one of a workload's.

use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_client::ListOptions;

use crate::context::Server;
use crate::error::{Error, Result};
use crate::progress;

/// How often a pod that is about to run is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

/// The pods that `POD` or `TYPE/NAME` stands for.
pub(crate) async fn find(server: &Server, namespace: &str, what: &str) -> Result<Vec<Value>> {
    let api = server.client.api(&pods()).namespaced(namespace);
    let (kind, name) = what.split_once('/').unwrap_or(("pods", what));
    let resource = server.resources.find(kind).await?;
    if resource.gvr == pods() {
        return Ok(vec![api.get(name).await?]);
    }
    let owner = server.client.api(&resource.gvr).namespaced(namespace).get(name).await?;
    let selector = owner.at(&["spec", "selector"]);
    // Services and replication controllers have a plain map.
    let selector = match selector
        .and_then(|selector| selector.get("matchLabels").or(selector.get("matchExpressions")))
    {
        Some(_) => LabelSelector::from_object(selector).map_err(|error| error.to_string())?,
        None => LabelSelector::from_set(selector.and_then(Value::as_object).ok_or_else(|| {
            Error::Message(format!("cannot get the pods of {what}: it selects none"))
        })?),
    };
    select(server, namespace, &selector.to_string()).await
}

/// The pods of a selector, by name.
pub(crate) async fn select(server: &Server, namespace: &str, selector: &str) -> Result<Vec<Value>> {
    let api = server.client.api(&pods()).namespaced(namespace);
    let options = ListOptions { label_selector: selector.to_owned(), ..ListOptions::default() };
    let mut found: Vec<Value> =
        api.list_all(&options).await?.items.iter().map(|item| item.value()).collect();
    found.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(found)
}

/// The one pod to talk to, preferring one that runs.
pub(crate) fn best(mut pods: Vec<Value>, what: &str) -> Result<Value> {
    let runs = |pod: &Value| pod.str_at(&["status", "phase"]) == Some("Running");
    pods.sort_by_key(|pod| !runs(pod));
    pods.into_iter().next().ok_or_else(|| Error::Message(format!("no pods found for {what}")))
}

/// Waits for a pod that is about to run.
pub(crate) async fn await_running(
    server: &Server,
    pod: Value,
    patience: Duration,
) -> Result<Value> {
    let is_pending = |pod: &Value| pod.str_at(&["status", "phase"]) == Some("Pending");
    if !is_pending(&pod) {
        return Ok(pod);
    }
    let _waiting = progress::wait_for(format!("pod/{} to run", pod.name()));
    let api = server.client.api(&pods()).namespaced(pod.namespace());
    let runs = async {
        loop {
            let pod = api.get(pod.name()).await?;
            if !is_pending(&pod) {
                return Ok(pod);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(patience, runs).await.unwrap_or_else(|_| {
        Err(Error::Message(format!(
            "pod {} is still Pending: timed out waiting for the condition",
            pod.name()
        )))
    })
}

/// The container to talk to, and a note where it had to be chosen.
pub(crate) fn container(pod: &Value, wanted: Option<&str>) -> Result<(String, Option<String>)> {
    let names = |field: &str| -> Vec<String> {
        let list = pod.list_at(&["spec", field]).iter();
        list.filter_map(|one| one.str_at(&["name"])).map(str::to_owned).collect()
    };
    let own = names("containers");
    let all: Vec<String> = own
        .iter()
        .cloned()
        .chain(names("initContainers"))
        .chain(names("ephemeralContainers"))
        .collect();
    if let Some(wanted) = wanted {
        if !all.iter().any(|name| name == wanted) {
            let hint = crate::suggest::did_you_mean(wanted, all.iter().map(String::as_str));
            return Err(Error::Message(format!(
                "container {wanted} is not valid for pod {}{hint}",
                pod.name()
            )));
        }
        return Ok((wanted.to_owned(), None));
    }
    let preferred = pod.annotation("kubectl.kubernetes.io/default-container");
    let chosen = own.iter().find(|name| Some(name.as_str()) == preferred).or(own.first());
    let chosen = chosen.ok_or_else(|| format!("pod {} has no containers", pod.name()))?.clone();
    let note = (all.len() > 1 && preferred.is_none())
        .then(|| format!("Defaulted container \"{chosen}\" out of: {}", all.join(", ")));
    Ok((chosen, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_container_is_chosen_and_a_wrong_one_refused() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app"}, {"name": "side"}]}});
        let (chosen, note) = container(&pod, None).unwrap();
        assert_eq!(chosen, "app");
        assert_eq!(note.as_deref(), Some("Defaulted container \"app\" out of: app, side"));
        assert_eq!(container(&pod, Some("side")).unwrap().0, "side");
        let refused = container(&pod, Some("ap")).unwrap_err().to_string();
        assert_eq!(refused, "container ap is not valid for pod p (did you mean \"app\"?)");
    }

    #[test]
    fn a_pod_that_runs_is_preferred() {
        let pod = |name: &str, phase: &str| json!({"metadata": {"name": name}, "status": {"phase": phase}});
        let chosen = best(vec![pod("a", "Pending"), pod("b", "Running")], "deploy/x").unwrap();
        assert_eq!(chosen.name(), "b");
        assert!(best(vec![], "deploy/x").is_err());
    }
}
