//! What can be asked of a pod beside reading and writing it. Nothing runs here, so logs and
//! connections end in the errors of a cluster whose nodes cannot be reached.

use std::sync::Arc;

use http::StatusCode;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_kinds::subresource::{self, Eviction};

use crate::call::Call;
use crate::codec;
use crate::handlers::delete::{self, Outcome};
use crate::handlers::options::{DeleteOptions, Write, WriteOptions};
use crate::handlers::update::{self, Change};
use crate::handlers::{Answer, present, write};
use crate::http::body;
use crate::http::negotiate::Transforms;
use crate::registry::Served;

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// `pods/binding` and `bindings`: assigns a pod to a node.
pub(crate) async fn bind(call: &Arc<Call>, name: &str) -> Answer {
    call.negotiate(Transforms::None)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    let gvk = karmada_apimachinery::gvk::Gvk::new("", "v1", "Binding");
    let binding = codec::decode_as(call, &gvk, options.validation)?;
    bind_as(call, name, &binding).await
}

/// Binds a pod as the Binding that was read says.
pub(crate) async fn bind_as(call: &Arc<Call>, name: &str, binding: &Value) -> Answer {
    let form = call.negotiate(Transforms::None)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    subresource::check_binding(binding)?;
    let pods = pods(call)?;
    let call = &call.on(pods);
    let change = Change {
        subresource: "binding",
        options: &options,
        may_create: false,
        needs_version: false,
        check_uid: false,
        recorded: true,
    };
    let now = call.now();
    update::apply(call, name, &change, |old| {
        let Some(old) = old else {
            return Err(Status::not_found(&call.served.group_resource(), name));
        };
        let mut pod = old.clone();
        subresource::bind(&mut pod, binding, now)?;
        crate::managed::record_update(call, old, &mut pod, &options, "binding");
        Ok(pod)
    })
    .await?;
    present::encoded(StatusCode::CREATED, &success(), form)
}

fn pods(call: &Call) -> Result<Arc<Served>, Status> {
    let snapshot = call.state.registry.snapshot();
    snapshot.find("", "v1", "pods").cloned().ok_or_else(Status::no_such_resource)
}

/// `pods/eviction`: deletes a pod if no disruption budget forbids it.
pub(crate) async fn evict(call: &Arc<Call>) -> Answer {
    let form = call.negotiate(Transforms::None)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    let gvk = super::kind_of(call);
    let eviction = codec::decode_as(call, &gvk, options.validation)?;
    if eviction.name() != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut deletion =
        DeleteOptions::read(&call.query, eviction.get("deleteOptions").filter(|o| !o.is_null()))?;
    deletion.dry_run |= options.dry_run;
    let pod = write::load_existing(call, call.namespace(), call.name()).await?.value;
    let budgets = budgets(call);
    match subresource::evict(&pod, &budgets, call.now())? {
        Eviction::Allowed { guarded } => {
            if guarded && deletion.resource_version.is_none() {
                deletion.resource_version = Some(pod.resource_version().to_owned());
            }
        }
        Eviction::Counted { budget } => {
            if !deletion.dry_run {
                store_budget(call, budget).await?;
            }
        }
    }
    if !deletion.dry_run {
        deletion.resource_version = mark_evicted(call, deletion.resource_version).await?;
    }
    match delete::delete_object(call, call.name(), &deletion).await? {
        Outcome::Gone(_) | Outcome::Pending(_) => {
            present::encoded(StatusCode::CREATED, &success(), form)
        }
    }
}

/// Notes in the pod why it goes; returns the version to delete if one was asked for.
async fn mark_evicted(call: &Call, guarded: Option<String>) -> Result<Option<String>, Status> {
    let current = write::load_existing(call, call.namespace(), call.name()).await?;
    if guarded.as_deref().is_some_and(|version| version != current.value.resource_version()) {
        return Ok(guarded);
    }
    let mut pod = current.value.clone();
    subresource::mark_evicted(&mut pod, call.now());
    match write::replace(call, &current, pod).await? {
        write::Written::Stored(pod) => Ok(guarded.map(|_| pod.resource_version().to_owned())),
        write::Written::Raced => Ok(guarded),
    }
}

