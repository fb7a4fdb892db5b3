//! Whether another server can be asked: what its Service and endpoints say, then a question to itself.
//! The finding is the condition `Available` of its APIService.

use std::sync::Arc;

use http::Method;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

use super::transport::{PATIENCE, Question, authority};
use super::{COLLECTION, find};
use crate::http::query::encode_percent;
use crate::registry::{Place, Remote};
use crate::state::State;
use crate::{internal, services};

/// The document a server is asked for is not read any further than this.
const MAX_PROBED: usize = 8 << 20;

/// What was found, in the words of the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) is_available: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Finding {
    fn missing(reason: &'static str, message: String) -> Self {
        Self { is_available: false, reason, message }
    }

    pub(super) fn passed() -> Self {
        let message = "all checks passed".to_owned();
        Self { is_available: true, reason: "Passed", message }
    }
}

/// Looks at everything that has to be there.
pub(super) async fn check(state: &State, remote: &Remote) -> Finding {
    let place = &remote.place;
    let service = services::find(&*state.objects, &place.namespace, &place.name);
    let slices = services::slices(&*state.objects, &place.namespace, &place.name);
    if let Some(finding) = judge(place, service.as_deref(), &slices) {
        return finding;
    }
    match probe(state, remote).await {
        Ok(()) => Finding::passed(),
        Err(why) => Finding::missing("FailedDiscoveryCheck", why),
    }
}

/// What is wrong without asking the server.
fn judge(place: &Place, service: Option<&Value>, slices: &[Arc<Value>]) -> Option<Finding> {
    let Place { namespace, name, port, .. } = place;
    let Some(service) = service else {
        let message = format!("service/{name} in \"{namespace}\" is not present");
        return Some(Finding::missing("ServiceNotFound", message));
    };
    if service.str_at(&["spec", "type"]) != Some("ClusterIP") {
        return None;
    }
    let Some(known) = services::port_of(service, *port) else {
        let message = format!("service/{name} in \"{namespace}\" is not listening on port {port}");
        return Some(Finding::missing("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in \"{namespace}\"");
        return Some(Finding::missing("EndpointsNotFound", message));
    }
    let port_name = known.str_at(&["name"]).unwrap_or_default();
    if !slices.iter().any(|slice| services::ready(slice, port_name).is_some()) {
        let message = format!(
            "endpointslices for service/{name} in \"{namespace}\" have no addresses with port name \"{port_name}\""
        );
        return Some(Finding::missing("MissingEndpoints", message));
    }
    None
}

/// Asks a server for a document it must have.
async fn probe(state: &State, remote: &Remote) -> Result<(), String> {
    let Place { namespace, name, port, .. } = &remote.place;
    let path = format!("/apis/{}/{}", remote.group, remote.version);
    let (host, port) = services::resolve(&*state.objects, (namespace, name), *port)?;
    let url = format!("https://{}{path}", authority(&host, port));
    let question = Question {
        path: &path,
        accept: "application/json",
        tag: "",
        limit: MAX_PROBED,
        patience: PATIENCE,
    };
    let failing = |why: String| format!("failing or missing response from {url}: {why}");
    let asked = state.aggregator.dialer.ask(&*state.objects, &remote.place, &question).await;
    let answer = asked.map_err(|why| failing(format!("Get \"{url}\": {why}")))?;
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(failing(format!("bad status from {url}: {}", answer.status.as_u16()))),
    }
}

/// Whether the APIService says that its server can be asked.
pub(super) fn is_available(api_service: &Value) -> bool {
    condition(api_service).is_some_and(|own| own.str_at(&["status"]) == Some("True"))
}

fn condition(api_service: &Value) -> Option<&Value> {
    let conditions = api_service.list_at(&["status", "conditions"]);
    conditions.iter().find(|own| own.str_at(&["type"]) == Some("Available"))
}

