//! Warnings that accompany an accepted write: deprecated fields and settings without effect.

mod address;
mod pod;
mod ports;
mod volume;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Path, quote};
use karmada_apimachinery::names::dns1123_label;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::Quantity;

/// Returns the warning every request to a deprecated version of a kind earns.
pub fn deprecation(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    match (group, version, kind) {
        ("", "v1", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "v1", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Returns the warning a DELETE without a propagation policy earns.
pub fn on_delete(group: &str, kind: &str) -> Option<&'static str> {
    ((group, kind) == ("batch", "Job")).then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
    )
}

/// Returns the warnings a create (`old` absent) or an update of the object itself earns. They are
/// the same in every version so far.
pub fn warnings(
    group: &str,
    _version: &str,
    kind: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let mut found = Warnings::default();
    let spec = Path::new("spec");
    // Pods are changed by machines; their templates only when the wanted state changed.
    let is_news = old.is_none_or(|old| {
        new.at(&["metadata", "generation"]) != old.at(&["metadata", "generation"])
    });
    if (group, kind) == ("apps", "StatefulSet")
        && new.i64_at(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0)
    {
        found.add("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended");
    }
    match (group, kind) {
        ("", "Pod") if old.is_none() => {
            found.hostname(new, "the Pod's hostname");
            pod::pod(&mut found, &Path::root(), new);
        }
        ("", "PodTemplate") if is_news => {
            pod::template(&mut found, &Path::new("template"), new.get("template"));
        }
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet") => {
            workload(&mut found, new, old, is_news);
        }
        ("apps", "DaemonSet" | "StatefulSet") if is_news => {
            pod::template(&mut found, &spec.child("template"), new.at(&["spec", "template"]));
            let claims = new.list_at(&["spec", "volumeClaimTemplates"]).iter().enumerate();
            for (index, claim) in claims.filter(|_| old.is_none()) {
                let path = spec.child("volumeClaimTemplates").index(index);
                volume::claim_spec(&mut found, &path, claim.get("spec"));
            }
        }
        ("batch", "Job" | "CronJob") => job(&mut found, kind, new, old, is_news),
        ("", "Service") => service(&mut found, new),
        ("", "PersistentVolume") => volume::volume(&mut found, new),
        ("", "PersistentVolumeClaim") => volume::claim(&mut found, new),
        ("", "Secret") => secret(&mut found, new),
        ("", "ServiceAccount") => service_account(&mut found, new, old),
        ("", "Endpoints") => address::endpoints(&mut found, new),
        ("", "Node") => node(&mut found, new),
        ("", "ResourceQuota") if old.is_none() => resource_quota(&mut found, new),
        ("discovery.k8s.io", _) => address::endpoint_slice(&mut found, new, old.is_none()),
        ("networking.k8s.io", "Ingress") if old.is_none() => ingress(&mut found, new),
        ("networking.k8s.io", "NetworkPolicy") => address::network_policy(&mut found, new),
        ("node.k8s.io", _) => {
            for key in new.map_at(&["scheduling", "nodeSelector"]).into_iter().flatten() {
                if let Some(why) = pod::deprecated_label(key.0) {
                    found.at(&Path::new("scheduling").child("nodeSelector"), why);
                }
            }
        }
        ("resource.k8s.io", "ResourceSlice") => driver_name(&mut found, new),
        ("storage.k8s.io", "CSIDriver") => csi_driver(&mut found, new, old),
        ("storage.k8s.io", "StorageClass") => volume::storage_class(&mut found, new),
        _ => {}
    }
    found.0
}

