//! What the crate promises to its users, tried from outside.

mod crds;
mod round_trip;
