//! How much simulated pods use, and how many of them a metric asks for.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, json};

use crate::workloads::body::Container;
use crate::workloads::pods::Pod;

/// Changes smaller than this share of the target are not worth a move.
pub(super) const TOLERANCE: f64 = 0.1;

/// What a pod uses of a resource, in thousandths: what its annotation says, else next to nothing.
fn usage(pod: &Pod, resource: &str) -> i64 {
    let stated = pod.annotation(&format!("kwok.x-k8s.io/usage-{resource}"));
    let stated = stated.and_then(|text| Quantity::parse(text).ok());
    match (stated, resource) {
        (Some(stated), _) => stated.milli_value(),
        (None, "cpu") => 1,
        (None, _) => 1024 * 1024 * 1000,
    }
}

fn request(containers: &[&Container], resource: &str) -> Option<i64> {
    let own = |container: &&Container| {
        let value = container.resources.request(resource)?;
        Quantity::from_value(value).ok().map(|amount| amount.milli_value())
    };
    containers.iter().map(own).sum()
}

/// What one metric asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// The metric as the status shows it.
    pub(super) current: Value,
    /// The metric as a reason names it.
    pub(super) name: String,
}

/// Works out how many replicas a metric of the spec asks for.
pub(super) fn propose(metric: &Value, pods: &[Pod], replicas: i64) -> Result<Proposal, String> {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (field, container) = match kind {
        "Resource" => ("resource", None),
        "ContainerResource" => {
            ("containerResource", metric.str_at(&["containerResource", "container"]))
        }
        other => return Err(format!("no metrics known for type {other:?}")),
    };
    let source = metric.at(&[field]).ok_or("the metric names no resource")?;
    let resource = source.str_at(&["name"]).unwrap_or_default();
    let counted: Vec<_> = pods.iter().filter(|pod| pod.is_active()).collect();
    if counted.is_empty() {
        return Err(format!(
            "failed to get {resource} utilization: unable to get metrics for resource {resource}: \
             no metrics returned from resource metrics API"
        ));
    }
    let mut seen = Seen::default();
    for pod in &counted {
        let containers = pod.spec().containers.iter();
        let containers: Vec<_> =
            containers.filter(|own| container.is_none_or(|name| own.name == name)).collect();
        seen.add(pod, &containers, resource);
    }
    let average = seen.used / i64::try_from(counted.len()).unwrap_or(1).max(1);
    let target = source.at(&["target"]).cloned().unwrap_or_default();
    let mut value = json!({"averageValue": show(average, resource)});
    let (ratio, name) = if let Some(percent) = target.i64_at(&["averageUtilization"]) {
        let requested = seen.requested.ok_or_else(|| {
            let pod = counted.first().map_or("", |pod| pod.name());
            format!(
                "failed to get {resource} utilization: missing request for {resource} in container \
                 of Pod {pod}"
            )
        })?;
        let utilization = seen.used * 100 / requested.max(1);
        value["averageUtilization"] = utilization.into();
        let name = format!("{resource} resource utilization (percentage of request)");
        (ratio(seen.ready_used * 100, seen.ready_requested.max(1) * percent), name)
    } else {
        let wanted = target.at(&["averageValue"]).and_then(|v| Quantity::from_value(v).ok());
        let wanted = wanted.ok_or("the metric has no target")?.milli_value();
        let name = format!("{resource} resource");
        (ratio(seen.ready_used, wanted * i64::try_from(seen.ready).unwrap_or(1).max(1)), name)
    };
    let mut current = json!({"name": resource, "current": value});
    if let Some(container) = container {
        current["container"] = container.into();
    }
    let replicas = replicas_for(ratio, &seen, counted.len(), replicas);
    Ok(Proposal { replicas, current: json!({"type": kind, field: current}), name })
}

/// Amounts of all pods, and of those that are ready.
#[derive(Default)]
struct Seen {
    used: i64,
    requested: Option<i64>,
    ready: usize,
    ready_used: i64,
    ready_requested: i64,
    unrequested: bool,
}

