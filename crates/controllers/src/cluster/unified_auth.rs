//! Whoever may reach through to a member by `clusters/proxy` arrives there impersonated, so the
//! member has to let the impersonator act for exactly these subjects. A ClusterRole and its
//! binding are sent to the member as Works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::meta::Kind as _;
use karmada_api::work::Work;
use karmada_api::{annotations, event_reason, finalizers, labels, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Change, Informer, ObjectKey, Recorder};

use crate::context::Context;

const RBAC: &str = "rbac.authorization.k8s.io";
/// How long an execution namespace may take.
const RECHECK: Duration = Duration::from_millis(200);
/// ClusterRoleBindings by the role they grant.
const BY_ROLE: &str = "unified-auth/role";
/// ClusterRoles by the clusters they let through to; [`ALL`] for those that name none.
const BY_REACH: &str = "unified-auth/reach";
/// No cluster has this name.
const ALL: &str = "*";

#[derive(Debug, thiserror::Error)]
#[error("sync the impersonation config of {cluster}")]
struct Error {
    cluster: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    events: Recorder,
    clusters: Arc<Informer>,
    roles: Arc<Informer>,
    bindings: Arc<Informer>,
    works: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let clusters = super::informer(&context.informers);
    let roles = context.informers.all(&Gvr::new(RBAC, "v1", "clusterroles"));
    let bindings = context.informers.all(&Gvr::new(RBAC, "v1", "clusterrolebindings"));
    let works = context.informers.all(&works_gvr());
    bindings.cache().add_index(BY_ROLE, |binding| vec![role_of(binding)]);
    roles.cache().add_index(BY_REACH, |role| match reach_of(role) {
        Reach::None => Vec::new(),
        Reach::Some(clusters) => clusters.into_iter().collect(),
        Reach::All => vec![ALL.to_owned()],
    });
    let controller = context.controller("unified-auth-controller");
    let queue = controller.queue().clone();
    context.keep(clusters.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        if old.as_ref().is_none_or(|old| old.meta().generation != new.meta().generation) {
            queue.add(ObjectKey::of(new));
        }
    }));
    let (queue, known) = (controller.queue().clone(), clusters.clone());
    context.keep(roles.subscribe(move |change| {
        let old = match change {
            Change::Applied { old, .. } => old.as_ref(),
            Change::Deleted(_) => None,
        };
        let reach = reach_of(change.object()).and(old.map(|old| reach_of(old)).unwrap_or_default());
        reach.add_to(&queue, &known);
    }));
    let (queue, known, granted) = (controller.queue().clone(), clusters.clone(), roles.clone());
    context.keep(bindings.subscribe(move |change| {
        let role = ObjectKey::cluster(role_of(change.object()));
        if let Some(role) = granted.cache().get(&role) {
            reach_of(&role).add_to(&queue, &known);
        }
    }));
    let inputs = vec![clusters.clone(), roles.clone(), bindings.clone(), works.clone()];
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        events: context.recorder("unified-auth-controller"),
        clusters,
        roles,
        bindings,
        works,
    });
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

fn works_gvr() -> Gvr {
    Gvr::new(Work::GROUP, Work::VERSION, Work::PLURAL)
}

/// The ClusterRole a binding grants.
fn role_of(binding: &Object) -> String {
    binding.value().str_at(&["roleRef", "name"]).unwrap_or_default().to_owned()
}

/// Which clusters a role lets through to.
#[derive(Debug, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    None,
    Some(BTreeSet<String>),
    All,
}

impl Reach {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, reach) | (reach, Self::None) => reach,
            (Self::Some(mut one), Self::Some(mut more)) => {
                one.append(&mut more);
                Self::Some(one)
            }
        }
    }

    fn add_to(&self, queue: &karmada_runtime::Queue<ObjectKey>, clusters: &Informer) {
        match self {
            Self::None => {}
            Self::Some(names) => names.iter().for_each(|name| queue.add(ObjectKey::cluster(name))),
            Self::All => clusters.cache().keys().into_iter().for_each(|key| queue.add(key)),
        }
    }
}

fn reach_of(role: &Object) -> Reach {
    let role = role.value();
    role.list_at(&["rules"]).iter().map(reach_of_rule).fold(Reach::None, Reach::and)
}

fn reach_of_rule(rule: &Value) -> Reach {
    let names = |field: &str, wanted: &str| {
        let mut listed = rule.list_at(&[field]).iter().filter_map(Value::as_str);
        listed.any(|name| name == wanted || name == "*")
    };
    if names("apiGroups", "search.karmada.io") && names("resources", "proxying/proxy") {
        return Reach::All;
    }
    if !names("apiGroups", "cluster.karmada.io") || !names("resources", "clusters/proxy") {
        return Reach::None;
    }
    let only = rule.list_at(&["resourceNames"]).iter().filter_map(Value::as_str);
    let only: BTreeSet<String> = only.map(str::to_owned).collect();
    if only.is_empty() { Reach::All } else { Reach::Some(only) }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.clusters.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let Ok(cluster) = object.typed::<Cluster>() else { return Ok(Action::AwaitChange) };
    let Some(secret) = cluster.spec.impersonator_secret_ref.as_ref() else {
        return Ok(Action::AwaitChange);
    };
    if object.is_being_deleted() {
        return Ok(Action::AwaitChange);
    }
    let mut written = false;
    for manifest in [role(&rules(&key.name, &ctx)), binding(&secret.namespace)] {
        match send(&object, manifest, &ctx).await {
            Ok(changed) => written |= changed,
            // The execution namespace comes a moment after the cluster.
            Err(error) if error.is_not_found() => return Ok(Action::Requeue(RECHECK)),
            Err(source) => {
                let reason = event_reason::SYNC_IMPERSONATION_CONFIG_FAILED;
                ctx.events.warning(&*object, reason, source.to_string());
                return Err(Error { cluster: key.name.into(), source });
            }
        }
    }
    if written {
        let reason = event_reason::SYNC_IMPERSONATION_CONFIG_SUCCEED;
        ctx.events.normal(&*object, reason, "Sync impersonation config succeed.");
    }
    Ok(Action::AwaitChange)
}

