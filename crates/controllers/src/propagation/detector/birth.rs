//! Makes new bindings complete: with the clusters a scheduler of the same process chooses for them and
//! with what they depend on. Each would cost a write of its own later.

use karmada_api::features::Gate;
use karmada_api::placing::Subject;
use karmada_api::{Binding, annotations, finalizers};
use karmada_apimachinery::Value;
use karmada_interpreter::Operation;
use karmada_propagation::dependencies;

use super::Detector;

impl Detector {
    /// The binding with all that is known of it already; nothing if that is no more than it says.
    pub(super) async fn complete<B: Binding>(&self, desired: &B, template: &Value) -> Option<B> {
        let placed = self.placer.as_ref()?.place(Subject::of(desired))?;
        let mut born = desired.clone();
        born.spec_mut().clusters = placed.clusters;
        let marks = &mut born.metadata_mut().annotations;
        marks.insert(annotations::APPLIED_PLACEMENT.to_owned(), placed.placement);
        if let Some(needed) = self.dependencies_of(&born, template).await {
            let metadata = born.metadata_mut();
            metadata.annotations.insert(annotations::DEPENDENCIES.to_owned(), needed);
            metadata.finalizers.push(finalizers::DEPENDENCIES_DISTRIBUTOR.to_owned());
        }
        Some(born)
    }

    /// What the binding depends on, as its annotation lists it. Whoever distributes dependencies finds
    /// it there; if it cannot be told, they say so.
    async fn dependencies_of<B: Binding>(&self, binding: &B, template: &Value) -> Option<String> {
        use karmada_apimachinery::object::ObjectExt as _;
        let operation = Operation::InterpretDependency;
        let is_due = B::NAMESPACED
            && binding.spec().propagate_deps
            && self.gates.is_on(Gate::PropagateDeps)
            && self.interpreter.hook_enabled(&template.gvk(), operation);
        if !is_due {
            return None;
        }
        let found = self
            .ask(operation, template, |interpreter, template| {
                interpreter.interpret_dependency(template)
            })
            .await;
        Some(dependencies::to_annotation(&dependencies::normalise(found.ok()?)))
    }
}
