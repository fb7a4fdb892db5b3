//! The server as a whole, in process, on the memory store and a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounts;
mod aggregation;
mod allocation;
mod announce;
mod audit;
mod completion;
mod connect;
mod conversion;
mod definitions;
mod events;
mod flow;
mod former_versions;
mod handed;
mod hostile;
mod https;
mod limits;
mod openapi;
mod ownership;
mod restart;
mod rules;
mod security;
mod server;
mod slow;
mod webhooks;
