//! The table of everything served: one row per resource and version, with its names, verbs,
//! subresources and the rules its reads and writes follow.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// One served resource in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// Group and version in which the object is stored; both versions of a kind share one store.
    pub storage: (&'static str, &'static str),
    /// Where objects are kept below `/registry/`.
    prefix: &'static str,
    /// Whether a PUT of a missing object creates it.
    pub put_creates: bool,
    /// Whether a PUT may leave out the resource version.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of the wanted state.
    pub has_generation: bool,
    /// Whether an immediate deletion answers with the object instead of a Status.
    pub returns_deleted: bool,
    /// Whether deletion waits for a grace period.
    pub graceful_deletion: bool,
    pub default_propagation: Propagation,
    pub name_rule: NameRule,
}

/// A path below an object, with the kind it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    /// Group and version of `kind` where they differ from the parent's, else empty.
    pub group: &'static str,
    pub version: &'static str,
    /// Empty where the subresource speaks the parent's kind.
    kind: &'static str,
    pub verbs: &'static [&'static str],
}

/// What a DELETE without a policy does to dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Orphan,
    /// Garbage collection does not look at this kind; neither finalizer is ever added.
    Unsupported,
}

/// Which names a kind accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    PathSegment,
    /// The kind derives or checks its name by a rule of its own.
    Own,
}

/// An API group version with the place it takes in discovery: higher comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPriority {
    pub group: &'static str,
    pub version: &'static str,
    pub group_priority: i32,
    pub version_priority: i32,
}

impl Resource {
    /// The kind of a list of these.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        join(self.group, self.version)
    }

    /// The `apiVersion` objects are stored with.
    pub fn storage_api_version(&self) -> String {
        join(self.storage.0, self.storage.1)
    }

    /// The key prefix of all objects of this resource, without a trailing slash.
    pub fn storage_prefix(&self) -> String {
        let place = if self.prefix.is_empty() { self.plural } else { self.prefix };
        format!("/registry/{place}")
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether objects of this resource are kept; reviews and bindings are only answered.
    pub fn is_stored(&self) -> bool {
        self.has_verb("watch")
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The hash discovery shows so that clients notice a change of the stored version.
    pub fn storage_version_hash(&self) -> Option<String> {
        let (group, version) = self.storage_hash_version();
        self.is_stored().then(|| storage_version_hash(group, version, self.kind))
    }

    fn storage_hash_version(&self) -> (&'static str, &'static str) {
        match self.kind {
            // Compat: these are kept in their newest version here, but the hash clients compare
            // is that of the version Kubernetes 1.36 keeps them in.
            "CustomResourceDefinition"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding" => (self.group, "v1beta1"),
            _ => self.storage,
        }
    }
}

impl Subresource {
    /// The kind of the objects exchanged; `parent` is the kind it hangs below.
    pub fn kind(&self, parent: &Resource) -> &'static str {
        if self.kind.is_empty() { parent.kind } else { self.kind }
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

/// Hashes a stored version as discovery shows it.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}

/// Returns every served resource: groups by discovery priority, resources by name.
pub fn resources() -> &'static [Resource] {
    RESOURCES
}

/// Returns the resource with this plural name.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.plural == plural && r.group == group && r.version == version)
}

/// Returns the resource of this kind, the preferred version first.
pub fn find_kind(group: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.kind == kind && r.group == group)
}

/// Returns the served group versions with their discovery priorities, highest first.
pub fn group_priorities() -> &'static [GroupPriority] {
    PRIORITIES
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const READ: &[&str] = &["get", "list"];
const EDIT: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const fn sub(name: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, group: "", version: "", kind: "", verbs }
}

const fn sub_of(
    name: &'static str,
    verbs: &'static [&'static str],
    (group, version, kind): (&'static str, &'static str, &'static str),
) -> Subresource {
    Subresource { name, group, version, kind, verbs }
}

