//! RBAC over the stored roles and bindings, indexed by subject: a request looks only at the bindings
//! that name its user or one of its groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt;
use karmada_handover::Seen;
use parking_lot::RwLock;

use super::rule::Rule;
use super::{Attributes, Authorizer, Decision, Identity, Objects, service_account};

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Group whose members pass every check.
pub const MASTERS: &str = "system:masters";

/// The four kinds RBAC is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl Kind {
    pub const ALL: [Self; 4] =
        [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    pub fn from_resource(resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    pub fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    pub fn group_resource(self) -> GroupResource {
        GroupResource::new(GROUP, self.resource())
    }
}

/// What a binding points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

impl RoleRef {
    pub fn of(binding: &Value) -> Self {
        let part = |key| binding.str_at(&["roleRef", key]).unwrap_or_default().to_owned();
        Self { api_group: part("apiGroup"), kind: part("kind"), name: part("name") }
    }
}

#[derive(Debug)]
struct Binding {
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    name: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    kind: SubjectKind,
    /// The user or group name; for a service account its full user name.
    name: String,
    /// How messages show it.
    shown: String,
}

#[derive(Debug, PartialEq, Eq)]
enum SubjectKind {
    User,
    Group,
}

impl Subject {
    /// Reads a subject; one that can never match reads as absent.
    fn read(value: &Value, binding_namespace: &str) -> Option<Self> {
        let name = value.str_at(&["name"])?;
        let kind_text = value.str_at(&["kind"])?;
        let (kind, full, shown) = match kind_text {
            "User" => (SubjectKind::User, name.to_owned(), name.to_owned()),
            "Group" => (SubjectKind::Group, name.to_owned(), name.to_owned()),
            "ServiceAccount" => {
                let own = value.str_at(&["namespace"]).filter(|own| !own.is_empty());
                let namespace = own.unwrap_or(binding_namespace);
                if namespace.is_empty() {
                    return None;
                }
                let full = service_account::user_name(namespace, name);
                (SubjectKind::User, full, format!("{name}/{namespace}"))
            }
            _ => return None,
        };
        Some(Self { kind, name: full, shown: format!("{kind_text} {}", quote(&shown)) })
    }

    fn is(&self, user: &Identity) -> bool {
        match self.kind {
            SubjectKind::User => self.name == user.user,
            SubjectKind::Group => user.is_in(&self.name),
        }
    }
}

impl Binding {
    fn read(object: &Value) -> Self {
        let namespace = object.namespace().to_owned();
        let subjects = object.list_at(&["subjects"]);
        Self {
            subjects: subjects.iter().filter_map(|s| Subject::read(s, &namespace)).collect(),
            namespace,
            name: object.name().to_owned(),
            role: RoleRef::of(object),
        }
    }

    /// Says through which binding a rule reached the user.
    fn describe(&self, user: &Identity) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let subject = self.subjects.iter().find(|subject| subject.is(user));
        format!(
            "{kind} {} of {} {} to {}",
            quote(&name),
            self.role.kind,
            quote(&self.role.name),
            subject.map_or("", |subject| &subject.shown)
        )
    }
}

/// A role that a binding names cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unresolved {
    NotFound { resource: &'static str, name: String },
    UnsupportedKind(String),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Compat: authorization speaks of the singular here.
            Self::NotFound { resource, name } => {
                let singular = resource.trim_end_matches('s');
                write!(f, "{singular}.{GROUP} {} not found", quote(name))
            }
            Self::UnsupportedKind(kind) => {
                write!(f, "unsupported role reference kind: {}", quote(kind))
            }
        }
    }
}

type ByNamespace = HashMap<String, Vec<Arc<Binding>>>;

#[derive(Default)]
struct State {
    /// Rules by namespace (empty for cluster roles) and name.
    roles: HashMap<(String, String), Arc<[Rule]>>,
    bindings: HashMap<(String, String), Arc<Binding>>,
    users: HashMap<String, ByNamespace>,
    groups: HashMap<String, ByNamespace>,
}

