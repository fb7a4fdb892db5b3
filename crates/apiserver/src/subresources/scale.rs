//! The scale of a workload: how many replicas are wanted, seen as a small object of its own.

use std::sync::Arc;

use http::StatusCode;
use karmada_apimachinery::crd::{ScalePaths, at_dotted};
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::{GroupKind, Gvk};
use karmada_apimachinery::managed::{self, WriteContext};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::time::{human_duration, parse_time};
use karmada_apimachinery::{Value, decode, json, patch};

use crate::call::Call;
use crate::codec;
use crate::handlers::options::{FieldValidation, Write, WriteOptions};
use crate::handlers::patch::{Kind, bad_patch};
use crate::handlers::update::{self, Change};
use crate::handlers::{Answer, present, write};
use crate::http::negotiate::{Format, Representation, Shape, Transforms};
use crate::registry::Source;

pub(crate) async fn handle(call: &Arc<Call>, verb: &str) -> Answer {
    let paths = call.served.strategy.scale().ok_or_else(Status::no_such_resource)?;
    match verb {
        "get" => get(call, &paths).await,
        "update" => put(call, &paths).await,
        "patch" => patch(call, &paths).await,
        _ => Err(Status::method_not_allowed()),
    }
}

fn scale_kind() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}

async fn get(call: &Call, paths: &ScalePaths) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    let mut object = write::load_existing(call, call.namespace(), call.name()).await?.value;
    call.served.from_storage(&mut object).await?;
    answer(call, view(call, &object, paths)?, form)
}

fn answer(call: &Call, scale: Value, form: Representation) -> Answer {
    let mut scale = scale;
    scale.remove_at(&["metadata", "managedFields"]);
    let shown = match form.shape {
        Shape::Object => scale,
        Shape::PartialMetadata(version) => present::partial(&scale, version),
        Shape::Table(version) => table(call, scale, version)?,
    };
    present::encoded(StatusCode::OK, &shown, form)
}

fn table(call: &Call, scale: Value, version: &str) -> Result<Value, Status> {
    let column = |name: &str, kind: &str, description: &str| json!({"name": name, "type": kind, "format": "", "description": description, "priority": 0});
    let columns = json!([
        column("Name", "string", "Name of the object."),
        column("Desired", "integer", "Replicas there should be."),
        column("Available", "integer", "Replicas there are."),
        column("Age", "string", "Time since the object was created."),
    ]);
    let cells = |scale: &Value| {
        let born = scale.str_at(&["metadata", "creationTimestamp"]).and_then(parse_time);
        let age = born
            .map_or("<unknown>".to_owned(), |born| human_duration(call.now().duration_since(born)));
        let count = |part: &str| scale.i64_at(&[part, "replicas"]).unwrap_or_default();
        json!([scale.name(), count("spec"), count("status"), age])
    };
    let metadata = json!({"resourceVersion": scale.resource_version()});
    present::table_of(call, &[scale], (&metadata, version), (columns, &cells))
}

/// The scale of an object in the version served, with the managers that own its replicas.
fn view(call: &Call, object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let mut scale = if call.served.source == Source::BuiltIn {
        karmada_kinds::subresource::scale_of(object)
    } else {
        custom_scale(call, object, paths)?
    };
    let path = dotted(&paths.spec_replicas);
    let entries = managed::scale_from_parent(object, &path);
    if !entries.is_empty() {
        scale.set(&["metadata", "managedFields"], entries);
    }
    Ok(scale)
}

fn dotted(path: &str) -> Vec<&str> {
    path.trim_start_matches('.').split('.').collect()
}

fn custom_scale(call: &Call, object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let replicas = at_dotted(object, &paths.spec_replicas).and_then(Value::as_i64);
    let Some(replicas) = replicas else {
        return Err(Status::internal(format!(
            "the spec replicas field {} does not exist",
            karmada_apimachinery::field::quote(&paths.spec_replicas)
        )));
    };
    let mut metadata = json!({
        "name": object.name(),
        "uid": object.uid(),
        "resourceVersion": object.resource_version(),
        "creationTimestamp": object.at(&["metadata", "creationTimestamp"]),
    });
    if call.served.namespaced {
        metadata["namespace"] = object.namespace().into();
    }
    let current =
        at_dotted(object, &paths.status_replicas).and_then(Value::as_i64).unwrap_or_default();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas},
        "status": {"replicas": current},
    });
    let selector = paths.label_selector.as_ref().and_then(|path| at_dotted(object, path));
    if let Some(selector) = selector.and_then(Value::as_str).filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

