//! Columns and what they are about.

/// One column of a Table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    /// What the column shows; columns of one name mean the same everywhere.
    pub description: &'static str,
    /// Above zero: shown only with `-o wide`.
    pub priority: u8,
}

pub(super) const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", description: describe(name), priority: 0 }
}

// Compat: Kubernetes says nothing about this one.
pub(super) const fn undescribed(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", description: "", priority: 0 }
}

pub(super) const fn wide(name: &'static str) -> Column {
    Column { priority: 1, ..text(name) }
}

pub(super) const fn number(name: &'static str) -> Column {
    Column { kind: "integer", ..text(name) }
}

pub(super) const fn flag(name: &'static str) -> Column {
    Column { kind: "boolean", ..text(name) }
}

pub(super) const NAME: Column = Column { format: "name", ..text("Name") };
pub(super) const AGE: Column = text("Age");
pub(super) const CREATED: Column = Column { kind: "date", ..text("Created At") };
pub(super) const CONTAINERS: Column = wide("Containers");
pub(super) const IMAGES: Column = wide("Images");
pub(super) const SELECTOR: Column = wide("Selector");

/// Looks a description up while compiling; a column without one does not compile.
const fn describe(name: &str) -> &'static str {
    let mut at = 0;
    while at < DESCRIPTIONS.len() {
        if is_same(DESCRIPTIONS[at].0, name) {
            return DESCRIPTIONS[at].1;
        }
        at += 1;
    }
    panic!("the column has no description")
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Sorted by column name.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("Access Modes", "Ways in which the volume may be mounted."),
    ("Active", "Jobs that are running now."),
    ("Address", "Addresses under which the load balancer is reached."),
    ("AddressType", "Family of the addresses."),
    ("Age", "Time since the object was created."),
    ("AllowVolumeExpansion", "Whether volumes of this class may grow."),
    ("Allowed Disruptions", "Pods that may be disrupted now."),
    ("AttachRequired", "Whether volumes must be attached before they are mounted."),
    ("Attached", "Whether the volume is attached."),
    ("Attacher", "Driver that attaches the volume."),
    ("Available", "How much of it is available."),
    ("CIDRs", "Address ranges services take their addresses from."),
    ("Capacity", "Size of the volume."),
    ("Claim", "Claim the volume is bound to."),
    ("Class", "Class that configures the ingress."),
    ("Cluster-IP", "Address inside the cluster."),
    ("Completions", "Finished pods, of those wanted."),
    ("Condition", "Where the request stands."),
    ("Container-Runtime", "Runtime the node uses."),
    ("Containers", "Names of the containers in the template."),
    ("Controller", "What is responsible for this object."),
    ("Count", "How often it happened."),
    ("Created At", "When the object was created."),
    ("Current", "Replicas there are."),
    ("Data", "Number of entries."),
    ("Desired", "Replicas there should be."),
    ("DistinguisherMethod", "What separates flows within the schema."),
    ("Driver", "Driver that offers the devices."),
    ("DriverName", "Driver the class is for."),
    ("Drivers", "Number of storage drivers on the node."),
    ("Duration", "How long the job has run."),
    ("Endpoints", "Addresses behind the service."),
    ("Error", "Error of the health check."),
    ("External-IP", "Address outside the cluster."),
    ("First Seen", "Time since it happened first."),
    ("Global-Default", "Whether pods without a class get this one."),
    ("Groups", "Groups the role is given to."),
    ("HandSize", "Queues a flow is spread over."),
    ("Holder", "Who holds the lease."),
    ("Hosts", "Host names that are served."),
    ("IP", "Address of the pod."),
    ("Images", "Images of the containers in the template."),
    ("Internal-IP", "Address inside the cluster."),
    ("Kernel-Version", "Kernel the node runs."),
    ("Last Schedule", "Time since a job was last started."),
    ("Last Seen", "Time since it happened last."),
    ("Limit", "Limits in use, of those allowed."),
    ("MatchingPrecedence", "Order in which schemas are tried, lowest first."),
    ("Max Unavailable", "Pods that may be unavailable."),
    ("MaxPods", "Most replicas there may be."),
    ("Message", "What happened."),
    ("Min Available", "Pods that must stay available."),
    ("MinPods", "Fewest replicas there may be."),
    ("MissingPL", "Whether the priority level does not exist."),
    ("Modes", "Kinds of volumes the driver provides."),
    ("Mutations", "Number of mutations."),
    ("Name", "Name of the object, unique among its kind in a namespace."),
    ("Node", "Node it belongs to."),
    ("Node Selector", "Labels of the nodes it runs on."),
    ("NominalConcurrencyShares", "Share of the server's capacity."),
    ("Nominated Node", "Node where room is being made for the pod."),
    ("OS-Image", "Operating system of the node."),
    ("Object", "What it happened to."),
    ("PV", "Volume that is attached."),
    ("ParamKind", "Kind of the policy's parameters."),
    ("ParamRef", "Parameters the policy is bound with."),
    ("Parameters", "Further configuration of the class."),
    ("ParentRef", "Object the address belongs to."),
    ("Pod Labels", "Labels of the pods in the template."),
    ("Pod-Selector", "Pods the policy is about."),
    ("PodInfoOnMount", "Whether the driver is told about the pod."),
    ("PolicyName", "Policy that is bound."),
    ("Pool", "Pool the devices belong to."),
    ("Port(s)", "Ports the service listens on."),
    ("Ports", "Ports that are served."),
    ("PreemptionPolicy", "Whether pods may push others out."),
    ("PriorityLevel", "Level that handles matching requests."),
    ("Provisioner", "What provides the volumes."),
    ("QueueLengthLimit", "Longest a queue may grow."),
    ("Queues", "Number of queues."),
    ("Readiness Gates", "Further conditions that are met, of those there are."),
    ("Ready", "What is ready, of what there should be."),
    ("Reason", "Why it happened."),
    ("Reclaim Policy", "What becomes of a released volume."),
    ("ReclaimPolicy", "What becomes of a released volume."),
    ("Reference", "Workload that is scaled."),
    ("Replicas", "Replicas there are."),
    ("Request", "Requests in use, of those allowed."),
    ("RequestedDuration", "How long the certificate should be valid."),
    ("Requestor", "Who asked for the certificate."),
    ("RequiresRepublish", "Whether mounts are refreshed."),
    ("Restarts", "How often containers were restarted, and when last."),
    ("Revision", "Number of the revision."),
    ("Role", "Role that is given."),
    ("Roles", "Roles of the node."),
    ("Schedule", "When jobs are started."),
    ("Selector", "Labels of the pods it is about."),
    ("Service", "Service that answers for the group."),
    ("ServiceAccounts", "Service accounts the role is given to."),
    ("SignerName", "Who is asked to sign."),
    ("Source", "Who reported it."),
    ("State", "Whether the claim is pending, allocated or reserved."),
    ("Status", "How it is."),
    ("StorageCapacity", "Whether the driver reports its capacity."),
    ("StorageClass", "Class of the volume."),
    ("Subobject", "Part of the object it happened to."),
    ("Suspend", "Whether starting jobs is paused."),
    ("Targets", "Metrics now, and where they should be."),
    ("Timezone", "Time zone of the schedule."),
    ("TokenRequests", "Audiences of the tokens the driver gets."),
    ("Type", "Which sort it is."),
    ("Up-to-date", "Replicas made from the current template."),
    ("Users", "Users the role is given to."),
    ("Validations", "Number of validations."),
    ("Value", "Priority of pods of this class."),
    ("Version", "Version of the node's agent."),
    ("Volume", "Volume the claim is bound to."),
    ("VolumeAttributesClass", "Class of the volume's mutable attributes."),
    ("VolumeBindingMode", "When volumes are bound."),
    ("VolumeMode", "Whether it is a file system or a block device."),
    ("Webhooks", "Number of webhooks."),
];
