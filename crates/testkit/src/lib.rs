//! The whole system in one process, one thread and on a paused clock: a control plane as `karmada
//! up` runs it, simulated members, and a network between them that fails on demand. An hour of it
//! takes as long as the work in it; [`World::trace`] tells what happened.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use karmada_testkit::World;
//! #[tokio::test(start_paused = true)]
//! async fn a_lost_cluster_is_not_ready() {
//!     let world = World::of(7, 3).await;
//!     world.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}").await;
//!     world.member("m1").partition();
//!     world.advance(Duration::from_secs(40)).await;
//!     world.eventually("m1 is not ready", async |world| !world.is_ready("m1").await).await;
//!     world.member("m1").heal();
//!     world.stop().await;
//! }
//! ```

mod base;
mod contended;
mod member;
mod metrics;
mod plane;
mod route;
mod trace;
mod world;

pub use base::Base;
pub use member::Member;
pub use trace::{Happening, Line};
pub use world::{Options, World, gvr};