impl Seen {
    fn add(&mut self, pod: &Pod, containers: &[&Container], resource: &str) {
        let used = usage(pod, resource);
        let requested = request(containers, resource);
        self.used += used;
        self.unrequested |= requested.is_none();
        let total = self.requested.unwrap_or_default() + requested.unwrap_or_default();
        self.requested = (!self.unrequested).then_some(total);
        if pod.is_ready() {
            self.ready += 1;
            self.ready_used += used;
            self.ready_requested += requested.unwrap_or_default();
        }
    }
}

fn ratio(used: i64, wanted: i64) -> f64 {
    if wanted == 0 { 1.0 } else { used as f64 / wanted as f64 }
}

/// Pods that are not ready are taken to use nothing when growing, so that nobody grows because
/// of pods that are still coming.
fn replicas_for(ratio: f64, seen: &Seen, counted: usize, current: i64) -> i64 {
    if (1.0 - ratio).abs() <= TOLERANCE || seen.ready == 0 {
        return current;
    }
    let whole = |share: f64, pods: usize| (share * pods as f64).ceil() as i64;
    if counted == seen.ready || ratio < 1.0 {
        return whole(ratio, seen.ready.max(if ratio < 1.0 { counted } else { 0 }));
    }
    let diluted = ratio * seen.ready as f64 / counted as f64;
    if (1.0 - diluted).abs() <= TOLERANCE || diluted < 1.0 {
        return current;
    }
    whole(diluted, counted)
}

fn show(millis: i64, resource: &str) -> String {
    if resource == "cpu" {
        return Quantity::from_millis(millis).canonical();
    }
    (millis / 1000).to_string()
}

/// Pods by name, for tests and for the status.
#[cfg(test)]
pub(super) fn pod(name: &str, cpu: &str, request: &str, ready: bool) -> Pod {
    let status = if ready { "True" } else { "False" };
    Pod::from_value(&json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/usage-cpu": cpu}},
        "spec": {"containers": [{"name": "c", "resources": {"requests":
            if request.is_empty() { json!({}) } else { json!({"cpu": request}) }}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(target: Value) -> Value {
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    }

    #[test]
    fn utilization_decides_how_many_are_needed() {
        let half = metric(json!({"type": "Utilization", "averageUtilization": 50}));
        let cases: [(&[&str], i64); 5] = [
            (&["100m", "100m"], 4),
            (&["50m", "50m"], 2),
            (&["52m"], 1),
            (&["10m", "10m"], 1),
            (&["75m", "75m"], 3),
        ];
        for (used, expected) in cases {
            let pods: Vec<_> = used.iter().map(|cpu| pod("p", cpu, "100m", true)).collect();
            let current = i64::try_from(pods.len()).unwrap();
            assert_eq!(propose(&half, &pods, current).unwrap().replicas, expected, "{used:?}");
        }
        let unready = [pod("a", "100m", "100m", true), pod("b", "1m", "100m", false)];
        assert_eq!(propose(&half, &unready, 2).unwrap().replicas, 2);
    }

    #[test]
    fn a_value_is_compared_with_the_average() {
        let value = metric(json!({"type": "AverageValue", "averageValue": "20m"}));
        let pods = [pod("a", "60m", "", true), pod("b", "20m", "", true)];
        let proposal = propose(&value, &pods, 2).unwrap();
        assert_eq!(proposal.replicas, 4);
        assert_eq!(proposal.current["resource"]["current"], json!({"averageValue": "40m"}));
    }

    #[test]
    fn without_requests_there_is_no_utilization() {
        let half = metric(json!({"type": "Utilization", "averageUtilization": 50}));
        let error = propose(&half, &[pod("a", "60m", "", true)], 1).unwrap_err();
        assert!(error.contains("missing request for cpu"), "{error}");
        assert!(propose(&half, &[], 1).is_err());
    }
}
