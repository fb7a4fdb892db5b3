//! Paths below an object: views such as `status` and `scale`, and actions such as `eviction`.

pub(crate) mod connect;
mod pod;
mod scale;

use std::sync::Arc;

use http::StatusCode;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::status::Status;

use crate::admission::Operation;
use crate::auth::review::Reviewer;
use crate::call::Call;
use crate::codec;
use crate::handlers::options::{Write, WriteOptions};
use crate::handlers::{self, Answer, present, write};
use crate::http::negotiate::Transforms;

/// Runs the handler of a subresource.
pub(crate) async fn handle(call: Call) -> (Answer, Vec<String>) {
    let call = Arc::new(call);
    let answer = dispatch(&call).await;
    (answer, call.take_warnings())
}

async fn dispatch(call: &Arc<Call>) -> Answer {
    let subresource = call.target.subresource.as_str();
    // What is seldom asked is kept apart, so that it makes nothing else larger.
    match (subresource, call.target.verb) {
        ("scale", verb) => Box::pin(scale::handle(call, verb)).await,
        ("token", "create") => Box::pin(token(call)).await,
        ("binding", "create") => Box::pin(pod::bind(call, call.name())).await,
        ("eviction", "create") => Box::pin(pod::evict(call)).await,
        ("log", "get") => Box::pin(pod::log(call)).await,
        ("exec" | "attach" | "portforward" | "proxy", _) => Box::pin(pod::connect(call)).await,
        (_, "get") => handlers::get::get(call).await,
        (_, "update") => handlers::update::update(call, subresource).await,
        (_, "patch") => handlers::patch::patch(call, subresource).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// The kind a subresource speaks.
pub(crate) fn kind_of(call: &Call) -> Gvk {
    let parent = &call.served.gvk;
    match call.served.subresource(&call.target.subresource) {
        Some(sub) if !sub.version.is_empty() => Gvk::new(&*sub.group, &*sub.version, &*sub.kind),
        Some(sub) => Gvk::new(&*parent.group, &*parent.version, &*sub.kind),
        None => parent.clone(),
    }
}

/// `serviceaccounts/token`: issues a token for the account.
async fn token(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::None)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    let mut request = codec::decode_as(call, &kind_of(call), options.validation)?;
    karmada_kinds::defaults::apply("authentication.k8s.io", "v1", "TokenRequest", &mut request);
    let gvk = kind_of(call);
    crate::managed::record_unstored(call, &mut request, &options, (&gvk, "token"));
    call.state.caches.catch_up().await.map_err(write::store_error)?;
    let issued = call.state.authentication.tokens.issue(
        &request,
        call.namespace(),
        call.name(),
        &*call.state.objects,
        call.now(),
    )?;
    present::encoded(StatusCode::CREATED, &issued, form)
}

/// POST of something that is only answered: a review, or a Binding.
pub(crate) async fn create_unstored(call: &Arc<Call>) -> Answer {
    let kind = call.served.gvk.kind.as_str();
    if kind == "Binding" {
        let options = WriteOptions::read(&call.query, Write::Create)?;
        let binding = codec::decode_object(call, options.validation)?;
        return pod::bind_as(call, binding.name(), &binding).await;
    }
    let form = call.negotiate(Transforms::None)?;
    let options = WriteOptions::read(&call.query, Write::Create)?;
    let mut review = codec::decode_object(call, options.validation)?;
    review.remove_at(&["metadata", "uid"]);
    let attributes =
        write::admission_attributes(call, Operation::Create, "", review.name(), options.dry_run);
    call.state.admission.admit(&attributes, &mut review, None)?;
    let reviewer = Reviewer {
        user: &call.user,
        namespace: call.namespace(),
        authorizer: &*call.state.authorizer,
        rbac: &call.state.rbac,
        authentication: &call.state.authentication,
    };
    let answer = reviewer.answer(kind, &review).ok_or_else(Status::method_not_allowed)??;
    let answer = with_manager(call, answer, &options);
    present::encoded(StatusCode::CREATED, &answer, form)
}

/// Reviews are recorded like objects although nobody keeps them.
fn with_manager(call: &Call, mut answer: Value, options: &WriteOptions) -> Value {
    if answer.at(&["metadata", "managedFields"]).is_none() {
        let mut tracked = answer.clone();
        tracked.remove_at(&["status"]);
        crate::managed::record_create(call, &mut tracked, options, "");
        if let Some(entries) = tracked.remove_at(&["metadata", "managedFields"]) {
            answer.set(&["metadata", "managedFields"], entries);
        }
    }
    answer
}
