//! The way of a request: filters, authentication, authorization, routing, handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use karmada_apimachinery::status::{Details, Status};
use karmada_handover::{self as handover, Asked, Content, TakesEvents};

use crate::audit::Record;
use crate::auth::{Identity, PeerCerts, authorize, impersonation};
use crate::call::{self, Call, Sent};
use crate::connect::Reach;
use crate::handlers::{Answer, Reply};
use crate::http::body::{self, Body};
use crate::http::filters::{self, Seat};
use crate::http::negotiate::{self, Offer, Transforms};
use crate::http::query::Query;
use crate::http::respond;
use crate::lanes::{self, Place};
use crate::registry::{Served, Source};
use crate::routes::Target;
use crate::state::State;
use crate::{aggregation, endpoints, handlers, subresources};

const MASTERS: &str = "system:masters";

/// Answers one request, whatever happens inside.
pub(crate) async fn answer(state: Arc<State>, request: Request<Body>) -> Response<Body> {
    let audit_id = filters::audit_id(request.headers(), &state.config.chance);
    let reads_gzip = respond::reads_gzip(request.headers());
    let head = request.method() == Method::HEAD;
    let reply = caught(&state, route(state.clone(), request, &audit_id)).await;
    let mut response = reply.into_words();
    filters::finish_headers(response.headers_mut(), &audit_id);
    if head {
        *response.body_mut() = body::empty();
    }
    if reads_gzip { compressed(response).await } else { response }
}

/// Answers a request of the same process, whatever happens inside.
pub(crate) async fn ask(
    state: Arc<State>,
    asked: Asked,
    user: Arc<Identity>,
) -> Result<handover::Reply, handover::Failure> {
    let request = || Box::new(Arrived::handed(asked, user));
    let handed = async { attend(&state, request(), None).await };
    match caught(&state, handed).await {
        Reply::Tree(code, value) => Ok(handover::Reply { code, content: Content::Tree(value) }),
        Reply::Words(response) => {
            let code = response.status();
            let text = response.into_body().collect().await?.to_bytes();
            Ok(handover::Reply { code, content: Content::Text(text) })
        }
    }
}

/// Runs the work on a request; a panic in it is an answer too.
async fn caught(state: &State, work: impl Future<Output = Reply>) -> Reply {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        state.metrics.panics.fetch_add(1, Ordering::Relaxed);
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        tracing::error!(what, "a request handler panicked");
        body::refusal(&Status::internal("the server failed to answer this request")).into()
    })
}

/// Compresses whole bodies; streams have no known size and pass as they are.
async fn compressed(response: Response<Body>) -> Response<Body> {
    use http_body::Body as _;
    if response.body().size_hint().exact().is_none_or(|size| size <= 128 * 1024) {
        return response;
    }
    let (mut parts, whole) = response.into_parts();
    let bytes = whole.collect().await.map(|collected| collected.to_bytes()).unwrap_or_default();
    let bytes = respond::compress(&mut parts.headers, bytes);
    Response::from_parts(parts, body::full(bytes))
}

/// Takes apart what came over a connection and finds out who sent it.
async fn route(state: Arc<State>, request: Request<Body>, audit_id: &HeaderValue) -> Reply {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let target = Arc::new(Target::parse(&parts.method, parts.uri.path(), &query));
    let form = refusal_form(&parts.headers, &query);
    match authenticate(&state, &parts) {
        Err(status) => {
            if let Some(audit) = &state.audit {
                let asked = (&parts, audit_id.to_str().unwrap_or_default());
                audit.stranger(asked, &target, &state.clock);
            }
            let response = respond::refusal(&status, form);
            state.metrics.count(&target, response.status().as_u16());
            response.into()
        }
        Ok(user) => {
            let request = Arrived {
                parts,
                query,
                target,
                user,
                record: None,
                audit_id: audit_id.clone(),
                body: Incoming::Stream(body),
            };
            attend(&state, Box::new(request), form).await
        }
    }
}

/// Answers a request of a known user and tells those who keep count of requests.
async fn attend(
    state: &Arc<State>,
    mut request: Box<Arrived>,
    form: Option<negotiate::Representation>,
) -> Reply {
    if let Some(audit) = &state.audit {
        // The log knows requests by their paths.
        request.spell_out(state);
        let asked = (&request.parts, request.audit_id.to_str().unwrap_or_default());
        request.record = audit.begin(asked, &request.target, &request.user, &state.clock);
    }
    let (target, record) = (request.target.clone(), request.record.clone());
    let handed = matches!(request.body, Incoming::Handed(_));
    let outcome = permitted(state, request).await;
    let reply = match record {
        Some(record) => {
            let response = outcome.into_words(form);
            Box::pin(record.answered(response, is_long_running(&target))).await.into()
        }
        None if handed => outcome.handed_over(),
        None => outcome.into_words(form).into(),
    };
    state.metrics.count(&target, reply.code().as_u16());
    reply
}

