//! A Pod in words.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::containers::{self, Within};
use super::tabs::Text;
use super::{controller_of, moment, terminating, volumes};

pub(super) fn describe(pod: &Value) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| pod.str_at(path).unwrap_or_default();
    out.field(0, "Name", pod.name());
    out.field(0, "Namespace", pod.namespace());
    if let Some(priority) = pod.i64_at(&["spec", "priority"]) {
        out.field(0, "Priority", priority.to_string());
    }
    out.field_if_any(0, "Priority Class Name", pod.str_at(&["spec", "priorityClassName"]));
    out.field_if_any(0, "Runtime Class Name", pod.str_at(&["spec", "runtimeClassName"]));
    out.field_if_any(0, "Service Account", pod.str_at(&["spec", "serviceAccountName"]));
    let node = match text(&["spec", "nodeName"]) {
        "" => String::new(),
        node => format!("{node}/{}", text(&["status", "hostIP"])),
    };
    out.field(0, "Node", node);
    if let Some(at) = moment(pod, &["status", "startTime"]) {
        out.field(0, "Start Time", at);
    }
    out.pairs("Labels", pod, "labels", "=");
    out.pairs("Annotations", pod, "annotations", ": ");
    let phase = text(&["status", "phase"]);
    if pod.is_being_deleted() && !["Failed", "Succeeded"].contains(&phase) {
        out.line(0, &format!("Status:\t{}", terminating(pod)));
        let grace = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
        out.field(0, "Termination Grace Period", format!("{grace}s"));
    } else {
        out.line(0, &format!("Status:\t{phase}"));
    }
    out.field_if_any(0, "Reason", pod.str_at(&["status", "reason"]));
    out.field_if_any(0, "Message", pod.str_at(&["status", "message"]));
    if let Some(profile) = pod.at(&["spec", "securityContext", "seccompProfile"]) {
        containers::seccomp(&mut out, profile, 0, 0);
    }
    out.line(0, &format!("IP:\t{}", text(&["status", "podIP"])));
    let addresses = pod.list_at(&["status", "podIPs"]);
    if addresses.is_empty() {
        out.field(0, "IPs", "");
    } else {
        out.line(0, "IPs:");
        addresses
            .iter()
            .for_each(|one| out.field(1, "IP", one.str_at(&["ip"]).unwrap_or_default()));
    }
    if let Some(owner) = controller_of(pod) {
        out.field(0, "Controlled By", owner);
    }
    out.field_if_any(0, "NominatedNodeName", pod.str_at(&["status", "nominatedNodeName"]));
    let spec = pod.at(&["spec"]).cloned().unwrap_or_default();
    if spec.at(&["resources"]).is_some() {
        out.line(0, "Resources:");
        containers::resources(&mut out, &spec, 1);
    }
    containers::lists(&mut out, &spec, Within::Pod(pod));
    readiness_gates(&mut out, pod);
    let conditions = pod.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus");
        for condition in conditions {
            let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
            // Compat: the blanks behind both words.
            out.line(1, &format!("{} \t{} ", part("type"), part("status")));
        }
    }
    volumes::list(&mut out, &spec, 0);
    out.field(0, "QoS Class", text(&["status", "qosClass"]));
    containers::selectors_and_tolerations(&mut out, &spec, 0);
    containers::spread(&mut out, &spec, 0);
    containers::scheduling_group(&mut out, &spec, 0);
    out
}

/// Conditions that others must meet before a pod is ready.
fn readiness_gates(out: &mut Text, pod: &Value) {
    let gates = pod.list_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return;
    }
    out.line(0, "Readiness Gates:");
    out.line(1, "Type\tStatus");
    for gate in gates {
        let wanted = gate.str_at(&["conditionType"]).unwrap_or_default();
        let mut conditions = pod.list_at(&["status", "conditions"]).iter();
        let met = conditions.find(|own| own.str_at(&["type"]) == Some(wanted));
        let status = met.and_then(|own| own.str_at(&["status"])).unwrap_or("<none>");
        // Compat: the blanks behind both words.
        out.line(1, &format!("{wanted} \t{status} "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_pod_reads_as_kubectl_shows_it() {
        let pod = json!({
            "metadata": {
                "name": "nginx-1", "namespace": "default", "labels": {"app": "nginx", "tier": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "nginx", "controller": true}]},
            "spec": {
                "priority": 0, "serviceAccountName": "default", "nodeName": "n1",
                "containers": [{
                    "name": "nginx", "image": "nginx",
                    "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
            "status": {
                "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
                "startTime": "2026-11-15T19:27:33Z", "qosClass": "BestEffort",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "nginx", "containerID": "c://1", "imageID": "i@1", "ready": true, "restartCount": 2,
                    "state": {"running": {"startedAt": "2026-11-15T19:27:34Z"}}}]},
        });
        let expected = "\
Name:             nginx-1
Namespace:        default
Priority:         0
Service Account:  default
Node:             n1/10.0.0.1
Start Time:       Sun, 15 Nov 2026 19:27:33 +0000
Labels:           app=nginx
                  tier=web
Annotations:      <none>
Status:           Running
IP:               10.1.0.1
IPs:
  IP:           10.1.0.1
Controlled By:  ReplicaSet/nginx
Containers:
  nginx:
    Container ID:   c://1
    Image:          nginx
    Image ID:       i@1
    Port:           <none>
    Host Port:      <none>
    State:          Running
      Started:      Sun, 15 Nov 2026 19:27:34 +0000
    Ready:          True
    Restart Count:  2
    Environment:
      KEY:  <set to the key 'k' in secret 's'>  Optional: false
    Mounts:
      /v from v (ro)
Conditions:
  Type    Status
  Ready   True \n\
Volumes:
  v:
    Type:        EmptyDir (a temporary directory that shares a pod's lifetime)
    Medium:      \n    SizeLimit:   <unset>
QoS Class:       BestEffort
Node-Selectors:  <none>
Tolerations:     a:NoExecute op=Exists for 300s
";
        assert_eq!(describe(&pod).align(), expected);
    }
}