const STATUS: Subresource = sub("status", EDIT);
const SCALE: Subresource = sub_of("scale", EDIT, ("autoscaling", "v1", "Scale"));
const WITH_STATUS: &[Subresource] = &[STATUS];
const WITH_SCALE: &[Subresource] = &[SCALE, STATUS];
const POD_SUBRESOURCES: &[Subresource] = &[
    sub_of("attach", CONNECT, ("", "", "PodAttachOptions")),
    sub_of("binding", CREATE, ("", "", "Binding")),
    sub("ephemeralcontainers", EDIT),
    sub_of("eviction", CREATE, ("policy", "v1", "Eviction")),
    sub_of("exec", CONNECT, ("", "", "PodExecOptions")),
    sub("log", &["get"]),
    sub_of("portforward", CONNECT, ("", "", "PodPortForwardOptions")),
    sub_of("proxy", PROXY, ("", "", "PodProxyOptions")),
    sub("resize", EDIT),
    STATUS,
];

/// A namespaced resource of version v1 with every verb and the usual rules.
const fn namespaced(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        group,
        version: "v1",
        kind,
        plural,
        short_names: &[],
        categories: &[],
        namespaced: true,
        verbs: ALL_VERBS,
        subresources: &[],
        storage: (group, "v1"),
        prefix: "",
        put_creates: false,
        unconditional_update: true,
        has_generation: false,
        returns_deleted: false,
        graceful_deletion: false,
        default_propagation: Propagation::Background,
        name_rule: NameRule::Subdomain,
    }
}

const fn cluster(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { namespaced: false, ..namespaced(group, kind, plural) }
}

/// Marks of a row that differs from the usual.
impl Resource {
    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }
    const fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }
    const fn subs(self, subresources: &'static [Subresource]) -> Self {
        Self { subresources, ..self }
    }
    const fn all(self) -> Self {
        Self { categories: &["all"], ..self }
    }
    const fn extends_api(self) -> Self {
        Self { categories: &["api-extensions"], ..self }
    }
    const fn at(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }
    const fn put_creates(self) -> Self {
        Self { put_creates: true, ..self }
    }
    const fn versioned_update(self) -> Self {
        Self { unconditional_update: false, ..self }
    }
    const fn generation(self) -> Self {
        Self { has_generation: true, ..self }
    }
    const fn returned(self) -> Self {
        Self { returns_deleted: true, ..self }
    }
    const fn orphans(self) -> Self {
        Self { default_propagation: Propagation::Orphan, ..self }
    }
    const fn named(self, name_rule: NameRule) -> Self {
        Self { name_rule, ..self }
    }
}

