//! Says of every flow schema whether the priority level it names exists, in its condition `Dangling`.

use std::sync::Arc;

use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_signal::Follow;

use crate::http::query::encode_percent;
use crate::internal;
use crate::state::State;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Compat: the manager of this condition in Kubernetes.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Keeps the conditions true until the server stops.
pub(crate) async fn run(state: Arc<State>) {
    let (Some(mut schemas), Some(mut levels)) =
        (follow(&state, "flowschemas"), follow(&state, "prioritylevelconfigurations"))
    else {
        return;
    };
    loop {
        sync(&state).await;
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return,
            () = schemas.moved() => {}
            () = levels.moved() => {}
        }
    }
}

fn follow(state: &State, plural: &str) -> Option<Follow<u64>> {
    let snapshot = state.registry.snapshot();
    Some(snapshot.find_resource(GROUP, plural)?.storage.as_ref()?.cache.changes())
}

/// Says it for all that are there.
pub(crate) async fn sync(state: &Arc<State>) {
    for schema in state.objects.read(&GroupResource::new(GROUP, "flowschemas"), None) {
        let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
        let level = level.unwrap_or_default();
        let levels = GroupResource::new(GROUP, "prioritylevelconfigurations");
        let exists = state.objects.exists(&levels, "", level);
        let Some(condition) = condition(&schema, level, exists, &format_time((state.clock)()))
        else {
            continue;
        };
        let applied = json!({
            "apiVersion": schema.api_version(), "kind": "FlowSchema",
            "metadata": {"name": schema.name(), "uid": schema.uid()},
            "status": {"conditions": [condition]},
        });
        let path = format!("/apis/{GROUP}/v1/flowschemas/{}/status", encode_percent(schema.name()));
        let (code, answer) = internal::apply(state, &path, MANAGER, &applied).await;
        if code >= 400 && !matches!(code, 404 | 409) {
            tracing::warn!(name = schema.name(), code, %answer, "write the status of a flow schema");
        }
    }
}

/// The condition a schema should have; nothing if it has it.
fn condition(schema: &Value, level: &str, exists: bool, now: &str) -> Option<Value> {
    let (status, reason, what) = match exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {what}"
    );
    let conditions = schema.list_at(&["status", "conditions"]);
    let before = conditions.iter().find(|own| own.str_at(&["type"]) == Some("Dangling"));
    let text = |key: &str| before.and_then(|own| own.str_at(&[key])).unwrap_or_default();
    if text("status") == status && text("reason") == reason && text("message") == message {
        return None;
    }
    let since = text("lastTransitionTime");
    let since = if text("status") == status && !since.is_empty() { since } else { now };
    Some(json!({
        "type": "Dangling", "status": status, "lastTransitionTime": since,
        "reason": reason, "message": message,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: APF-1
    #[test]
    fn a_schema_dangles_while_its_level_is_not_there() {
        let mut schema = json!({"metadata": {"name": "s"}});
        let dangling = condition(&schema, "gone", false, "t1").unwrap();
        assert_eq!(
            (&dangling["status"], &dangling["reason"]),
            (&json!("True"), &json!("NotFound"))
        );
        schema["status"] = json!({"conditions": [dangling]});
        assert_eq!(condition(&schema, "gone", false, "t2"), None);
        let found = condition(&schema, "gone", true, "t3").unwrap();
        assert_eq!(found["lastTransitionTime"], "t3");
        assert_eq!(
            found["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"gone\" and it exists"
        );
    }
}
