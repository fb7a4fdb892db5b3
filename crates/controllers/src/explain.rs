//! Reads back why things are as they are. Whoever decides registers an [`Explainer`]; together they
//! tell the whole story of one binding in the vocabulary of [`karmada_api::explain`].
//!
//! `karmada up` serves it as a subresource of bindings, guarded by RBAC like any other:
//!
//! ```text
//! GET /apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/{name}/explanation
//! GET /apis/work.karmada.io/v1alpha2/clusterresourcebindings/{name}/explanation
//! ```
//!
//! The binding of an object is `{name}-{kind}` in lower case, with `.` for `:`.

use std::sync::Arc;

use karmada_api::explain::{Explanation, Requirement};
use karmada_api::work::ResourceBindingSpec;
use karmada_runtime::ObjectKey;
use parking_lot::RwLock;

/// Somebody who made a decision about a binding and can say why.
pub trait Explainer: Send + Sync + 'static {
    /// Adds what it knows; what others know is left alone.
    fn explain(&self, binding: &ObjectKey, spec: &ResourceBindingSpec, into: &mut Explanation);
}

/// Everybody who can explain something. Clones share the list.
#[derive(Clone, Default)]
pub struct Explainers(Arc<RwLock<Vec<Arc<dyn Explainer>>>>);

impl Explainers {
    pub fn add(&self, explainer: Arc<dyn Explainer>) {
        self.0.write().push(explainer);
    }

    /// Puts the story of a binding together.
    pub fn explain(&self, binding: &ObjectKey, spec: &ResourceBindingSpec) -> Explanation {
        let resource = &spec.resource;
        let subject = ObjectKey::new(resource.namespace.as_str(), resource.name.as_str());
        let mut explanation = Explanation {
            subject: format!("{} {subject}", resource.kind),
            required_by: Requirement::all_of(spec),
            ..Explanation::default()
        };
        let explainers = self.0.read().clone();
        for explainer in explainers {
            explainer.explain(binding, spec, &mut explanation);
        }
        explanation
    }
}