async fn put(call: &Call, paths: &ScalePaths) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    let options = WriteOptions::read(&call.query, Write::Update)?;
    let scale = codec::decode_as(call, &scale_kind(), options.validation)?;
    let (said, asked) = (scale.name(), call.name());
    if !said.is_empty() && said != asked {
        return Err(Status::bad_request(format!(
            "the name of the object ({said}) does not match the name on the URL ({asked})"
        )));
    }
    write_scale(call, paths, &options, form, |_| Ok(scale.clone())).await
}

async fn patch(call: &Call, paths: &ScalePaths) -> Answer {
    let kind = Kind::of(call)?;
    let form = call.negotiate(Transforms::Object)?;
    let options = WriteOptions::read(&call.query, Write::Patch { apply: kind == Kind::Apply })?;
    let body = match kind {
        Kind::Apply => codec::read_patch(call, Format::Yaml),
        _ => codec::read_patch(call, Format::Json),
    };
    let (body, _) = body.map_err(|error| Status::bad_request(error.to_string()))?;
    let schema = karmada_kinds::schema::of("autoscaling", "v1", "Scale");
    write_scale(call, paths, &options, form, |old| {
        let patched = match kind {
            Kind::Json => patch::json::apply(old, &body)?,
            Kind::Merge => patch::merge::apply(old, &body)?,
            Kind::Strategic => patch::strategic::apply(old, &body, schema)?,
            Kind::Apply => {
                let gvk = scale_kind();
                let ctx = context(call, &options, &gvk);
                managed::apply(Some(old), &body, &ctx, options.force, schema)?
            }
        };
        match schema {
            Some(schema) => decode::normalise(patched, schema)
                .map_err(|error| bad_patch(call, error.to_string())),
            None => Ok(patched),
        }
    })
    .await
}

fn context<'a>(call: &Call, options: &'a WriteOptions, gvk: &'a Gvk) -> WriteContext<'a> {
    let mut ctx = WriteContext::new(&options.manager, gvk, call.now());
    ctx.subresource = "scale";
    ctx
}

/// Changes the scale and with it the object; `make` gets the scale as it is.
async fn write_scale(
    call: &Call,
    paths: &ScalePaths,
    options: &WriteOptions,
    form: Representation,
    make: impl Fn(&Value) -> Result<Value, Status>,
) -> Answer {
    let change = Change {
        subresource: "",
        options,
        may_create: false,
        needs_version: false,
        check_uid: false,
        recorded: true,
    };
    let manager = options.manager_of(call);
    let options_named = WriteOptions { manager, ..options.clone() };
    let applies = call.header(http::header::CONTENT_TYPE).starts_with("application/apply-patch");
    let outcome = update::apply(call, call.name(), &change, |old| {
        let Some(old) = old else {
            return Err(Status::not_found(&call.served.group_resource(), call.name()));
        };
        let before = view(call, old, paths)?;
        let mut after = make(&before)?;
        if call.served.source == Source::BuiltIn {
            check(&after, call.name())?;
        }
        if !applies {
            let gvk = scale_kind();
            let ctx = context(call, &options_named, &gvk);
            let schema = karmada_kinds::schema::of("autoscaling", "v1", "Scale");
            managed::update(Some(&before), &mut after, &ctx, schema);
        }
        let mut new = old.clone();
        let path = dotted(&paths.spec_replicas);
        new.set(&path, after.i64_at(&["spec", "replicas"]).unwrap_or_default());
        let entries = after.list_at(&["metadata", "managedFields"]);
        let entries = managed::scale_to_parent(old, entries, &path, &call.served.api_version());
        new.set(&["metadata", "managedFields"], entries);
        new.set(&["metadata", "resourceVersion"], after.resource_version());
        let uid = after.uid();
        if !uid.is_empty() {
            new.set(&["metadata", "uid"], uid);
        }
        Ok(new)
    })
    .await?;
    let _ = FieldValidation::Warn;
    answer(call, view(call, &outcome.object, paths)?, form)
}

fn check(scale: &Value, name: &str) -> Result<(), Status> {
    let replicas = scale.i64_at(&["spec", "replicas"]).unwrap_or_default();
    if replicas >= 0 {
        return Ok(());
    }
    let path = Path::new("spec").child("replicas");
    let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
    let kind = GroupKind { group: "autoscaling".into(), kind: "Scale".into() };
    Err(Status::invalid(&kind, name, &[error]))
}
