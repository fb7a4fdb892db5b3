//! GET of a collection: selectors, pages, versions.

use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::field::{FieldError, Path, quote};
use karmada_apimachinery::status::Status;
use karmada_store::RangeQuery;

use super::Answer;
use super::options::refuse;
use super::present::{self, ListMeta};
use super::select::Selection;
use super::write::{store_error, too_large_version};
use crate::cache::StoredObject;
use crate::call::Call;
use crate::http::negotiate::Transforms;
use crate::http::query::Query;
use crate::paging::Place;

/// How long a request waits for a version the server has not seen yet.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) async fn list(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::List)?;
    let (objects, metadata) = find(call).await?;
    present::list(call, &objects, &metadata, form).await
}

/// Which state of the collection is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum When {
    Now,
    /// Whatever is cached.
    Any,
    NotOlderThan(i64),
    Exactly(i64),
    /// A later page.
    Continue(Place),
}

/// The objects a list is about, with the list's own metadata.
pub(crate) async fn find(call: &Call) -> Result<(Vec<Arc<StoredObject>>, ListMeta), Status> {
    let limit = integer(&call.query, "limit")?.unwrap_or_default();
    integer(&call.query, "timeoutSeconds")?;
    check_options(&call.query)?;
    let selection = Selection::read(call)?;
    let when = when(&call.query, limit)?;
    let limit = usize::try_from(limit).unwrap_or_default();
    match when {
        When::Any => Ok(from_cache(call, &selection, 0)),
        When::Now => {
            let (revision, reached) = call.state.caches.catch_up().await.map_err(store_error)?;
            if !reached {
                return from_store(call, &selection, limit, Some(revision), None).await;
            }
            Ok(from_cache(call, &selection, limit))
        }
        When::NotOlderThan(version) => {
            reach(call, version).await?;
            Ok(from_cache(call, &selection, limit))
        }
        When::Exactly(version) => from_store(call, &selection, limit, Some(version), None).await,
        When::Continue(Place { start, revision }) => {
            from_store(call, &selection, limit, revision, Some(start)).await
        }
    }
}

/// Waits for a version the client has seen elsewhere.
pub(crate) async fn reach(call: &Call, version: i64) -> Result<(), Status> {
    if version > call.state.store.revision() && !call.state.caches.reach(version, PATIENCE).await {
        return Err(too_large_version(version, call.state.caches.progress()));
    }
    if !call.state.caches.reach(version, PATIENCE).await {
        return Err(too_large_version(version, call.state.caches.progress()));
    }
    Ok(())
}

fn integer(query: &Query, key: &str) -> Result<Option<i64>, Status> {
    let Some(text) = query.non_empty(key) else { return Ok(None) };
    let number = text.parse::<i64>().map_err(|_| {
        Status::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quote(text)))
    })?;
    Ok(Some(number))
}

/// Parses a resource version; the error is worded as for a field.
pub(crate) fn parse_version(text: &str) -> Result<i64, String> {
    text.parse::<u64>().map(|version| i64::try_from(version).unwrap_or(i64::MAX)).map_err(|_| {
        let quoted = quote(text);
        format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: invalid syntax")
    })
}

fn check_options(query: &Query) -> Result<(), Status> {
    let mut errors = Vec::new();
    let path = Path::new("resourceVersionMatch");
    let version = query.get("resourceVersion").unwrap_or_default();
    if query.get("sendInitialEvents").is_some() {
        let path = Path::new("sendInitialEvents");
        errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    if let Some(wanted) = query.non_empty("resourceVersionMatch") {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if query.non_empty("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(&path, wanted, &["Exact", "NotOlderThan", ""]));
        }
        if wanted == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(&path, why));
        }
    }
    refuse("ListOptions", &errors)
}

