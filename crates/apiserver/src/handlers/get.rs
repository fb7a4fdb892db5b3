//! GET of one object.

use http::StatusCode;
use karmada_apimachinery::status::Status;

use super::{Answer, list, present, write};
use crate::call::Call;
use crate::http::negotiate::Transforms;

pub(crate) async fn get(call: &Call) -> Answer {
    let form = call.negotiate(Transforms::Object)?;
    if let Some(version) = call.query.non_empty("resourceVersion") {
        let version = list::parse_version(version)
            .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        list::reach(call, version).await?;
    }
    let storage = call.storage()?;
    let key = storage.key(call.namespace(), call.name());
    let kv = call.state.store.get(&key, None).await.map_err(write::store_error)?;
    let Some(kv) = kv else {
        return Err(Status::not_found(&call.served.group_resource(), call.name()));
    };
    let object = storage.cache.object_of(&kv).map_err(Status::internal)?;
    present::stored(call, StatusCode::OK, &object, form).await
}
