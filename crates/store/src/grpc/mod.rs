//! A thin client of gRPC: as much of it as servers beside this one need, over TCP, TLS or a socket
//! of this machine.

mod channel;
mod endpoint;
pub(crate) mod wire;

pub(crate) use channel::{Channel, Duplex, Failure};
pub(crate) use endpoint::Endpoint;