/// Writes the condition, unless it says so already.
pub(super) async fn write(state: &Arc<State>, name: &str, finding: &Finding) {
    let Some(api_service) = find(state, name) else { return };
    let Some(conditions) = updated(&api_service, finding, &format_time((state.clock)())) else {
        return;
    };
    let path = format!("{COLLECTION}/{}/status", encode_percent(name));
    let patch = json!({
        "metadata": {"uid": api_service.uid()},
        "status": {"conditions": conditions},
    });
    let (code, answer) = internal::send(state, Method::PATCH, &path, Some(&patch)).await;
    let Finding { is_available, reason, .. } = finding;
    match code {
        200 => tracing::info!(name, is_available, reason, "availability of an API service changed"),
        // It went away, or another one has its name; whoever comes next is looked at again.
        404 | 409 | 422 => {}
        _ => tracing::warn!(name, code, %answer, "write the availability of an API service"),
    }
}

/// The conditions with the finding among them; nothing if they are the same.
fn updated(api_service: &Value, finding: &Finding, now: &str) -> Option<Vec<Value>> {
    let status = if finding.is_available { "True" } else { "False" };
    let before = condition(api_service);
    let is_same = |key: &str, value: &str| before.is_some_and(|b| b.str_at(&[key]) == Some(value));
    if is_same("status", status)
        && is_same("reason", finding.reason)
        && is_same("message", &finding.message)
    {
        return None;
    }
    let since = match before.filter(|_| is_same("status", status)) {
        Some(before) => before.str_at(&["lastTransitionTime"]).unwrap_or(now),
        None => now,
    };
    let fresh = json!({
        "type": "Available", "status": status, "lastTransitionTime": since,
        "reason": finding.reason, "message": finding.message,
    });
    let mut conditions = api_service.list_at(&["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|own| own.str_at(&["type"]) == Some("Available")) {
        Some(own) => *own = fresh,
        None => conditions.push(fresh),
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { namespace: "ns".into(), name: "svc".into(), port: 443, ..Place::default() }
    }

    fn service(kind: &str, port: u16) -> Value {
        json!({"spec": {"type": kind, "ports": [{"name": "https", "port": port}]}})
    }

    fn slice(ready: bool, port_name: &str) -> Arc<Value> {
        Arc::new(json!({
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
            "ports": [{"name": port_name, "port": 8443}],
        }))
    }

    // Shows: AGG-1
    #[test]
    fn what_is_missing_has_the_reason_kubernetes_gives() {
        let reason = |service: Option<Value>, slices: &[Arc<Value>]| {
            judge(&place(), service.as_ref(), slices).map(|finding| finding.reason)
        };
        assert_eq!(reason(None, &[]), Some("ServiceNotFound"));
        assert_eq!(reason(Some(service("ExternalName", 1)), &[]), None);
        assert_eq!(reason(Some(service("ClusterIP", 1)), &[]), Some("ServicePortError"));
        assert_eq!(reason(Some(service("ClusterIP", 443)), &[]), Some("EndpointsNotFound"));
        for unusable in [slice(false, "https"), slice(true, "other")] {
            let found = reason(Some(service("ClusterIP", 443)), &[unusable]);
            assert_eq!(found, Some("MissingEndpoints"));
        }
        assert_eq!(reason(Some(service("ClusterIP", 443)), &[slice(true, "https")]), None);
        let text = judge(&place(), None, &[]).unwrap().message;
        assert_eq!(text, "service/svc in \"ns\" is not present");
    }

    #[test]
    fn a_condition_is_written_once_and_keeps_its_time() {
        let mut object = json!({"metadata": {"name": "v1.a"}});
        let missing = Finding::missing("ServiceNotFound", "m".into());
        let first = updated(&object, &missing, "t1").unwrap();
        object["status"] = json!({"conditions": first});
        assert_eq!(updated(&object, &missing, "t2"), None);
        let other = Finding::missing("FailedDiscoveryCheck", "n".into());
        let second = updated(&object, &other, "t3").unwrap();
        assert_eq!(second[0]["lastTransitionTime"], "t1");
        object["status"] = json!({"conditions": second});
        let third = updated(&object, &Finding::passed(), "t4").unwrap();
        assert_eq!(third[0]["lastTransitionTime"], "t4");
        object["status"] = json!({"conditions": third});
        assert!(is_available(&object));
    }
}
