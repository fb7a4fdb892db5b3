//! What each verb does. A handler gets a [`Call`] that is authenticated, authorized and known to
//! name a served resource; it answers with a response or a [`Status`].

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod meta;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod present;
pub(crate) mod select;
mod sent;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod write;

use http::{Response, StatusCode};
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;

use crate::call::Call;
use crate::http::body::{self, Body};

/// What a request is answered with.
pub(crate) enum Reply {
    /// For a reader of the same process.
    Tree(StatusCode, Value),
    Words(Response<Body>),
}

impl Reply {
    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Tree(code, _) => *code,
            Self::Words(response) => response.status(),
        }
    }

    pub(crate) fn into_words(self) -> Response<Body> {
        match self {
            Self::Tree(code, value) => body::json(code, &value),
            Self::Words(response) => response,
        }
    }
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self::Words(response)
    }
}

pub(crate) type Answer = Result<Reply, Status>;

/// Runs the handler of a verb on a resource itself; subresources have their own.
pub(crate) async fn handle(call: Call) -> (Answer, Vec<String>) {
    let call = std::sync::Arc::new(call);
    // What is seldom asked is kept apart, so that it makes nothing else larger.
    let answer = match call.target.verb {
        "get" => get::get(&call).await,
        "list" => Box::pin(list::list(&call)).await,
        "watch" => Box::pin(watch::watch(&call)).await,
        "create" if call.served.storage.is_none() => {
            Box::pin(crate::subresources::create_unstored(&call)).await
        }
        "create" => create::create(&call).await,
        "update" => update::update(&call, "").await,
        "patch" => patch::patch(&call, "").await,
        "delete" => Box::pin(delete::delete(&call)).await,
        "deletecollection" => Box::pin(delete::delete_collection(&call)).await,
        _ => Err(Status::method_not_allowed()),
    };
    (answer, call.take_warnings())
}
