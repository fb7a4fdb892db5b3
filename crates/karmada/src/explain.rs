//! Serves explanations as a subresource of bindings; what is told comes from those who decided.

use std::sync::Arc;

use http::{Response, header};
use karmada_api::Kind;
use karmada_api::explain::Explanation;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::connect::{Connected, Connection};
use karmada_controllers::explain::{Explainer, Explainers};
use karmada_runtime::ObjectKey;
use karmada_scheduler::SchedulerHandle;

const SUBRESOURCE: &str = "explanation";

/// What the scheduler knows.
struct Scheduled(SchedulerHandle);

impl Explainer for Scheduled {
    fn explain(&self, binding: &ObjectKey, _: &ResourceBindingSpec, into: &mut Explanation) {
        into.scheduling = self.0.explain(binding);
    }
}

/// Serves `…/resourcebindings/{name}/explanation` and its cluster-scoped twin.
pub(crate) fn serve(handle: &Handle, explainers: &Explainers, scheduler: SchedulerHandle) {
    explainers.add(Arc::new(Scheduled(scheduler)));
    for plural in [ResourceBinding::PLURAL, ClusterResourceBinding::PLURAL] {
        let explainers = explainers.clone();
        let connect = move |connection: Connection| -> Connected {
            let answer = answer(&explainers, &connection);
            Box::pin(async move { answer })
        };
        handle.connect((ResourceBinding::GROUP, plural, SUBRESOURCE), Arc::new(connect));
    }
}

/// Says who can explain, until this process can: whoever decides knows why.
pub(crate) fn refuse(handle: &Handle) {
    for plural in [ResourceBinding::PLURAL, ClusterResourceBinding::PLURAL] {
        let connect = |_: Connection| -> Connected {
            let why = "another replica leads and knows the reasons; the Lease karmada-control-plane in kube-system names it";
            Box::pin(async move { Err(Status::unavailable(why)) })
        };
        handle.connect((ResourceBinding::GROUP, plural, SUBRESOURCE), Arc::new(connect));
    }
}

fn answer(
    explainers: &Explainers,
    connection: &Connection,
) -> Result<Response<karmada_apiserver::http::body::Body>, Status> {
    let object = connection.object.as_ref();
    let spec = object.and_then(|object| object.at(&["spec"])).cloned().unwrap_or_default();
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(spec)
        .map_err(|error| Status::internal(error.to_string()))?;
    let binding = ObjectKey::new(connection.namespace.as_str(), connection.name.as_str());
    let explanation = explainers.explain(&binding, &spec);
    let text = serde_json::to_vec(&explanation);
    let text = text.map_err(|error| Status::internal(error.to_string()))?;
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(karmada_apiserver::http::body::full(text))
        .map_err(|error| Status::internal(error.to_string()))
}