fn budgets(call: &Call) -> Vec<Value> {
    let resource = karmada_apimachinery::gvk::GroupResource::new("policy", "poddisruptionbudgets");
    let found = call.state.objects.list(&resource, Some(call.namespace()));
    found.iter().map(|budget| (**budget).clone()).collect()
}

async fn store_budget(call: &Call, budget: Value) -> Result<(), Status> {
    let snapshot = call.state.registry.snapshot();
    let served = snapshot.find("policy", "v1", "poddisruptionbudgets").cloned();
    let call = call.on(served.ok_or_else(Status::no_such_resource)?);
    let name = budget.name().to_owned();
    let current = write::load_existing(&call, call.namespace(), &name).await?;
    if current.value.resource_version() != budget.resource_version() {
        return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
    }
    write::replace(&call, &current, budget).await.map(|_| ())
}

/// `pods/log`: there is no node to ask.
pub(crate) async fn log(call: &Call) -> Answer {
    check_log_options(call)?;
    let pod = write::load_existing(call, call.namespace(), call.name()).await?.value;
    container(call, &pod)?;
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if node.is_empty() {
        let mut response = body::text(StatusCode::NO_CONTENT, "");
        response.headers_mut().remove(http::header::CONTENT_TYPE);
        return Ok(response.into());
    }
    Err(unreachable_node(call, node).await)
}

pub(super) fn check_log_options(call: &Call) -> Result<(), Status> {
    let mut errors = Vec::new();
    for (name, least) in [("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)] {
        let number = call.query.non_empty(name).and_then(|text| text.parse::<i64>().ok());
        if let Some(number) = number.filter(|number| *number < least) {
            let why = if least == 0 {
                "must be greater than or equal to 0"
            } else {
                "must be greater than 0"
            };
            errors.push(FieldError::invalid(&Path::new(name), number, why));
        }
    }
    let both = call.query.non_empty("sinceSeconds").is_some()
        && call.query.non_empty("sinceTime").is_some();
    if both {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&Path::new("[]"), why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: String::new(), kind: "PodLogOptions".into() };
    Err(Status::invalid(&kind, call.name(), &errors))
}

async fn unreachable_node(call: &Call, node: &str) -> Status {
    let resource = karmada_apimachinery::gvk::GroupResource::new("", "nodes");
    if !call.state.objects.exists(&resource, "", node) {
        return Status::not_found(&resource, node);
    }
    Status::internal(format!("no preferred addresses found; known addresses: [] of node {node}"))
}

/// The container a request is about, as Kubernetes picks it.
pub(super) fn container(call: &Call, pod: &Value) -> Result<String, Status> {
    let names = |field: &str| -> Vec<String> {
        let list = pod.list_at(&["spec", field]);
        list.iter().filter_map(|c| c.str_at(&["name"]).map(str::to_owned)).collect()
    };
    let (main, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let asked = call.query.get("container").unwrap_or_default();
    if asked.is_empty() {
        let default = pod.annotation("kubectl.kubernetes.io/default-container").unwrap_or_default();
        if main.iter().any(|name| name == default) {
            return Ok(default.to_owned());
        }
        if main.len() == 1 && init.is_empty() && ephemeral.is_empty() {
            return Ok(main[0].clone());
        }
        let mut message = format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            pod.name(),
            main.join(" ")
        );
        if !init.is_empty() {
            message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
        }
        if !ephemeral.is_empty() {
            message.push_str(&format!(
                " or one of the ephemeral containers: [{}]",
                ephemeral.join(" ")
            ));
        }
        return Err(Status::bad_request(message));
    }
    if main.iter().chain(&init).chain(&ephemeral).any(|name| name == asked) {
        return Ok(asked.to_owned());
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {}", pod.name())))
}

/// `exec`, `attach`, `portforward` and `proxy`: there is nothing to connect to.
pub(crate) async fn connect(call: &Call) -> Answer {
    let object = write::load_existing(call, call.namespace(), call.name()).await?.value;
    if call.served.gvk.kind != "Pod" {
        return Err(Status::unavailable("no endpoints available for service"));
    }
    container(call, &object)?;
    match object.str_at(&["spec", "nodeName"]).unwrap_or_default() {
        "" => {
            Err(Status::bad_request(format!("pod {} does not have a host assigned", call.name())))
        }
        node => Err(unreachable_node(call, node).await),
    }
}
