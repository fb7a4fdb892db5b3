//! Passes requests for a group version on to the server that answers for it, as whoever asks.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, LOCATION, UPGRADE};
use http::{Request, Response, StatusCode};
use karmada_apimachinery::status::Status;

use super::availability::is_available;
use super::transport::PATIENCE;
use super::{find, headers};
use crate::http::body::{self, Body};
use crate::http::filters::AUDIT_ID;
use crate::http::query::decode_percent;
use crate::registry::{Remote, Snapshot};
use crate::routes::Target;
use crate::service::{Arrived, is_long_running};
use crate::state::State;

/// How long it may take to reach a server whose answer may take for ever.
const REACH: Duration = Duration::from_secs(30);

/// The other server a request is for, if any.
pub(crate) fn remote_of(snapshot: &Snapshot, target: &Target) -> Option<Arc<Remote>> {
    if target.is_resource {
        return snapshot.remote(&target.group, &target.version).cloned();
    }
    snapshot.remotes().next()?;
    let segments: Vec<&str> = target.path.split('/').filter(|part| !part.is_empty()).collect();
    match segments.as_slice() {
        ["apis", group, version] | ["openapi", "v3", "apis", group, version] => {
            snapshot.remote(&decode_percent(group), &decode_percent(version)).cloned()
        }
        _ => None,
    }
}

/// Answers with what the other server answers.
pub(crate) async fn forward(
    state: &Arc<State>,
    remote: &Remote,
    arrived: Arrived,
    body: Body,
) -> Response<Body> {
    if !find(state, &remote.name).is_some_and(|api_service| is_available(&api_service)) {
        return refusal("service unavailable");
    }
    let is_discovery = !arrived.target.is_resource;
    let long_running = arrived.target.is_resource && is_long_running(&arrived.target);
    let (request, client) = match rewrite(arrived, body) {
        Ok(request) => request,
        Err(status) => return body::refusal(&status),
    };
    let is_bounded = !long_running && client.is_none();
    // A server that never answers holds a bounded number of requests, and nobody else's.
    let waiting = remote.waiting.try_acquire();
    if is_bounded && waiting.is_err() {
        let message = "Too many requests, please try again later.";
        return body::refusal(&Status::too_many_requests(message, 1));
    }
    let exchange = async {
        let dialled = state.aggregator.dialer.dial(&*state.objects, &remote.place);
        let way = tokio::time::timeout(REACH, dialled).await;
        let way = way.unwrap_or_else(|_| Err("dial tcp: i/o timeout".to_owned()))?;
        let answer = match client {
            Some(client) => way.switch(request, client).await,
            None => way.send(request).await,
        };
        answer.map_err(|error| error.to_string())
    };
    let patience = if is_discovery { PATIENCE } else { state.config.request_timeout };
    let answer = match is_bounded {
        false => exchange.await,
        true => match tokio::time::timeout(patience, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err("context deadline exceeded".to_owned()),
        },
    };
    match answer {
        Ok(response) if redirects(&response) => misled(),
        Ok(response) => response,
        Err(why) => refusal(&format!("error trying to reach service: {why}")),
    }
}

/// Makes a request of the client one of this server for the client, and takes over the connection if
/// another protocol is asked for.
fn rewrite(
    arrived: Arrived,
    body: Body,
) -> Result<(Request<Body>, Option<hyper::upgrade::OnUpgrade>), Status> {
    let Arrived { mut parts, user, audit_id, .. } = arrived;
    headers::identify(&mut parts.headers, &user)?;
    parts.headers.insert(AUDIT_ID, audit_id);
    let switches = wants_upgrade(&parts.headers);
    let mut request = Request::from_parts(parts, body);
    let client = switches.then(|| hyper::upgrade::on(&mut request));
    // What this server knows about the client is not the other server's business.
    request.extensions_mut().clear();
    Ok((request, client))
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
    let words = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks =
        words.flat_map(|w| w.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    asks && headers.contains_key(UPGRADE)
}

fn redirects(response: &Response<Body>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(LOCATION)
}

/// Compat: the text and code of a Kubernetes API server.
fn misled() -> Response<Body> {
    let text = "the backend attempted to redirect this request, which is not permitted";
    body::text(StatusCode::BAD_GATEWAY, text)
}

/// Compat: servers that cannot be reached are answered for in plain text.
fn refusal(text: &str) -> Response<Body> {
    let mut response = body::text(StatusCode::SERVICE_UNAVAILABLE, format!("{text}\n"));
    let name = HeaderName::from_static("x-content-type-options");
    response.headers_mut().insert(name, HeaderValue::from_static("nosniff"));
    response
}
