//! The columns `kubectl get` shows for each kind, and the cells of one object. Kinds without
//! columns of their own show name and creation time.

mod cluster;
mod column;
mod network;
mod pod;
mod policy;
mod row;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

pub use column::Column;

use column::{
    AGE, CONTAINERS, CREATED, IMAGES, NAME, SELECTOR, flag, number, text, undescribed, wide,
};
use row::Row;

/// One kind's table: its columns and the function that fills them.
struct Table {
    group: &'static str,
    kind: &'static str,
    columns: &'static [Column],
    cells: fn(&Row<'_>) -> Vec<Value>,
}

/// Returns the columns of a kind.
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    find(group, kind).map_or(DEFAULT_COLUMNS, |table| table.columns)
}

/// Returns one cell per column; ages are counted up to `now`.
pub fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    find(group, kind).map_or_else(|| default_cells(&row), |table| (table.cells)(&row))
}

/// Returns the conditions of a row, by which clients can tell finished pods.
pub fn row_conditions(group: &str, kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (group, kind, object.str_at(&["status", "phase"])) {
        ("", "Pod", Some("Succeeded")) => ("Succeeded", "The pod has completed successfully."),
        ("", "Pod", Some("Failed")) => ("Failed", "The pod failed."),
        _ => return None,
    };
    let condition = json!({
        "type": "Completed", "status": "True", "reason": reason, "message": message,
    });
    Some(json!([condition]))
}

fn find(group: &str, kind: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| (table.group, table.kind) == (group, kind))
}

const DEFAULT_COLUMNS: &[Column] = &[NAME, CREATED];

fn default_cells(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["metadata", "creationTimestamp"])]
}