/// Warnings in the order they were found.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    fn at(&mut self, path: &Path, why: impl std::fmt::Display) {
        self.0.push(format!("{path}: {why}"));
    }

    /// Names end up in host names, which take less than object names do.
    fn hostname(&mut self, object: &Value, used: &str) {
        let problems = dns1123_label(object.name());
        if !problems.is_empty() {
            self.add(format!(
                "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
    }

    /// Bytes come whole.
    fn fractional_bytes(&mut self, path: &Path, amount: Option<&Value>) {
        let Some(Ok(amount)) = amount.map(Quantity::from_value) else { return };
        if amount.milli_value() % 1000 != 0 {
            let shown = quote(&amount.to_string());
            self.at(path, format!("fractional byte value {shown} is invalid, must be an integer"));
        }
    }
}

const POD_NAMES: &str = "Pod names and hostnames";

fn workload(found: &mut Warnings, new: &Value, old: Option<&Value>, is_news: bool) {
    if old.is_none() {
        found.hostname(new, POD_NAMES);
    }
    if is_news {
        let path = Path::new("spec").child("template");
        pod::template(found, &path, new.at(&["spec", "template"]));
    }
}

fn job(found: &mut Warnings, kind: &str, new: &Value, old: Option<&Value>, is_news: bool) {
    if old.is_none() {
        found.hostname(new, POD_NAMES);
    }
    let (path, spec) = if kind == "CronJob" {
        let path = Path::new("spec").child("jobTemplate").child("spec");
        (path, new.at(&["spec", "jobTemplate", "spec"]))
    } else {
        (Path::new("spec"), new.get("spec"))
    };
    let Some(spec) = spec.filter(|_| is_news) else { return };
    let count = |field: &str| spec.i64_at(&[field]).unwrap_or_default();
    let is_indexed = spec.str_at(&["completionMode"]) == Some("Indexed");
    if is_indexed && count("completions") > 100_000 && count("parallelism") > 10_000 {
        found.at(&path, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail");
    }
    pod::template(found, &path.child("template"), spec.get("template"));
}

fn service(found: &mut Warnings, service: &Value) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = Path::new("spec");
    let text = |field: &str| service.str_at(&["spec", field]).unwrap_or_default();
    if service.annotation(HINTS).is_some() {
        found.add(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let (kind, address) = (text("type"), text("clusterIP"));
    let is_headless = kind == "ClusterIP" && address == "None";
    if !address.is_empty() && address != "None" {
        address::list(found, &spec.child("clusterIPs"), service.list_at(&["spec", "clusterIPs"]));
    }
    let external = service.list_at(&["spec", "externalIPs"]);
    if is_headless {
        for (is_set, field) in [
            (!text("loadBalancerIP").is_empty(), "loadBalancerIP"),
            (!external.is_empty(), "externalIPs"),
            (text("sessionAffinity") != "None", "SessionAffinity"),
        ] {
            if is_set {
                found.add(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    address::list(found, &spec.child("externalIPs"), external);
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        found.add(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        );
    }
    address::address(found, &spec.child("loadBalancerIP"), text("loadBalancerIP"));
    let ranges = service.list_at(&["spec", "loadBalancerSourceRanges"]).iter().enumerate();
    for (index, range) in ranges {
        let path = spec.child("loadBalancerSourceRanges").index(index);
        address::range(found, &path, range.as_str().unwrap_or_default());
    }
    if kind == "ExternalName" && !external.is_empty() {
        found.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !text("externalName").is_empty() {
        found.add("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if text("trafficDistribution") == "PreferClose" {
        found
            .add("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

/// A TLS secret that holds no PEM cannot be used.
fn secret(found: &mut Warnings, secret: &Value) {
    if secret.str_at(&["type"]) != Some("kubernetes.io/tls") {
        return;
    }
    for (entry, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let data = secret.str_at(&["data", entry]).unwrap_or_default();
        let text = STANDARD.decode(data).unwrap_or_default();
        if !String::from_utf8_lossy(&text).contains("-----BEGIN ") {
            return found.add(format!("tls: failed to find any PEM data in {what} input"));
        }
    }
}

fn service_account(found: &mut Warnings, new: &Value, old: Option<&Value>) {
    const MARK: &str = "kubernetes.io/enforce-mountable-secrets";
    let is_new = old.is_none_or(|old| old.annotation(MARK).is_none());
    if is_new && new.annotation(MARK).is_some() {
        found.add(format!(
            "metadata.annotations[{MARK}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}

fn node(found: &mut Warnings, node: &Value) {
    if node.map_at(&["spec", "configSource"]).is_some() {
        found.add("spec.configSource: the feature is removed");
    }
    if !node.str_at(&["spec", "externalID"]).unwrap_or_default().is_empty() {
        found.add("spec.externalID: this field is deprecated, and is unused by Kubernetes");
    }
    for (index, range) in node.list_at(&["spec", "podCIDRs"]).iter().enumerate() {
        let path = Path::new("spec").child("podCIDRs").index(index);
        address::range(found, &path, range.as_str().unwrap_or_default());
    }
}

fn resource_quota(found: &mut Warnings, quota: &Value) {
    let hard = |name: &str| {
        quota.at(&["spec", "hard", name]).and_then(|amount| Quantity::from_value(amount).ok())
    };
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let long = format!("requests.{name}");
        let plain =
            || hard(name).filter(|_| name != "ephemeral-storage").map(|a| (name.to_owned(), a));
        let request = hard(&long).map(|amount| (long, amount)).or_else(plain);
        let limit_name = format!("limits.{name}");
        if let (Some((request_name, request)), Some(limit)) = (request, hard(&limit_name))
            && request > limit
        {
            found.add(format!(
                "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
            ));
        }
    }
}

fn ingress(found: &mut Warnings, ingress: &Value) {
    const MARK: &str = "kubernetes.io/ingress.class";
    if ingress.annotation(MARK).is_some() && ingress.str_at(&["spec", "ingressClassName"]).is_none()
    {
        found.add(format!(
            "annotation {} is deprecated, please use 'spec.ingressClassName' instead",
            quote(MARK)
        ));
    }
}

fn driver_name(found: &mut Warnings, slice: &Value) {
    let driver = slice.str_at(&["spec", "driver"]).unwrap_or_default();
    if driver != driver.to_lowercase() {
        found.add(format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            quote(driver)
        ));
    }
}

fn csi_driver(found: &mut Warnings, new: &Value, old: Option<&Value>) {
    const REQUESTS: &[&str] = &["spec", "tokenRequests"];
    let is_news = old.is_none_or(|old| old.at(REQUESTS) != new.at(REQUESTS));
    let is_unset = new.bool_at(&["spec", "serviceAccountTokenInSecrets"]).is_none();
    if is_news && is_unset && !new.list_at(REQUESTS).is_empty() {
        found.add("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes");
    }
}
