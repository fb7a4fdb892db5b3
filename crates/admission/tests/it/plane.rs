//! A stand-in for the API server around the admission functions: it keeps objects in a map and puts writes
//! through shape, defaults, hooks and schema in the order in which a real one does.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use karmada_admission::{
    Admitted, Environment, Operation, Request, cluster, convert, mutate, registry, validate,
};
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::crd;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_api::search::ResourceRegistry;
use karmada_apimachinery::crd::{CustomResource, NoRules, default, drop_nulls, prune};
use karmada_apimachinery::gvk::{GroupKind, GroupResource, Gvk, Gvr};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};

const NOW: &str = "2026-01-02T03:04:05Z";

/// Where a request goes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) writes_status: bool,
    pub(crate) dry_run: bool,
    pub(crate) query: String,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut resource = parts.next()?;
        let mut namespace = "";
        if resource == "namespaces" {
            namespace = parts.next()?;
            resource = parts.next()?;
        }
        let name = parts.next().unwrap_or_default();
        let writes_status = match parts.next() {
            None => false,
            Some("status") if parts.next().is_none() => true,
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            writes_status,
            dry_run: query.contains("dryRun=All"),
            query: query.to_owned(),
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{}/{}/{name}", self.group, self.resource, self.namespace)
    }

    fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }
}

pub(crate) struct Plane {
    gates: Gates,
    allow_no_execute_taints: bool,
    objects: BTreeMap<String, Value>,
    last_id: Cell<u32>,
}

impl Environment for Plane {
    fn gates(&self) -> &Gates {
        &self.gates
    }
    fn allows_no_execute_taints(&self) -> bool {
        self.allow_no_execute_taints
    }
    fn new_id(&self) -> String {
        self.last_id.set(self.last_id.get() + 1);
        format!("00000000-0000-4000-8000-{:012}", self.last_id.get())
    }
    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        self.typed("config.karmada.io/resourceinterpretercustomizations/")
    }
    fn quotas(&self, namespace: &str) -> Vec<FederatedResourceQuota> {
        self.typed(&format!("policy.karmada.io/federatedresourcequotas/{namespace}/"))
    }
}

impl Plane {
    pub(crate) fn new(all_gates: bool) -> Self {
        let gates = if all_gates { "AllAlpha=true,AllBeta=true" } else { "" };
        let mut plane = Self {
            gates: Gates::parse(gates).unwrap(),
            allow_no_execute_taints: all_gates,
            objects: BTreeMap::new(),
            last_id: Cell::new(0),
        };
        plane.join_member();
        plane
    }