const fn table(
    group: &'static str,
    kind: &'static str,
    columns: &'static [Column],
    cells: fn(&Row<'_>) -> Vec<Value>,
) -> Table {
    Table { group, kind, columns, cells }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOWCONTROL: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

const EVENT: &[Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    wide("Count"),
    Column { priority: 1, ..NAME },
];
const REPLICAS: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const BINDING: &[Column] =
    &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];
const WEBHOOKS: &[Column] = &[NAME, number("Webhooks"), AGE];
const POLICY_BINDING: &[Column] = &[NAME, text("PolicyName"), text("ParamRef"), AGE];

#[rustfmt::skip]
static TABLES: &[Table] = &[
    table("", "ComponentStatus", &[NAME, text("Status"), text("Message"), text("Error")], cluster::component_status),
    table("", "ConfigMap", &[NAME, text("Data"), AGE], cluster::config_map),
    table("", "Endpoints", &[NAME, text("Endpoints"), AGE], network::endpoints),
    table("", "Event", EVENT, cluster::event),
    table("", "Namespace", &[NAME, text("Status"), AGE], cluster::namespace),
    table("", "Node", &[NAME, text("Status"), text("Roles"), AGE, text("Version"), wide("Internal-IP"),
        wide("External-IP"), wide("OS-Image"), wide("Kernel-Version"), wide("Container-Runtime")], cluster::node),
    table("", "PersistentVolume", &[NAME, text("Capacity"), text("Access Modes"), text("Reclaim Policy"),
        text("Status"), text("Claim"), text("StorageClass"), text("VolumeAttributesClass"), text("Reason"), AGE,
        wide("VolumeMode")], storage::volume),
    table("", "PersistentVolumeClaim", &[NAME, text("Status"), text("Volume"), text("Capacity"),
        text("Access Modes"), text("StorageClass"), text("VolumeAttributesClass"), AGE, wide("VolumeMode")],
        storage::claim),
    table("", "Pod", &[NAME, text("Ready"), text("Status"), text("Restarts"), AGE, wide("IP"), wide("Node"),
        wide("Nominated Node"), wide("Readiness Gates")], pod::pod),
    table("", "PodTemplate", &[NAME, text("Containers"), text("Images"), text("Pod Labels")], workload::pod_template),
    table("", "ReplicationController", REPLICAS, workload::replication_controller),
    table("", "ResourceQuota", &[NAME, text("Request"), text("Limit"), AGE], cluster::resource_quota),
    table("", "Secret", &[NAME, text("Type"), text("Data"), AGE], cluster::secret),
    table("", "Service", &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE,
        SELECTOR], network::service),
    table("", "ServiceAccount", &[NAME, AGE], cluster::name_and_age),

    table(ADMISSION, "MutatingAdmissionPolicy", &[NAME, number("Mutations"), text("ParamKind"), AGE],
        policy::mutating_policy),
    table(ADMISSION, "MutatingAdmissionPolicyBinding", POLICY_BINDING, policy::policy_binding),
    table(ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS, policy::webhooks),
    table(ADMISSION, "ValidatingAdmissionPolicy", &[NAME, number("Validations"), text("ParamKind"), AGE],
        policy::validating_policy),
    table(ADMISSION, "ValidatingAdmissionPolicyBinding", POLICY_BINDING, policy::policy_binding),
    table(ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS, policy::webhooks),

    table("apiregistration.k8s.io", "APIService", &[NAME, text("Service"), text("Available"), AGE],
        cluster::api_service),

    table("apps", "ControllerRevision", &[NAME, text("Controller"), text("Revision"), AGE],
        workload::controller_revision),
    table("apps", "DaemonSet", &[NAME, number("Desired"), number("Current"), number("Ready"), number("Up-to-date"),
        number("Available"), text("Node Selector"), AGE, CONTAINERS, IMAGES, SELECTOR], workload::daemon_set),
    table("apps", "Deployment", &[NAME, text("Ready"), text("Up-to-date"), text("Available"), AGE, CONTAINERS,
        IMAGES, SELECTOR], workload::deployment),
    table("apps", "ReplicaSet", REPLICAS, workload::replica_set),
    table("apps", "StatefulSet", &[NAME, text("Ready"), AGE, CONTAINERS, IMAGES], workload::stateful_set),

    table("autoscaling", "HorizontalPodAutoscaler", &[NAME, text("Reference"), text("Targets"), text("MinPods"),
        text("MaxPods"), text("Replicas"), AGE], workload::autoscaler),
    table("autoscaling", "Scale", &[text("Name"), number("Desired"), number("Available"), AGE], workload::scale),

    table("batch", "CronJob", &[NAME, text("Schedule"), text("Timezone"), flag("Suspend"), number("Active"),
        text("Last Schedule"), AGE, CONTAINERS, IMAGES, SELECTOR], workload::cron_job),
    table("batch", "Job", &[NAME, text("Status"), text("Completions"), text("Duration"), AGE, CONTAINERS, IMAGES,
        SELECTOR], workload::job),

    table("certificates.k8s.io", "CertificateSigningRequest", &[NAME, AGE, text("SignerName"), text("Requestor"),
        text("RequestedDuration"), text("Condition")], cluster::signing_request),

    table("coordination.k8s.io", "Lease", &[NAME, text("Holder"), AGE], cluster::lease),

    table("discovery.k8s.io", "EndpointSlice", &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE],
        network::endpoint_slice),

    table("events.k8s.io", "Event", EVENT, cluster::event),

    table(FLOWCONTROL, "FlowSchema", &[NAME, text("PriorityLevel"), text("MatchingPrecedence"),
        text("DistinguisherMethod"), AGE, text("MissingPL")], policy::flow_schema),
    table(FLOWCONTROL, "PriorityLevelConfiguration", &[NAME, text("Type"), text("NominalConcurrencyShares"),
        text("Queues"), text("HandSize"), text("QueueLengthLimit"), AGE], policy::priority_level),

    table(NETWORKING, "Ingress", &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
        network::ingress),
    table(NETWORKING, "IngressClass", &[NAME, text("Controller"), text("Parameters"), AGE], network::ingress_class),
    table(NETWORKING, "IPAddress", &[NAME, text("ParentRef")], network::ip_address),
    table(NETWORKING, "NetworkPolicy", &[NAME, text("Pod-Selector"), AGE], network::network_policy),
    table(NETWORKING, "ServiceCIDR", &[NAME, text("CIDRs"), AGE], network::service_cidr),

    table("node.k8s.io", "RuntimeClass", &[NAME, undescribed("Handler"), AGE], cluster::runtime_class),

    table("policy", "PodDisruptionBudget", &[NAME, text("Min Available"), text("Max Unavailable"),
        number("Allowed Disruptions"), AGE], policy::disruption_budget),

    table(RBAC, "ClusterRoleBinding", BINDING, policy::role_binding),
    table(RBAC, "RoleBinding", BINDING, policy::role_binding),

    table(RESOURCE, "DeviceClass", &[NAME, AGE], cluster::name_and_age),
    table(RESOURCE, "ResourceClaim", &[NAME, text("State"), AGE], storage::resource_claim),
    table(RESOURCE, "ResourceClaimTemplate", &[NAME, AGE], cluster::name_and_age),
    table(RESOURCE, "ResourceSlice", &[NAME, text("Node"), text("Driver"), text("Pool"), AGE],
        storage::resource_slice),

    table("scheduling.k8s.io", "PriorityClass", &[NAME, number("Value"), flag("Global-Default"), AGE,
        text("PreemptionPolicy")], cluster::priority_class),

    table(STORAGE, "CSIDriver", &[NAME, flag("AttachRequired"), flag("PodInfoOnMount"), flag("StorageCapacity"),
        text("TokenRequests"), flag("RequiresRepublish"), text("Modes"), AGE], storage::csi_driver),
    table(STORAGE, "CSINode", &[NAME, number("Drivers"), AGE], storage::csi_node),
    table(STORAGE, "StorageClass", &[NAME, text("Provisioner"), text("ReclaimPolicy"), text("VolumeBindingMode"),
        text("AllowVolumeExpansion"), AGE], storage::storage_class),
    table(STORAGE, "VolumeAttachment", &[NAME, Column { format: "name", ..text("Attacher") }, text("PV"),
        text("Node"), flag("Attached"), AGE], storage::volume_attachment),
    table(STORAGE, "VolumeAttributesClass", &[NAME, text("DriverName"), AGE], storage::volume_attributes_class),
];