/// What a request comes to, before it is put into words.
struct Outcome {
    answer: Answer,
    warnings: Vec<String>,
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self { answer, warnings: Vec::new() }
    }
}

impl From<Response<Body>> for Outcome {
    fn from(response: Response<Body>) -> Self {
        Ok(Reply::Words(response)).into()
    }
}

impl Outcome {
    fn into_words(self, form: Option<negotiate::Representation>) -> Response<Body> {
        let mut response = match self.answer {
            Ok(reply) => reply.into_words(),
            Err(status) => respond::refusal(&status, form),
        };
        respond::add_warnings(response.headers_mut(), &self.warnings);
        response
    }

    /// For a reader of the same process. Nobody there reads warnings.
    fn handed_over(self) -> Reply {
        let refused = |status: Status| Reply::Tree(body::code_of(&status), status.to_value());
        self.answer.unwrap_or_else(refused)
    }
}

/// Answers a request of a known user, if they may ask it.
async fn permitted(state: &Arc<State>, mut request: Box<Arrived>) -> Outcome {
    let mut attributes = call::attributes(&request.target, request.user.clone());
    let headers = &request.parts.headers;
    match impersonation::impersonate(headers, &attributes, &*state.authorizer) {
        Err(status) => return Err(status).into(),
        Ok(None) => {}
        Ok(Some(other)) => {
            if let Some(record) = &request.record {
                record.acts_as(&other);
            }
            request.user = Arc::new(other);
            attributes.user = request.user.clone();
        }
    }
    // Places are given before permissions are looked up: a flood is not even judged.
    let Some(seat) = seat(state, &request.parts.method, &request.target, &request.user) else {
        let message = "Too many requests, please try again later.";
        return body::refusal(&Status::too_many_requests(message, 1)).into();
    };
    let decision = state.authorizer.authorize(&attributes);
    if let Some(record) = &request.record {
        let verdict = if decision.is_allowed() { "allow" } else { "forbid" };
        record.annotate("authorization.k8s.io/decision", verdict.to_owned());
        record.annotate("authorization.k8s.io/reason", decision.reason.clone());
    }
    match authorize::permit(&decision, &attributes) {
        Err(status) => Err(status).into(),
        Ok(()) => dispatch(state, request, seat).await,
    }
}

/// The form a refusal takes: what the client reads, or JSON.
fn refusal_form(headers: &HeaderMap, query: &Query) -> Option<negotiate::Representation> {
    let offer = Offer { formats: negotiate::CUSTOM, transforms: Transforms::Object };
    let form = negotiate::negotiate(headers, query, offer).ok()?;
    Some(negotiate::Representation { shape: negotiate::Shape::Object, ..form })
}

/// A place among the requests served at the same time: counted, and in a lane unless exempt.
struct Seated<'a> {
    _counted: Seat<'a>,
    _place: Option<Place<'a>>,
}

fn seat<'a>(
    state: &'a State,
    method: &Method,
    target: &Target,
    user: &Identity,
) -> Option<Seated<'a>> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let gauge = if reads { &state.metrics.reading } else { &state.metrics.writing };
    let exempt = user.is_in(MASTERS) || !target.is_resource || is_long_running(target);
    let place = match exempt {
        true => None,
        false => Some(state.lanes.take(lanes::lane_of(user, target))?),
    };
    Some(Seated { _counted: Seat::take_anyway(gauge), _place: place })
}

pub(crate) fn is_long_running(target: &Target) -> bool {
    target.verb == "watch"
        || matches!(
            target.subresource.as_str(),
            "log" | "exec" | "attach" | "portforward" | "proxy"
        )
}

/// Establishes who asks.
fn authenticate(state: &State, parts: &Parts) -> Result<Arc<Identity>, Status> {
    if let Some(identity) = parts.extensions.get::<Arc<Identity>>() {
        return Ok(identity.clone());
    }
    let peer = parts.extensions.get::<Arc<PeerCerts>>().map(|peer| &**peer);
    state.authenticator.authenticate(parts, peer).map(Arc::new)
}

/// A request of a known user. It is handed on in a box: it is large, and goes through many hands.
pub(crate) struct Arrived {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) target: Arc<Target>,
    pub(crate) user: Arc<Identity>,
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) audit_id: HeaderValue,
    body: Incoming,
}

/// The body of a request: still on its way, or given by a client of the same process.
enum Incoming {
    Stream(Body),
    Handed(Content),
}

