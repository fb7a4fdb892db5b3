//! Which pods stand behind which Services: as Endpoints, as EndpointSlices, and slices for the
//! Endpoints people write themselves.

pub(crate) mod api_server;
mod backends;
pub(crate) mod endpoints;
pub(crate) mod load_balancer;
pub(crate) mod mirroring;
pub(crate) mod slices;
