//! What became of things, brought upward: from members into Works, from Works into bindings and
//! templates.

pub(crate) mod binding;
pub(crate) mod work;