impl Arrived {
    /// A request of the same process. It has no path and no id until somebody wants them.
    fn handed(mut asked: Asked, user: Arc<Identity>) -> Self {
        let (mut parts, ()) = Request::new(()).into_parts();
        let query = Query::of(std::mem::take(&mut asked.query));
        let target = Arc::new(Target::handed(&asked, &query));
        parts.method = asked.method;
        parts.headers.insert(ACCEPT, HeaderValue::from_static(asked.accept));
        if let Some(agent) = asked.agent {
            parts.headers.insert(USER_AGENT, agent);
        }
        let content = asked.content.map(|(media_type, content)| {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            content
        });
        Self {
            parts,
            query,
            target,
            user,
            record: None,
            audit_id: HeaderValue::from_static(""),
            body: Incoming::Handed(content.unwrap_or(Content::Text(Bytes::new()))),
        }
    }

    /// Gives the request the path and the id it would have come with over a connection.
    fn spell_out(&mut self, state: &State) {
        if matches!(self.body, Incoming::Handed(_)) && self.audit_id.is_empty() {
            let path = self.target.to_path();
            self.parts.uri = self.query.append_to(path.clone()).parse().unwrap_or_default();
            Arc::make_mut(&mut self.target).path = path.into();
            self.audit_id = filters::audit_id(&self.parts.headers, &state.config.chance);
        }
    }

    /// The request for somebody who reads all of it as text.
    fn into_text(mut self, state: &State) -> (Self, Body) {
        self.spell_out(state);
        let body = match std::mem::replace(&mut self.body, Incoming::Stream(body::empty())) {
            Incoming::Stream(body) => body,
            Incoming::Handed(Content::Tree(tree)) => body::full(tree.to_string()),
            Incoming::Handed(Content::Text(text)) => body::full(text),
        };
        (self, body)
    }
}

async fn dispatch(state: &Arc<State>, request: Box<Arrived>, seat: Seated<'_>) -> Outcome {
    let snapshot = state.registry.snapshot();
    if let Some(remote) = aggregation::remote_of(&snapshot, &request.target) {
        // The other server has places of its own; those here are for what is answered here.
        drop(seat);
        let (request, body) = request.into_text(state);
        let forwarded = aggregation::forward(state, &remote, request, body);
        return Box::pin(forwarded).await.into();
    }
    if !request.target.is_resource {
        return endpoints::answer(state, &request.parts, &request.query).into();
    }
    let target = &request.target;
    if !snapshot.has_group(&target.group) {
        return body::page_not_found().into();
    }
    let connector = state.connectors.find(&target.group, &target.resource, &target.subresource);
    let reach = connector.as_ref().map(|(_, reach)| *reach);
    let served = match find(&snapshot, target, (&request.parts.method, reach)) {
        Ok(served) => served,
        // Compat: groups of definitions answer unknown paths as unknown groups do.
        Err(status) if status == Status::no_such_resource() && is_custom(&snapshot, target) => {
            return body::page_not_found().into();
        }
        Err(status) => return Err(status).into(),
    };
    if let Some(connector) = connector {
        let (request, body) = request.into_text(state);
        let connected = subresources::connect::connect(state, request, served, body, connector);
        return Box::pin(connected).await.into();
    }
    let formats =
        if served.source == Source::BuiltIn { negotiate::BUILT_IN } else { negotiate::CUSTOM };
    if !negotiate::names_known_type(&request.parts.headers, formats) && !is_long_running(target) {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            negotiate::media_types(formats)
        );
        let status = Status::not_acceptable(message).with_details(Details::default());
        return body::refusal(&status).into();
    }
    run(state, request, served).await
}

/// Whether everything in the group of a path was brought by definitions.
fn is_custom(snapshot: &crate::registry::Snapshot, target: &Target) -> bool {
    let mut own = snapshot.all().filter(|served| served.gvk.group == target.group);
    own.all(|served| served.source == Source::Custom)
}