impl State {
    fn put(&mut self, kind: Kind, object: &Value) {
        let key = (object.namespace().to_owned(), object.name().to_owned());
        match kind {
            Kind::Role | Kind::ClusterRole => {
                // The servers of a process have most of their roles in common.
                static KNOWN: LazyLock<Seen<[Rule]>> = LazyLock::new(Seen::default);
                self.roles.insert(key, KNOWN.share_list(Rule::all_of(object)));
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                self.unbind(&key);
                let binding = Arc::new(Binding::read(object));
                for subject in &binding.subjects {
                    self.index(&subject.kind)
                        .entry(subject.name.clone())
                        .or_default()
                        .entry(key.0.clone())
                        .or_default()
                        .push(binding.clone());
                }
                self.bindings.insert(key, binding);
            }
        }
    }

    fn unbind(&mut self, key: &(String, String)) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for subject in &binding.subjects {
            let index = self.index(&subject.kind);
            let Some(namespaces) = index.get_mut(&subject.name) else { continue };
            if let Some(bindings) = namespaces.get_mut(&key.0) {
                bindings.retain(|other| !Arc::ptr_eq(other, &binding));
                if bindings.is_empty() {
                    namespaces.remove(&key.0);
                }
            }
            if namespaces.is_empty() {
                index.remove(&subject.name);
            }
        }
    }

    fn index(&mut self, kind: &SubjectKind) -> &mut HashMap<String, ByNamespace> {
        match kind {
            SubjectKind::User => &mut self.users,
            SubjectKind::Group => &mut self.groups,
        }
    }

    /// The bindings of a user in one namespace (empty: the cluster-wide ones), each once, by name.
    fn bindings_of(&self, user: &Identity, namespace: &str) -> BTreeMap<&str, &Arc<Binding>> {
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        self.users
            .get(&user.user)
            .into_iter()
            .chain(of_groups)
            .filter_map(|namespaces| namespaces.get(namespace))
            .flatten()
            .map(|binding| (binding.name.as_str(), binding))
            .collect()
    }

    fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[Rule]>, Unresolved> {
        let (resource, namespace) = match role.kind.as_str() {
            "Role" => (Kind::Role.resource(), namespace),
            "ClusterRole" => (Kind::ClusterRole.resource(), ""),
            other => return Err(Unresolved::UnsupportedKind(other.to_owned())),
        };
        // Cluster roles are kept under the empty namespace; a Role is never looked for there.
        if role.kind == "Role" && namespace.is_empty() {
            return Err(Unresolved::NotFound { resource, name: role.name.clone() });
        }
        let key = (namespace.to_owned(), role.name.clone());
        let missing = || Unresolved::NotFound { resource, name: role.name.clone() };
        self.roles.get(&key).cloned().ok_or_else(missing)
    }

    /// Every binding that concerns the user in the namespace with its rules, cluster-wide ones first.
    fn grants<'a>(
        &'a self,
        user: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Binding, Result<Arc<[Rule]>, Unresolved>)> {
        let local =
            if namespace.is_empty() { BTreeMap::new() } else { self.bindings_of(user, namespace) };
        self.bindings_of(user, "")
            .into_values()
            .chain(local.into_values())
            .map(|binding| (&**binding, self.rules_of(&binding.role, &binding.namespace)))
    }
}

/// The RBAC authorizer. It is told of every change to the four kinds and answers from memory.
#[derive(Default)]
pub struct Rbac {
    state: RwLock<State>,
}

impl Rbac {
    /// Takes over everything stored; used at start and in tests.
    pub fn load(&self, objects: &dyn Objects) {
        let mut fresh = State::default();
        for kind in Kind::ALL {
            for object in objects.read(&kind.group_resource(), None) {
                fresh.put(kind, &object);
            }
        }
        *self.state.write() = fresh;
    }

    /// Takes note of a created or changed object.
    pub fn put(&self, kind: Kind, object: &Value) {
        self.state.write().put(kind, object);
    }

