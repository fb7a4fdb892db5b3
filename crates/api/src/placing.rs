//! What a scheduler of the same process can be asked for, so that a binding is made with its placement
//! in it and its first status is written once. Where there is none, or it has no answer, everything
//! takes its usual way: made, scheduled, reported, each by a write of its own.

use crate::ObjectMeta;
use crate::scopes::Binding;
use crate::work::{ResourceBindingSpec, ResourceBindingStatus, TargetCluster};

/// A binding of either scope.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub metadata: &'a ObjectMeta,
    pub spec: &'a ResourceBindingSpec,
    pub status: &'a ResourceBindingStatus,
    pub is_namespaced: bool,
}

impl<'a> Subject<'a> {
    pub fn of<B: Binding>(binding: &'a B) -> Self {
        Self {
            metadata: binding.metadata(),
            spec: binding.spec(),
            status: binding.status(),
            is_namespaced: B::NAMESPACED,
        }
    }
}

/// Where a binding goes, as it is made with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub clusters: Vec<TargetCluster>,
    /// The placement that was decided by, for its annotation.
    pub placement: String,
}

/// A scheduler of the same process.
pub trait Placer: Send + Sync + 'static {
    /// Places a binding that is about to be made; nothing if that has to wait for its turn.
    fn place(&self, binding: Subject<'_>) -> Option<Placed>;

    /// The status with what scheduling has to say in it, if the binding was made with its placement and
    /// nothing was said yet. Whoever writes it calls [`Placer::reported`].
    fn report(&self, binding: Subject<'_>) -> Option<ResourceBindingStatus>;

    /// Takes note that the report is written.
    fn reported(&self, binding: Subject<'_>);
}