/// What the impersonator may do in the cluster.
fn rules(cluster: &str, ctx: &Ctx) -> Vec<Value> {
    let mut subjects: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let roles = [ALL, cluster].map(|reach| ctx.roles.cache().by_index(BY_REACH, reach));
    for role in roles.iter().flatten() {
        for binding in ctx.bindings.cache().by_index(BY_ROLE, role.name()) {
            for subject in binding.value().list_at(&["subjects"]) {
                let resource = match subject.str_at(&["kind"]) {
                    Some("User") => "users",
                    Some("ServiceAccount") => "serviceaccounts",
                    Some("Group") => "groups",
                    _ => continue,
                };
                let name = subject.str_at(&["name"]).unwrap_or_default().to_owned();
                subjects.entry(resource).or_default().insert(name);
            }
        }
    }
    let rule = |resource: &str| {
        let names = subjects.get(resource)?;
        Some(json!({
            "verbs": ["impersonate"],
            "apiGroups": [""],
            "resources": [resource],
            "resourceNames": names,
        }))
    };
    ["users", "serviceaccounts", "groups"].into_iter().filter_map(rule).collect()
}

fn role(rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": names::IMPERSONATOR, "labels": {labels::SYSTEM: labels::TRUE}},
        "rules": rules,
    })
}

fn binding(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": names::IMPERSONATOR, "labels": {labels::SYSTEM: labels::TRUE}},
        "subjects": [{
            "kind": "ServiceAccount", "name": names::IMPERSONATOR, "namespace": namespace,
        }],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": names::IMPERSONATOR},
    })
}

/// Makes the Work say `manifest`; returns whether that took a write.
async fn send(cluster: &Object, manifest: Value, ctx: &Ctx) -> Result<bool, karmada_client::Error> {
    let space = names::execution_space(cluster.name());
    let name = names::work(manifest.kind(), manifest.name(), "");
    let api = ctx.client.api(&works_gvr()).namespaced(&space);
    let Some(existing) = ctx.works.cache().get(&ObjectKey::new(space.as_str(), name.as_str()))
    else {
        return match api.create(&work(cluster, &space, &name, manifest)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        };
    };
    let mut work = existing.value();
    let stored = work.list_at_mut(&["spec", "workload", "manifests"]);
    let Some(stored) = stored.first_mut() else { return Ok(false) };
    let before = stored.clone();
    // Marks that admission put on the manifest stay.
    for field in ["rules", "subjects", "roleRef"] {
        if let Some(wanted) = manifest.get(field) {
            stored.set(&[field], wanted.clone());
        }
    }
    if *stored == before || existing.is_being_deleted() {
        return Ok(false);
    }
    api.update(&work).await.map(|_| true)
}

fn work(cluster: &Object, space: &str, name: &str, mut manifest: Value) -> Value {
    manifest.set(&["metadata", "labels", labels::MANAGED], labels::TRUE);
    manifest.set(&["metadata", "annotations", annotations::WORK_NAME], name);
    manifest.set(&["metadata", "annotations", annotations::WORK_NAMESPACE], space);
    manifest.set(&["metadata", "annotations", annotations::TEMPLATE_UID], "");
    json!({
        "apiVersion": Work::api_version(),
        "kind": Work::KIND,
        "metadata": {
            "name": name,
            "namespace": space,
            "finalizers": [finalizers::EXECUTION],
            "ownerReferences": [{
                "apiVersion": Cluster::api_version(),
                "kind": Cluster::KIND,
                "name": cluster.name(),
                "uid": cluster.uid(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"workload": {"manifests": [manifest]}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reaches_the_clusters_it_names_or_all() {
        let some = |names: &[&str]| Reach::Some(names.iter().map(|n| (*n).to_owned()).collect());
        let cases = [
            (
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"]}),
                Reach::All,
            ),
            (json!({"apiGroups": ["*"], "resources": ["*"]}), Reach::All),
            (
                json!({"apiGroups": ["search.karmada.io"], "resources": ["proxying/proxy"]}),
                Reach::All,
            ),
            (json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"]}), Reach::None),
            (json!({"apiGroups": ["apps"], "resources": ["clusters/proxy"]}), Reach::None),
            (
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "resourceNames": ["m2", "m1"]}),
                some(&["m1", "m2"]),
            ),
        ];
        for (rule, expected) in cases {
            assert_eq!(reach_of_rule(&rule), expected, "{rule}");
        }
        assert_eq!(some(&["a"]).and(some(&["b"])), some(&["a", "b"]));
    }
}