    /// Takes note of a removed object.
    pub fn remove(&self, kind: Kind, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut state = self.state.write();
        match kind {
            Kind::Role | Kind::ClusterRole => {
                state.roles.remove(&key);
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => state.unbind(&key),
        }
    }

    /// Every rule that holds for the user in the namespace, and the roles that could not be found.
    pub fn rules_for(&self, user: &Identity, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        let state = self.state.read();
        let (mut rules, mut unresolved) = (Vec::new(), Vec::new());
        for (_, granted) in state.grants(user, namespace) {
            match granted {
                Ok(granted) => rules.extend(granted.iter().cloned()),
                Err(error) => unresolved.push(error),
            }
        }
        (rules, unresolved)
    }

    /// The rules behind a role reference of a binding in `namespace`.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[Rule]>, Unresolved> {
        self.state.read().rules_of(role, namespace)
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        let state = self.state.read();
        let user = &attributes.user;
        let mut unresolved = BTreeSet::new();
        for (binding, granted) in state.grants(user, &attributes.namespace) {
            match granted {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    let why = binding.describe(user);
                    return Decision::allow(format!("RBAC: allowed by {why}"));
                }
                Ok(_) => {}
                Err(error) => {
                    unresolved.insert(error);
                }
            }
        }
        Decision::no_opinion(match join(&unresolved) {
            None => String::new(),
            Some(errors) => format!("RBAC: {errors}"),
        })
    }
}

/// Joins errors as Kubernetes' aggregate does; nothing for none.
pub(super) fn join<'a, E: fmt::Display + 'a>(
    errors: impl IntoIterator<Item = &'a E>,
) -> Option<String> {
    let mut texts: Vec<String> = errors.into_iter().map(ToString::to_string).collect();
    texts.dedup();
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;
    use proptest::prelude::*;

    /// One change: of which binding, and its new subjects (none removes it).
    type Change = (u8, Option<Vec<u8>>);

    fn binding(number: u8, subjects: &[u8]) -> Value {
        let subjects: Vec<Value> = subjects
            .iter()
            .map(|subject| match subject % 3 {
                0 => json!({"kind": "User", "name": format!("u{subject}")}),
                1 => json!({"kind": "Group", "name": format!("g{subject}")}),
                _ => json!({"kind": "ServiceAccount", "name": format!("s{subject}"), "namespace": "n"}),
            })
            .collect();
        json!({"metadata": {"name": format!("b{number}"), "namespace": "n"}, "subjects": subjects,
            "roleRef": {"kind": "Role", "name": format!("r{number}")}})
    }

    fn index_of(rbac: &Rbac) -> BTreeSet<String> {
        let state = rbac.state.read();
        let mut lines = BTreeSet::new();
        for (kind, index) in [("user", &state.users), ("group", &state.groups)] {
            for (name, namespaces) in index {
                for (namespace, bindings) in namespaces {
                    for binding in bindings {
                        lines.insert(format!(
                            "{kind} {name} {namespace} {} {}",
                            binding.name, binding.role.name
                        ));
                    }
                }
            }
        }
        lines
    }

    proptest! {
        #[test]
        fn the_index_after_any_changes_is_that_of_what_is_left(
            changes in proptest::collection::vec(
                (0_u8..4, proptest::option::of(proptest::collection::vec(0_u8..6, 0..4))),
                0..20,
            ),
        ) {
            let rbac = Rbac::default();
            let mut left: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
            let changes: Vec<Change> = changes;
            for (number, subjects) in changes {
                match subjects {
                    Some(subjects) => {
                        rbac.put(Kind::RoleBinding, &binding(number, &subjects));
                        left.insert(number, subjects);
                    }
                    None => {
                        rbac.remove(Kind::RoleBinding, "n", &format!("b{number}"));
                        left.remove(&number);
                    }
                }
            }
            let fresh = Rbac::default();
            for (number, subjects) in &left {
                fresh.put(Kind::RoleBinding, &binding(*number, subjects));
            }
            prop_assert_eq!(index_of(&rbac), index_of(&fresh));
            let empty = |rbac: &Rbac| rbac.state.read().users.is_empty();
            prop_assert_eq!(empty(&rbac), empty(&fresh), "nothing is left behind");
        }
    }
}