/// The resource a path names, if this method may be used on it.
fn find(
    snapshot: &crate::registry::Snapshot,
    target: &Target,
    (method, reach): (&Method, Option<Reach>),
) -> Result<Arc<Served>, Status> {
    let connects = reach.is_some();
    let served = snapshot
        .find(&target.group, &target.version, &target.resource)
        .ok_or_else(Status::no_such_resource)?;
    let collection =
        target.name.is_empty() || matches!(target.verb, "list" | "watch" | "deletecollection");
    if served.namespaced && !target.has_namespace && !collection {
        return Err(Status::no_such_resource());
    }
    if !served.namespaced && target.has_namespace {
        return Err(Status::no_such_resource());
    }
    if target.name.contains('/') {
        return Err(Status::no_such_resource());
    }
    if reach == Some(Reach::Below) {
        if method == Method::HEAD || !served.has_verb(target.verb) {
            return Err(Status::method_not_allowed());
        }
    } else if !target.subresource.is_empty() {
        let sub = served.subresource(&target.subresource);
        // What the embedding program adds to a kind can be read, whether the kind lists it or not.
        let added = connects && sub.is_none() && target.verb == "get";
        if sub.is_none() && !added {
            return Err(match served.source {
                Source::BuiltIn => Status::no_such_resource(),
                _ => Status::not_found(&served.group_resource(), &target.name),
            });
        }
        if !target.rest.is_empty() && target.subresource != "proxy" {
            return Err(Status::no_such_resource());
        }
        let verbs = sub.map(|sub| sub.verbs.as_slice()).unwrap_or_default();
        let listed = verbs.iter().any(|verb| verb == target.verb);
        let offered = method != Method::HEAD && (added || listed);
        let rare = connects && matches!(*method, Method::HEAD | Method::OPTIONS);
        if !offered && !rare {
            return Err(Status::method_not_allowed());
        }
    } else {
        let elsewhere = served.namespaced && !target.has_namespace;
        let refused = elsewhere && matches!(target.verb, "create" | "deletecollection");
        let item = !collection && target.verb == "create";
        if method == Method::HEAD || refused || item || !served.has_verb(target.verb) {
            return Err(Status::method_not_allowed());
        }
        if collection && matches!(target.verb, "update" | "patch") {
            return Err(Status::method_not_allowed());
        }
    }
    if !collection && let Some(why) = bad_segment(&target.name) {
        return Err(Status::bad_request(format!(
            "Name parameter invalid: {}: {why}",
            karmada_apimachinery::field::quote(&target.name)
        )));
    }
    Ok(served.clone())
}

/// Why a name cannot be part of a path.
fn bad_segment(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Reads a body, of which a client may not send a piece now and then for ever.
async fn read_in_time(state: &State, body: Body, headers: &HeaderMap) -> Result<Bytes, Status> {
    let reading = filters::read_body(body, headers, state.config.max_body);
    match tokio::time::timeout(state.config.request_timeout, reading).await {
        Ok(read) => read,
        Err(_) => Err(Status::timeout("Timeout: the request body did not arrive in time", 0)),
    }
}

async fn run(state: &Arc<State>, request: Box<Arrived>, served: Arc<Served>) -> Outcome {
    let Arrived { mut parts, query, target, user, record, body, .. } = *request;
    let headers = std::mem::take(&mut parts.headers);
    let takes_events = parts.extensions.remove::<TakesEvents>().is_some();
    // The audit log reads answers as text.
    let hands_over = (takes_events || matches!(body, Incoming::Handed(_))) && record.is_none();
    let sent = match body {
        Incoming::Handed(Content::Tree(tree)) => Ok(Sent::tree(Arc::new(tree))),
        Incoming::Handed(Content::Text(text)) => {
            filters::check_size(&text, state.config.max_body).map(|()| Sent::Text(text))
        }
        Incoming::Stream(_) if parts.method == Method::GET => Ok(Sent::Text(Bytes::new())),
        Incoming::Stream(body) => {
            Box::pin(read_in_time(state, body, &headers)).await.map(Sent::Text)
        }
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(status) => return Err(status).into(),
    };
    if let Some(record) = &record {
        record.request(&headers, &sent.text());
    }
    let long_running = is_long_running(&target);
    let is_subresource = !target.subresource.is_empty();
    let deprecation = served.deprecation.clone();
    let head = (target, query, headers);
    let call = Call::new(state.clone(), head, (user, record), served, (sent, hands_over));
    // On the heap from the start: what a handler keeps is large, and everything around it would be too.
    let work = Box::pin(async {
        if is_subresource { subresources::handle(call).await } else { handlers::handle(call).await }
    });
    let (answer, warnings) = if long_running {
        work.await
    } else {
        match tokio::time::timeout(state.config.request_timeout, work).await {
            Ok(done) => done,
            Err(_) => {
                let message = "Timeout: request did not complete within the allotted timeout";
                (Err(Status::timeout(message, 0)), Vec::new())
            }
        }
    };
    Outcome { answer, warnings: deprecation.into_iter().chain(warnings).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, F, G: FnOnce(A, Asked, Arc<Identity>) -> F>(_: G) -> usize {
        size_of::<F>()
    }

    /// Every request of the same process asks the allocator for this much, and moves it there.
    #[test]
    fn the_way_of_a_request_stays_small() {
        let way = size::<Arc<State>, _, _>(ask);
        assert!(way <= 4096, "{way}");
    }
}
