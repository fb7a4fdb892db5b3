//! What became of a template, as a part of its description: who placed it, how its replicas are counted, what each
//! cluster says.

use karmada_api::explain::Requirement;
use karmada_api::names;
use karmada_api::work::ResourceBindingSpec;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_propagation::work;

use super::tabs::Text;
use crate::context::Server;
use crate::why::assess;

/// The part about propagation; empty for what is not propagated, and in members.
pub(super) async fn describe(server: &Server, object: &Value) -> String {
    if server.member.is_some() {
        return String::new();
    }
    let namespace = object.namespace();
    let bindings =
        if namespace.is_empty() { "clusterresourcebindings" } else { "resourcebindings" };
    let api =
        server.client.api(&Gvr::new("work.karmada.io", "v1alpha2", bindings)).namespaced(namespace);
    // On a server without bindings, or without the right to read them, there is nothing to tell.
    let binding = api.find(&names::binding(object.kind(), object.name())).await.ok().flatten();
    binding.map_or_else(String::new, |binding| render(object, &binding))
}

fn render(object: &Value, binding: &Value) -> String {
    let mut out = Text::default();
    out.line(0, "Propagation:");
    out.field(1, "Binding", binding.name());
    if let Some(holder) = karmada_propagation::claim::holder_of(object) {
        out.field(1, "Policy", holder_text(object).unwrap_or_else(|| format!("{holder:?}")));
    }
    let own = binding.list_at(&["spec", "clusters"]);
    let spec: ResourceBindingSpec = assess::read_part(binding, "spec").unwrap_or_default();
    for by in Requirement::all_of(&spec) {
        out.field(1, "Required by", by.to_string());
    }
    let targets = work::targets(&spec);
    // What only follows others has no replicas to be counted.
    if spec.placement.is_some() || spec.required_by.is_empty() {
        let wanted = binding.i64_at(&["spec", "replicas"]).unwrap_or_default();
        out.field(1, "Replicas", counting(binding, wanted, own.len()));
    }
    let statuses = binding.list_at(&["status", "aggregatedStatus"]);
    if !targets.is_empty() {
        out.line(1, "Cluster\tReplicas\tApplied\tHealth\tReady");
        out.line(1, "-------\t--------\t-------\t------\t-----");
    }
    for target in targets {
        let name = target.name.as_str();
        let status = statuses.iter().find(|status| status.str_at(&["clusterName"]) == Some(name));
        let applied = status.and_then(|status| status.bool_at(&["applied"])).unwrap_or_default();
        let health = status.and_then(|status| status.str_at(&["health"])).unwrap_or("Unknown");
        let count = |field: &str| status.and_then(|status| status.i64_at(&["status", field]));
        let ready = count("replicas").map_or("-".to_owned(), |replicas| {
            format!("{}/{replicas}", count("readyReplicas").unwrap_or_default())
        });
        let own = own.iter().find(|own| own.str_at(&["name"]) == Some(name));
        let share = own.and_then(|own| own.i64_at(&["replicas"]));
        let share = share.map_or("-".to_owned(), |replicas| replicas.to_string());
        out.line(1, &format!("{name}\t{share}\t{applied}\t{health}\t{ready}"));
    }
    out.align()
}

/// `PropagationPolicy default/nginx`.
fn holder_text(object: &Value) -> Option<String> {
    use karmada_api::annotations;
    let part = |name: &str| object.annotation(name);
    match part(annotations::PROPAGATION_POLICY_NAME) {
        Some(name) => Some(format!(
            "PropagationPolicy {}/{name}",
            part(annotations::PROPAGATION_POLICY_NAMESPACE).unwrap_or_default()
        )),
        None => part(annotations::CLUSTER_PROPAGATION_POLICY_NAME)
            .map(|name| format!("ClusterPropagationPolicy {name}")),
    }
}

/// How the numbers of the template come about: `6/3` surprises everybody once.
fn counting(binding: &Value, wanted: i64, clusters: usize) -> String {
    let kind = binding.str_at(&["spec", "placement", "replicaScheduling", "replicaSchedulingType"]);
    match (kind.unwrap_or("Duplicated"), clusters) {
        _ if wanted == 0 => "none to be placed".to_owned(),
        (_, 0) => format!("{wanted} wanted, no cluster chosen"),
        ("Divided", _) => {
            format!("Divided: {wanted} in total, shared out over {clusters} clusters")
        }
        (kind, 1) => format!("{kind}: all {wanted} in one cluster"),
        (kind, _) => {
            let total = i64::try_from(clusters).unwrap_or(i64::MAX).saturating_mul(wanted);
            format!(
                "{kind}: each of {clusters} clusters has all {wanted}, so the template counts {total}/{wanted} when all are ready"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn the_sum_of_duplicated_replicas_is_explained() {
        let object = json!({"metadata": {
            "name": "nginx", "namespace": "default",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "1"},
            "annotations": {
                "propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "nginx"}}});
        let binding = json!({
            "metadata": {"name": "nginx-deployment"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"},
                "replicas": 3, "clusters": [{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 3}]},
            "status": {"aggregatedStatus": [
                {"clusterName": "m1", "applied": true, "health": "Healthy", "status": {"replicas": 3, "readyReplicas": 3}}]}});
        let expected = "\
Propagation:
  Binding:   nginx-deployment
  Policy:    PropagationPolicy default/nginx
  Replicas:  Duplicated: each of 2 clusters has all 3, so the template counts 6/3 when all are ready
  Cluster    Replicas  Applied  Health   Ready
  -------    --------  -------  ------   -----
  m1         3         true     Healthy  3/3
  m2         3         false    Unknown  -
";
        assert_eq!(render(&object, &binding), expected);
    }

    #[test]
    fn a_dependency_is_described_by_who_requires_it() {
        let object = json!({"metadata": {"name": "conf", "namespace": "default"}});
        let binding = json!({
            "metadata": {"name": "conf-configmap"},
            "spec": {
                "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "conf"},
                "requiredBy": [{"namespace": "default", "name": "web-deployment",
                    "clusters": [{"name": "m1", "replicas": 3}]}]},
            "status": {"aggregatedStatus": [
                {"clusterName": "m1", "applied": true, "health": "Healthy"}]}});
        let expected = "\
Propagation:
  Binding:      conf-configmap
  Required by:  ResourceBinding default/web-deployment, which goes to m1
  Cluster       Replicas  Applied  Health   Ready
  -------       --------  -------  ------   -----
  m1            -         true     Healthy  -
";
        assert_eq!(render(&object, &binding), expected);
    }
}
