//! What makes an API server Karmada's: kinds that are served natively ([`native`]), admission on
//! every write ([`admission`]), and the definitions and namespaces a control plane has ([`install`]).
//!
//! ```no_run
//! # async fn example(builder: karmada_apiserver::Builder) -> Result<(), Box<dyn std::error::Error>> {
//! # let settings: karmada_plane::Settings = unimplemented!();
//! let (builder, hooks) = karmada_plane::extend(builder, settings);
//! let server = builder.start().await?;
//! hooks.attach(&server.handle());
//! # Ok(()) }
//! ```

mod admission;
mod install;
mod native;
mod quota;

use std::sync::{Arc, OnceLock};

use karmada_api::features::Gates;
use karmada_apiserver::auth::Objects;
use karmada_apiserver::{Builder, Handle};

pub use install::{InstallError, install};
pub use native::resources;

/// What a control plane can be told.
#[derive(Clone)]
pub struct Settings {
    pub gates: Gates,
    /// Whether ClusterTaintPolicies may use the effect NoExecute.
    pub allow_no_execute_taints: bool,
    /// Makes the ids that are put on policies, bindings and Works.
    pub new_id: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Hooks that wait for the server they are part of.
pub struct Hooks {
    objects: Arc<OnceLock<Arc<dyn Objects>>>,
}

impl Hooks {
    /// Lets the hooks see the objects of the server. Before, they see none.
    pub fn attach(self, handle: &Handle) {
        // Set once, here: nobody else has the cell.
        let _ = self.objects.set(handle.objects());
    }
}

/// Adds Karmada's kinds and admission to a server.
pub fn extend(builder: Builder, settings: Settings) -> (Builder, Hooks) {
    let objects = Arc::new(OnceLock::new());
    let natives = native::resources(&settings.gates);
    let admission = admission::Hooks::new(settings, objects.clone());
    let builder = natives
        .into_iter()
        .fold(builder, |builder, resource| builder.native(resource))
        .admission(Arc::new(admission))
        .converter(Arc::new(admission::Bindings));
    (builder, Hooks { objects })
}
