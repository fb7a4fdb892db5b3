//! The way to a registered connector: what is checked before a connection is handed over.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;

use super::pod;
use crate::admission;
use crate::admission::Operation;
use crate::call::{Call, Sent};
use crate::connect::{Connect, Connection, Reach, rest_of};
use crate::handlers::{Answer, write};
use crate::http::body::{self, Body};
use crate::http::respond;
use crate::registry::{Served, Source};
use crate::service::Arrived;
use crate::state::State;

/// Checks and admits a connection and lets the connector answer it.
pub(crate) async fn connect(
    state: &Arc<State>,
    arrived: Arrived,
    served: Arc<Served>,
    body: Body,
    (connector, reach): (Arc<dyn Connect>, Reach),
) -> Answer {
    let Arrived { parts, query, target, user, record, .. } = arrived;
    let head = (target, query, parts.headers.clone());
    let nothing = (Sent::Text(Bytes::new()), false);
    let call = Call::new(state.clone(), head, (user.clone(), record), served, nothing);
    let object = find_object(&call).await?;
    let mut container = String::new();
    if let Some(pod) = object.as_ref().filter(|_| is_pod(&call)) {
        match check_pod(&call, pod)? {
            Some(name) => container = name,
            None => return Ok(no_content().into()),
        }
    }
    admit(&call).await?;
    let connection = Connection {
        user,
        namespace: call.namespace().to_owned(),
        name: call.name().to_owned(),
        subresource: call.target.subresource.to_string(),
        rest: rest(&call, reach).to_owned(),
        object,
        container,
        request: Request::from_parts(parts, body),
    };
    let mut response = connector.connect(connection).await?;
    respond::add_warnings(response.headers_mut(), &call.take_warnings());
    Ok(response.into())
}

async fn find_object(call: &Call) -> Result<Option<Value>, Status> {
    if call.served.storage.is_none() {
        return Ok(None);
    }
    let found = write::load(call, call.namespace(), call.name()).await?;
    if found.is_none() && call.served.source != Source::Native {
        return Err(Status::not_found(&call.served.group_resource(), call.name()));
    }
    let Some(current) = found else { return Ok(None) };
    let mut object = current.value;
    call.served.from_storage(&mut object).await?;
    Ok(Some(object))
}

fn is_pod(call: &Call) -> bool {
    call.served.gvk.group.is_empty() && call.served.gvk.kind == "Pod"
}

/// The container a connection goes to; nothing where an unscheduled pod has no logs yet.
fn check_pod(call: &Call, pod: &Value) -> Result<Option<String>, Status> {
    let subresource = call.target.subresource.as_str();
    let scheduled = pod.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty());
    match subresource {
        "log" => pod::check_log_options(call)?,
        "exec" | "attach" => {}
        _ => return Ok(Some(String::new())),
    }
    let container = pod::container(call, pod)?;
    match (scheduled, subresource) {
        (true, _) => Ok(Some(container)),
        (false, "log") => Ok(None),
        (false, _) => {
            let why = format!("pod {} does not have a host assigned", call.name());
            Err(Status::bad_request(why))
        }
    }
}

fn no_content() -> http::Response<Body> {
    let mut response = body::text(StatusCode::NO_CONTENT, "");
    response.headers_mut().remove(http::header::CONTENT_TYPE);
    response
}

async fn admit(call: &Call) -> Result<(), Status> {
    // Reading what is only computed is no connection.
    if call.target.subresource.is_empty() {
        return Ok(());
    }
    let sub = &call.target.subresource;
    let attributes = write::admission_attributes(call, Operation::Connect, sub, call.name(), false);
    let mut options = Value::Null;
    admission::run::admit(call, &attributes, &mut options, None).await?;
    admission::run::validate(call, &attributes, &options, None).await
}

/// What of the path of a call is left to the connector.
fn rest(call: &Call, reach: Reach) -> &str {
    let target = &call.target;
    let group = if target.group.is_empty() { 2 } else { 3 };
    let namespace = if target.has_namespace { 2 } else { 0 };
    let own = if reach == Reach::Below { 2 } else { 3 };
    rest_of(&target.path, group + namespace + own)
}
