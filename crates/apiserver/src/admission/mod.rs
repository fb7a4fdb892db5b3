//! Admission: steps that may change or refuse a write after it was authorized.
//!
//! Mutating steps run first, in order, then the object is prepared and validated, then the
//! validating ones run on what will be stored. Policies and webhooks come behind the steps of the
//! server and of the embedding program.

mod defaults;
mod lifecycle;
mod limits;
mod matching;
pub(crate) mod policies;
mod quota;
mod request;
pub(crate) mod run;
mod security;
pub(crate) mod webhooks;

use std::sync::Arc;

use futures::future::BoxFuture;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupResource, Gvk};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::value::Text;

use crate::auth::{Identity, Objects};
use crate::chance::Chance;
use crate::config::Role;
use crate::server::Handle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A warning for the client.
pub type Warning = String;

/// The write a step is asked about.
#[derive(Debug, Clone)]
pub struct Attributes {
    pub operation: Operation,
    pub gvk: Gvk,
    pub resource: Text,
    pub subresource: Text,
    pub namespace: Text,
    pub name: Text,
    pub dry_run: bool,
    pub user: Arc<Identity>,
}

impl Attributes {
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.as_str(), self.resource.as_str())
    }
}

/// One admission step. The object of a deletion is null.
pub trait Admission: Send + Sync + 'static {
    /// Changes the object or refuses the write.
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let _ = (attributes, object, old);
        Ok(Vec::new())
    }

    /// Looks at what is about to be stored and may refuse it.
    fn validate(
        &self,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let _ = (attributes, object, old);
        Ok(Vec::new())
    }

    /// Writes what storing the object entails, once every step let it pass; not asked on a dry run. The last
    /// chance to refuse.
    fn settle<'a>(
        &'a self,
        server: Handle,
        attributes: &'a Attributes,
        object: &'a Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let _ = (server, attributes, object, old);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The steps every server of a role runs.
pub fn built_in(role: Role, objects: Arc<dyn Objects>, chance: Chance) -> Vec<Arc<dyn Admission>> {
    vec![
        Arc::new(lifecycle::NamespaceLifecycle { objects: objects.clone() }),
        Arc::new(defaults::Defaults { objects: objects.clone(), role, chance }),
        Arc::new(limits::Limits { objects }),
    ]
}

/// All steps of a server, in order.
#[derive(Clone, Default)]
pub struct Chain(pub Vec<Arc<dyn Admission>>);

impl Chain {
    pub fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let mut warnings = Vec::new();
        for step in &self.0 {
            warnings.extend(step.admit(attributes, object, old)?);
        }
        Ok(warnings)
    }

    pub fn validate(
        &self,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let mut warnings = Vec::new();
        for step in &self.0 {
            warnings.extend(step.validate(attributes, object, old)?);
        }
        Ok(warnings)
    }

    pub(crate) async fn settle(
        &self,
        server: &Handle,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for step in &self.0 {
            step.settle(server.clone(), attributes, object, old).await?;
        }
        Ok(())
    }
}