fn when(query: &Query, limit: i64) -> Result<When, Status> {
    let version = query.get("resourceVersion").unwrap_or_default();
    if let Some(token) = query.non_empty("continue") {
        if !matches!(version, "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Place::from_token(token).map(When::Continue).map_err(|why| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        });
    }
    let exact = query.get("resourceVersionMatch") == Some("Exact");
    let named = query.non_empty("resourceVersionMatch").is_some();
    if version.is_empty() {
        return Ok(When::Now);
    }
    let number = parse_version(version)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    Ok(match number {
        0 if !exact => When::Any,
        number if exact || (!named && limit > 0) => When::Exactly(number),
        number => When::NotOlderThan(number),
    })
}

/// Where the next page starts; keys of a namespaced list are told relative to the namespace.
fn encode_token(selection: &Selection, last: &str, revision: i64) -> String {
    let relative = match selection.prefix.strip_suffix('/') {
        Some(namespace) => last.strip_prefix(namespace).unwrap_or(last),
        None => last,
    };
    Place { start: format!("{relative}\0"), revision: Some(revision) }.to_token()
}

fn from_cache(
    call: &Call,
    selection: &Selection,
    limit: usize,
) -> (Vec<Arc<StoredObject>>, ListMeta) {
    let Some(storage) = &call.served.storage else { return Default::default() };
    let progress = call.state.caches.progress();
    let (objects, cached, _) = storage.cache.watch_with_list(&selection.prefix);
    let revision = progress.max(cached);
    let page = cut(selection, objects.into_iter(), limit);
    page.finish(selection, revision)
}

/// One page of a list.
struct Page {
    objects: Vec<Arc<StoredObject>>,
    /// How many keys lie behind the page, matching or not.
    behind: usize,
    more: bool,
}

fn cut(
    selection: &Selection,
    mut objects: impl Iterator<Item = Arc<StoredObject>>,
    limit: usize,
) -> Page {
    let mut taken = Vec::new();
    while let Some(object) = objects.next() {
        if selection.matches(&object) {
            if limit > 0 && taken.len() == limit {
                return Page { objects: taken, behind: 1 + objects.count(), more: true };
            }
            taken.push(object);
        }
    }
    Page { objects: taken, behind: 0, more: false }
}

impl Page {
    fn finish(self, selection: &Selection, revision: i64) -> (Vec<Arc<StoredObject>>, ListMeta) {
        let mut metadata = ListMeta { resource_version: revision, ..ListMeta::default() };
        if self.more
            && let Some(last) = self.objects.last()
        {
            metadata.continue_token = Some(encode_token(selection, &last.key, revision));
            metadata.remaining = selection.is_everything().then_some(self.behind as i64);
        }
        (self.objects, metadata)
    }
}

/// Reads a past state, or a later page of one.
async fn from_store(
    call: &Call,
    selection: &Selection,
    limit: usize,
    revision: Option<i64>,
    start: Option<String>,
) -> Result<(Vec<Arc<StoredObject>>, ListMeta), Status> {
    let storage = call.storage()?;
    let mut query = RangeQuery::prefix(format!("{}{}", storage.prefix, selection.prefix));
    query.at = revision;
    if let Some(start) = &start {
        query.start = format!("{}{}", query.start, start.trim_start_matches('/'));
    }
    if let Some(revision) = revision.filter(|revision| *revision > call.state.store.revision()) {
        reach(call, revision).await?;
    }
    let result = call.state.store.range(query).await.map_err(|error| match (&error, &start) {
        (karmada_store::Error::Compacted { .. }, Some(start)) => expired_page(start),
        _ => store_error(error),
    })?;
    let read = |kv| match storage.cache.object_of(kv) {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::error!(key = %kv.key, %error, "stored object skipped");
            None
        }
    };
    let page = cut(selection, result.items.iter().filter_map(read), limit);
    Ok(page.finish(selection, result.revision))
}

/// The page's version is forgotten: the client may go on at the newest one.
fn expired_page(start: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Some(Place { start: start.to_owned(), revision: None }.to_token());
    status
}