    /// The cases that change a cluster change this one.
    fn join_member(&mut self) {
        let secret = |name: &str| json!({"namespace": "karmada-cluster", "name": name});
        let mut member: karmada_api::cluster::Cluster = karmada_apimachinery::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "member1", "uid": self.new_id(), "resourceVersion": "1"},
            "spec": {
                "id": self.new_id(), "syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1",
                "secretRef": secret("member1"), "impersonatorSecretRef": secret("member1-impersonator"),
                "provider": "p1", "region": "r1", "zones": ["z1"],
            },
        }))
        .unwrap();
        cluster::prepare_create(&mut member, &self.gates);
        self.objects
            .insert("cluster.karmada.io/clusters//member1".to_owned(), cluster::encode(&member));
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, prefix: &str) -> Vec<T> {
        self.objects
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(_, object)| karmada_apimachinery::from_value(object.clone()).unwrap())
            .collect()
    }

    /// Answers a request with code and body.
    pub(crate) fn answer(&mut self, method: &str, target: &Target, body: &Value) -> (u16, Value) {
        let answered = match method {
            "POST" => self.create(target, body.clone()).map(|object| (201, object)),
            "PATCH" | "PUT" => self.update(method, target, body).map(|object| (200, object)),
            "DELETE" => self.delete(target).map(|status| (200, status)),
            _ => self.get(target).map(|object| (200, object)),
        };
        answered.unwrap_or_else(|status| (status.code, status.to_value()))
    }

    fn get(&self, target: &Target) -> Result<Value, Status> {
        if target.name.is_empty() {
            let kind = crd::find(&format!("{}.{}", target.resource, target.group))
                .and_then(|crd| crd.object.str_at(&["spec", "names", "listKind"]))
                .unwrap_or_default();
            let api_version = format!("{}/{}", target.group, target.version);
            return Ok(json!({"apiVersion": api_version, "kind": kind}));
        }
        let stored = self.stored(target)?;
        convert::convert(stored, &api_version(target)).map_err(Status::internal)
    }

    fn stored(&self, target: &Target) -> Result<&Value, Status> {
        self.objects
            .get(&target.key(&target.name))
            .ok_or_else(|| Status::not_found(&target.group_resource(), &target.name))
    }

    fn create(&mut self, target: &Target, mut object: Value) -> Result<Value, Status> {
        if !target.namespace.is_empty() {
            object.set_default(&["metadata", "namespace"], &*target.namespace);
        }
        let key = target.key(object.name());
        if self.objects.contains_key(&key) {
            return Err(Status::already_exists(&target.group_resource(), object.name()));
        }
        let mut created = self.admit(target, Operation::Create, object, Value::Null)?;
        created.set(&["metadata", "creationTimestamp"], NOW);
        created.set(&["metadata", "uid"], self.new_id());
        if !target.dry_run {
            created.set(&["metadata", "resourceVersion"], "1");
            self.objects.insert(key, created.clone());
        }
        Ok(created)
    }

    fn update(&mut self, method: &str, target: &Target, body: &Value) -> Result<Value, Status> {
        let old = self.stored(target)?.clone();
        let new = match method {
            "PUT" => body.clone(),
            _ => merge::apply(&old, body)?,
        };
        let updated = if target.writes_status {
            let mut updated = old.clone();
            updated.set(&["status"], new["status"].clone());
            updated
        } else {
            self.admit(target, Operation::Update, new, old)?
        };
        if !target.dry_run {
            self.objects.insert(target.key(&target.name), updated.clone());
        }
        Ok(updated)
    }

    fn delete(&mut self, target: &Target) -> Result<Value, Status> {
        if target.name.is_empty() {
            return self.delete_collection(target);
        }
        let old = self.stored(target)?.clone();
        validate(&self.request(target, Operation::Delete, Value::Null, old.clone()), self)?;
        self.objects.remove(&target.key(&target.name));
        Ok(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"kind": target.resource, "name": target.name, "uid": old.uid()},
        }))
    }

    fn delete_collection(&mut self, target: &Target) -> Result<Value, Status> {
        let prefix = target.key("");
        let names: Vec<String> = self
            .objects
            .keys()
            .filter_map(|key| key.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect();
        for name in names {
            self.delete(&Target { name, ..target.clone() })?;
        }
        Ok(json!({"kind": "Status"}))
    }

    fn request(
        &self,
        target: &Target,
        operation: Operation,
        object: Value,
        old_object: Value,
    ) -> Request<'static> {
        let shown = if object.is_null() { &old_object } else { &object };
        Request {
            kind: Gvk::new(&*target.group, &*target.version, shown.kind()),
            resource: Gvr::new(&*target.group, &*target.version, &*target.resource),
            subresource: String::new(),
            name: shown.name().to_owned(),
            namespace: target.namespace.clone(),
            operation,
            object: Cow::Owned(object),
            old_object: Cow::Owned(old_object),
            dry_run: target.dry_run,
        }
    }

    fn admit(
        &self,
        target: &Target,
        operation: Operation,
        object: Value,
        old: Value,
    ) -> Result<Value, Status> {
        match &*target.group {
            "cluster.karmada.io" => return self.admit_cluster(operation, &object, &old),
            "search.karmada.io" => return admit_registry(&object),
            _ => {}
        }
        let Some(definition) = crd::find(&format!("{}.{}", target.resource, target.group)) else {
            return Ok(object);
        };
        let resource = CustomResource::compile(&definition.object, &target.version).unwrap();
        self.admit_custom(&resource, target, operation, object, old)
    }

    fn admit_custom(
        &self,
        resource: &CustomResource,
        target: &Target,
        operation: Operation,
        mut object: Value,
        old: Value,
    ) -> Result<Value, Status> {
        let schema = &resource.schema;
        prune(&mut object, schema);
        drop_nulls(&mut object, schema);
        default(&mut object, schema);
        let request = self.request(target, operation, object, old.clone());
        let Admitted { object, .. } = mutate(&request, self)?;
        let mut object = object.unwrap_or_else(|| request.object.into_owned());
        default(&mut object, schema);
        let errors = match operation {
            Operation::Create => {
                resource.prepare_create(&mut object);
                resource.validate_create(&object, &NoRules)
            }
            _ => {
                resource.prepare_update(&mut object, &old);
                resource.validate_update(&object, &old, &NoRules)
            }
        };
        if !errors.is_empty() {
            let kind = GroupKind { group: resource.group.clone(), kind: resource.kind.clone() };
            return Err(Status::invalid(&kind, object.name(), &errors));
        }
        validate(&self.request(target, operation, object.clone(), old), self)?;
        drop_nulls(&mut object, schema);
        Ok(object)
    }

    fn admit_cluster(
        &self,
        operation: Operation,
        object: &Value,
        old: &Value,
    ) -> Result<Value, Status> {
        let mut new = cluster::decode(object).map_err(Status::bad_request)?;
        let errors = if operation == Operation::Create {
            cluster::prepare_create(&mut new, &self.gates);
            cluster::validate_create(&new)
        } else {
            let old = cluster::decode(old).map_err(Status::bad_request)?;
            cluster::prepare_update(&mut new, &old, &self.gates);
            cluster::validate_update(&new, &old)
        };
        if !errors.is_empty() {
            let kind = GroupKind { group: "cluster.karmada.io".into(), kind: "Cluster".into() };
            return Err(Status::invalid(&kind, object.name(), &errors));
        }
        cluster::canonicalize(&mut new, NOW.parse().unwrap());
        Ok(cluster::encode(&new))
    }
}

fn admit_registry(object: &Value) -> Result<Value, Status> {
    let new: ResourceRegistry = karmada_apimachinery::from_value(object.clone()).unwrap();
    let errors = registry::validate_create(&new);
    if errors.is_empty() {
        return Ok(karmada_apimachinery::to_value(new).unwrap());
    }
    let kind = GroupKind { group: "search.karmada.io".into(), kind: "ResourceRegistry".into() };
    Err(Status::invalid(&kind, object.name(), &errors))
}

fn api_version(target: &Target) -> String {
    if target.group.is_empty() {
        target.version.clone()
    } else {
        format!("{}/{}", target.group, target.version)
    }
}
