//! Defaults of pods and of the pod templates inside other kinds.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value};

use super::{agree, amount, fill, image, items, made, nonzero, present, storage, text};

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Defaults of a Pod: those of its spec, and some that templates do not get.
pub(super) fn pod(pod: &mut Value) {
    drop_old_annotations(pod);
    agree(pod, &["status", "podIP"], &["status", "podIPs"], Some("ip"));
    let spec = made(pod, "spec");
    pod_spec(spec);
    if spec.i64_at(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec.set(&["terminationGracePeriodSeconds"], 1);
    }
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            request_limits(container);
        }
    }
    amount::pod_level(spec);
    spec.set_default(&["enableServiceLinks"], true);
    if spec.bool_at(&["hostNetwork"]) == Some(true) {
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                for port in items(container, "ports") {
                    let container_port = port.i64_at(&["containerPort"]).unwrap_or_default();
                    nonzero(port, "hostPort", container_port);
                }
            }
        }
    }
}

pub(super) fn pod_template(object: &mut Value) {
    if let Some(template) = present(object, "template") {
        template_spec(template);
    }
}

/// Defaults of the template below `spec.template` of a workload.
pub(super) fn template_of(object: &mut Value) {
    template_spec(made(made(object, "spec"), "template"));
}

fn template_spec(template: &mut Value) {
    drop_old_annotations(template);
    pod_spec(made(template, "spec"));
}

/// Init containers were annotations once; what old clients still send is dropped.
fn drop_old_annotations(pod: &mut Value) {
    let Some(metadata) = present(pod, "metadata") else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let before = annotations.len();
    annotations.retain(|key, _| {
        !key.strip_prefix("pod.beta.kubernetes.io/")
            .or_else(|| key.strip_prefix("pod.alpha.kubernetes.io/"))
            .is_some_and(|name| matches!(name, "init-containers" | "init-container-statuses"))
    });
    if annotations.is_empty() && before > 0 {
        metadata.remove_at(&["annotations"]);
    }
}

/// A container that is limited requests as much as its limit, resource by resource.
fn request_limits(container: &mut Value) {
    let Some(limits) = container.map_at(&["resources", "limits"]).cloned() else { return };
    fill(container.map_at_mut(&["resources", "requests"]), &limits);
}

fn pod_spec(spec: &mut Value) {
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "restartPolicy", "Always");
    text(spec, "schedulerName", "default-scheduler");
    spec.set_default(&["securityContext"], Map::new());
    spec.set_default(&["terminationGracePeriodSeconds"], 30);
    mirror_service_account(spec);
    for volume in items(spec, "volumes") {
        pod_volume(volume);
    }
    for list in CONTAINER_LISTS {
        for container in items(spec, list) {
            container_defaults(container);
        }
    }
    if let Some(resources) = present(spec, "resources") {
        amount::round_resources(resources);
    }
    if let Some(overhead) = present(spec, "overhead") {
        amount::round_list(overhead);
    }
}

/// The old and the new name of the service account field always agree; the new one wins.
fn mirror_service_account(spec: &mut Value) {
    let named =
        |field: &str| spec.str_at(&[field]).filter(|name| !name.is_empty()).map(str::to_owned);
    match named("serviceAccountName").or_else(|| named("serviceAccount")) {
        Some(name) => {
            spec.set(&["serviceAccountName"], name.as_str());
            spec.set(&["serviceAccount"], name);
        }
        None => {
            spec.remove_at(&["serviceAccountName"]);
            spec.remove_at(&["serviceAccount"]);
        }
    }
}

fn container_defaults(container: &mut Value) {
    let policy = image::pull_policy(container.str_at(&["image"]).unwrap_or_default());
    text(container, "imagePullPolicy", policy);
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    amount::round_resources(made(container, "resources"));
    for port in items(container, "ports") {
        text(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        let source = present(variable, "valueFrom");
        if let Some(source) = source {
            if let Some(reference) = present(source, "fieldRef") {
                text(reference, "apiVersion", "v1");
            }
            resource_divisor(source);
            if let Some(file) = present(source, "fileKeyRef") {
                file.set_default(&["optional"], false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = present(container, name) {
            nonzero(probe, "timeoutSeconds", 1);
            nonzero(probe, "periodSeconds", 10);
            nonzero(probe, "successThreshold", 1);
            nonzero(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    for name in ["postStart", "preStop"] {
        if let Some(hook) = present(container, "lifecycle").and_then(|l| present(l, name)) {
            handler(hook);
        }
    }
}

fn handler(handler: &mut Value) {
    if let Some(get) = present(handler, "httpGet") {
        text(get, "path", "/");
        text(get, "scheme", "HTTP");
    }
    if let Some(grpc) = present(handler, "grpc") {
        grpc.set_default(&["service"], "");
    }
}

/// A resource reference always shows its divisor; none means zero.
fn resource_divisor(source: &mut Value) {
    if let Some(reference) = present(source, "resourceFieldRef") {
        reference.set_default(&["divisor"], "0");
    }
}

fn downward_items(source: &mut Value) {
    for item in items(source, "items") {
        if let Some(reference) = present(item, "fieldRef") {
            text(reference, "apiVersion", "v1");
        }
        resource_divisor(item);
    }
}

fn pod_volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|map| map.iter().any(|(key, source)| key != "name" && !source.is_null()));
    if !has_source {
        volume.set(&["emptyDir"], Map::new());
    }
    storage::shared_sources(volume);
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present(volume, source) {
            source.set_default(&["defaultMode"], 0o644);
        }
    }
    if let Some(source) = present(volume, "downwardAPI") {
        downward_items(source);
    }
    if let Some(projected) = present(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(downward) = present(source, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = present(source, "serviceAccountToken") {
                token.set_default(&["expirationSeconds"], 3600);
            }
        }
    }
    let template = present(volume, "ephemeral").and_then(|e| present(e, "volumeClaimTemplate"));
    if let Some(spec) = template.and_then(|template| present(template, "spec")) {
        storage::claim_spec(spec);
    }
    if let Some(source) = present(volume, "image") {
        let policy = image::pull_policy(source.str_at(&["reference"]).unwrap_or_default());
        text(source, "pullPolicy", policy);
    }
}
