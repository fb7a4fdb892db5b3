//! An admission request as webhooks and policies see it, in one version of the object.

use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Map, Value, json};

use super::{Attributes, Operation};
use crate::call::Call;

/// What is admitted: the write, and the object as it will be and as it was.
pub(crate) struct Subject<'a> {
    pub(crate) call: &'a Call,
    pub(crate) attributes: &'a Attributes,
    pub(crate) object: &'a Value,
    pub(crate) old: Option<&'a Value>,
}

/// What is admitted, in the version that somebody wants to see.
pub(crate) struct View {
    pub(crate) version: String,
    pub(crate) object: Value,
    /// Null where there was nothing.
    pub(crate) old: Value,
}

impl Subject<'_> {
    /// An object in a version, rewritten if it is in another; that may have to be asked of a webhook.
    pub(crate) async fn in_version(&self, object: Value, version: &str) -> Result<Value, Status> {
        let mut object = object;
        let gvk = &self.attributes.gvk;
        let wanted = Gvk::new(gvk.group.as_str(), version, gvk.kind.as_str());
        if object.is_object() && object.gvk() != wanted {
            let one = std::slice::from_mut(&mut object);
            self.call.served.convert(one, &wanted.group, version).await?;
        }
        Ok(object)
    }

    /// What is admitted, in a version.
    pub(crate) async fn view(&self, version: String) -> Result<View, Status> {
        let object = self.in_version(self.object.clone(), &version).await?;
        let old = self.in_version(self.old.cloned().unwrap_or_default(), &version).await?;
        Ok(View { version, object, old })
    }

    /// The request as it looks in a version.
    pub(crate) fn review(&self, uid: &str, view: &View) -> Value {
        let attributes = self.attributes;
        let version = view.version.as_str();
        let gvk = &attributes.gvk;
        let kind =
            |version: &str| json!({"group": gvk.group, "version": version, "kind": gvk.kind});
        let resource = |version: &str| json!({"group": gvk.group, "version": version, "resource": attributes.resource});
        let mut request = json!({
            "uid": uid,
            "kind": kind(version),
            "resource": resource(version),
            "requestKind": kind(&gvk.version),
            "requestResource": resource(&gvk.version),
            "operation": attributes.operation.as_str(),
            "userInfo": user(attributes),
            "object": view.object,
            "oldObject": view.old,
            "dryRun": attributes.dry_run,
            "options": options(self.call, attributes.operation),
        });
        for (key, text) in [
            ("subResource", &attributes.subresource),
            ("requestSubResource", &attributes.subresource),
            ("name", &attributes.name),
            ("namespace", &attributes.namespace),
        ] {
            if !text.is_empty() {
                request[key] = text.as_str().into();
            }
        }
        // A namespace is in itself.
        if gvk.group.is_empty() && gvk.kind == "Namespace" {
            request["namespace"] = attributes.name.as_str().into();
        }
        request
    }
}

fn user(attributes: &Attributes) -> Value {
    let user = &attributes.user;
    let mut info = json!({"username": user.user, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// The options of a request as an object.
fn options(call: &Call, operation: Operation) -> Value {
    let kind = match (operation, call.target.verb) {
        (Operation::Connect, _) => return Value::Null,
        (Operation::Delete, _) => "DeleteOptions",
        (_, "patch") => "PatchOptions",
        (Operation::Create, _) => "CreateOptions",
        _ => "UpdateOptions",
    };
    let mut options = Map::new();
    options.insert("kind", kind.into());
    options.insert("apiVersion", "meta.k8s.io/v1".into());
    for key in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if let Some(value) = call.query.non_empty(key) {
            options.insert(key, value.into());
        }
    }
    if call.query.non_empty("dryRun").is_some() {
        options.insert("dryRun", json!(["All"]));
    }
    Value::Object(options)
}