const EVENT: Resource = Resource {
    storage: ("", "v1"),
    default_propagation: Propagation::Unsupported,
    ..namespaced("", "Event", "events").short(&["ev"]).put_creates()
};
const HPA: Resource = Resource {
    storage: ("autoscaling", "v2"),
    ..namespaced("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .all()
        .subs(WITH_STATUS)
};

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOWCONTROL: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

#[rustfmt::skip]
static RESOURCES: &[Resource] = &[
    namespaced("", "Binding", "bindings").verbs(CREATE),
    cluster("", "ComponentStatus", "componentstatuses").verbs(READ).short(&["cs"]),
    namespaced("", "ConfigMap", "configmaps").short(&["cm"]),
    namespaced("", "Endpoints", "endpoints").short(&["ep"]).at("services/endpoints").put_creates(),
    EVENT,
    namespaced("", "LimitRange", "limitranges").short(&["limits"]).put_creates(),
    cluster("", "Namespace", "namespaces").short(&["ns"]).verbs(NAMESPACE_VERBS).returned().named(NameRule::Label)
        .subs(&[sub("finalize", &["update"]), STATUS]),
    cluster("", "Node", "nodes").short(&["no"]).at("minions")
        .subs(&[sub_of("proxy", PROXY, ("", "", "NodeProxyOptions")), STATUS]),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).subs(WITH_STATUS).returned(),
    cluster("", "PersistentVolume", "persistentvolumes").short(&["pv"]).subs(WITH_STATUS).returned(),
    Resource { graceful_deletion: true,
        ..namespaced("", "Pod", "pods").short(&["po"]).all().subs(POD_SUBRESOURCES).generation().returned() },
    namespaced("", "PodTemplate", "podtemplates").generation().returned(),
    namespaced("", "ReplicationController", "replicationcontrollers").short(&["rc"]).all().subs(WITH_SCALE)
        .at("controllers").generation().orphans(),
    namespaced("", "ResourceQuota", "resourcequotas").short(&["quota"]).subs(WITH_STATUS).returned(),
    namespaced("", "Secret", "secrets"),
    namespaced("", "ServiceAccount", "serviceaccounts").short(&["sa"]).returned()
        .subs(&[sub_of("token", CREATE, (AUTHENTICATION, "v1", "TokenRequest"))]),
    namespaced("", "Service", "services").short(&["svc"]).all().at("services/specs").put_creates().returned()
        .named(NameRule::Label).subs(&[sub_of("proxy", PROXY, ("", "", "ServiceProxyOptions")), STATUS]),

    cluster("apiregistration.k8s.io", "APIService", "apiservices").extends_api().subs(WITH_STATUS)
        .at("apiregistration.k8s.io/apiservices").versioned_update().named(NameRule::Own),

    namespaced("apps", "ControllerRevision", "controllerrevisions"),
    namespaced("apps", "DaemonSet", "daemonsets").short(&["ds"]).all().subs(WITH_STATUS).generation(),
    namespaced("apps", "Deployment", "deployments").short(&["deploy"]).all().subs(WITH_SCALE).generation(),
    namespaced("apps", "ReplicaSet", "replicasets").short(&["rs"]).all().subs(WITH_SCALE).generation(),
    namespaced("apps", "StatefulSet", "statefulsets").short(&["sts"]).all().subs(WITH_SCALE).generation()
        .named(NameRule::Label),

    Resource { group: "events.k8s.io", ..EVENT },

    cluster(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews").verbs(CREATE),
    cluster(AUTHENTICATION, "TokenReview", "tokenreviews").verbs(CREATE),

    namespaced(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews").verbs(CREATE),
    cluster(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews").verbs(CREATE),
    cluster(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews").verbs(CREATE),
    cluster(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews").verbs(CREATE),

    Resource { version: "v2", ..HPA },
    HPA,

    namespaced("batch", "CronJob", "cronjobs").short(&["cj"]).all().subs(WITH_STATUS).generation(),
    namespaced("batch", "Job", "jobs").all().subs(WITH_STATUS).generation().orphans(),

    cluster("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests").short(&["csr"])
        .subs(&[sub("approval", EDIT), STATUS]).named(NameRule::PathSegment),

    cluster(NETWORKING, "IngressClass", "ingressclasses").generation(),
    namespaced(NETWORKING, "Ingress", "ingresses").short(&["ing"]).subs(WITH_STATUS).at("ingress").generation(),
    cluster(NETWORKING, "IPAddress", "ipaddresses").short(&["ip"]).named(NameRule::Own),
    namespaced(NETWORKING, "NetworkPolicy", "networkpolicies").short(&["netpol"]).generation(),
    cluster(NETWORKING, "ServiceCIDR", "servicecidrs").subs(WITH_STATUS),

    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).subs(WITH_STATUS)
        .generation().versioned_update(),

    cluster(RBAC, "ClusterRoleBinding", "clusterrolebindings").put_creates().named(NameRule::PathSegment),
    cluster(RBAC, "ClusterRole", "clusterroles").put_creates().named(NameRule::PathSegment),
    namespaced(RBAC, "RoleBinding", "rolebindings").put_creates().named(NameRule::PathSegment),
    namespaced(RBAC, "Role", "roles").put_creates().named(NameRule::PathSegment),

    cluster(STORAGE, "CSIDriver", "csidrivers").versioned_update().returned().named(NameRule::Own),
    cluster(STORAGE, "CSINode", "csinodes").versioned_update().returned(),
    namespaced(STORAGE, "CSIStorageCapacity", "csistoragecapacities").versioned_update(),
    cluster(STORAGE, "StorageClass", "storageclasses").short(&["sc"]).returned(),
    cluster(STORAGE, "VolumeAttachment", "volumeattachments").subs(WITH_STATUS).versioned_update().returned(),
    cluster(STORAGE, "VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]).returned(),

    cluster(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies").extends_api().generation().versioned_update(),
    cluster(ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").extends_api().generation()
        .versioned_update(),
    cluster(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations").extends_api().generation()
        .versioned_update(),
    cluster(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies").extends_api().subs(WITH_STATUS)
        .generation().versioned_update(),
    cluster(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").extends_api().generation()
        .versioned_update(),
    cluster(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations").extends_api().generation()
        .versioned_update(),

    cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions").short(&["crd", "crds"])
        .extends_api().subs(WITH_STATUS).at("apiextensions.k8s.io/customresourcedefinitions").generation()
        .versioned_update().named(NameRule::Own),

    cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses").short(&["pc"]).generation(),

    namespaced("coordination.k8s.io", "Lease", "leases").put_creates().versioned_update(),

    cluster("node.k8s.io", "RuntimeClass", "runtimeclasses").put_creates().versioned_update(),

    namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices").generation(),

    cluster(RESOURCE, "DeviceClass", "deviceclasses").generation().returned(),
    namespaced(RESOURCE, "ResourceClaim", "resourceclaims").subs(WITH_STATUS).returned(),
    namespaced(RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates").returned(),
    cluster(RESOURCE, "ResourceSlice", "resourceslices").generation().returned(),

    cluster(FLOWCONTROL, "FlowSchema", "flowschemas").subs(WITH_STATUS).generation(),
    cluster(FLOWCONTROL, "PriorityLevelConfiguration", "prioritylevelconfigurations").subs(WITH_STATUS).generation(),
];

const fn priority(
    group: &'static str,
    group_priority: i32,
    version_priority: i32,
) -> GroupPriority {
    GroupPriority { group, version: "v1", group_priority, version_priority }
}

static PRIORITIES: &[GroupPriority] = &[
    priority("apiregistration.k8s.io", 20000, 18),
    priority("", 18000, 1),
    priority("apps", 17800, 15),
    priority("events.k8s.io", 17750, 15),
    priority(AUTHENTICATION, 17700, 15),
    priority(AUTHORIZATION, 17600, 15),
    GroupPriority { version: "v2", ..priority("autoscaling", 17500, 30) },
    priority("autoscaling", 17500, 15),
    priority("batch", 17400, 15),
    priority("certificates.k8s.io", 17300, 15),
    priority(NETWORKING, 17200, 15),
    priority("policy", 17100, 15),
    priority(RBAC, 17000, 15),
    priority(STORAGE, 16800, 15),
    priority(ADMISSION, 16700, 15),
    priority("apiextensions.k8s.io", 16700, 15),
    priority("scheduling.k8s.io", 16600, 15),
    priority("coordination.k8s.io", 16500, 15),
    priority("node.k8s.io", 16300, 15),
    priority("discovery.k8s.io", 16200, 15),
    priority(RESOURCE, 16200, 21),
    priority(FLOWCONTROL, 16100, 21),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_unique_and_has_a_priority() {
        for (at, row) in RESOURCES.iter().enumerate() {
            let twin = RESOURCES[at + 1..]
                .iter()
                .any(|r| (r.group, r.version, r.plural) == (row.group, row.version, row.plural));
            assert!(!twin, "{row:?}");
            let ranked =
                PRIORITIES.iter().any(|p| (p.group, p.version) == (row.group, row.version));
            assert!(ranked, "{row:?}");
        }
    }

    #[test]
    fn rows_stand_in_discovery_order() {
        let place = |r: &Resource| {
            let at = PRIORITIES
                .iter()
                .position(|p| (p.group, p.version) == (r.group, r.version))
                .expect("every row has a priority");
            // The aggregator's own group ranks first but is listed after the core group.
            (if r.group.is_empty() { 0 } else { at + 1 }, r.plural)
        };
        let places: Vec<_> = RESOURCES.iter().map(place).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn storage_places_follow_kubernetes() {
        let cases = [
            ("", "ConfigMap", "/registry/configmaps"),
            ("", "Node", "/registry/minions"),
            ("", "Service", "/registry/services/specs"),
            ("events.k8s.io", "Event", "/registry/events"),
            ("networking.k8s.io", "Ingress", "/registry/ingress"),
        ];
        for (group, kind, place) in cases {
            assert_eq!(
                find_kind(group, kind).map(Resource::storage_prefix).as_deref(),
                Some(place)
            );
        }
    }

    #[test]
    fn hashes_name_the_stored_version() {
        let cases = [
            ("apps", "Deployment", "8aSe+NMegvE="),
            ("autoscaling", "HorizontalPodAutoscaler", "qwQve8ut294="),
            ("apiextensions.k8s.io", "CustomResourceDefinition", "jfWCUB31mvA="),
        ];
        for (group, kind, hash) in cases {
            let found = find_kind(group, kind).and_then(Resource::storage_version_hash);
            assert_eq!(found.as_deref(), Some(hash), "{kind}");
        }
        assert_eq!(find_kind("", "Binding").and_then(Resource::storage_version_hash), None);
    }
}
